"""The start of a worker: the app is laid out on the cluster's topics, and its own ones are made.

Invariants: nothing is made for an app that is refused; a worker that begins to read finds all
internal topics; the kept topology is the newest one, which a worker of a former one leaves alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from moldau.deferred import dataclass
from moldau.streams.plan.layout import Layout, laid_out
from moldau.streams.plan.plan import Plan
from moldau.streams.plan.topology import to_keep
from moldau.streams.plan.upgrade import kept_topology
from moldau.streams.problems import OFFSETS_LOST, MissingTopics, StateError
from moldau.streams.worker.door import Door, TopicFacts, TopicPartition
from moldau.streams.worker.kept import KeptTopology, appeared
from moldau.streams.worker.membership import described_topology, topology_epoch
from moldau.streams.worker.reports import Reports

_OUTPUT_WAIT_S: Final = 3.0
"""How long a broker that creates topics by itself has for a missing output."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a worker knows when it begins to read."""

    layout: Layout
    topics: dict[str, TopicFacts]
    topology_epoch: int
    """Of the app's topology in its streams group; 0 in another group."""


async def prepare(
    plan: Plan, door: Door, reports: Reports, kept: KeptTopology, *, accepts_changes: bool
) -> Start:
    """Lay the app out, and make its topics. Raise TopologyError if it cannot run here."""
    there = await door.topics(plan.topics())
    layout = laid_out(plan, {name: facts.partitions for name, facts in there.items()})
    now, before = kept_topology(plan), await kept.read()
    following = to_keep(plan.app, before, now, accepts_changes=accepts_changes)
    await require_outputs(plan.app, door, reports, [n for n in layout.outputs if n not in there])
    await require_offsets(layout, door, reports, there)
    own = [each for each in layout.internal if each.name != kept.topic]
    await door.make([each for each in own if each.name not in there])
    topics = there | await appeared(door, [each.name for each in own], kept.is_stopping)
    known = () if before is None else before.epochs
    epoch, epochs = 0, known
    if door.is_streams_group:
        epoch, epochs = topology_epoch(
            described_topology(layout), known, await door.group_topology()
        )
    if (following is not None or epochs != known) and not kept.is_stopping():
        await kept.write(layout, replace(following or before or now, epochs=epochs))
    return Start(layout, topics, epoch)


async def require_offsets(
    layout: Layout, door: Door, reports: Reports, there: Mapping[str, TopicFacts]
) -> None:
    """Raise StateError if a store has rows and the group has no offsets at all: the records that
    the rows hold would be processed again. At-least-once allows that, so there it is reported, as
    for stores whose rows may be those of a clock alone.

    A changelog may have records without a commit: those of a worker that was killed are aborted.
    What is committed is so with offsets, which another worker may have stored since the first look.
    """
    app = layout.plan.app
    logs = {
        TopicPartition(topic, at): store.name
        for topic, store in layout.plan.changelogs().items()
        if topic in there
        for at in range(there[topic].partitions)
    }
    if not logs or await door.has_offsets():
        return
    inputs = [
        TopicPartition(each, at) for each in layout.inputs() for at in range(layout.counts[each])
    ]
    for where, store in logs.items():
        if await door.has_records(where) and not await door.committed(inputs):
            if door.is_exactly_once and store not in layout.plan.clocked_stores():
                raise StateError(f"app={app} store={store}: {OFFSETS_LOST}")
            reports.offsets_lost(store)
            return


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
