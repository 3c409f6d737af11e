"""Transactional writers that decide at random what they write, and how they end it."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final

from moldau.runtime import Runtime
from tests.broker.cluster.transactional.instance import (
    KEYED,
    PARTITIONS,
    TOPIC,
    Fenced,
    GivenUp,
    Instance,
    Run,
)
from tests.broker.cluster.transactional.ledger import Attempt, End, Place
from tests.broker.cluster.transactional.pipelining import write_pipelined
from tests.broker.cluster.transactional.wire import Wire

PIPELINED_SHARE: Final = 0.6
"""The share of writers that pipeline."""
HELD_BACK: Final = 0.3
"""The share of transactions of a pipelining writer that do not follow the one before at once."""


def drawn_places(random: Random) -> list[Place]:
    """The partitions that a transaction writes to."""
    places = [(TOPIC, index) for index in range(PARTITIONS) if random.random() < 0.6]
    if random.random() < 0.4:
        places.append((KEYED, 0))
    return places


class Writer:
    """A program that is one instance after the other with a transactional id."""

    def __init__(
        self, run: Run, transactional_id: str, version: int, random: Random, *, pipelines: bool
    ) -> None:
        """`pipelines`: send several batches at once, and begin the next transaction at once."""
        self._run = run
        self._id = transactional_id
        self._version = version
        self._random = random
        self._pipelines = pipelines

    async def main(self, runtime: Runtime) -> None:
        """Write until the run ends."""
        run, random = self._run, self._random
        wire = Wire(runtime, run.brokers, self._id, self._version, random)
        wire.timeout_ms = random.choice((1_500, 4_000, 9_000))
        wire.lates = run.lates
        instance = Instance(run, wire, random)
        while not run.is_ending:
            try:
                if instance.producer is None or instance.needs_epoch:
                    await instance.init()
                await self._transact(instance)
            except Fenced:
                run.ledger.counts["fenced"] += 1
                instance = Instance(run, wire, random)
                await asyncio.sleep(random.uniform(0.5, 4.0))
            except GivenUp:
                instance.needs_epoch = instance.producer is not None
                run.ledger.counts["given up"] += 1
            if not self._pipelines or random.random() < HELD_BACK:
                await asyncio.sleep(run.pause_s * random.random())
            if random.random() < run.idles:
                await asyncio.sleep(random.uniform(1.0, 5.0))
        run.ledger.counts["late copies"] += wire.copies
        await wire.aclose()

    async def _transact(self, instance: Instance) -> None:
        random, ledger = self._random, self._run.ledger
        attempt = ledger.begin(self._id)
        is_commit = random.random() < 0.7
        is_asked = False
        try:
            try:
                await self._fill(instance, attempt)
            except GivenUp:
                is_commit = False
                if self._version < 2:
                    instance.needs_epoch = True
            if not attempt.records and attempt.offset is None:
                is_commit = False
            is_asked = is_commit
            await instance.end(commit=is_commit)
        except (Fenced, GivenUp):
            ledger.ended(attempt, End.UNKNOWN if is_asked else End.ABORTED)
            raise
        ledger.ended(attempt, End.COMMITTED if is_commit else End.ABORTED)

    async def _fill(self, instance: Instance, attempt: Attempt) -> None:
        random = self._random
        places = drawn_places(random)
        if self._pipelines:
            await write_pipelined(instance, attempt, places, random.randint(1, 12), random)
            return
        for number in range(random.randint(1, 3)):
            for place in places:
                await instance.write(attempt, place, number)
        if random.random() < 0.4:
            await instance.commit_offset(attempt)
