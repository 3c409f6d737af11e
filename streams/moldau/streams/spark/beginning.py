"""Where a new checkpoint begins: fixed for all sub-topologies at once, before the first batch.

Sources begin where `auto.offset.reset` says, and the app's own repartition topics at their ends:
what lies there is of an earlier checkpoint, which has read its sources itself, and what this one
writes comes after. So the ends are looked up before any batch runs, and after nothing that an
earlier checkpoint has left can still write:

1. With exactly-once, a transaction of each task records that this checkpoint has begun. Opening it
   aborts what a driver that was killed has left open, and fences its producers. An attempt of an
   older checkpoint that opens a producer later, in an executor that has outlived its driver, finds
   the record and fails; one that comes between makes this transaction fail, and nothing has begun.
2. The ends are those of all records, also of records in open transactions, such as those of a
   worker of the embedded engine: they are not of this checkpoint whatever becomes of them.
3. All starts are written in one file. A driver that dies before that has begun nothing.

Without transactions an executor that has outlived its driver may still write afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from moldau.client import EARLIEST, LATEST, FoundOffset, TopicPartition, TransactionError
from moldau.client.sync import Admin
from moldau.errors.codes import ErrorCode
from moldau.streams.plan.layout import Layout
from moldau.streams.problems import StreamsError
from moldau.streams.spark.checkpoint import Checkpoint
from moldau.streams.spark.delivery import TaskBatch, record_beginning
from moldau.streams.spark.inputs import described, ids_of
from moldau.streams.spark.ranges import with_starts
from moldau.streams.spark.versions import Version
from moldau.streams.worker.settings import AppSettings

_FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
Begun = Mapping[int, Mapping[int, Version]]
"""The versions that tasks begin with, by sub-topology and partition."""


def begin(kept: Checkpoint, layout: Layout, settings: AppSettings) -> None:
    """Note where the tasks begin, if the checkpoint is new. Raise StreamsError if it has files but
    has not begun."""
    if kept.has_begun:
        return
    if kept.is_used:
        raise StreamsError(
            f"checkpoint={kept.path}: it has files of an app, but not where the app begins: a move "
            "to it was cut short, or an earlier moldau has made it: delete it and move the app "
            "again, or give a new --checkpoint, which begins without state"
        )
    with Admin(settings.of("admin")) as admin:
        kept.check_topics(ids_of(described(admin, layout.inputs())))
        found = _found(admin, layout, settings)
        take_over(kept, layout, settings, found)
        newest = _found(admin, layout, settings)
        if newest != found:
            take_over(kept, layout, settings, newest)
    kept.begin(newest)


def take_over(kept: Checkpoint, layout: Layout, settings: AppSettings, begun: Begun) -> None:
    """Fence what runs with an older checkpoint, for good, if records of it could get into the app's
    own topics. Raise StreamsError if another driver runs the app."""
    plan = layout.plan
    if not settings.is_exactly_once or not plan.repartitions:
        return
    for index, versions in begun.items():
        for partition, version in versions.items():
            batch = TaskBatch(plan.app, index, partition, kept.id, kept.run, -1)
            with told_of_drivers(batch):
                record_beginning(settings.of("producer"), batch, version.offsets)


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
    starts = _starts(admin, layout, settings)
    return {
        each.index: with_starts(
            {}, {where: start for where, start in starts.items() if where.topic in each.inputs}
        )
        for each in layout.plan.programs
    }


def _starts(admin: Admin, layout: Layout, settings: AppSettings) -> dict[TopicPartition, int]:
    """Return the first offset of each input that the app reads."""
    is_latest = settings.of("consumer").get("auto.offset.reset") == "latest"
    own = {each.name for each in layout.plan.repartitions}
    wanted = [
        TopicPartition(topic, at) for topic in layout.inputs() for at in range(layout.counts[topic])
    ]
    made = {where: LATEST for where in wanted if where.topic in own}
    sources = {where: LATEST if is_latest else EARLIEST for where in wanted if where not in made}
    found: dict[TopicPartition, FoundOffset] = {}
    if made:
        found.update(admin.list_offsets(made))
    if sources:
        found.update(admin.list_offsets(sources, is_committed=is_latest))
    return {where: each.offset for where, each in found.items()}
