"""A storm over programs with the client of the house, beside the scripted clients.

Safety: what `storm` says; and writers and copiers are killed, stand still until they are replaced,
and lose connections on which their requests arrive later. Liveness: all heals, every writer gets
more done, and the copiers copy all that was committed: each record once, in its order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, Final
from unittest.mock import patch

from moldau.client import Admin, NewTopic, TopicPartition
from moldau.client.producer import transactions
from moldau.errors.codes import KafkaError
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from tests.broker.cluster.invariants import check_metadata
from tests.broker.cluster.storm import ALL, LIVENESS_S, Storm
from tests.broker.cluster.transactional.client_faults import ClientFaults
from tests.broker.cluster.transactional.clients import COPIES, ClientWriter, Copier, Copies
from tests.broker.cluster.transactional.instance import PARTITIONS, TOPIC
from tests.broker.cluster.transactional.ledger import Promise
from tests.broker.cluster.transactional.storm import (
    PLACES,
    Run,
    await_stable,
    committed_reader,
    drawn_brokers,
    few_epochs,
)
from tests.broker.cluster.transactional.watch import TransactionWatch
from tests.broker.cluster.transactional.writers import PIPELINED_SHARE, Writer
from tests.broker.simulation.promises import demand
from tests.broker.simulation.scenario import Outcome, draw_options

SESSIONS: Final = {
    "group_initial_rebalance_delay_ms": "0",
    "group_min_session_timeout_ms": "500",
    "group_consumer_min_session_timeout_ms": "500",
    "group_consumer_session_timeout_ms": "2000",
    "group_consumer_min_heartbeat_interval_ms": "100",
    "group_consumer_heartbeat_interval_ms": "300",
}
"""A member that stands still is replaced within a run."""
COPIED: Final = [(COPIES, index) for index in range(PARTITIONS)]
Values = dict[int, list[str]]


class ClientRun:
    """A run of `storm` with programs that use the client."""

    def __init__(self, world: Simulation, random: Random) -> None:
        self.run = Run(drawn_brokers(world, random, SESSIONS), random)
        self.brokers = self.run.brokers
        self.run.watch = TransactionWatch(self.brokers, (TOPIC, COPIES))
        self.run.places = [*PLACES, *COPIED]
        self.copies = Copies(self.run, random.choice(("classic", "consumer")))
        self._random = random
        self._source: Values = {}
        self._copied: Values = {}

    def prepare(self) -> None:
        """Create all topics, and watch them."""
        self.brokers.await_up(within=LIVENESS_S)
        self.brokers.run(self._create, "creator", within=LIVENESS_S)
        self.run.prepare()

    async def _create(self, runtime: Runtime) -> None:
        servers = self.brokers.bootstrap_servers
        async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
            await admin.create_topics([NewTopic(COPIES, PARTITIONS, 3)])

    def start_writers(self) -> list[Any]:
        """Two ids with the client, each maybe with a second instance, and a scripted one."""
        programs = []
        for number in range(2):
            name = f"client{number}"
            self.run.names.append(name)
            for instance in range(self._random.choice((1, 1, 2))):
                writer = ClientWriter(self.run, name, self._seeded())
                programs.append(self.brokers.start_program(writer.main, f"{name}-{instance}"))
        return programs

    def start_scripted(self) -> list[Any]:
        """A scripted writer: its requests are copied and arrive late."""
        self.run.names.append("app0")
        version, pipelines = self._random.choice((2, 2, 1)), self._random.random() < PIPELINED_SHARE
        writer = Writer(self.run, "app0", version, self._seeded(), pipelines=pipelines)
        return [self.brokers.start_program(writer.main, "app0")]

    def start_copiers(self) -> list[Any]:
        """Two members of a group, seldom with the same transactional id."""
        shares_id = self._random.random() < 0.2
        programs = []
        for number in range(2):
            copier = Copier(self.copies, "copy0" if shares_id else f"copy{number}", self._seeded())
            programs.append(self.brokers.start_program(copier.main, f"copier{number}"))
        return programs

    def _seeded(self) -> Random:
        return Random(self._random.random())

    # Readers.

    async def follow(self, runtime: Runtime) -> None:
        """Read the copies as they are made."""
        while not self.copies.is_ending:
            try:
                await self._follow_once(runtime)
            except KafkaError:
                await asyncio.sleep(0.1)

    async def _follow_once(self, runtime: Runtime) -> None:
        seen: set[str] = set()
        async with committed_reader(self.brokers, runtime) as consumer:
            consumer.assign([TopicPartition(*each) for each in COPIED])
            while not self.copies.is_ending:
                for part in await consumer.poll(0.2):
                    for record in part.records:
                        value = bytes(record.value or b"").decode()
                        self.run.ledger.check_read(value)
                        demand(value not in seen, Promise.COPIED_ONCE, value=value)
                        seen.add(value)
                        self.run.watch.check_read((COPIES, part.partition), record.offset)

    async def read_all(self, runtime: Runtime) -> None:
        """Read what is committed in both topics."""
        self._source = await self._values(runtime, TOPIC)
        self._copied = await self._values(runtime, COPIES)

    async def _values(self, runtime: Runtime, topic: str) -> Values:
        parts = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        values: Values = {index: [] for index in range(PARTITIONS)}
        async with committed_reader(self.brokers, runtime) as consumer:
            consumer.assign(parts)
            ends = await consumer.end_offsets(parts)
            while any((consumer.position(each) or 0) < ends[each] for each in parts):
                for part in await consumer.poll(0.2):
                    values[part.partition] += [
                        bytes(each or b"").decode() for each in part.values()
                    ]
        return values

    def await_copies(self) -> None:
        """Let the copiers copy everything, and look at each step that it is copied once."""
        deadline, is_whole, number = self.run.world.now + LIVENESS_S, False, 0

        async def judge(runtime: Runtime) -> None:
            nonlocal is_whole
            await self.read_all(runtime)
            is_whole = self.copies.check(self._source, self._copied)
            demand(is_whole or self.run.world.now < deadline, Promise.WRITERS_GO_ON, who="copiers")

        while not is_whole:
            number += 1
            self.brokers.run(judge, f"judge{number}", within=LIVENESS_S)
            self.run.world.run_for(1.0)


@contextmanager
def version_of_clients(version: int) -> Iterator[None]:
    """Let clients speak this version of transactions."""
    if version == 2:
        yield
        return
    with patch.object(transactions, "_speaks_v2", lambda connection: False):
        yield


def run_client_storm(seed: int, *, version: int | None = None) -> Outcome:
    """Run one seed; SimulationFailed when a promise is broken or nothing goes on. What is given is
    not left to the seed."""
    random = Random(seed)
    is_short = random.random() < 0.2
    drawn = random.choice((2, 2, 1))
    with (
        few_epochs(is_short),
        version_of_clients(drawn if version is None else version),
        Simulation(seed, draw_options(random)) as world,
    ):
        run = ClientRun(world, random)
        run.prepare()
        writers, copiers = run.start_writers(), run.start_copiers()
        struck = [*writers, *copiers]
        writers += run.start_scripted()
        copiers.append(run.brokers.start_program(run.follow, "follower"))
        world.run_for(random.uniform(0.5, 2.0))
        faults = ClientFaults(run.brokers, random, struck)
        kinds = [*faults.kinds, *run.run.faults]
        storm = Storm(run.brokers, random, run.run.places, kinds)
        storm.blow()
        faults.heal()
        _end(run, writers, copiers)
        counts = storm.counts + run.run.ledger.counts
        counts["virtual seconds"] = round(world.now)
        return Outcome(world.fingerprint, counts)


def _end(run: ClientRun, writers: Sequence[Any], copiers: Sequence[Any]) -> None:
    """All goes on, ends and is judged."""
    world, brokers = run.run.world, run.brokers
    brokers.await_up(within=LIVENESS_S)
    brokers.await_in_sync(TOPIC, ALL, within=LIVENESS_S)
    run.run.idles = 0.0
    run.run.await_more()
    run.run.is_ending = True
    world.run_until(lambda: all(each.is_done for each in writers), within=LIVENESS_S)
    run.await_copies()
    run.copies.is_ending = True
    world.run_until(lambda: all(each.is_done for each in copiers), within=LIVENESS_S)
    await_stable(run.run)
    brokers.run(run.run.audit, "auditor", within=LIVENESS_S)
    check_metadata(brokers)
    assert not brokers.failures, brokers.failures
