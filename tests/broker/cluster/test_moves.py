"""Partitions move between brokers while records are written: whole, slowed down, under faults."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from moldau.client import Admin, NewTopic, Producer, Resource, ResourceType, TopicPartition
from moldau.errors.codes import KafkaError
from moldau.runtime import Runtime
from tests import suites
from tests.broker.cluster.faults import await_more, check, suffer
from tests.broker.cluster.traffic import TOPIC, Traffic
from tests.broker.cluster.world import SimulatedBrokers, new_world

SEEDS = range(1, 1 + int(os.environ.get("MOLDAU_MOVES_SEEDS", "2")))
PLACE = TopicPartition(TOPIC, 0)


def asked(servers: str, action: Callable[[Admin], Coroutine[Any, Any, object]]) -> Any:
    async def main(runtime: Runtime) -> None:
        async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
            await action(admin)

    return main


def ask(
    brokers: SimulatedBrokers,
    name: str,
    action: Callable[[Admin], Coroutine[Any, Any, object]],
) -> None:
    brokers.run(asked(brokers.bootstrap_servers, action), name)


async def move(admin: Admin, replicas: list[int] | None) -> None:
    found = await admin.alter_partition_reassignments({PLACE: replicas})
    error = found[PLACE]
    assert error is None, error


def replicas_of(brokers: SimulatedBrokers) -> tuple[int, ...]:
    broker = next(iter(brokers.running.values()))
    known = broker.node.image.topics.by_name(TOPIC)
    assert known is not None
    return known.partitions[0].replicas


def test_a_partition_moves_while_it_is_written_and_leaves_nothing_behind() -> None:
    with new_world(1) as world:
        brokers = SimulatedBrokers(world, 4)
        traffic = Traffic(brokers.bootstrap_servers)
        brokers.await_up()
        ask(brokers, "admin", lambda admin: admin.create_topics([NewTopic(TOPIC, 1, 2)]))
        produced = brokers.start_program(traffic.produce, "producer")
        world.run_for(2)
        old = replicas_of(brokers)
        new = [each for each in (1, 2, 3, 4) if each not in old]
        ask(brokers, "mover", lambda admin: move(admin, new))
        world.run_until(lambda: replicas_of(brokers) == tuple(new), within=30)
        world.run_for(2)
        assert set(brokers.logs_of(TOPIC)) == set(new)
        assert brokers.leader_of(TOPIC) in new
        traffic.is_ending = True
        world.run_until(lambda: produced.is_done, within=60)
        check(brokers, traffic)
        assert traffic.acknowledged > 100
        assert traffic.slowest_s < 3


@pytest.mark.parametrize("side", ["leader", "follower", "the target itself"])
def test_a_throttled_move_takes_the_time_that_its_rate_asks_for(side: str) -> None:
    """400 kB at 10 kB/s: the first 100 kB are what eleven windows hold, the rest takes 30 s. The
    other topic, which is not throttled, moves at once."""
    with new_world(1) as world:
        brokers = SimulatedBrokers(
            world, 2, replica_fetch_max_bytes="30400", replica_fetch_response_max_bytes="30400"
        )
        brokers.await_up()

        async def prepare(admin: Admin) -> None:
            topics = [NewTopic(name, assignments={0: [1]}) for name in (TOPIC, "free")]
            await admin.create_topics(topics)
            if side == "the target itself":
                brokers.running[2].node.replicas.quotas.fetched.pace((TOPIC, 0), 10_000)
                return
            rate = {f"{side}.replication.throttled.rate": "10000"}
            for number in (1, 2):
                await admin.alter_configs(Resource(ResourceType.BROKER, str(number)), set_to=rate)
            await admin.alter_configs(
                Resource(ResourceType.TOPIC, TOPIC),
                set_to={f"{side}.replication.throttled.replicas": "0:1,0:2"},
            )

        async def produce(runtime: Runtime) -> None:
            async with Producer(
                runtime=runtime, bootstrap_servers=brokers.bootstrap_servers, linger_ms=0
            ) as producer:
                for name in (TOPIC, "free"):
                    for _ in range(40):
                        await (await producer.send(name, bytes(10_000), partition=0))

        async def move_both(admin: Admin) -> None:
            await move(admin, [2])
            await admin.alter_partition_reassignments({TopicPartition("free", 0): [2]})

        ask(brokers, "admin", prepare)
        brokers.run(produce, "producer")
        ask(brokers, "mover", move_both)
        began_s = world.now
        world.run_until(lambda: brokers.isr_of("free") == {2}, within=10)
        world.run_until(lambda: replicas_of(brokers) == (2,), within=120)
        took_s = world.now - began_s
        assert 25 < took_s < 45, took_s


def run(seed: int) -> Traffic:
    random = Random(seed)
    with new_world(seed) as world:
        brokers = SimulatedBrokers(world)
        traffic = Traffic(brokers.bootstrap_servers)
        brokers.await_up()
        brokers.run(traffic.create)
        produced = brokers.start_program(traffic.produce, "producer")

        async def keep_moving(admin: Admin) -> None:
            while not traffic.is_ending:
                goal: list[int] | None = random.sample((1, 2, 3), random.choice((2, 2, 3)))
                if random.random() < 0.2:
                    goal = None
                try:
                    await admin.alter_partition_reassignments({PLACE: goal})
                except KafkaError:
                    await asyncio.sleep(0.1)
                await asyncio.sleep(random.uniform(0.05, 2))

        moved = brokers.start_program(asked(brokers.bootstrap_servers, keep_moving), "mover")
        world.run_for(1)
        suffer(brokers, random, 6, heals=1.0)
        await_more(brokers, traffic, None)
        traffic.is_ending = True
        world.run_until(lambda: produced.is_done and moved.is_done, within=180)
        ask(brokers, "last", lambda admin: move(admin, [3, 1, 2]))
        brokers.await_in_sync(TOPIC, {1, 2, 3}, within=120)
        check(brokers, traffic)
    return traffic


@pytest.mark.parametrize("seed", suites.seeds(SEEDS, quick=1))
def test_moves_under_faults_lose_nothing(seed: int) -> None:
    assert run(seed).acknowledged > 50
