"""When all garbage is collected, by the growth of the process."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from moldau.runtime import collecting as module
from moldau.runtime.collecting import STEP_BYTES, Growth, collect_all, collecting

BASE = 100 << 20


def test_a_step_of_growth_is_due() -> None:
    growth = Growth(BASE)

    assert not growth.is_due(BASE + STEP_BYTES - 1)
    assert growth.is_due(BASE + STEP_BYTES)


def test_growth_counts_from_the_least_memory_since_the_last_collection() -> None:
    growth = Growth(BASE + STEP_BYTES)

    assert not growth.is_due(BASE)
    assert growth.is_due(BASE + STEP_BYTES)


def test_after_garbage_the_next_step_is_as_large() -> None:
    growth = Growth(BASE)
    growth.on_collected(before=BASE + STEP_BYTES, after=BASE)

    assert growth.is_due(BASE + STEP_BYTES)


def test_growth_that_was_no_garbage_doubles_the_step() -> None:
    growth = Growth(BASE)
    growth.on_collected(before=BASE + STEP_BYTES, after=BASE + STEP_BYTES)

    assert not growth.is_due(BASE + 2 * STEP_BYTES)
    assert growth.is_due(BASE + 3 * STEP_BYTES)


class Large:
    """A part of a cycle."""

    def __init__(self) -> None:
        self.itself = self


def test_a_collection_frees_old_cycles() -> None:
    large = Large()
    gc.collect()
    held = weakref.ref(large)
    del large

    collect_all()

    assert held() is None


def test_a_process_that_grows_is_collected_beside_its_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = [BASE, BASE + STEP_BYTES]
    monkeypatch.setattr(module, "resident_bytes", lambda: sizes.pop(0) if sizes else BASE)
    monkeypatch.setattr(module, "LOOK_S", 0.0)
    large = Large()
    gc.collect()
    is_freed = asyncio.Event()
    weakref.finalize(large, is_freed.set)
    del large

    async def work() -> str:
        await is_freed.wait()
        return "done"

    async def main() -> str:
        async with asyncio.timeout(30):
            return await collecting(work())

    gc.disable()
    try:
        assert asyncio.run(main()) == "done"
    finally:
        gc.enable()
