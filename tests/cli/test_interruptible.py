"""Work that a person watches: ended by Ctrl-C, and told about while it is slow."""

from __future__ import annotations

import asyncio
import gc

import pytest

from moldau.cli.shell import Interruptible, patiently, pause


def never(seconds: float) -> None:
    pytest.fail(f"told after {seconds} s")


def test_what_is_stopped_has_ended_when_stop_returns() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("work")

    async def main() -> None:
        interruptible = Interruptible()
        task = asyncio.create_task(interruptible.run(work()))
        await asyncio.sleep(0)
        await interruptible.stop()
        assert ended == ["work"]
        assert task.cancelled()
        await interruptible.stop()

    asyncio.run(main())


def test_what_runs_to_its_end_gives_what_it_has() -> None:
    async def main() -> None:
        interruptible = Interruptible()

        async def one() -> int:
            return 1

        assert await interruptible.run(one()) == 1
        await interruptible.stop()
        assert await patiently(one(), 60.0, never) == 1
        await pause(0)

    asyncio.run(main())


def test_slow_work_is_told_about_until_it_is_done() -> None:
    told: list[float] = []

    async def main() -> str:
        done = asyncio.Event()

        def tell(seconds: float) -> None:
            told.append(seconds)
            if len(told) == 3:
                done.set()

        async def work() -> str:
            await done.wait()
            return "done"

        return await patiently(work(), 0.001, tell)

    assert asyncio.run(main()) == "done"
    assert len(told) == 3
    assert sorted(told) == told


def test_slow_work_that_fails_or_is_ended_takes_nothing_with_it() -> None:
    ended: list[str] = []

    async def broken() -> None:
        raise ValueError("no")

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("endless")

    async def main() -> None:
        with pytest.raises(ValueError, match="no"):
            await patiently(broken(), 60.0, never)
        task = asyncio.create_task(patiently(endless(), 60.0, never))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == ["endless"]

    asyncio.run(main())


def test_an_error_at_the_end_of_stopped_work_is_no_traceback() -> None:
    told: list[object] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("the client is closed")

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: told.append(what))
        interruptible = Interruptible()
        running = asyncio.create_task(interruptible.run(patiently(work(), 60.0, never)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await interruptible.stop()
        assert running.cancelled()
        del running
        gc.collect()

    asyncio.run(main())
    assert told == []
