"""What follows for a worker's tasks from commits, reverts, damage and rebalances."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.client import TopicPartition
from moldau.runtime import Runtime
from moldau.streams.plan.plan import Program
from moldau.streams.problems import InputDeleted
from moldau.streams.rocks import StoreCorrupted
from moldau.streams.worker.decisions import (
    GONE_S,
    LOOK_S,
    NOTHING,
    REVERTS_MAX,
    Backlog,
    Decisions,
    InputWatch,
    Ready,
)
from moldau.streams.worker.door import Door
from moldau.streams.worker.settings import app_settings
from moldau.streams.worker.tasks import TaskId, TaskState, WorkerTask
from moldau.streams.worker.worker import existing
from moldau.testing import SyncEmbeddedBroker

A, B = TaskId(0, 0), TaskId(0, 1)


class Idle:
    """A task of the engine that holds nothing."""

    is_wanting = False
    held = 0
    is_in_batch = False
    has_fired = False

    def has_timer_fired(self) -> bool:
        return self.has_fired

    def is_unfinished(self) -> bool:
        return self.is_in_batch

    def wants_commit(self) -> bool:
        return self.is_wanting

    def unflushed_bytes(self) -> int:
        return self.held

    def buffered(self, topic: str) -> int:
        return 10


class World:
    """Two running tasks and the decisions about them."""

    def __init__(self, *, is_atomic: bool, longest_s: float = 10.0) -> None:
        self.tasks = {each: _task(each) for each in (A, B)}
        self.lags: dict[TopicPartition, int] = {}
        self.decisions = Decisions(
            self.tasks,
            is_atomic=is_atomic,
            interval_s=(10.0, longest_s),
            uncommitted_bytes_max=1000,
            backlog=(backlog := Backlog(self.lags.get)),
        )
        self.backlog = backlog
        self.decisions.on_commit_begun(0.0)

    def touch(self, *task_ids: TaskId) -> None:
        for each in task_ids:
            self.tasks[each].is_touched = True

    def damage(self, task_id: TaskId) -> None:
        self.tasks[task_id].damage = StoreCorrupted("damaged", path="/x")

    def close(self, ready: Ready) -> Ready:
        """Do what `ready` says about closing, and return it."""
        for each in ready.close:
            del self.tasks[each]
        return ready


def _task(task_id: TaskId) -> WorkerTask:
    program = Program(0, "app", (), ("in",), (), ())
    inputs = (TopicPartition("in", task_id.partition),)
    task: Any = Idle()
    return WorkerTask(task_id, program, inputs, task, None, TaskState.RUNNING)


def remade(ready: Ready) -> list[TaskId]:
    return [each.task_id for each in ready.remake]


@pytest.mark.parametrize("is_atomic", [False, True])
def test_a_commit_is_due_by_time_by_wish_and_by_size(is_atomic: bool) -> None:
    world = World(is_atomic=is_atomic)
    task: Any = world.tasks[A].task
    world.decisions.on_turn(9.9)
    assert world.decisions.ready() == NOTHING

    world.decisions.on_turn(10.0)
    assert world.decisions.ready() == Ready(commit=(A, B))
    world.decisions.on_commit_begun(10.0)
    world.decisions.on_committed(14.0, is_anything=True)
    world.decisions.on_turn(23.0)
    assert world.decisions.ready() == NOTHING, "the interval begins when the commit has ended"
    world.decisions.on_turn(24.0)
    assert world.decisions.ready() == Ready(commit=(A, B))
    task.is_wanting = True
    world.decisions.on_commit_begun(24.0)
    world.decisions.on_turn(25.0)
    assert world.decisions.ready() == Ready(commit=(A, B))
    task.is_wanting, task.held = False, 1001
    world.decisions.on_turn(26.0)
    assert world.decisions.ready() == Ready(commit=(A, B))
    assert world.decisions.ready() == NOTHING


class BusyWorld(World):
    """Two tasks that have processed 100 records each since the last commit, at 0.0. Commits are 10
    to 50 s apart."""

    def __init__(self, *lags: int | None) -> None:
        super().__init__(is_atomic=True, longest_s=50.0)
        for task_id, lag in zip((A, B), lags, strict=True):
            if lag is not None:
                self.lags[TopicPartition("in", task_id.partition)] = lag
        for each in self.tasks.values():
            self.process(each, "in")
        self.touch(*self.tasks)

    def process(self, task: WorkerTask, topic: str, count: int = 100) -> None:
        """Have a task process records of an input, of which 10 more are buffered."""
        where = TopicPartition(topic, task.task_id.partition)
        if where not in task.inputs:
            task.inputs += (where,)
        task.added[where] = max(task.added[where], 10) + count
        task.is_touched = True

    def add_reader(self, *writers: TaskId) -> WorkerTask:
        """Add a task that reads a repartition topic which these tasks write."""
        again = TaskId(1, 0)
        program = Program(1, "app", (), ("again",), (), ())
        inputs = (TopicPartition("again", 0),)
        idle: Any = Idle()
        task = WorkerTask(again, program, inputs, idle, None, TaskState.RUNNING)
        self.tasks[again] = task
        self.backlog.on_layout({"again": frozenset(writers)})
        return task

    def commits_at(self, after: float = 0.0) -> float:
        """Return when the next commit is due. Tasks process nothing more meanwhile."""
        for tenth in range(1000):
            self.decisions.on_turn(after + tenth / 10)
            if self.decisions.ready().commit:
                return after + tenth / 10
        raise AssertionError("no commit is due")

    def commit(self, now: float) -> None:
        self.decisions.on_commit_begun(now)
        for each in self.tasks.values():
            each.is_touched = each.task.has_fired = False  # type: ignore[attr-defined]
        self.decisions.on_committed(now, is_anything=True)


@pytest.mark.parametrize(
    ("lags", "due"),
    [
        ((0, 10**6), 10.0),  # the outputs of one task are in time
        ((None, 10**6), 10.0),  # or it is not known how late they are
        ((10**6, 10**6), 50.0),
        ((190, 10**6), 50.0),  # at 20 s it has 40 s to go, at 40 s 80
        ((90, 10**6), 10.0),  # 10 and 90 records take as long as 100 did
    ],
)
def test_a_worker_that_is_behind_commits_less_often(
    lags: tuple[int | None, int | None], due: float
) -> None:
    assert BusyWorld(*lags).commits_at() == due


def test_a_commit_that_is_put_off_comes_when_a_task_has_caught_up() -> None:
    world = BusyWorld(10**6, 10**6)
    for second in (10.0, 15.0):
        world.decisions.on_turn(second)
        assert world.decisions.ready() == NOTHING
    assert world.decisions.commit_at == 20.0, "it is looked at again after each interval"
    world.lags[TopicPartition("in", 0)] = 0
    world.decisions.on_turn(20.0)
    assert world.decisions.ready().commit


def test_a_task_that_does_nothing_is_not_behind_and_holds_up_no_other() -> None:
    world = BusyWorld(10**6, 10**6)
    world.tasks[A].is_touched = False
    world.lags[TopicPartition("in", 0)] = 0
    assert world.commits_at() == 50.0
    world = BusyWorld(10**6, 10**6)
    for each in world.tasks.values():
        each.is_touched = False
    assert world.commits_at() == 10.0


def test_a_caught_up_input_of_a_task_that_is_behind_with_another_has_its_outputs_in_time() -> None:
    world = BusyWorld(10**6, 10**6)
    task = world.tasks[A]
    idle: Any = task.task
    idle.buffered = lambda topic: 0 if topic == "requests" else 10
    world.process(task, "requests", 1)
    assert world.commits_at() == 10.0
    world.commit(10.0)
    world.process(task, "in")
    assert world.commits_at(10.0) == 60.0, "it had no request"


def test_what_a_timer_of_the_wall_clock_has_made_is_put_off_by_no_backlog() -> None:
    world = BusyWorld(10**6, 10**6)
    idle: Any = world.tasks[A].task
    idle.has_fired = True
    assert world.commits_at() == 10.0
    world.commit(10.0)
    for each in world.tasks.values():
        world.process(each, "in")
    assert world.commits_at(10.0) == 60.0


@pytest.mark.parametrize(
    ("lag", "writers", "due"),
    [
        (10**6, (A, B), 60.0),
        (0, (A, B), 20.0),  # one of them has caught up
        (0, (B,), 60.0),  # but it is none of the writers
        (10**6, (A, B, TaskId(0, 2)), 20.0),  # of one in another worker it is not known
    ],
)
def test_records_of_a_repartition_topic_have_waited_as_long_as_those_of_its_writers(
    lag: int, writers: tuple[TaskId, ...], due: float
) -> None:
    world = BusyWorld(lag, 10**6)
    reader = world.add_reader(*writers)
    idle: Any = reader.task
    idle.buffered = lambda topic: 0
    world.commit(10.0)
    world.process(reader, "again")
    world.process(world.tasks[B], "in")
    assert world.commits_at(10.0) == due


def test_a_request_by_a_repartition_topic_is_late_by_nothing_also_if_its_writer_rests() -> None:
    world = BusyWorld(0, 10**6)
    reader = world.add_reader(A)
    idle: Any = reader.task
    idle.buffered = lambda topic: 0
    for begun in (10.0, 20.0):
        world.commit(begun)
        world.process(reader, "again")
        world.process(world.tasks[B], "in")
        assert world.commits_at(begun) == begun + 10.0


def test_a_damaged_task_is_healed_and_the_others_go_on() -> None:
    world = World(is_atomic=False)
    world.touch(A, B)
    world.damage(B)
    world.decisions.on_damage()

    ready = world.decisions.ready()
    assert (ready.revert, ready.close, ready.set_aside) == (False, (B,), (B,))
    assert remade(ready) == [B]


def test_damage_in_the_middle_of_a_transaction_reverts_the_others() -> None:
    world = World(is_atomic=True)
    world.touch(A, B)
    world.damage(B)
    world.decisions.on_damage()

    ready = world.decisions.ready()
    assert (ready.revert, set(ready.close), ready.set_aside) == (True, {A, B}, (B,))
    assert set(remade(ready)) == {A, B}


def test_damage_that_is_found_after_a_transaction_reverts_nothing() -> None:
    world = World(is_atomic=True)
    world.touch(B)
    world.damage(B)
    world.decisions.on_committed(0.0, is_anything=True)

    ready = world.decisions.ready()
    assert (ready.revert, ready.close, ready.set_aside) == (False, (B,), (B,))


def test_a_revert_makes_touched_tasks_again_and_leaves_their_files() -> None:
    world = World(is_atomic=True)
    world.touch(A)
    world.tasks[A].origins[TopicPartition("in", 0)] = 7
    world.decisions.on_reverted(RuntimeError("a time-out"))

    ready = world.decisions.ready()
    assert (ready.revert, ready.close, ready.set_aside) == (True, (A,), ())
    assert ready.remake[0].origins == {TopicPartition("in", 0): 7}


@pytest.mark.parametrize(("is_atomic", "covered"), [(False, (A,)), (True, (A, B))])
def test_a_revoked_task_is_committed_and_then_suspended(
    is_atomic: bool, covered: tuple[TaskId, ...]
) -> None:
    world = World(is_atomic=is_atomic)
    world.decisions.on_revoked([TopicPartition("in", 0)])

    assert world.decisions.ready() == Ready(commit=covered)
    world.decisions.on_committed(0.0, is_anything=True)
    assert world.decisions.ready() == Ready(suspend=(A,))


def test_what_a_rebalance_reverts_is_made_again_after_it() -> None:
    world = World(is_atomic=True)
    world.touch(A, B)
    world.decisions.on_revoked([TopicPartition("in", 0)])
    assert world.decisions.ready().commit == (A, B)
    world.decisions.on_reverted(RuntimeError("fenced"))

    ready = world.close(world.decisions.ready())
    assert (set(ready.close), ready.suspend, ready.remake) == ({A, B}, (), ())
    world.decisions.on_turn(1.0)
    assert set(remade(world.decisions.ready())) == {A, B}
    assert world.decisions.ready() == NOTHING


def test_a_lost_membership_closes_everything_and_makes_nothing_again() -> None:
    world = World(is_atomic=True)
    world.touch(A)
    world.decisions.on_membership_lost()

    ready = world.close(world.decisions.ready())
    assert (ready.revert, set(ready.close)) == (True, {A, B})
    world.decisions.on_turn(1.0)
    assert world.decisions.ready() == NOTHING


def test_a_lost_task_takes_the_open_transaction_with_it() -> None:
    world = World(is_atomic=True)
    world.touch(A, B)
    world.decisions.on_lost([TopicPartition("in", 0)])

    ready = world.decisions.ready()
    assert (ready.revert, set(ready.close)) == (True, {A, B})
    assert remade(ready) == [B]


def test_reverts_without_end_become_a_failure() -> None:
    world = World(is_atomic=True)
    for _ in range(REVERTS_MAX):
        world.decisions.on_reverted(RuntimeError("again"))
    assert world.decisions.failure is None

    world.decisions.on_reverted(RuntimeError("the last"))
    assert str(world.decisions.failure) == "the last"


def test_a_stop_commits_what_runs_and_makes_nothing_again() -> None:
    world = World(is_atomic=True)
    world.decisions.on_stopping()
    assert world.decisions.ready() == Ready(commit=(A, B))

    world.touch(A, B)
    world.decisions.on_reverted(RuntimeError("too late"))
    ready = world.close(world.decisions.ready())
    assert (ready.revert, ready.remake) == (True, ())
    assert world.decisions.ready() == NOTHING


def test_a_task_that_was_left_out_is_committed_as_soon_as_its_batch_is_done() -> None:
    world = World(is_atomic=True)
    task: Any = world.tasks[A].task
    world.tasks[A].is_left_out = task.is_wanting = task.is_in_batch = True
    task.held = 1001
    world.decisions.on_turn(1.0)
    assert world.decisions.ready() == NOTHING

    task.is_wanting, task.held, task.is_in_batch = False, 0, False
    world.decisions.on_turn(2.0)
    assert world.decisions.ready() == Ready(commit=(A, B))


def watch() -> InputWatch:
    watched = InputWatch("app", ["lines", "orders"])
    watched.doubt(100.0)
    return watched


def test_an_input_that_stays_away_is_deleted_after_some_seconds() -> None:
    watched = watch()
    now = 100.0
    while now < 100.0 + GONE_S:
        assert watched.is_due(now)
        watched.on_look({"lines"}, now)
        assert not watched.is_due(now)
        now += LOOK_S
    with pytest.raises(InputDeleted) as found:
        watched.on_look({"lines"}, now)
    assert found.value.topics == ("orders",)


def test_a_broker_may_learn_of_an_input_late() -> None:
    watched = watch()
    watched.on_look({"lines"}, 100.0)
    watched.on_look({"lines", "orders"}, 100.0 + GONE_S)
    assert not watched.is_doubted
    watched.doubt(200.0)
    watched.on_look({"lines"}, 200.0)
    assert watched.is_doubted, "the time counts from here"


def test_a_failed_look_says_nothing() -> None:
    watched = watch()
    for now in (100.0, 100.0 + GONE_S, 100.0 + 2 * GONE_S):
        watched.on_look(None, now)
        assert watched.is_doubted
        assert not watched.is_due(now)
    watched.on_look(set(), 200.0)
    watched.on_look(None, 200.0 + GONE_S)
    with pytest.raises(InputDeleted):
        watched.on_look(set(), 201.0 + GONE_S)


async def test_a_look_without_a_broker_fails_soon_and_quietly(runtime: Runtime) -> None:
    broker = SyncEmbeddedBroker()
    broker.start()
    try:
        given = app_settings({"bootstrap.servers": broker.bootstrap_servers})
        door = Door(given, "app", "app-0", runtime)
        await door.start()
        assert await existing(door, ["lines"]) == {}
    finally:
        broker.stop()
    try:
        assert await existing(door, ["lines"]) is None
    finally:
        await door.aclose()
