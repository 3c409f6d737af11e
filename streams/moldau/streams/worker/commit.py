"""The commit of tasks: everything that they did since the last commit becomes durable, in order.

1. Caches are flushed: outputs and changes come out, rows are staged.
2. Outputs and changes are sent, and all is acknowledged.
3. Offsets are committed, with the tasks' own texts.
4. Rows and the ends of the changelogs go into RocksDB, in one batch for each task.

A crash after any of these steps loses nothing: records after the committed offsets are processed
again, and RocksDB is at most behind its changelog. An atomic committer makes 2 and 3 one
transaction (offsets are sent beside the rest), and RocksDB receives nothing that is not in a
committed one.

A damaged store, found in step 1 or 4, is the `damage` of its task. If it is found in 1, an atomic
commit is off; else only the task is left out: nothing of it was sent, and its records are processed
again. In 4, the changelog holds what RocksDB does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.streams.engine.contract import EmitsPending
from moldau.streams.query.gate import Gate
from moldau.streams.rocks import ChangelogPosition, StoreCorrupted
from moldau.streams.state.changes import ChangelogRecords
from moldau.streams.worker.committed import Committed
from moldau.streams.worker.committer import Committer, TopicPartition
from moldau.streams.worker.tasks import WorkerTask

if TYPE_CHECKING:
    from moldau.ids import Uuid


async def commit(
    tasks: Sequence[WorkerTask],
    committer: Committer,
    gate: Gate,
    topic_ids: Mapping[str, Uuid],
) -> bool:
    """Commit what these tasks did; return whether there was anything. Errors leave them unchanged:
    nothing was stored.

    MembershipLost or CommitLater lose nothing if a later commit follows; StoreCorrupted ends an
    atomic commit.
    """
    touched = [each for each in tasks if each.is_touched]
    if not touched:
        return False
    flushed = await _flushed(touched, gate)
    for task in touched:
        if committer.is_atomic and task.damage is not None:
            raise task.damage
    touched = _undamaged(touched)
    logged = {}
    for where, changes in flushed.items():
        logged[where] = await committer.log(where, changes)
    for task in touched:
        for outputs in task.task.take_outputs():
            await committer.send(outputs)
    offsets = {where: each for task in touched for where, each in _offsets(task).items()}
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
        left.pop(0).damage = error


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
            left.pop(0).damage = error
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


def _offsets(task: WorkerTask) -> dict[TopicPartition, Committed]:
    text = task.task.metadata()
    partition = task.task_id.partition
    return {
        TopicPartition(topic, partition): Committed(offset, text)
        for topic, offset in task.task.positions().items()
    }


def _store(tasks: Sequence[WorkerTask]) -> None:
    for task in tasks:
        try:
            if task.database is not None:
                task.database.commit(task.unstored)
        except StoreCorrupted as error:
            task.damage = error
        else:
            task.unstored.clear()
            task.views.clear()
