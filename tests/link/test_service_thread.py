"""The thread of a service inside a broker's process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from moldau.link.http.hosted import RunningService, in_own_thread
from moldau.metrics import Registry
from moldau.runtime import Runtime
from moldau.runtime.real import run


class Pages:
    """A service that says in which threads it works."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.threads: list[str] = []
        self.is_slow = False

    def work(self) -> None:
        self.threads.append(threading.current_thread().name)

    @asynccontextmanager
    async def serve(self, beside: Runtime) -> AsyncIterator[RunningService]:
        self.work()
        try:
            self.begun.set()
            if self.is_slow:
                await asyncio.Event().wait()
            yield RunningService("a:1", Registry(), self.wait)
        finally:
            await beside.run_blocking(int)
            self.work()

    async def wait(self) -> None:
        self.work()
        raise RuntimeError("the reason")


def is_left() -> bool:
    return any(each.name == "pages-loop" for each in threading.enumerate())


def test_a_service_works_in_its_thread_until_the_block_ends() -> None:
    pages = Pages()

    async def main(runtime: Runtime) -> None:
        async with in_own_thread(runtime, "pages", pages.serve) as up:
            assert (up.address, is_left()) == ("a:1", True)
            with pytest.raises(RuntimeError, match="the reason"):
                await up.wait()
        assert pages.threads == ["pages-loop"] * 3
        assert not is_left()

    run(main)


def test_a_service_that_ends_while_it_starts_is_closed_in_its_thread() -> None:
    pages = Pages()
    pages.is_slow = True

    async def serve(runtime: Runtime) -> None:
        async with in_own_thread(runtime, "pages", pages.serve):
            raise AssertionError("it serves")

    async def main(runtime: Runtime) -> None:
        task = runtime.spawn(serve(runtime), name="serve")
        await runtime.run_blocking(pages.begun.wait, 20)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert (task.cancelled(), pages.threads) == (True, ["pages-loop"] * 2)
        assert not is_left()

    run(main)
