"""Three brokers replicate, elect and fail over: nothing acknowledged is lost, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from moldau.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from moldau.runtime import Runtime
from tests.broker.cluster.world import SimulatedBrokers, new_world, program

TOPIC = "t"


class Traffic:
    """A producer that waits for each record, and what it was told."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.acknowledged: dict[bytes, int] = {}
        self.slowest_s = 0.0
        self.is_ending = False

    async def produce(self, runtime: Runtime) -> None:
        loop = asyncio.get_running_loop()
        async with Producer(
            runtime=runtime, bootstrap_servers=self.servers, acks="all"
        ) as producer:
            number = 0
            while not self.is_ending:
                value = b"%d" % number
                began = loop.time()
                sent = await (await producer.send(TOPIC, value, partition=0))
                self.slowest_s = max(self.slowest_s, loop.time() - began)
                self.acknowledged[value] = sent.offset
                number += 1
                await asyncio.sleep(0.01)

    async def create(self, runtime: Runtime) -> None:
        async with Admin(runtime=runtime, bootstrap_servers=self.servers) as admin:
            await admin.create_topics([NewTopic(TOPIC, 1, 3)])

    async def check(self, runtime: Runtime) -> None:
        """What was acknowledged is there, once, where the producer was told."""
        place = TopicPartition(TOPIC, 0)
        async with Consumer(
            runtime=runtime, bootstrap_servers=self.servers, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([place])
            found: dict[bytes, int] = {}
            last = max(self.acknowledged.values())
            async for record in consumer:
                value = bytes(record.value or b"")
                assert value not in found, "doubled"
                found[value] = record.offset
                if record.offset >= last:
                    break
        missing = self.acknowledged.keys() - found.keys()
        assert not missing, f"lost {len(missing)}"
        assert all(found[value] == at for value, at in self.acknowledged.items())


@pytest.mark.parametrize("victim", ["leader", "controller"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_killed_node_costs_a_moment_and_no_record(victim: str, seed: int) -> None:
    with new_world(seed) as world:
        brokers = SimulatedBrokers(world)
        traffic = Traffic(brokers.bootstrap_servers)
        brokers.await_up()
        created = program(world, "admin", traffic.create)
        world.run_until(lambda: created, within=60)
        produced = program(world, "producer", traffic.produce)
        world.run_for(3)
        for _ in range(3):
            number = brokers.leader_of(TOPIC) if victim == "leader" else brokers.controller()
            brokers.kill(number)
            world.run_for(8)
            before = len(traffic.acknowledged)
            brokers.start(number)
            brokers.await_up()
            world.run_until(lambda: brokers.isr_of(TOPIC) == {1, 2, 3}, within=60)
            world.run_for(2)
            assert len(traffic.acknowledged) > before
        traffic.is_ending = True
        world.run_until(lambda: produced, within=60)
        checked = program(world, "auditor", traffic.check)
        world.run_until(lambda: checked, within=60)
        world.run_for(2)
        logs = set(brokers.logs_of(TOPIC).values())
        assert len(logs) == 1, "replicas differ"
        assert traffic.slowest_s < 5
        assert not brokers.failures
