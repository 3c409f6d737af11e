"""A runtime in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import pytest

from moldau.runtime import Runtime
from moldau.runtime.real import RealRuntime, run
from moldau.runtime.threaded import ThreadedRuntime


def test_what_is_run_runs_on_one_other_thread_and_its_result_comes_back() -> None:
    async def where(runtime: Runtime) -> tuple[int, int]:
        return threading.get_ident(), id(asyncio.get_running_loop())

    with ThreadedRuntime() as threaded:
        first, second = threaded.run(where), threaded.run(where)

    assert first == second
    assert first[0] != threading.get_ident()


def test_an_exception_is_raised_to_who_waits() -> None:
    async def fail(runtime: Runtime) -> None:
        raise ValueError(runtime.node)

    with ThreadedRuntime("here") as threaded, pytest.raises(ValueError, match="here"):
        threaded.run(fail)


def threads_of(node: str) -> list[str]:
    """Return the names of a runtime's threads; those of others come and go meanwhile."""
    return [each.name for each in threading.enumerate() if each.name.startswith(f"{node}-")]


def test_closing_ends_its_tasks_and_threads() -> None:
    ended: list[str] = []

    async def wait_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("task")

    async def begin(runtime: Runtime) -> None:
        runtime.spawn(wait_for_ever(), name="waits")
        await runtime.run_blocking(threading.get_ident)

    threaded = ThreadedRuntime("closed")
    with threaded:
        threaded.run(begin)
        assert len(threads_of("closed")) == 2
    threaded.close()

    assert ended == ["task"]
    assert threads_of("closed") == []


def test_its_thread_ends_even_if_what_runs_there_cannot_be_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(runtime: RealRuntime) -> None:
        raise RuntimeError("no more threads")

    monkeypatch.setattr(RealRuntime, "aclose", fail)

    with pytest.raises(RuntimeError, match="no more threads"), ThreadedRuntime("unclosed"):
        assert len(threads_of("unclosed")) == 1

    assert threads_of("unclosed") == []


def test_one_that_was_never_started_can_be_closed() -> None:
    threaded = ThreadedRuntime()
    threaded.close()
    threaded.close()


def test_what_runs_beside_another_loop_gives_its_result_or_raises_there() -> None:
    async def where(runtime: Runtime) -> int:
        return threading.get_ident()

    async def fail(runtime: Runtime) -> None:
        raise ValueError(runtime.node)

    async def main(runtime: Runtime) -> None:
        with ThreadedRuntime("beside") as threaded:
            assert await threaded.run_beside(where) != threading.get_ident()
            with pytest.raises(ValueError, match="beside"):
                await threaded.run_beside(fail)

    run(main)


def test_what_is_cancelled_beside_another_loop_has_ended_when_its_caller_goes_on() -> None:
    """If the start of a server is cancelled, it closes what it has opened, and then its owner
    closes it."""
    begun = threading.Event()
    ended: list[str] = []

    async def work(beside: Runtime) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await beside.run_blocking(threading.get_ident)
            ended.append("work")

    async def main(runtime: Runtime) -> None:
        with ThreadedRuntime("beside") as threaded:
            task = runtime.spawn(threaded.run_beside(work), name="waits beside")
            await runtime.run_blocking(begun.wait, 20)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            assert (task.cancelled(), ended) == (True, ["work"])

    run(main)
