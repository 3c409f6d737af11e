"""Where a new checkpoint begins: fixed for all sub-topologies at once, before the first batch.

Sources begin where `auto.offset.reset` says, and the app's own repartition topics at their ends:
what lies there is of an earlier checkpoint, which has read its sources itself, and what this one
writes comes after. So the ends are looked up before any batch runs, and after nothing that an
earlier checkpoint has left can still write:

1. The checkpoint takes its id: the time, or a greater number if an earlier checkpoint of the app
   has recorded a later time.
2. With exactly-once, a transaction of each task records that this checkpoint has begun, and where.
   Opening it aborts what a driver that was killed has left open, and fences its producers. An
   attempt of an older checkpoint that opens a producer later, in an executor that has outlived its
   driver, finds the record and fails; one that comes between makes this transaction fail, and
   nothing has begun.
3. The ends are those of all records, also of records in open transactions, such as those of a
   worker of the embedded engine: they are not of this checkpoint whatever becomes of them.
4. All starts are written in one file. A driver that dies before that has begun nothing.

A driver that goes on with a checkpoint records again what the app's group has lost, such as offsets
that have expired: of a task that has nothing to read, the group alone says how far it is.

Without transactions an executor that has outlived its driver may still write afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from moldau.client import EARLIEST, LATEST, FoundOffset, TopicPartition, TransactionError
from moldau.client.sync import Admin
from moldau.errors.codes import ErrorCode
from moldau.runtime.real import RealClock
from moldau.streams.plan.layout import Layout
from moldau.streams.problems import StreamsError
from moldau.streams.spark.checkpoint import Checkpoint
from moldau.streams.spark.delivery import TaskBatch, group_of, record_beginning, take_task
from moldau.streams.spark.inputs import described, ids_of
from moldau.streams.spark.ranges import with_starts
from moldau.streams.spark.recorded import newest_checkpoint
from moldau.streams.spark.versions import Version
from moldau.streams.worker.settings import AppSettings

_FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
Begun = Mapping[int, Mapping[int, Version]]
"""The versions that tasks begin with, by sub-topology and partition."""


def begin(kept: Checkpoint, layout: Layout, settings: AppSettings) -> None:
    """Note where the tasks begin, if the checkpoint is new; else record what the app's group lacks.
    Raise StreamsError if the checkpoint has files but has not begun."""
    if kept.is_used and not kept.has_begun:
        raise StreamsError(
            f"checkpoint={kept.path}: it has files of an app, but not where the app begins: a move "
            "to it was cut short: move the app again; or an earlier moldau has made it: give a new "
            "--checkpoint, which begins without state"
        )
    with Admin(settings.of("admin")) as admin:
        kept.check_topics(ids_of(described(admin, layout.inputs())))
        if kept.has_begun:
            _record_lacking(admin, kept, layout, settings)
            return
        give_id(admin, kept, layout, settings)
        found = _found(admin, layout, settings)
        take_over(admin, kept, layout, settings, found)
        newest = _found(admin, layout, settings)
        if newest != found:
            take_over(admin, kept, layout, settings, newest)
    kept.begin(newest)


def give_id(admin: Admin, kept: Checkpoint, layout: Layout, settings: AppSettings) -> None:
    """Give a checkpoint its id, before it begins. Of an app's checkpoints the one that has begun
    last has the greatest, whatever the clocks of their drivers say."""
    newest = -1
    if settings.is_exactly_once:
        recorded = admin.group_offsets(group_of(layout.plan.app), _inputs(layout))
        newest = newest_checkpoint(each.metadata for each in recorded.values())
    kept.take_id(max(RealClock().wall_ms(), newest + 1))


def take_over(
    admin: Admin, kept: Checkpoint, layout: Layout, settings: AppSettings, begun: Begun
) -> None:
    """Record where the tasks begin, and fence what runs with an older checkpoint, for good. Raise
    StreamsError if another driver runs the app."""
    if not settings.is_exactly_once:
        return
    for index, versions in begun.items():
        for partition, version in versions.items():
            batch = TaskBatch(layout.plan.app, index, partition, kept.id, kept.run, -1)
            with told_of_drivers(batch):
                record_beginning(settings.of("producer"), admin, batch, version.offsets)


def _record_lacking(admin: Admin, kept: Checkpoint, layout: Layout, settings: AppSettings) -> None:
    """Record where tasks are of which the app's group lacks an offset. Raise StreamsError if
    another driver runs the app.

    Such a task is taken over first: an attempt of an earlier run may be about to commit."""
    if not settings.is_exactly_once:
        return
    app = layout.plan.app
    there = admin.group_offsets(group_of(app), _inputs(layout))
    for program in layout.plan.programs:
        last, _ = kept.last(program.index, 0)
        for partition, version in kept.versions_before(program.index, last + 1).items():
            offsets = _known(version)
            if _are_there(offsets, partition, there):
                continue
            batch = TaskBatch(app, program.index, partition, kept.id, kept.run, last + 1)
            with told_of_drivers(batch):
                take_task(settings.of("producer"), admin, batch, offsets)


def _known(version: Version) -> dict[str, int]:
    """Return the offsets of a version but those that say where a log begins."""
    return {topic: offset for topic, offset in version.offsets.items() if offset >= 0}


def _are_there(topics: Collection[str], partition: int, there: Collection[TopicPartition]) -> bool:
    return all(TopicPartition(topic, partition) in there for topic in topics)


@contextmanager
def told_of_drivers(batch: TaskBatch) -> Iterator[None]:
    """Raise StreamsError, which says what to do, if another driver takes the task over."""
    try:
        yield
    except TransactionError as error:
        if error.code not in _FENCED:
            raise
        raise StreamsError(
            f"app={batch.app}: another driver runs the app, and has taken over the transactional "
            f"id {batch.transactional_id}: stop that one, then try again"
        ) from None


def _found(admin: Admin, layout: Layout, settings: AppSettings) -> Begun:
    """Return where the tasks begin on the topics as they are now."""
    starts = first_offsets(admin, layout, settings, own=LATEST)
    return {
        each.index: with_starts(
            {}, {where: start for where, start in starts.items() if where.topic in each.inputs}
        )
        for each in layout.plan.programs
    }


def first_offsets(
    admin: Admin, layout: Layout, settings: AppSettings, *, own: int
) -> dict[TopicPartition, int]:
    """Return the first offset that the app reads of each input: of sources where
    `auto.offset.reset` says, of the app's own topics at `own`, which is EARLIEST or LATEST."""
    is_latest = settings.of("consumer").get("auto.offset.reset") == "latest"
    own_topics = {each.name for each in layout.plan.repartitions}
    wanted = _inputs(layout)
    made = {where: own for where in wanted if where.topic in own_topics}
    sources = {where: LATEST if is_latest else EARLIEST for where in wanted if where not in made}
    found: dict[TopicPartition, FoundOffset] = {}
    if made:
        found.update(admin.list_offsets(made))
    if sources:
        found.update(admin.list_offsets(sources, is_committed=is_latest))
    return {where: each.offset for where, each in found.items()}


def _inputs(layout: Layout) -> list[TopicPartition]:
    return [
        TopicPartition(topic, at) for topic in layout.inputs() for at in range(layout.counts[topic])
    ]
