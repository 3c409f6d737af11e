"""The commit of tasks: everything that they did since the last commit becomes durable, in order.

0. Unfinished batches go on: their calls are awaited. A batch that has to wait for the pause of a
   `retry` then leaves its task out of the commit: nothing of it is flushed, no offset is committed,
   and what it has made since its last commit was held back if the committer is atomic. So a pause
   may be longer than a transaction, and delays neither other tasks nor a rebalance nor a stop. A
   task that goes meanwhile is done again from its last commit. A call that does not end holds up a
   commit, as it does each turn, until the transaction or the membership of the group is lost.
1. Caches are flushed: outputs and changes come out, rows are staged.
2. Outputs and changes are sent, and all is acknowledged.
3. Offsets are committed, with the tasks' own texts.
4. Rows and the ends of the changelogs go into RocksDB, in one batch for each task.

A crash after any of these steps loses nothing: records after the committed offsets are processed
again, and RocksDB is at most behind its changelog. An atomic committer makes 2 and 3 one
transaction (offsets are sent beside the rest), and RocksDB receives nothing that is not in a
committed one.

To wait for the pause, or to cut it short, would be simpler. But all tasks share a transaction,
which a time-out ends; and each commit, many in a second, would use up an attempt.

A damaged store, found in step 0, 1 or 4, is the `damage` of its task. Before step 2 it ends an
atomic commit; else only the task is left out: nothing of it was sent, and its records are processed
again. In 4, the changelog holds what RocksDB does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.errors import without_frames
from moldau.streams.engine.contract import EmitsPending
from moldau.streams.engine.kept_times import TEXT_BYTES_MAX
from moldau.streams.plan.lost_offsets import with_inputs
from moldau.streams.query.gate import Gate
from moldau.streams.rocks import ChangelogPosition, StoreCorrupted
from moldau.streams.state.changes import ChangelogRecords
from moldau.streams.worker.calls import await_calls
from moldau.streams.worker.committer import CommittedOffset, Committer, TopicPartition
from moldau.streams.worker.tasks import WorkerTask

if TYPE_CHECKING:
    from moldau.ids import Uuid


async def commit(
    tasks: Sequence[WorkerTask], committer: Committer, gate: Gate, topic_ids: Mapping[str, Uuid]
) -> bool:
    """Commit what these tasks did; return whether there was anything. Errors leave them unchanged:
    nothing was stored.

    MembershipLost or CommitLater lose nothing if a later commit follows; StoreCorrupted ends an
    atomic commit.
    """
    touched = await _between_batches([each for each in tasks if each.is_touched], gate)
    if not touched:
        return False
    flushed = await _flushed(_undamaged(touched), gate)
    for task in touched:
        if committer.is_atomic and task.damage is not None:
            raise without_frames(task.damage)
    touched = _undamaged(touched)
    logged = {}
    for where, changes in flushed.items():
        logged[where] = await committer.log(where, changes)
    for task in touched:
        for outputs in task.take_outputs():
            await committer.send(outputs)
    offsets: dict[TopicPartition, CommittedOffset] = {}
    for task in touched:
        offsets |= offsets_of(task, topic_ids)
    ends = await committer.written(logged, offsets)
    for task in touched:
        task.unstored |= _ends_of(task, ends, topic_ids)
    async with gate.held():
        await committer.commit(offsets)
        await gate.run(_store, touched)
    for task in _undamaged(touched):
        task.committed.update(task.task.positions())
        task.is_touched = False
    return True


async def _between_batches(tasks: list[WorkerTask], gate: Gate) -> list[WorkerTask]:
    """Finish the batches that wait for calls only. Return the tasks without an unfinished batch;
    the others are left out. No further record is taken meanwhile."""
    unfinished = [each for each in tasks if each.task.is_unfinished()]
    has_called = bool(unfinished)
    while has_called:
        now_ms = await gate.wait_until(0)
        await gate.run(_go_on, unfinished, now_ms)
        has_called = await await_calls(_undamaged(unfinished))
    for task in tasks:
        task.is_left_out = task.damage is None and task.task.is_unfinished()
    return [each for each in tasks if not each.is_left_out]


def _go_on(tasks: Sequence[WorkerTask], now_ms: int) -> None:
    for task in _undamaged(tasks):
        try:
            task.processed += task.task.process(now_ms, 0)
        except StoreCorrupted as error:
            task.damage = without_frames(error)


def _undamaged(tasks: Sequence[WorkerTask]) -> list[WorkerTask]:
    return [each for each in tasks if each.damage is None]


async def _flushed(
    tasks: Sequence[WorkerTask], gate: Gate
) -> dict[TopicPartition, ChangelogRecords]:
    """Flush the tasks and return their changes. Wait until failed emits have been tried again: a
    commit without them would lose them."""
    found: dict[TopicPartition, ChangelogRecords] = {}
    left = list(tasks)
    while True:
        due_ms = await gate.run(_flush, left, found)
        if due_ms is None:
            return found
        now_ms = await gate.wait_until(due_ms)
        await gate.run(_punctuate, left, now_ms)


def _punctuate(left: list[WorkerTask], now_ms: int) -> None:
    """Try again what the first task has failed to emit."""
    try:
        left[0].task.punctuate(now_ms)
    except StoreCorrupted as error:
        left.pop(0).damage = without_frames(error)


def _flush(left: list[WorkerTask], found: dict[TopicPartition, ChangelogRecords]) -> int | None:
    """Flush tasks, and remove the done ones from `left`. Return when to try the next one again."""
    while left:
        task = left[0]
        stores = {store.name: store for store in task.program.stores}
        try:
            flushed = task.task.flush()
        except EmitsPending as pending:
            return pending.due_ms
        except StoreCorrupted as error:
            left.pop(0).damage = without_frames(error)
            continue
        for name, changes in flushed.items():
            where = task.changelog(stores[name])
            if where is not None and len(changes):
                found[where] = changes
        del left[0]
    return None


def _ends_of(
    task: WorkerTask, ends: Mapping[TopicPartition, int], topic_ids: Mapping[str, Uuid]
) -> dict[str, ChangelogPosition]:
    """Return the changelog ends of the task's stores. An input that is a table's changelog ends
    where the task has read to."""
    found = {}
    positions = task.task.positions()
    for store in task.program.stores:
        where = task.changelog(store)
        if where is None:
            continue
        end = positions.get(where.topic) if store.source_topic is not None else ends.get(where)
        if end is not None:
            found[store.name] = ChangelogPosition(end, topic_ids[where.topic])
    return found


def offsets_of(
    task: WorkerTask, topic_ids: Mapping[str, Uuid]
) -> dict[TopicPartition, CommittedOffset]:
    """Return the offsets of all inputs with the task's text. An input that was not read since the
    start has its old offset again: the clock alone may have closed windows, which the text says.
    Of several inputs the text also says which they are."""
    text = task.task.metadata()
    partition = task.task_id.partition
    offsets = {**task.committed, **task.task.positions()}
    if len(offsets) > 1:
        ids = [topic_ids[topic] for topic in offsets if topic in topic_ids]
        text = with_inputs(text, ids, TEXT_BYTES_MAX)
    return {
        TopicPartition(topic, partition): CommittedOffset(offset, text)
        for topic, offset in offsets.items()
    }


def _store(tasks: Sequence[WorkerTask]) -> None:
    for task in tasks:
        try:
            if task.database is not None:
                task.database.commit(task.unstored)
        except StoreCorrupted as error:
            task.damage = without_frames(error)
        else:
            task.unstored.clear()
            task.views.clear()
