"""Commits while batches are unfinished: a commit holds whole batches, or nothing of a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from moldau.client import KafkaError, TopicPartition
from moldau.errors.codes import ErrorCode
from moldau.runtime import Runtime
from moldau.streams import Streams, retry, tumbling
from moldau.streams.engine.batches import Chunk, Outputs
from moldau.streams.engine.task import Task
from moldau.streams.plan.policies import Policy
from moldau.streams.query.gate import Gate
from moldau.streams.rocks import StoreCorrupted
from moldau.streams.state.backing import MemoryBacking
from moldau.streams.state.changes import ChangelogRecords
from moldau.streams.worker.calls import await_calls
from moldau.streams.worker.commit import commit
from moldau.streams.worker.committer import AtLeastOnce, CommitLater, CommittedOffset
from moldau.streams.worker.decisions import Ready
from moldau.streams.worker.tasks import TaskId, TaskState, WorkerTask
from moldau.streams.worker.worker import Worker

IN = TopicPartition("in", 0)
Steps = Callable[[Any], Any]


class Transaction:
    """A committer that keeps what it is given."""

    is_atomic = True

    def __init__(self) -> None:
        self.sent: list[bytes | None] = []
        self.logged: list[bytes | None] = []
        self.offsets: dict[TopicPartition, int] = {}

    async def send(self, outputs: Outputs) -> None:
        self.sent += outputs.values

    async def log(self, where: TopicPartition, changes: ChangelogRecords) -> None:
        self.logged += changes.values

    async def written(self, logged: object, offsets: object) -> dict[TopicPartition, int]:
        return {}

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        self.offsets |= {where: each.offset for where, each in offsets.items()}


class One:
    """A worker with one task, which counts records in front of `steps`."""

    def __init__(self, runtime: Runtime, steps: Steps, on_error: Policy | str = "fail") -> None:
        app = Streams("app", on_error=on_error)
        counts = app.stream("in", int, key=str).group_by_key().count(name="n").changes()
        counts.to("front")
        steps(counts).to("out")
        (program,) = app.plan().programs
        self.engine = Task(program, 0, {"n": MemoryBacking()})
        self.task = WorkerTask(TaskId(0, 0), program, (IN,), self.engine, None, TaskState.RUNNING)
        self.committer: Any = Transaction()
        self.gate = Gate(runtime)
        self.worker = cast(
            "Worker",
            SimpleNamespace(
                _runtime=runtime, _gate=self.gate, _door=SimpleNamespace(committer=self.committer)
            ),
        )
        for at in (0, 2):
            self.engine.add("in", Chunk([at, at + 1], [0, 0], [b"a", b"a"], [b"1", b"1"], at + 2))
        self.engine.set_at_end("in", True)

    async def turn(self) -> bool:
        """Process as a turn of the worker does, and return whether there is more to do at once."""
        has_more = Worker._process(self.worker, [self.task])
        has_more |= await await_calls([self.task])
        await Worker._send(self.worker, self.task)
        return has_more

    async def commit(self) -> bool:
        return await commit([self.task], self.committer, self.gate, {})


async def same(value: Any) -> Any:
    return value


async def test_a_commit_finishes_a_batch_with_calls_under_way_and_begins_no_other(
    runtime: Runtime,
) -> None:
    one = One(runtime, lambda counts: counts.map_values(same).map_values(same))
    while await one.turn():
        if one.engine.positions():
            break
    assert one.engine.is_unfinished(), "the second batch has begun in the turn of the first"

    assert await one.commit()

    assert one.committer.offsets == {IN: 4}
    assert sorted(one.committer.sent) == [b"1", b"1", b"2", b"2", b"3", b"3", b"4", b"4"]
    assert one.committer.logged == [b"4"]


async def test_a_batch_in_a_pause_leaves_its_task_out_of_commits_until_it_is_done(
    runtime: Runtime,
) -> None:
    is_there = False

    async def looked_up(count: int) -> Any:
        if count == 3 and not is_there:
            raise ConnectionError("not yet")
        return count

    again = retry(20, backoff="1ms")
    one = One(runtime, lambda counts: counts.map_values(looked_up, on_error=again))
    while not one.engine.positions():
        await one.turn()
    assert one.engine.is_unfinished()

    assert not await one.commit()
    assert one.task.is_left_out
    assert (one.committer.sent, one.committer.logged) == ([], [])
    assert one.task.uncommitted_bytes() > one.engine.unflushed_bytes() > 0

    is_there = True
    one.engine.add("in", Chunk([4], [0], [b"a"], [b"1"], 5))
    while one.engine.is_unfinished():
        has_more = await one.turn()
    await one.turn()
    assert has_more
    assert one.engine.positions() == {"in": 4}, "no other batch begins before the commit"
    assert await one.commit()

    assert one.committer.offsets == {IN: 4}
    assert one.committer.logged == [b"4"]
    assert sorted(one.committer.sent) == [b"1", b"1", b"2", b"2", b"3", b"3", b"4", b"4"]
    await one.turn()
    assert one.engine.is_unfinished(), "the next batch begins after the commit"


@pytest.mark.parametrize(
    ("function", "on_error", "is_held"),
    [(same, "fail", False), (int, retry(1), False), (same, retry(1), True)],
)
async def test_outputs_are_held_back_only_if_a_batch_may_pause(
    runtime: Runtime, function: Any, on_error: Policy | str, is_held: bool
) -> None:
    one = One(runtime, lambda counts: counts.map_values(function), on_error)

    await one.turn()

    assert one.engine.may_pause is is_held
    assert bool(one.task.held) is is_held


async def test_damage_that_is_found_while_a_batch_goes_on_ends_an_atomic_commit(
    runtime: Runtime,
) -> None:
    damage = StoreCorrupted("damaged", path="/x")

    def broken(value: Any) -> Any:
        raise damage

    one = One(runtime, lambda counts: counts.map_values(same).map_values(broken))
    await one.turn()
    one.task.is_touched = True

    with pytest.raises(StoreCorrupted):
        await one.commit()

    assert one.task.damage is damage
    assert one.committer.offsets == {}


async def test_a_batch_that_has_begun_is_work_to_commit(runtime: Runtime) -> None:
    one = One(runtime, lambda counts: counts.map_values(same))

    Worker._process(one.worker, [one.task])

    assert one.engine.is_unfinished()
    assert one.task.is_touched
    await await_calls([one.task])


class Rebalancing(Transaction):
    """Accepts no commit."""

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        raise CommitLater("the group rebalances")


async def test_a_task_that_was_left_out_goes_on_if_the_group_puts_its_commit_off(
    runtime: Runtime,
) -> None:
    left = 1

    async def looked_up(count: int) -> Any:
        nonlocal left
        if left:
            left -= 1
            raise ConnectionError("not yet")
        return count

    again = retry(1, backoff="1ms")
    one = One(runtime, lambda counts: counts.map_values(looked_up, on_error=again))
    await one.turn()
    assert not await one.commit()
    assert one.task.is_left_out
    while one.engine.is_unfinished():
        await one.turn()

    one.committer = Rebalancing()
    with pytest.raises(CommitLater):
        await one.commit()

    found = one.task.is_left_out, one.task.is_touched
    assert found == (False, True), "else each turn would commit, and no batch begin"


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, CommitLater),
        (ErrorCode.REQUEST_TIMED_OUT, CommitLater),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, CommitLater),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, KafkaError),
    ],
)
async def test_an_at_least_once_commit_is_put_off_while_brokers_are_away(
    code: ErrorCode, raised: type[Exception]
) -> None:
    """They may be away for longer than `default.api.timeout.ms`; the tasks wait for them."""

    async def refuse(offsets: object) -> None:
        raise KafkaError(code)

    consumer = cast("Any", SimpleNamespace(commit=refuse))
    committer = AtLeastOnce(cast("Any", None), consumer, cast("Any", None))
    with pytest.raises(raised):
        await committer.commit({IN: CommittedOffset(1, "")})


class Texts(Transaction):
    """Keeps the texts as well."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[TopicPartition, CommittedOffset] = {}

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        self.kept |= offsets


async def test_what_the_clock_has_closed_is_kept_with_offsets_of_inputs_that_were_not_read(
    runtime: Runtime,
) -> None:
    """Else another worker closes the same windows again."""
    app, windows = Streams("app"), tumbling("1s")
    counts = app.stream("in", int, key=str).group_by_key()
    counts.window(windows, emit="close", idle="5s").count(name="n").changes().to("out")
    (program,) = app.plan().programs
    engine = Task(program, 0, {"n": MemoryBacking()}, metadata=['{"time":{"n":10}}'])
    engine.set_at_end("in", True)
    task = WorkerTask(TaskId(0, 0), program, (IN,), engine, None, TaskState.RUNNING)
    task.committed["in"] = 4
    engine.punctuate(0)
    engine.punctuate(7000)
    task.is_touched = True
    committer: Any = Texts()

    await commit([task], committer, Gate(runtime), {})

    assert committer.kept == {IN: CommittedOffset(4, '{"time":{"n":7010}}')}
    assert task.committed == {"in": 4}


async def test_damage_of_a_global_table_that_a_commit_finds_is_repaired_there(
    runtime: Runtime,
) -> None:
    done: list[Any] = []
    one, other = (One(runtime, lambda counts: counts.map_values(same)).task for _ in range(2))
    with pytest.raises(StoreCorrupted) as raised:
        raise StoreCorrupted("damaged", path="/global")
    one.damage = raised.value
    other.damage = StoreCorrupted("damaged", path="/other")

    async def healed(error: StoreCorrupted) -> None:
        assert error.__traceback__ is None, "its frames hold iterators of the database"
        done.append(("healed", error))

    async def closed(task_ids: object) -> None:
        done.append(("closed", task_ids))

    own = SimpleNamespace(close=closed)
    maker = SimpleNamespace(set_aside=lambda task: done.append(("aside", task)))
    globals_ = SimpleNamespace(has=lambda path: path == "/global", heal=healed)
    ids = TaskId(0, 0), TaskId(0, 1)
    other.task_id = ids[1]
    tasks = dict(zip(ids, (one, other), strict=True))
    parts = SimpleNamespace(tasks=tasks, _own=own, _maker=maker, _globals=globals_)
    worker = cast("Worker", parts)

    await Worker._close(worker, Ready(close=ids, set_aside=ids))

    assert done == [("closed", ids), ("aside", other), ("healed", one.damage)]
