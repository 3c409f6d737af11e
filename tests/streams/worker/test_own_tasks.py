"""Databases of tasks are opened and closed a few in a turn, so that other tasks do not wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any

from moldau.runtime import Runtime
from moldau.streams.plan.plan import Program
from moldau.streams.query.gate import Gate
from moldau.streams.state.backing import Backing, MemoryBacking
from moldau.streams.worker.door import TopicPartition
from moldau.streams.worker.own_tasks import OwnTasks
from moldau.streams.worker.reports import Reports
from moldau.streams.worker.task_maker import TaskMaker
from moldau.streams.worker.tasks import TaskId, WorkerTask
from tests.streams.worker.counting import CountingTask, word_count

OPEN_S = 0.1
TASKS = 8
PLAN = word_count("app")
WORDS = PLAN.programs[1].inputs[0]
INPUTS = [TopicPartition(WORDS, partition) for partition in range(TASKS)]


class Clock:
    """A clock that only databases move."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


class SlowDatabase:
    """A database in memory that is open from its making on."""

    staged_bytes = 0

    def __init__(self, path: str, opened: list[str]) -> None:
        self.path = path
        self._opened = opened
        opened.append(path)
        self._rows = MemoryBacking()

    def backing(self, store: str) -> Backing:
        return self._rows

    def position(self, store: str) -> None:
        """Nothing was ever committed."""

    def commit(self, positions: object) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        self._opened.remove(self.path)


class Changelogs:
    """Of the broker, which have no records."""

    async def read_from(self, offsets: Mapping[TopicPartition, int]) -> None:
        assert not offsets

    async def aclose(self) -> None:
        """Nothing is open."""


class Committer:
    is_atomic = False


class QuietDoor:
    """A broker with empty changelogs, and the partitions that are paused."""

    changelogs = Changelogs()
    committer = Committer()

    def __init__(self) -> None:
        self.paused: set[TopicPartition] = set()

    def forget_ends(self) -> None:
        """None are kept."""

    async def end_abandoned(self, changelogs: object) -> None:
        """No transaction is open."""

    async def committed(self, partitions: object) -> dict[TopicPartition, Any]:
        return {}

    async def ends(self, changelogs: list[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        return dict.fromkeys(changelogs, (0, 0))

    def pause(self, partitions: list[TopicPartition]) -> None:
        self.paused.update(partitions)

    def resume(self, partitions: tuple[TopicPartition, ...]) -> None:
        self.paused.difference_update(partitions)

    def seek(self, where: TopicPartition, offset: int) -> None:
        """Nothing was read."""


class NoMigrations:
    def sources(self) -> list[TopicPartition]:
        return []

    async def learn(self, ends: object) -> None:
        """No row has another version."""

    def check(self, task_id: TaskId, program: Program) -> None:
        """Each version is known."""

    def are_left(self, task: WorkerTask) -> bool:
        return False


class Directory:
    def of_task(self, name: str) -> str:
        return name


class Bench:
    """The tasks of a worker whose databases take their time to open."""

    def __init__(self, runtime: Runtime) -> None:
        self.opened: list[str] = []
        self.door = QuietDoor()
        self._clock = Clock()
        gate = Gate(runtime)
        given: Any = (Directory(), self._open, ({}, {}), (runtime.files, Reports()))
        self.maker = TaskMaker(CountingTask, *given)
        beside: Any = (gate, self, Reports())
        parts: Any = (self.door, self.maker, NoMigrations(), beside)
        self.own = OwnTasks(PLAN, *parts)
        facts: Any = {f"app-{store}-changelog": _Facts() for store in ("counts",)}
        self.own.begin(facts, 1 << 20)

    @property
    def clock(self) -> Clock:
        return self._clock

    async def close_one(self, runtime: Runtime) -> None:
        await self.maker.close_beside(self.clock.now, runtime.run_blocking)
        await self.maker.all_settled()

    def _open(self, path: str, stores: Mapping[str, str]) -> Any:
        self._clock.now += OPEN_S
        return SlowDatabase(path, self.opened)


class _Facts:
    partitions = TASKS
    topic_id = None


async def test_a_turn_opens_a_few_databases_and_the_inputs_of_the_rest_wait(
    runtime: Runtime,
) -> None:
    bench = Bench(runtime)
    await bench.own.assign(INPUTS)

    assert bench.opened == ["1_0", "1_1", "1_2"]
    assert bench.door.paused == set(INPUTS[3:]), "the tasks that are open run"
    assert not bench.own.are_running

    for count in range(4, TASKS + 1):
        await bench.own.restore()
        assert len(bench.opened) == count, "one in each turn, beside tasks that run"
    assert bench.door.paused == set()
    assert bench.own.are_running


async def test_a_task_that_is_taken_away_before_is_not_opened(runtime: Runtime) -> None:
    bench = Bench(runtime)
    await bench.own.assign(INPUTS)
    bench.own.forget(INPUTS[3:7])
    await bench.own.restore()

    assert bench.opened == ["1_0", "1_1", "1_2", "1_7"]
    assert bench.own.are_running


async def test_tasks_that_wait_are_opened_after_another_rebalance(runtime: Runtime) -> None:
    bench = Bench(runtime)
    await bench.own.assign(INPUTS[:5])
    await bench.own.assign(INPUTS[5:])
    while bench.own.are_restoring:
        await bench.own.restore()

    assert sorted(bench.opened) == [f"1_{partition}" for partition in range(TASKS)]


async def test_databases_that_are_given_up_close_one_by_one_and_before_they_open_again(
    runtime: Runtime,
) -> None:
    bench = Bench(runtime)
    await bench.own.assign(INPUTS[:3])
    await bench.own.close(list(bench.own.tasks), is_put_off=True)
    assert bench.opened == ["1_0", "1_1", "1_2"]

    await bench.close_one(runtime)
    assert bench.opened == ["1_1", "1_2"]
    await bench.own.assign(INPUTS[1:2])
    assert bench.opened == ["1_2", "1_1"]
    assert list(bench.maker.closing) == [TaskId(1, 2)]

    await bench.own.close_all()
    assert bench.opened == []


async def test_a_task_goes_on_with_the_open_database_of_its_copy(runtime: Runtime) -> None:
    bench = Bench(runtime)
    for name in ("1_0", "1_1"):
        copy = bench.maker.make(TaskId(1, int(name[-1])), PLAN.programs[1], (), {})
        bench.maker.hand_over(copy, bench.clock.now)
    before = bench.clock.now

    await bench.own.assign(INPUTS[:1])
    assert (bench.opened, bench.clock.now) == (["1_0", "1_1"], before), "none was opened anew"
    assert list(bench.maker.closing) == [TaskId(1, 1)]

    await bench.close_one(runtime)
    assert bench.opened == ["1_0", "1_1"], "the group may give the task a little later"
    bench.clock.now += 5.0
    await bench.close_one(runtime)
    assert bench.opened == ["1_0"]
    await bench.own.assign(INPUTS[1:2])
    assert bench.opened == ["1_0", "1_1"]
    assert bench.clock.now > before


async def test_a_database_is_not_opened_while_it_is_being_closed(runtime: Runtime) -> None:
    bench = Bench(runtime)
    await bench.own.assign(INPUTS[:1])
    await bench.own.close(list(bench.own.tasks), is_put_off=True)
    closing: list[asyncio.Future[None]] = []
    may_close = threading.Event()

    def slowly(close: Callable[[], None]) -> asyncio.Future[None]:
        def later() -> None:
            may_close.wait()
            close()

        closing.append(runtime.run_blocking(later))
        return closing[0]

    await bench.maker.close_beside(bench.clock.now, slowly)
    assert list(bench.maker.closing) == [TaskId(1, 0)], "its files are used"
    opening = asyncio.ensure_future(bench.own.assign(INPUTS[:1]))
    await asyncio.wait([opening], timeout=0.01)
    assert not opening.done()
    may_close.set()
    await opening
    assert closing[0].done()
    assert bench.opened == ["1_0"]
