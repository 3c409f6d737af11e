"""Files synced by the kernel's own workers: what was asked for is done, and who asked hears it."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from moldau.runtime import kernel_sync
from moldau.runtime.files import File
from moldau.runtime.kernel_sync import DEPTH, KernelSync, open_kernel_sync
from moldau.runtime.process import LoopKind, new_event_loop
from moldau.runtime.real import RealRuntime
from moldau.runtime.real_files import RealFile, RealFiles


@pytest.fixture(params=["uvloop", "asyncio"])
def kind(request: pytest.FixtureRequest) -> LoopKind:
    kind: LoopKind = request.param
    if kind == "uvloop":
        pytest.importorskip("uvloop")
    return kind


def play(kind: LoopKind, scenario: Callable[[KernelSync], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        opened = open_kernel_sync(asyncio.get_running_loop())
        if opened is None:
            pytest.skip("this system does not sync files for us")
        try:
            async with asyncio.timeout(20):
                await scenario(opened)
        finally:
            opened.close()

    with asyncio.Runner(loop_factory=lambda: new_event_loop(kind)) as runner:
        runner.run(whole())


def written(folder: Path, count: int) -> list[File]:
    files = [RealFiles().open(str(folder / f"file-{number}"), "write") for number in range(count)]
    for file in files:
        file.append(b"bytes")
    return files


def anonymous_handles() -> list[str]:
    """Return rings, their wake-ups and the like, which this process holds open; other threads of it
    open and close files and connections meanwhile."""
    found = []
    for each in Path("/proc/self/fd").iterdir() if sys.platform == "linux" else ():
        with suppress(OSError):
            found.append(os.readlink(each))
    return sorted(each for each in found if each.startswith("anon_inode:"))


def pipe() -> File:
    """What no file system knows how to sync."""
    reading, writing = os.pipe()
    os.close(reading)
    return RealFile(writing, "pipe", writable=False, end=0)


def test_files_of_a_round_are_done_together(kind: LoopKind, tmp_path: Path) -> None:
    async def scenario(kernel: KernelSync) -> None:
        for count in (1, 6, DEPTH):
            files = written(tmp_path, count)
            syncs = kernel.sync(files)
            assert syncs is not None
            assert syncs.taken == count
            assert not syncs.outcomes.done(), "its files are under way"
            for file in files:
                file.close()  # the kernel holds on to them
            assert await syncs.outcomes == [None] * count

    play(kind, scenario)


def test_rounds_go_beside_each_other(kind: LoopKind, tmp_path: Path) -> None:
    async def scenario(kernel: KernelSync) -> None:
        files = written(tmp_path, 9)
        rounds = [kernel.sync(files[first : first + 3]) for first in (0, 3, 6)]
        for syncs in rounds:
            assert syncs is not None
            assert await syncs.outcomes == [None] * 3

    play(kind, scenario)


def test_what_the_kernel_does_not_take_is_left_to_others(kind: LoopKind, tmp_path: Path) -> None:
    async def scenario(kernel: KernelSync) -> None:
        first, last = written(tmp_path, 2)
        assert kernel.sync([pipe()]) is None
        syncs = kernel.sync([first, pipe(), last])
        assert syncs is not None
        assert syncs.taken == 1
        assert await syncs.outcomes == [None]
        for _ in range(3):  # nothing of that has used up a place
            again = kernel.sync([first] * DEPTH)
            assert again is not None
            assert again.taken == DEPTH
            assert kernel.sync([last]) is None, "all places are taken"
            assert await again.outcomes == [None] * DEPTH

    play(kind, scenario)


def test_a_file_that_is_closed_uses_up_no_place(kind: LoopKind, tmp_path: Path) -> None:
    async def scenario(kernel: KernelSync) -> None:
        open_file, closed = written(tmp_path, 2)
        closed.close()
        for _ in range(2):
            with pytest.raises(OSError, match="file-1"):
                kernel.sync([open_file] * (DEPTH // 2) + [closed])
        syncs = kernel.sync([open_file] * DEPTH)
        assert syncs is not None
        assert syncs.taken == DEPTH
        assert await syncs.outcomes == [None] * DEPTH

    play(kind, scenario)


def test_more_files_than_places_are_begun_as_far_as_places_go(
    kind: LoopKind, tmp_path: Path
) -> None:
    async def scenario(kernel: KernelSync) -> None:
        (file,) = written(tmp_path, 1)
        syncs = kernel.sync([file] * (DEPTH + 5))
        assert syncs is not None
        assert syncs.taken == DEPTH
        assert await syncs.outcomes == [None] * DEPTH

    play(kind, scenario)


def test_an_error_names_its_file(tmp_path: Path) -> None:
    async def main() -> None:
        done: asyncio.Future[list[OSError | None]] = asyncio.get_running_loop().create_future()
        current = kernel_sync._Round(written(tmp_path, 2), done)
        current.end(0, 0)
        assert not done.done()
        current.end(1, -errno.EIO)
        ok, failed = await done
        assert ok is None
        assert isinstance(failed, OSError)
        assert (failed.errno, failed.filename) == (errno.EIO, str(tmp_path / "file-1"))

    asyncio.run(main())


def test_who_gives_up_waiting_harms_nobody(kind: LoopKind, tmp_path: Path) -> None:
    async def scenario(kernel: KernelSync) -> None:
        files = written(tmp_path, 3)
        syncs, other = kernel.sync(files), kernel.sync(files)
        assert syncs is not None
        assert other is not None
        syncs.outcomes.cancel()
        assert await other.outcomes == [None] * 3

    play(kind, scenario)


def test_the_end_waits_for_what_is_under_way(kind: LoopKind, tmp_path: Path) -> None:
    async def whole() -> None:
        async with RealRuntime() as runtime:
            if runtime.sync_data(written(tmp_path, 6)) is None:
                pytest.skip("this system does not sync files for us")
        assert runtime.sync_data(written(tmp_path, 1)) is None, "it has ended"

    before = anonymous_handles()
    with asyncio.Runner(loop_factory=lambda: new_event_loop(kind)) as runner:
        runner.run(whole())
    assert anonymous_handles() == before


def test_a_system_without_the_call_is_no_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(kernel_sync, "_CALLS", {})

    async def whole() -> None:
        async with RealRuntime() as runtime:
            for _ in range(2):
                assert runtime.sync_data(written(tmp_path, 1)) is None

    asyncio.run(whole())


def test_a_system_that_does_not_allow_it_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = 100_000  # no system call has this number
    monkeypatch.setattr(kernel_sync, "_CALLS", {os.uname().machine: (unknown,) * 4})

    async def whole() -> None:
        assert open_kernel_sync(asyncio.get_running_loop()) is None

    asyncio.run(whole())
