"""Copies in transactions on simulated clusters: connections end at any step, requests arrive late,
coordinators move, and the copier itself is killed. Each record counts once.
"""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from moldau.client import (
    Admin,
    Consumer,
    FatalTransactionError,
    KafkaError,
    NewTopic,
    Producer,
    TopicPartition,
    Transaction,
)
from moldau.client.producer import transactions
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from moldau.testing import SimulatedCluster

pytestmark = pytest.mark.usefixtures("no_world_is_left")

BROKERS = 3
PARTITIONS = 2
RECORDS = 300
COPIER = "copier"
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}
CLIENT = {"request.timeout.ms": 1500, "default.api.timeout.ms": 20_000, "max.block.ms": 20_000}
PARTS = [TopicPartition("out", index) for index in range(PARTITIONS)]


class Copying:
    """A cluster, and a copier that goes on until all records are copied."""

    def __init__(self, world: Simulation, seed: int) -> None:
        self.world = world
        self.random = Random(seed)
        self.cluster = SimulatedCluster(world, brokers=BROKERS, settings=SETTINGS)
        self.is_over = False
        self.fenced = 0

    async def prepare(self, runtime: Runtime) -> None:
        servers = self.cluster.bootstrap_servers
        async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
            await admin.create_topics(
                [NewTopic(name, PARTITIONS, BROKERS) for name in ("in", "out")]
            )
        async with Producer(runtime=runtime, bootstrap_servers=servers) as producer:
            for number in range(RECORDS):
                await producer.send("in", b"%d" % number, partition=number % PARTITIONS)

    async def copy(self, runtime: Runtime) -> None:
        """What a user's program does, started again whenever it ends."""
        while not self.is_over:
            try:
                await self._copy(runtime)
            except FatalTransactionError:
                self.fenced += 1
            except KafkaError:
                pass
            await asyncio.sleep(0.1)

    async def _copy(self, runtime: Runtime) -> None:
        servers = self.cluster.bootstrap_servers
        producer = Producer(
            CLIENT, runtime=runtime, bootstrap_servers=servers, transactional_id="copy"
        )
        consumer = Consumer(
            runtime=runtime,
            bootstrap_servers=servers,
            group_id="copy",
            group_instance_id="copy",
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            request_timeout_ms=1500,
            default_api_timeout_ms=20_000,
        )

        async def work(transaction: Transaction) -> None:
            for part in await consumer.poll(0.2, max_records=5):
                await producer.send_many("out", list(part.values()))
                await asyncio.sleep(self.random.random() * 0.2)

        async with producer, consumer:
            await consumer.subscribe(["in"])
            while not self.is_over:
                await producer.run_transaction(work, consumer)

    async def read(self, runtime: Runtime) -> list[int]:
        """All committed values of the output, sorted."""
        found: list[int] = []
        async with Consumer(
            runtime=runtime,
            bootstrap_servers=self.cluster.bootstrap_servers,
            isolation_level="read_committed",
        ) as reader:
            reader.assign(PARTS)
            await reader.seek_to_beginning()
            ends = await reader.end_offsets(PARTS)
            while any((reader.position(each) or 0) < ends[each] for each in PARTS):
                for part in await reader.poll(1.0):
                    found += [int(value or b"") for value in part.values()]
        return sorted(found)

    def disturb(self) -> None:
        """One fault, and a while after it."""
        network = self.world.network
        broker = self.random.choice(range(1, BROKERS + 1))
        fault = self.random.choice(["drop", "drop", "reset", "clog", "kill", "die"])
        if fault == "drop":
            network.drop_end(COPIER, f"b{broker}")  # what was sent may still arrive
        elif fault == "reset":
            network.reset(COPIER, f"b{broker}")
        elif fault == "clog":
            network.clog(COPIER, f"b{broker}")
            self.world.run_for(self.random.random() * 4)
            network.drop_end(COPIER, f"b{broker}")
            network.unclog(COPIER, f"b{broker}")
        elif fault == "die":
            self.world.nodes[COPIER].crash()
            self.world.nodes[COPIER].start()
        else:
            self.cluster.kill(broker)
            self.world.run_for(self.random.random())
            self.cluster.start(broker)
            self.cluster.await_up(broker)
        self.world.run_for(self.random.random() * 1.5)


def run(seed: int, faults: int) -> None:
    with Simulation(seed) as world:
        copying = Copying(world, seed)
        copying.cluster.await_up()
        copying.cluster.run(copying.prepare)
        copier = copying.cluster.start_program(copying.copy, COPIER)
        for _ in range(faults):
            copying.disturb()
        world.network.heal()
        expected = list(range(RECORDS))
        for _ in range(60):
            found = copying.cluster.run(copying.read, within=120)
            assert len(set(found)) == len(found), "a record counts twice"
            if found == expected:
                break
            world.run_for(2)
        assert found == expected
        copying.is_over = True
        world.run_until(lambda: copier.is_done, within=120)


@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])
def test_each_record_counts_once_whatever_happens_to_the_connections(
    seed: int, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if version == 1:
        monkeypatch.setattr(transactions, "_speaks_v2", lambda connection: False)
    run(seed, 8)
