"""Bring a task's stores up to the ends of their changelogs.

Each store continues at the offset that its rows were committed with, so after a clean stop there is
nothing to read, and after a crash only the tail. Its rows are useless, and it starts from the
beginning, if the changelog does not hold that offset any more, or is another topic of the same
name.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Set

from moldau.streams.rocks import ChangelogPosition
from moldau.streams.state.changes import ChangelogRecords
from moldau.streams.worker.committer import CommittedOffset
from moldau.streams.worker.door import FetchedChunk, TopicFacts, TopicPartition
from moldau.streams.worker.tasks import RestoreProgress, WorkerTask


def begin(
    task: WorkerTask,
    ends: Mapping[TopicPartition, tuple[int, int]],
    topics: Mapping[str, TopicFacts],
    committed: Mapping[TopicPartition, CommittedOffset],
) -> list[str]:
    """Set what the task has to restore. Clear stores with useless rows and return their names."""
    cleared = []
    for store in task.program.stores:
        where = task.changelog(store)
        if where is None or task.database is None:
            continue
        first, end = ends[where]
        if store.source_topic is not None:  # the rest is input that is not processed yet
            end = min(end, committed[where].offset if where in committed else first)
        position = task.database.position(store.name)
        if position is not None and not holds(position, first, end, topics[where.topic]):
            task.database.clear(store.name)
            cleared.append(store.name)
            position = None
        at = first if position is None else position.offset
        task.restoring[where] = RestoreProgress(store.name, where, at, at, end)
    return cleared


def holds(position: ChangelogPosition, first: int, end: int, topic: TopicFacts) -> bool:
    """Whether a topic still has all that comes after a stored position, in the log of `first` to
    `end`. If not, rows are useless: deletions of some may be gone."""
    return first <= position.offset <= end and position.topic_id == topic.topic_id


def is_current(
    task: WorkerTask,
    committed: Mapping[TopicPartition, CommittedOffset],
    ends: Mapping[TopicPartition, tuple[int, int]],
    marked: Set[TopicPartition] = frozenset(),
) -> bool:
    """Whether no other worker has run a suspended task since: its offsets and its changelogs are
    where it left them.

    `marked` are changelogs in which no transaction is open. One offset more than the task knows can
    only be the marker of its own last commit there: a later transaction has a record, too.
    """
    for where in task.inputs:
        offset = committed[where].offset if where in committed else None
        if task.committed.get(where.topic) != offset:
            return False
    for store in task.program.stores:
        where_to = task.changelog(store)
        if where_to is None or store.source_topic is not None or task.database is None:
            continue
        known = [task.restoring[where_to].end]
        for position in (task.unstored.get(store.name), task.database.position(store.name)):
            if position is not None:
                known.append(position.offset)
        beyond = ends[where_to][1] - max(known)
        if beyond != 0 and not (beyond == 1 and where_to in marked):
            return False
    return True


def pass_markers(
    task: WorkerTask,
    ends: Mapping[TopicPartition, tuple[int, int]],
    marked: Set[TopicPartition],
    topics: Mapping[str, TopicFacts],
) -> None:
    """Move the positions of a committed task over the markers at the ends of its changelogs, so
    that a start after a clean stop has nothing to read. `marked` as in `is_current`."""
    if task.database is None or task.is_touched:
        return
    passed = {}
    for store in task.program.stores:
        where = task.changelog(store)
        if where is None or store.source_topic is not None or where not in marked:
            continue
        position = task.database.position(store.name)
        end = ends[where][1]
        if position is not None and end == position.offset + 1:
            passed[store.name] = ChangelogPosition(end, topics[where.topic].topic_id)
    if passed:
        task.database.commit(passed)


def open_offsets(tasks: Iterable[WorkerTask]) -> dict[TopicPartition, int]:
    """Return the offsets at which unfinished changelogs are read on."""
    return {
        each.where: each.position
        for task in tasks
        for each in task.restoring.values()
        if not each.is_done
    }


def apply(task: WorkerTask, fetched: FetchedChunk, topic: TopicFacts) -> int:
    """Write the records before the end into the store and its database; return how many."""
    where, chunk = fetched
    at = task.restoring[where]
    count = bisect_left(chunk.offsets, at.end)
    changes = ChangelogRecords()
    for key, value, timestamp in zip(
        chunk.keys[:count], chunk.values[:count], chunk.timestamps[:count], strict=True
    ):
        if key is not None:  # an input may have such records, a changelog has none
            changes.add(key, value, timestamp)
    task.task.restore(at.store, changes)
    at.records += count
    advance(task, where, chunk.next_offset, topic)
    return count


def finish(task: WorkerTask) -> None:
    """Delete rows that are out of retention, which a changelog has for longer: from now on
    questions are answered, and the next commit may be long in coming."""
    task.task.expire_restored(is_last=True)
    task.views.clear()
    if task.database is not None:
        task.database.commit({})


def advance(task: WorkerTask, where: TopicPartition, offset: int, topic: TopicFacts) -> None:
    """Store that everything below `offset` is in the store. A compacted changelog may have no
    record between there and its end."""
    at = task.restoring[where]
    at.position = max(at.position, min(offset, at.end))
    task.views.clear()
    assert task.database is not None
    task.database.commit({at.store: ChangelogPosition(at.position, topic.topic_id)})
