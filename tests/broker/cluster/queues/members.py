"""Members of a share group as real ones are: they accept, release, reject and renew, stand still
until their locks are over, answer late, leave, and die."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any, Final, Protocol

from moldau.broker.share.piece import AcknowledgeType
from moldau.errors.codes import KafkaError
from moldau.runtime import Runtime
from tests.broker.cluster.queues.ledger import Ledger, Place
from tests.broker.cluster.queues.wire import Held, Said, Wire
from tests.broker.cluster.world import SimulatedBrokers

TOPIC: Final = "q"
BEAT_S: Final = 0.4
_KINDS: Final = (
    *([AcknowledgeType.ACCEPT] * 12),
    *([AcknowledgeType.RELEASE] * 4),
    AcknowledgeType.REJECT,
)


class Run(Protocol):
    """The run that a member is part of."""

    brokers: SimulatedBrokers
    ledger: Ledger
    ids: dict[str, bytes]
    lock_ms: int
    is_ending: bool
    """Whether members do their work now, and nothing else."""
    is_over: bool
    is_paused: bool
    """Whether all members shall be gone for a while."""
    crashes: float
    """How often a member dies or leaves."""
    delays: bool
    """Whether releases may have a delay."""
    backoff_ms: int
    """How long a record rests after a release at least, if the member does not say it."""

    def epoch_of(self, place: Place) -> int: ...


class Crashed(Exception):
    """The member has died: its connections close."""


def is_poison(offset: int) -> bool:
    """Whether no member can work on the record."""
    return offset % 9 == 4


class Member:
    """One process, which begins anew as another member when it has died."""

    def __init__(self, run: Run, name: str, random: Random) -> None:
        self._run = run
        self._name = name
        self._random = random
        self._wire: Wire
        self._held: dict[tuple[Place, int], tuple[Held, float]] = {}
        self._stale: list[Held] = []

    async def main(self, runtime: Runtime) -> None:
        run, random, life = self._run, self._random, 0
        while not run.is_over:
            if run.is_paused:
                await asyncio.sleep(0.1)
                continue
            life += 1
            self._held, self._stale = {}, []
            self._wire = Wire(runtime, run.brokers, f"{self._name}-{life}", random)
            try:
                await self._live()
            except Crashed:
                run.ledger.counts["crashed members"] += 1
            finally:
                await self._wire.aclose()
            await asyncio.sleep(random.uniform(0.0, 0.5))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def _live(self) -> None:
        run, random, wire = self._run, self._random, self._wire
        names = {each: name for name, each in run.ids.items()}
        beat_at = 0.0
        while not run.is_over:
            if self._now() >= beat_at:
                beat_at = self._now() + BEAT_S
                try:
                    await wire.beat([TOPIC], names)
                except KafkaError:
                    run.ledger.counts["failed heartbeats"] += 1
            for leader, places in wire.places_by_leader().items():
                try:
                    await self._turn(leader, places)
                except KafkaError:
                    run.ledger.counts["failed requests"] += 1
            await asyncio.sleep(random.uniform(0.0, 0.1))
            if run.is_paused:
                await self._leave()
                return
            if not run.is_ending and random.random() < run.crashes:
                if random.random() < 0.5:
                    raise Crashed
                await self._leave()
                return

    async def _leave(self) -> None:
        try:
            by_leader = self._wire.places_by_leader()
            for leader in list(self._wire.sessions):
                if self._wire.sessions[leader].epoch:
                    said = self._choose(by_leader.get(leader, set()))
                    self._saying(said)
                    sent = self._now()
                    answer = await self._wire.end_session(leader, self._words(said), self._run.ids)
                    self._told(said, _outcomes(answer, "error_code", self._run.ids), sent)
            await self._wire.leave()
        except KafkaError:
            return

    # Work.

    async def _turn(self, leader: int, places: set[Place]) -> None:
        """Ask one broker for records, and say what became of others."""
        run, random, wire = self._run, self._random, self._wire
        said = self._choose(places)
        session = wire.sessions.get(leader)
        is_first = session is None or session.epoch == 0
        if said and not is_first and random.random() < 0.5:
            self._saying(said)
            sent = self._now()
            answer = await wire.acknowledge(leader, self._words(said), run.ids)
            self._told(said, _outcomes(answer, "error_code", run.ids), sent)
            said = {}
        if is_first:
            said = {}
        self._saying(said)
        sent = self._now()
        fetched = await wire.fetch(
            leader,
            places,
            self._words(said),
            run.ids,
            max_wait_ms=random.choice((0, 100, 600)),
            max_records=random.choice((1, 5, 20, 200)),
            batch_size=random.choice((1, 5, 20, 200)),
            mode=random.choice((0, 1)),
        )
        self._told(said, _outcomes(fetched, "acknowledge_error_code", run.ids), sent)
        self._take(fetched)
        if not run.is_ending:
            await self._misbehave(leader, places)

    def _choose(self, places: set[Place]) -> dict[Place, list[tuple[Held, Said]]]:
        """Decide about records that are held."""
        run, random = self._run, self._random
        chosen: dict[Place, list[tuple[Held, Said]]] = {}
        for key, (held, since) in list(self._held.items()):
            if held.place not in places:
                continue
            if self._now() - since > run.lock_ms / 1000:
                del self._held[key]
                self._stale.append(held)
                continue
            if not run.is_ending and random.random() < 0.3:
                continue
            kind = AcknowledgeType.ACCEPT if run.is_ending else random.choice(_KINDS)
            if is_poison(held.offset):
                kind = AcknowledgeType.RELEASE
            delay = -1
            if run.delays and kind is AcknowledgeType.RELEASE and random.random() < 0.5:
                delay = random.choice((0, 200, 1500))
            chosen.setdefault(held.place, []).append((held, Said(held.offset, kind, delay)))
            del self._held[key]
        return chosen

    def _words(self, said: Mapping[Place, Sequence[tuple[Held, Said]]]) -> dict[Place, list[Said]]:
        return {place: [each for _, each in row] for place, row in said.items()}

    def _saying(self, said: Mapping[Place, Sequence[tuple[Held, Said]]]) -> None:
        for place, row in said.items():
            for held, each in row:
                self._run.ledger.saying(
                    place, each.offset, self._wire.member, held.delivery, each.kind
                )

    def _told(
        self,
        said: Mapping[Place, Sequence[tuple[Held, Said]]],
        outcomes: Mapping[Place, int],
        sent: float,
    ) -> None:
        """Note what was confirmed of what was sent then."""
        run = self._run
        for place, row in said.items():
            if outcomes.get(place) != 0:
                run.ledger.counts["refused acknowledgements"] += len(row)
                continue
            epoch = run.epoch_of(place)
            for _, each in row:
                run.ledger.confirmed(place, each.offset, each.kind, epoch)
                rest_ms = run.backoff_ms if each.delay_ms < 0 else each.delay_ms
                is_known = each.kind in run.ledger.of(place, each.offset).said
                if each.kind == AcknowledgeType.RELEASE and rest_ms and is_known:
                    run.ledger.rests(place, each.offset, sent + rest_ms / 1000)

    def _take(self, fetched: Any) -> None:
        now, names = self._now(), {each: name for name, each in self._run.ids.items()}
        for topic in fetched.responses:
            for row in topic.partitions:
                place = names[topic.topic_id], row.partition_index
                for run_ in row.acquired_records:
                    for offset in range(run_.first_offset, run_.last_offset + 1):
                        held = Held(place, offset, run_.delivery_count)
                        self._held[place, offset] = held, now
                        self._run.ledger.counts["deliveries"] += 1

    async def _misbehave(self, leader: int, places: set[Place]) -> None:
        """Prolong locks, stand still, or answer late."""
        run, random, wire = self._run, self._random, self._wire
        dice = random.random()
        mine = [held for held, _ in self._held.values() if held.place in places]
        if dice < 0.1 and mine:
            renewed = [(held, Said(held.offset, AcknowledgeType.RENEW)) for held in mine]
            said = _by_place(renewed)
            answer = await wire.acknowledge(leader, self._words(said), run.ids, is_renew=True)
            for place, code in _outcomes(answer, "error_code", run.ids).items():
                for held, _ in said.get(place, ()):
                    if code == 0:
                        self._held[place, held.offset] = held, self._now()
                        run.ledger.counts["renew"] += 1
        elif dice < 0.13:
            await asyncio.sleep(run.lock_ms / 1000 * random.choice((0.5, 1.2)))
        elif dice < 0.25 and self._stale:
            late = [each for each in self._stale if each.place in places]
            said = _by_place((each, Said(each.offset, AcknowledgeType.ACCEPT)) for each in late)
            self._stale = []
            self._saying(said)
            await wire.acknowledge(leader, self._words(said), run.ids)
            run.ledger.counts["late"] += len(late)


def _by_place(row: Iterable[tuple[Held, Said]]) -> dict[Place, list[tuple[Held, Said]]]:
    found: dict[Place, dict[int, tuple[Held, Said]]] = {}
    for held, each in row:
        found.setdefault(held.place, {})[held.offset] = held, each
    return {place: list(by_offset.values()) for place, by_offset in found.items()}


def _outcomes(answer: Any, name: str, ids: Mapping[str, bytes]) -> dict[Place, int]:
    names = {each: topic for topic, each in ids.items()}
    return {
        (names[topic.topic_id], row.partition_index): getattr(row, name)
        for topic in answer.responses
        for row in topic.partitions
    }
