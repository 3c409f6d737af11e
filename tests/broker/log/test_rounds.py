"""Periodic work: when it comes, that it never overlaps, and that a failure does not end it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

from moldau.broker.log.rounds import Rounds, Turns, rest
from moldau.runtime import Runtime
from tests.broker.one_node import simulate

Main = Callable[[Runtime], Coroutine[Any, Any, None]]


def run(main: Main) -> None:
    simulate(main, within=10_000_000)


class Job:
    """Notes when it began and ended."""

    def __init__(self, runtime: Runtime, lasts: float = 0.0) -> None:
        self.runtime = runtime
        self.lasts = lasts
        self.begins: list[float] = []
        self.ends: list[float] = []
        self.more = 0

    async def __call__(self) -> bool:
        self.begins.append(round(self.runtime.clock.monotonic(), 3))
        await rest(self.lasts)
        self.ends.append(round(self.runtime.clock.monotonic(), 3))
        self.more -= 1
        return self.more > 0


def test_rounds_come_at_their_interval_and_never_overlap() -> None:
    async def main(runtime: Runtime) -> None:
        job = Job(runtime, lasts=3.0)
        rounds = Rounds(runtime, "job", job, lambda: 2.0)
        rounds.start(10.0)
        await rest(21.0)
        await rounds.aclose()
        assert job.begins == [10.0, 15.0, 20.0]
        assert job.ends == [13.0, 18.0, 23.0], "closing waits for the one that is under way"
        await rest(100.0)
        assert len(job.begins) == 3

    run(main)


def test_a_round_that_left_work_is_followed_at_once() -> None:
    async def main(runtime: Runtime) -> None:
        job = Job(runtime, lasts=1.0)
        job.more = 3
        rounds = Rounds(runtime, "job", job, lambda: 60.0)
        rounds.start()
        await rest(65.0)
        await rounds.aclose()
        assert job.begins == [60.0, 61.0, 62.0]

    run(main)


def test_another_interval_counts_at_once() -> None:
    async def main(runtime: Runtime) -> None:
        job = Job(runtime)
        interval = 1e12
        rounds = Rounds(runtime, "job", job, lambda: interval)
        rounds.start()
        await rest(200_000.0)
        assert job.begins == []
        interval = 200_010.0
        rounds.reconsider()
        await rest(15.0)
        assert job.begins == [200_010.0]
        await rounds.aclose()

    run(main)


class Quiet:
    """The runtime, but that a failed task is noted here and does not fail the simulation."""

    def __init__(self, runtime: Runtime) -> None:
        self.clock = runtime.clock
        self.tasks: list[asyncio.Task[Any]] = []
        self._runtime = runtime

    def spawn(self, coroutine: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        task = self._runtime.spawn(coroutine, name=name, reported=False)
        self.tasks.append(task)
        return task


def test_a_round_that_fails_is_the_runtimes_to_report_and_the_next_one_comes() -> None:
    async def main(runtime: Runtime) -> None:
        begun: list[float] = []

        async def fails() -> bool:
            begun.append(runtime.clock.monotonic())
            raise ValueError("a bug")

        quiet = Quiet(runtime)
        rounds = Rounds(cast(Runtime, quiet), "job", fails, lambda: 5.0)
        rounds.start(0.0)
        await rest(20.0)
        await rounds.aclose()
        assert begun == [0.0, 6.0, 12.0, 18.0]
        assert [str(each.exception()) for each in quiet.tasks[1:]] == ["a bug"] * 4

    run(main)


def test_one_at_a_time_for_each_key() -> None:
    async def main(runtime: Runtime) -> None:
        turns = Turns()
        notes: list[str] = []

        async def work(key: str, name: str) -> None:
            async with turns.of(key):
                notes.append(f"{name} in")
                await rest(1.0)
                notes.append(f"{name} out")

        await asyncio.gather(work("p", "a"), work("p", "b"), work("q", "c"))
        assert notes[:3] == ["a in", "c in", "a out"]
        assert sorted(notes[3:]) == ["b in", "b out", "c out"]

    run(main)
