"""Time-outs, in tasks as programs have them."""

from __future__ import annotations

import asyncio

import pytest

from moldau.runtime.timeouts import timeout, timeout_at
from tests.runtime.cancelled import be_cancelled_before


def test_it_is_over_also_where_the_task_was_cancelled_before() -> None:
    async def work() -> None:
        await be_cancelled_before()
        with pytest.raises(TimeoutError):
            async with timeout(0.0):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            async with timeout_at(asyncio.get_running_loop().time()):
                await asyncio.Event().wait()

    asyncio.run(work())


def test_who_is_cancelled_inside_is_cancelled() -> None:
    async def work(began: asyncio.Event) -> None:
        await be_cancelled_before()
        async with timeout(60.0):
            began.set()
            await asyncio.Event().wait()

    async def main() -> None:
        began = asyncio.Event()
        task = asyncio.create_task(work(began))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_what_is_done_in_time_gives_what_it_gives() -> None:
    async def main() -> None:
        async with timeout(60.0):
            await asyncio.sleep(0)
        with pytest.raises(ValueError, match="so it is"):
            async with timeout(None):
                raise ValueError("so it is")

    asyncio.run(main())


def test_its_end_can_be_moved() -> None:
    async def main() -> None:
        inside = timeout(None)

        async def moves_it() -> None:
            async with inside:
                inside.reschedule(0.0)
                await asyncio.Event().wait()

        with pytest.raises(TimeoutError):
            await moves_it()

    asyncio.run(main())
