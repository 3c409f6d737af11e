"""The start of a worker: the app is laid out on the cluster's topics, and its own ones are made.

Invariants: nothing is made for an app that is refused; a worker that begins to read finds all
internal topics; the kept topology is the newest one, which a worker of a former one leaves alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from moldau.deferred import dataclass
from moldau.ids import Uuid
from moldau.streams.plan.layout import Layout, laid_out
from moldau.streams.plan.lost_offsets import (
    LostOffsets,
    OffsetTexts,
    lost_offsets,
    sources,
    sources_on_machines,
)
from moldau.streams.plan.plan import Plan
from moldau.streams.plan.topology import to_keep
from moldau.streams.plan.upgrade import kept_topology
from moldau.streams.problems import MissingTopics, StateError, offsets_lost
from moldau.streams.worker.door import Door, TopicFacts, TopicPartition
from moldau.streams.worker.kept import KeptTopology, appeared
from moldau.streams.worker.membership import described_topology, topology_epoch
from moldau.streams.worker.reports import Reports

_OUTPUT_WAIT_S: Final = 3.0
"""How long a broker that creates topics by itself has for a missing output."""


HasRows = Callable[[LostOffsets], Awaitable[bool]]
"""Whether a store without a changelog has rows on this machine."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a worker knows when it begins to read."""

    layout: Layout
    topics: dict[str, TopicFacts]
    topology_epoch: int
    """Of the app's topology in its streams group; 0 in another group."""


async def prepare(
    plan: Plan,
    door: Door,
    reports: Reports,
    kept: KeptTopology,
    has_rows: HasRows,
    *,
    accepts_changes: bool,
) -> Start:
    """Lay the app out, and make its topics. Raise TopologyError if it cannot run here."""
    there = await door.topics(plan.topics())
    layout = laid_out(plan, {name: facts.partitions for name, facts in there.items()})
    now, before = kept_topology(plan), await kept.read()
    following = to_keep(plan.app, before, now, accepts_changes=accepts_changes)
    await require_outputs(plan.app, door, reports, [n for n in layout.outputs if n not in there])
    kept_sources = {} if before is None else before.sources
    look = partial(lost_offsets, layout.plan, layout.counts, ids=_ids(there), kept=kept_sources)
    unclear = await require_offsets(layout, door, reports, there, look, has_rows)
    own = [each for each in layout.internal if each.name != kept.topic]
    await door.make([each for each in own if each.name not in there])
    topics = there | await appeared(door, [each.name for each in own], kept.is_stopping)
    known = () if before is None else before.epochs
    epoch, epochs = 0, known
    if door.is_streams_group:
        epoch, epochs = topology_epoch(
            described_topology(layout), known, await door.group_topology()
        )
    found = sources(layout.plan, _ids(topics))
    elsewhere = sources_on_machines(layout.plan, found, kept_sources)
    come_from = {name: each for name, each in found.items() if name not in unclear} | elsewhere
    if before is not None and come_from != kept_sources and await door.has_members():
        # Workers of the app as it was may still write rows from other inputs.
        same = {name: each for name, each in kept_sources.items() if each == found.get(name)}
        come_from = same | elsewhere
    is_new = following is not None or epochs != known or come_from != kept_sources
    if is_new and not kept.is_stopping():
        written = replace(following or before or now, epochs=epochs, sources=come_from)
        await kept.write(layout, written)
    return Start(layout, topics, epoch)


def _ids(topics: Mapping[str, TopicFacts]) -> dict[str, Uuid]:
    return {name: facts.topic_id for name, facts in topics.items()}


async def require_offsets(
    layout: Layout,
    door: Door,
    reports: Reports,
    there: Collection[str],
    look: Callable[[OffsetTexts], Iterable[LostOffsets]],
    has_rows: HasRows,
) -> set[str]:
    """Raise StateError if a store has rows and the group has lost the offsets of its inputs: the
    records that the rows hold would be processed again. At-least-once allows that, so there it is
    reported, and so is what is not certain. Return the stores with something to report.

    A changelog may have records without a commit: those of a worker that was killed are aborted.
    What is committed is so with offsets, which another worker may have stored since the first look.
    """
    suspects = list(look(await door.offset_texts()))
    logs = [each.where for each in suspects if each.where and each.where.topic in there]
    ends = await door.ends(logs) if logs else {}
    filled = set[tuple[str, str]]()
    for each in suspects:
        if each.where is None:
            is_filled = await has_rows(each)
        else:
            is_filled = ends.get(each.where, (0, 0))[1] > 0 and await door.has_records(each.where)
        if is_filled:
            filled.add(each.rows)
    if not filled:
        return set()
    inputs = [
        TopicPartition(each, at) for each in layout.inputs() for at in range(layout.counts[each])
    ]
    committed = {where: each.metadata for where, each in (await door.committed(inputs)).items()}
    lost = [each for each in look(committed) if each.rows in filled]
    for each in lost:
        if each.is_certain and door.is_exactly_once:
            why = offsets_lost(each, each.machines)
            raise StateError(f"app={layout.plan.app} store={each.store}: {why}")
    by_store = {each.store: each for each in lost}
    for each in by_store.values():
        reports.offsets_lost(each)
    return {*by_store}


async def require_outputs(app: str, door: Door, reports: Reports, missing: Sequence[str]) -> None:
    """Wait until the broker has created these topics, if it does so for producers. Raise
    MissingTopics if it does not."""
    if not missing:
        return
    reports.missing_outputs(missing, _OUTPUT_WAIT_S)
    try:
        async with asyncio.timeout(_OUTPUT_WAIT_S):
            for topic in missing:
                await door.committer.find(topic)
    except TimeoutError:
        left = [name for name in missing if name not in await door.topics(missing)]
        if left:
            raise MissingTopics(app, "output", left) from None
