"""The requests of one transactional client, each sent once, over connections of its own."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final, NamedTuple, TypeVar

from moldau.broker.coordinator.transaction.producers import Producer
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link import Address, ConnectionOptions, Peers
from moldau.link.connection import Connection
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from moldau.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from moldau.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from moldau.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from moldau.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from moldau.protocol.messages.produce import ProduceRequest, ProduceResponse
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from moldau.records import Producer as BatchProducer
from moldau.records import coordinator_partition, encode_batch
from moldau.runtime import Runtime
from tests.broker.api.requests import NOW, produce_all
from tests.broker.cluster.transactional.ledger import Place
from tests.broker.cluster.world import SimulatedBrokers

R = TypeVar("R", bound=Response)

TRANSACTIONS: Final = "__transaction_state"
OFFSETS: Final = "__consumer_offsets"
INTERNAL_PARTITIONS: Final = 3
TIMEOUT_S: Final = 1.0
LATEST_S: Final = 6.0
"""How late a request arrives at the latest that was sent on an old connection."""


class Member(NamedTuple):
    """A member of a group, and the epoch in which it is one."""

    id: str
    epoch: int


NO_MEMBER: Final = Member("", -1)


class Wire:
    """See the module. With `version` 2 partitions join by themselves, and each end of a transaction
    gives another epoch. `lates` is the share of requests of which a copy arrives late."""

    def __init__(
        self,
        runtime: Runtime,
        brokers: SimulatedBrokers,
        transactional_id: str,
        version: int,
        random: Random,
    ) -> None:
        self.version = version
        self.transactional_id = transactional_id
        self.timeout_ms = 4_000
        self.lates = 0.0
        self.copies = 0
        self._runtime = runtime
        self._brokers = brokers
        self._random = random
        self._lane = 0
        addresses = {}
        for number, each in enumerate(brokers.bootstrap_servers.split(","), 1):
            host, _, port = each.rpartition(":")
            addresses[number] = Address(host, int(port))
        options = ConnectionOptions(client_id=transactional_id, request_timeout_s=TIMEOUT_S)
        self._peers = Peers(runtime, options, addresses)

    async def aclose(self) -> None:
        await self._peers.aclose()

    async def _ask(
        self, place: Place, request: Request, response: type[R], version: int, *, copied: bool
    ) -> R:
        """Ask the leader of a partition. After a time-out the next request uses another connection,
        so what was sent on this one may arrive later."""
        leader = self._brokers.leader_of(*place)
        if leader < 0:
            await self._create(place[0])
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        if copied and self.version == 2 and self._random.random() < self.lates:
            late_s = self._random.uniform(0.0, LATEST_S)
            task = self._late(leader, request, response, version, late_s)
            self._runtime.spawn(task, name="late")
        lane = f"main-{self._lane}"
        try:
            return await self._peers.request(leader, request, response, version=version, lane=lane)
        except KafkaError:
            self._lane += 1
            raise

    async def _late(
        self, leader: int, request: Request, response: type[R], version: int, late_s: float
    ) -> None:
        self.copies += 1
        lane = f"late-{self.copies}"
        await asyncio.sleep(late_s)
        try:
            await self._peers.request(leader, request, response, version=version, lane=lane)
        except KafkaError:
            return
        self._peers.hang_up(leader, lane)

    async def _create(self, topic: str) -> None:
        """Let a broker create an internal topic, as by a search for a coordinator."""
        key_type = 1 if topic == TRANSACTIONS else 0
        request = FindCoordinatorRequest(
            coordinator_keys=[self.transactional_id], key_type=key_type
        )
        node_id = self._random.choice(list(self._peers.addresses))
        await self._peers.request(node_id, request, FindCoordinatorResponse)

    def _coordinator(self) -> Place:
        return TRANSACTIONS, coordinator_partition(self.transactional_id, INTERNAL_PARTITIONS)

    async def init(self, before: Producer | None) -> Producer:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=-1 if before is None else before.id,
            producer_epoch=-1 if before is None else before.epoch,
        )
        answer = await self._ask(
            self._coordinator(), request, InitProducerIdResponse, 5, copied=False
        )
        _check(answer.error_code)
        return Producer(answer.producer_id, answer.producer_epoch)

    async def join(self, producer: Producer, place: Place) -> None:
        """As clients of older versions do before they write to a partition."""
        topics = [AddPartitionsToTxnTopic(name=place[0], partitions=[place[1]])]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=producer.id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=topics,
        )
        answer = await self._ask(
            self._coordinator(), request, AddPartitionsToTxnResponse, 3, copied=False
        )
        (topic,) = answer.results_by_topic_v3_and_below
        _check(topic.results_by_partition[0].partition_error_code)

    def produce_request(
        self, producer: Producer, place: Place, sequence: int, rows: list[tuple[bytes, bytes]]
    ) -> ProduceRequest:
        """Return the request that writes these records as one batch."""
        of = BatchProducer(producer.id, producer.epoch, sequence, is_transactional=True)
        data = encode_batch([(NOW, key, value, ()) for key, value in rows], 0, producer=of)
        return produce_all(
            {place: bytes(data)}, transactional_id=self.transactional_id, acks=-1, timeout_ms=900
        )

    @property
    def produce_version(self) -> int:
        return 12 if self.version == 2 else 11

    async def produce(
        self, producer: Producer, place: Place, sequence: int, rows: list[tuple[bytes, bytes]]
    ) -> None:
        request = self.produce_request(producer, place, sequence, rows)
        answer = await self._ask(place, request, ProduceResponse, self.produce_version, copied=True)
        (row,) = answer.responses[0].partition_responses
        _check(row.error_code)

    async def pipe(self, place: Place) -> Connection:
        """Return the connection on which requests to the leader of a partition are pipelined."""
        leader = self._brokers.leader_of(*place)
        if leader < 0:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        return await self._peers.connection(leader, "pipe")

    async def join_offsets(self, producer: Producer, group: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            group_id=group,
        )
        answer = await self._ask(
            self._coordinator(), request, AddOffsetsToTxnResponse, 3, copied=False
        )
        _check(answer.error_code)

    async def commit_offset(
        self,
        producer: Producer,
        group: str,
        place: Place,
        offset: int,
        member: Member = NO_MEMBER,
    ) -> None:
        rows = [
            TxnOffsetCommitRequestPartition(
                partition_index=place[1], committed_offset=offset, committed_metadata=""
            )
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            generation_id_or_member_epoch=member.epoch,
            member_id=member.id,
            topics=[TxnOffsetCommitRequestTopic(name=place[0], partitions=rows)],
        )
        at = OFFSETS, coordinator_partition(group, INTERNAL_PARTITIONS)
        version = 5 if self.version == 2 else 3
        answer = await self._ask(at, request, TxnOffsetCommitResponse, version, copied=True)
        _check(answer.topics[0].partitions[0].error_code)

    async def stay(self, group: str, member: Member) -> Member:
        """Join a group with epoch 0, or stay in it (KIP-848)."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member.id,
            member_epoch=member.epoch,
            rebalance_timeout_ms=2_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        at = OFFSETS, coordinator_partition(group, INTERNAL_PARTITIONS)
        answer = await self._ask(at, request, ConsumerGroupHeartbeatResponse, 1, copied=False)
        _check(answer.error_code)
        return Member(member.id, answer.member_epoch)

    async def end(self, producer: Producer, *, commit: bool) -> Producer:
        """End the transaction. Return the producer with which the client continues."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        version = 5 if self.version == 2 else 4
        answer = await self._ask(self._coordinator(), request, EndTxnResponse, version, copied=True)
        _check(answer.error_code)
        return Producer(answer.producer_id, answer.producer_epoch) if version == 5 else producer


def _check(code: int) -> None:
    if code:
        raise KafkaError(ErrorCode(code))
