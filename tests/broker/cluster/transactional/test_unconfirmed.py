"""Batches that wait for the coordinator of their transaction take a bounded amount of memory."""

from __future__ import annotations

import asyncio
from random import Random
from unittest.mock import patch

import pytest

from moldau.broker.api import produce_transaction
from moldau.broker.coordinator.transaction.producers import Producer
from moldau.client import Admin, NewTopic
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.records import coordinator_partition
from moldau.runtime import Runtime
from tests.broker.cluster.transactional.wire import INTERNAL_PARTITIONS, TRANSACTIONS, Wire
from tests.broker.cluster.world import SimulatedBrokers, new_world

ID, PLACE = "app", ("t", 0)
ROWS = [(b"k", b"v" * 100)]


@pytest.mark.usefixtures("no_world_is_left")
def test_batches_beyond_the_limit_are_refused_and_may_be_sent_again() -> None:
    with (
        patch.object(produce_transaction, "UNCONFIRMED_BYTES_MAX", 300),
        new_world(1) as world,
    ):
        brokers = SimulatedBrokers(world, 3)
        brokers.await_up()

        def coordinator() -> int:
            index = coordinator_partition(ID, INTERNAL_PARTITIONS)
            return brokers.leader_of(TRANSACTIONS, index)

        async def until(of: Wire) -> Producer:
            while True:
                try:
                    return await of.init(None)
                except KafkaError:
                    await asyncio.sleep(0.1)

        async def prepare(runtime: Runtime) -> Producer:
            of = Wire(runtime, brokers, ID, 2, Random(1))
            producer = await until(of)
            other = next(each for each in brokers.broker_ids if each != coordinator())
            replicas = [other, *(each for each in brokers.broker_ids if each != other)]
            async with Admin(runtime=runtime, bootstrap_servers=brokers.bootstrap_servers) as admin:
                await admin.create_topics([NewTopic("t", assignments={0: replicas})])
            await of.aclose()
            return producer

        producer = brokers.run(prepare, "prepare")
        leader = brokers.running[brokers.leader_of(*PLACE)].node
        assert leader.node_id != coordinator()
        heard: list[ErrorCode] = []

        async def write(runtime: Runtime) -> None:
            of = Wire(runtime, brokers, ID, 2, Random(1))
            try:
                await of.produce(producer, PLACE, 0, ROWS)
                heard.append(ErrorCode.NONE)
            except KafkaError as error:
                heard.append(error.code)
            await of.aclose()

        brokers.pause(coordinator())
        first = brokers.start_program(write, "first")
        world.run_until(lambda: leader.unconfirmed_bytes > 150, within=5)
        brokers.run(write, "second", within=5)
        assert heard == [ErrorCode.NOT_ENOUGH_REPLICAS]
        brokers.resume(coordinator())
        world.run_until(lambda: first.is_done and not leader.unconfirmed_bytes, within=60)
        brokers.run(write, "again", within=60)
        assert heard[-1] is ErrorCode.NONE
