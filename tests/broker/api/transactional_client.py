"""One transactional producer over the wire of one node, of either version of clients."""

from __future__ import annotations

from typing import Any

from moldau.broker.coordinator.kind import KeyType
from moldau.broker.coordinator.transaction.producers import Producer
from moldau.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from moldau.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from moldau.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from moldau.protocol.messages.produce import ProduceResponse
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from moldau.records import Producer as BatchProducer
from moldau.records import walk
from tests.broker.api.requests import batch, produce_all
from tests.broker.api.serving import Serving

ID = "app"
STATE = "__transaction_state"
OFFSETS = "__consumer_offsets"
IDS_IN_A_BLOCK = 1000
OLD, NEW = 11, 12
"""Versions of Produce of clients of transaction versions 0 and 2."""


class Client:
    """One transactional producer, and what it asks."""

    def __init__(self, at: Serving, version: int = NEW) -> None:
        self.at = at
        self.is_new = version == NEW
        self.version = version
        self.producer = Producer(-1, -1)
        self.sequences: dict[tuple[str, int], int] = {}

    async def init(self, timeout_ms: int = 60_000, producer: Producer | None = None) -> int:
        known = producer or Producer(-1, -1)
        request = InitProducerIdRequest(
            transactional_id=ID,
            transaction_timeout_ms=timeout_ms,
            producer_id=known.id,
            producer_epoch=known.epoch,
        )
        answer = await self.at.ask(request, InitProducerIdResponse, 5)
        if not answer.error_code:
            self.become(Producer(answer.producer_id, answer.producer_epoch))
        return answer.error_code

    def become(self, producer: Producer) -> None:
        if producer != self.producer:
            self.sequences.clear()
        self.producer = producer

    async def add(self, *places: tuple[str, int]) -> set[int]:
        topics = [AddPartitionsToTxnTopic(name=name, partitions=[index]) for name, index in places]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=self.producer.id,
            v3_and_below_producer_epoch=self.producer.epoch,
            v3_and_below_topics=topics,
        )
        answer = await self.at.ask(request, AddPartitionsToTxnResponse, 3)
        return {
            row.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for row in topic.results_by_partition
        }

    def batch(self, place: tuple[str, int], count: int = 1) -> bytes:
        sequence = self.sequences.get(place, 0)
        self.sequences[place] = sequence + count
        return batch(count, producer=BatchProducer(*self.producer, sequence, True))

    async def send(self, *places: tuple[str, int]) -> dict[tuple[str, int], int]:
        """Two records for each partition, which are added before by clients that have to."""
        if not self.is_new:
            assert await self.add(*places) == {0}
        return await self.produce({place: self.batch(place, 2) for place in places})

    async def produce(self, batches: dict[Any, bytes]) -> dict[tuple[str, int], int]:
        request = produce_all({**batches}, transactional_id=ID, acks=-1)
        answer = await self.at.ask(request, ProduceResponse, self.version)
        return {
            (topic.name, row.index): row.error_code
            for topic in answer.responses
            for row in topic.partition_responses
        }

    async def end(self, *, commit: bool) -> int:
        request = EndTxnRequest(
            transactional_id=ID,
            producer_id=self.producer.id,
            producer_epoch=self.producer.epoch,
            committed=commit,
        )
        answer = await self.at.ask(request, EndTxnResponse, 5 if self.is_new else 4)
        if not answer.error_code and self.is_new:
            self.become(Producer(answer.producer_id, answer.producer_epoch))
        return answer.error_code

    async def commit_offset(self, offset: int, generation: int = -1, member: str = "") -> int:
        if not self.is_new:
            request = AddOffsetsToTxnRequest(
                transactional_id=ID,
                producer_id=self.producer.id,
                producer_epoch=self.producer.epoch,
                group_id="g",
            )
            added = await self.at.ask(request, AddOffsetsToTxnResponse, 3)
            if added.error_code:
                return added.error_code
        commit = self.offsets(offset, generation, member)
        answer = await self.at.ask(commit, TxnOffsetCommitResponse, 5 if self.is_new else 3)
        return answer.topics[0].partitions[0].error_code

    async def commit_by_id(
        self, topic_id: bytes, offset: int, generation: int = -1, member: str = ""
    ) -> int:
        commit = self.offsets(offset, generation, member)
        commit.topics[0].topic_id = topic_id
        answer = await self.at.ask(commit, TxnOffsetCommitResponse, 6)
        assert answer.topics[0].topic_id == topic_id
        return answer.topics[0].partitions[0].error_code

    def offsets(
        self, offset: int, generation: int = -1, member: str = ""
    ) -> TxnOffsetCommitRequest:
        return TxnOffsetCommitRequest(
            transactional_id=ID,
            group_id="g",
            producer_id=self.producer.id,
            producer_epoch=self.producer.epoch,
            generation_id_or_member_epoch=generation,
            member_id=member,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=0, committed_offset=offset, committed_metadata=None
                        )
                    ],
                )
            ],
        )


async def begin(at: Serving, version: int = NEW, levels: int = 2) -> Client:
    """A topic, both coordinators loaded, and a producer."""
    at.node.image.features.levels["transaction.version"] = levels
    at.create("t", 2)
    for topic in (OFFSETS, STATE):
        at.create(topic, 1, cleanup__policy="compact")
    await load(at)
    client = Client(at, version)
    assert await client.init() == 0
    return client


async def load(at: Serving, leader_epoch: int = 0) -> None:
    """The coordinators of this node begin, in a leader epoch of their own."""
    coordinators = [at.node.coordinators.of(each) for each in (KeyType.GROUP, KeyType.TRANSACTION)]
    for each in coordinators:
        each.elect(0, leader_epoch)
    while not all(list(each.loaded()) for each in coordinators):
        await at.pass_ms(1)


def stable(at: Serving) -> list[tuple[int, int]]:
    """The last stable offset and the end of each partition."""
    partitions = [at.partition("t", index) for index in range(2)]
    return [(each.last_stable_offset, each.log_end_offset) for each in partitions]


def kinds(at: Serving, index: int = 0) -> list[str]:
    """The batches of a partition: how many records, or the epoch of a marker."""
    data = at.partition("t", index).log.read(0, 1 << 20).read()
    return [
        f"marker {each.header.producer_epoch}"
        if each.header.is_control
        else str(each.header.record_count)
        for each in walk(data)
    ]


async def committed(at: Serving, *, stable: bool = False) -> tuple[int, int]:
    group = OffsetFetchRequestGroup(
        group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    )
    request = OffsetFetchRequest(groups=[group], require_stable=stable)
    answer = await at.ask(request, OffsetFetchResponse, 8)
    (row,) = answer.groups[0].topics[0].partitions
    return row.committed_offset, row.error_code
