"""Transactions over several brokers: markers for other nodes, and the death of a coordinator."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.client import Admin, NewTopic
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link import Address, ConnectionOptions, Peers
from moldau.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from moldau.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from moldau.protocol.messages.produce import ProduceResponse
from moldau.records import Producer
from moldau.runtime import Runtime
from tests.broker.api.requests import batch, produce_all
from tests.broker.cluster.world import SimulatedBrokers, new_world

TOPIC, ID = "t", "app"
PARTITIONS = 6
PATIENCE_S = 60.0


class Client:
    """One transactional producer of transaction version 2, over its own connections."""

    def __init__(self, runtime: Runtime, brokers: SimulatedBrokers) -> None:
        self.runtime = runtime
        self.brokers = brokers
        options = ConnectionOptions(client_id="app", request_timeout_s=5.0)
        addresses = {}
        for number, each in enumerate(brokers.bootstrap_servers.split(","), 1):
            host, _, port = each.rpartition(":")
            addresses[number] = Address(host, int(port))
        self.peers = Peers(runtime, options, addresses)
        self.producer = (-1, -1)

    async def again(self, attempt: Any) -> Any:
        """Until an attempt has another answer than None."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    answer = await attempt()
                except KafkaError:
                    answer = None
                if answer is not None:
                    return answer
                await asyncio.sleep(0.1)

    async def coordinator(self) -> int | None:
        request = FindCoordinatorRequest(coordinator_keys=[ID], key_type=1)
        for node_id in self.peers.addresses:
            try:
                answer = await self.peers.request(node_id, request, FindCoordinatorResponse)
            except KafkaError:
                continue
            (found,) = answer.coordinators
            if not found.error_code:
                return found.node_id
        return None

    async def init(self) -> None:
        async def attempt() -> bool | None:
            request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=30_000)
            node_id = await self.coordinator()
            if node_id is None:
                return None
            answer = await self.peers.request(node_id, request, InitProducerIdResponse, version=5)
            if answer.error_code:
                return None
            self.producer = answer.producer_id, answer.producer_epoch
            return True

        await self.again(attempt)

    async def write(self, index: int) -> None:
        """One record; the broker adds the partition."""
        data = batch(1, producer=Producer(*self.producer, 0, True))
        request = produce_all({(TOPIC, index): data}, transactional_id=ID, acks=-1)

        async def attempt() -> bool | None:
            leader = self.brokers.leader_of(TOPIC, index)
            answer = await self.peers.request(leader, request, ProduceResponse, version=12)
            (row,) = answer.responses[0].partition_responses
            return None if row.error_code else True

        await self.again(attempt)

    async def end(self, *, commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=ID,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            committed=commit,
        )

        async def attempt() -> bool | None:
            node_id = await self.coordinator()
            if node_id is None:
                return None
            answer = await self.peers.request(node_id, request, EndTxnResponse, version=5)
            if answer.error_code:
                code = ErrorCode(answer.error_code)
                assert code.retriable or code is ErrorCode.CONCURRENT_TRANSACTIONS, code
                return None
            self.producer = answer.producer_id, answer.producer_epoch
            return True

        await self.again(attempt)


def stable_ends(brokers: SimulatedBrokers) -> list[tuple[int, int]]:
    """The last stable offset and the end of each partition, at its leader."""
    found = []
    for index in range(PARTITIONS):
        leader = brokers.running[brokers.leader_of(TOPIC, index)]
        partition = leader.node.replicas.partition(TOPIC, index)
        found.append((partition.last_stable_offset, partition.log_end_offset))
    return found


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("dies", [False, True])
def test_a_transaction_ends_in_every_partition_though_its_coordinator_dies(
    seed: int, dies: bool
) -> None:
    with new_world(seed) as world:
        brokers = SimulatedBrokers(world, 3)
        brokers.await_up()

        async def prepare(runtime: Runtime) -> None:
            async with Admin(runtime=runtime, bootstrap_servers=brokers.bootstrap_servers) as admin:
                await admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])

        brokers.run(prepare, "admin")
        brokers.await_in_sync(TOPIC, {1, 2, 3}, within=60)
        coordinators: list[int] = []

        async def one(runtime: Runtime) -> None:
            client = Client(runtime, brokers)
            await client.init()
            for number in range(3):
                for index in range(PARTITIONS):
                    await client.write(index)
                if dies and number == 1:
                    coordinator = await client.coordinator()
                    assert coordinator is not None
                    coordinators.append(coordinator)
                    break
                await client.end(commit=number != 1)
            await client.peers.aclose()
            if dies:
                brokers.kill(coordinators[0])
                again = Client(runtime, brokers)
                again.producer = client.producer
                await again.end(commit=True)
                await again.peers.aclose()

        brokers.run(one, "app", within=300)
        ends = 4 if dies else 6

        def is_over() -> bool:
            return stable_ends(brokers) == [(ends, ends)] * PARTITIONS

        world.run_until(is_over, within=120)
