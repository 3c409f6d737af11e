"""Where a new checkpoint begins: fixed for all sub-topologies at once, before the first batch.

Sources begin where `auto.offset.reset` says, and the app's own repartition topics at their ends:
what lies there is of an earlier checkpoint, which has read its sources itself, and what this one
writes comes after. So the ends are looked up before any batch runs, and after nothing that an
earlier checkpoint has left can still write:

1. With exactly-once, the transactional ids of the tasks that write to these topics are fenced.
   That aborts what a driver that was killed has left open.
2. The ends are those of all records, also of records in open transactions, such as those of a
   worker of the embedded engine: they are not of this checkpoint whatever becomes of them.
3. All starts are written in one file. A driver that dies before that has begun nothing.
"""

from __future__ import annotations

from moldau.client import EARLIEST, LATEST, TopicPartition
from moldau.client.sync import Admin, TransactionAdmin
from moldau.streams.plan.layout import Layout
from moldau.streams.plan.plan import Program
from moldau.streams.problems import StreamsError
from moldau.streams.spark.checkpoint import Checkpoint
from moldau.streams.spark.delivery import transactional_id_of
from moldau.streams.spark.inputs import described, ids_of
from moldau.streams.spark.ranges import with_starts
from moldau.streams.worker.settings import AppSettings


def begin(kept: Checkpoint, layout: Layout, settings: AppSettings) -> None:
    """Note where the tasks begin, if the checkpoint is new. Raise StreamsError if it holds a part
    of a move."""
    if kept.has_begun:
        return
    if kept.is_used:
        raise StreamsError(
            f"checkpoint={kept.path}: a move to it was cut short, so it has only some of the "
            "stores: delete it and move the app again, or give a new --checkpoint"
        )
    with Admin(settings.of("admin")) as admin:
        if settings.is_exactly_once:
            _fence(admin, layout)
        kept.check_topics(ids_of(described(admin, layout.inputs())))
        starts = _starts(admin, layout, settings)
    programs = layout.plan.programs
    kept.begin({each.index: with_starts({}, _of(each, starts)) for each in programs})


def _fence(admin: Admin, layout: Layout) -> None:
    """Abort what earlier drivers have left open in the app's own topics, and fence them."""
    own, fencing = _own(layout), TransactionAdmin(admin)
    for program in layout.plan.programs:
        if own.isdisjoint(program.outputs):
            continue
        for partition in range(layout.tasks(program)):
            fencing.fence(transactional_id_of(layout.plan.app, program.index, partition))


def _starts(admin: Admin, layout: Layout, settings: AppSettings) -> dict[TopicPartition, int]:
    """Return the first offset of each input that the app reads."""
    is_latest = settings.of("consumer").get("auto.offset.reset") == "latest"
    own = _own(layout)
    wanted = [
        TopicPartition(topic, at) for topic in layout.inputs() for at in range(layout.counts[topic])
    ]
    made = {where: LATEST for where in wanted if where.topic in own}
    sources = {where: LATEST if is_latest else EARLIEST for where in wanted if where not in made}
    found = {}
    if made:
        found |= admin.list_offsets(made)
    if sources:
        found |= admin.list_offsets(sources, is_committed=is_latest)
    return {where: each.offset for where, each in found.items()}


def _of(program: Program, starts: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    return {where: each for where, each in starts.items() if where.topic in program.inputs}


def _own(layout: Layout) -> set[str]:
    return {each.name for each in layout.plan.repartitions}
