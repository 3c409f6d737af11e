"""The start of a worker: the app is laid out on the cluster's topics, and its own ones are made.

Invariants: nothing is made for an app that is refused; a worker that begins to read finds all
internal topics; the kept topology is the newest one, which a worker of a former one leaves alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from moldau.client import KafkaError, TopicPartition
from moldau.streams.plan.layout import Layout, laid_out
from moldau.streams.plan.plan import Plan
from moldau.streams.plan.topics import topology_topic
from moldau.streams.plan.topology import KEY, Topology, to_keep
from moldau.streams.problems import MissingTopics
from moldau.streams.worker.door import Door, TopicFacts
from moldau.streams.worker.membership import described_topology, topology_epoch
from moldau.streams.worker.reports import Reports

_APPEAR_POLL_S: Final = 0.1
_OUTPUT_WAIT_S: Final = 3.0
"""How long a broker that creates topics by itself has for a missing output."""
_KEPT_WAIT_S: Final = 30.0
"""How long the start waits for the kept topology, and for the topic that keeps it."""


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
    is_stopping: Callable[[], bool],
    *,
    accepts_changes: bool,
) -> Start:
    """Lay the app out, and make its topics. Raise TopologyError if it cannot run here."""
    there = await door.topics(plan.topics())
    layout = laid_out(plan, {name: facts.partitions for name, facts in there.items()})
    now, kept = Topology.of(plan), _Kept(plan.app, door, reports, is_stopping)
    before = await kept.read()
    following = to_keep(plan.app, before, now, accepts_changes=accepts_changes)
    await require_outputs(plan.app, door, reports, [n for n in layout.outputs if n not in there])
    own = [each for each in layout.internal if each.name != kept.topic]
    await door.make([each for each in own if each.name not in there])
    topics = there | await _appeared(door, [each.name for each in own], is_stopping)
    known = () if before is None else before.epochs
    epoch, epochs = 0, known
    if door.is_streams_group:
        epoch, epochs = topology_epoch(
            described_topology(layout), known, await door.group_topology()
        )
    if (following is not None or epochs != known) and not is_stopping():
        await kept.write(layout, replace(following or before or now, epochs=epochs))
    return Start(layout, topics, epoch)


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


async def _appeared(
    door: Door, names: Iterable[str], is_stopping: Callable[[], bool]
) -> dict[str, TopicFacts]:
    """Wait for the topics and return their facts: brokers learn of them at different times."""
    wanted = set(names)
    while True:
        found = await door.topics(wanted)
        if len(found) == len(wanted) or is_stopping():
            return found
        await asyncio.sleep(_APPEAR_POLL_S)


class _Kept:
    """The topology in the app's topic. It only warns of mistakes, so a worker that cannot use the
    topic does without."""

    def __init__(
        self, app: str, door: Door, reports: Reports, is_stopping: Callable[[], bool]
    ) -> None:
        self.topic = topology_topic(app)
        self._door = door
        self._reports = reports
        self._is_stopping = is_stopping
        self._is_refused = False

    async def read(self) -> Topology | None:
        try:
            async with asyncio.timeout(_KEPT_WAIT_S):
                if not await self._door.topics([self.topic]):
                    return None
                where = TopicPartition(self.topic, 0)
                return Topology.decoded(await self._door.last_value(where, self._is_stopping))
        except (KafkaError, TimeoutError) as error:
            self._refuse(error)
            return None

    async def write(self, layout: Layout, now: Topology) -> None:
        if self._is_refused:
            return
        try:
            async with asyncio.timeout(_KEPT_WAIT_S):
                await self._make(layout)
            await self._door.committer.keep(self.topic, KEY, now.encoded())
        except (KafkaError, TimeoutError) as error:
            self._refuse(error)

    async def _make(self, layout: Layout) -> None:
        if not await self._door.topics([self.topic]):
            await self._door.make([each for each in layout.internal if each.name == self.topic])
            await _appeared(self._door, [self.topic], self._is_stopping)

    def _refuse(self, error: KafkaError | TimeoutError) -> None:
        self._is_refused = True
        reason = f"no answer within {_KEPT_WAIT_S:g} s" if not str(error) else str(error)
        self._reports.topology_not_kept(self.topic, reason)
