"""The requests of transactions: their content, and what each version of brokers knows of it. No IO.

Each message fits both versions of transactions; `of_version` limits the protocol's version to what
a transaction of version 1 may use, and `fitting` leaves out what older brokers do not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from moldau.client.base.arguments import OffsetAndMetadata
from moldau.client.base.coordinator import GroupMetadata
from moldau.deferred import dataclass
from moldau.ids import ZERO_UUID, Uuid
from moldau.link.metadata import TopicPartition
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages import add_partitions_to_txn as adding
from moldau.protocol.messages import txn_offset_commit as committing
from moldau.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from moldau.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.records import Producer

PRODUCE_NEWEST_V1: Final = 11
"""The newest version of Produce for a transaction of version 1."""
_NEWEST_V1: Final[Mapping[type[Request], int]] = {
    EndTxnRequest: 4,
    committing.TxnOffsetCommitRequest: 4,
    adding.AddPartitionsToTxnRequest: 3,
}
"""The newest versions for a transaction of version 1. Later ones of AddPartitionsToTxn are for
brokers."""
_RESPONSES: Final[Mapping[type[Request], type[Response]]] = {
    InitProducerIdRequest: InitProducerIdResponse,
    adding.AddPartitionsToTxnRequest: adding.AddPartitionsToTxnResponse,
    AddOffsetsToTxnRequest: AddOffsetsToTxnResponse,
    committing.TxnOffsetCommitRequest: committing.TxnOffsetCommitResponse,
    EndTxnRequest: EndTxnResponse,
}
_NEWEST_WITH_NAMES: Final = 5
"""The newest version of TxnOffsetCommit that has the names of topics."""
V2_END_TXN: Final = 5
"""The first version of EndTxn that raises the epoch."""
_WITH_ITS_ID: Final = 3
"""The first versions of InitProducerId that name the id held, and of TxnOffsetCommit that name the
member."""


@dataclass(frozen=True, slots=True)
class TransactionRequest:
    """A request for the transaction's coordinator, or for that of the group `group_id`."""

    request: Request
    response: type[Response]
    group_id: str | None = None
    version_max: int | None = None


@dataclass(slots=True, eq=False)
class SentOffsets:
    """Offsets of a group that are to be committed with the transaction; `left` are unconfirmed."""

    group: GroupMetadata
    left: dict[TopicPartition, OffsetAndMetadata]
    unknown_ids: int = 0
    """How often the coordinator did not know a topic's id."""


def of_version(request: Request, group_id: str | None = None, *, is_v2: bool) -> TransactionRequest:
    """Return the request of a transaction of version 1 or 2."""
    kind = type(request)
    is_new = is_v2 and kind is not adding.AddPartitionsToTxnRequest
    version_max = None if is_new else _NEWEST_V1.get(kind)
    if isinstance(request, committing.TxnOffsetCommitRequest) and version_max is None:
        has_ids = all(each.topic_id != ZERO_UUID for each in request.topics)
        version_max = None if has_ids else _NEWEST_WITH_NAMES
    return TransactionRequest(request, _RESPONSES[kind], group_id, version_max)


def fitting(request: Request, version: int) -> Request:
    """Return the request without what brokers before Kafka 2.5 do not know."""
    if version >= _WITH_ITS_ID:
        return request
    if isinstance(request, InitProducerIdRequest):
        return replace(request, producer_id=-1, producer_epoch=-1)
    if isinstance(request, committing.TxnOffsetCommitRequest):
        return replace(
            request, generation_id_or_member_epoch=-1, member_id="", group_instance_id=None
        )
    return request


def add_partitions(
    transactional_id: str, identity: Producer, partitions: Iterable[TopicPartition]
) -> adding.AddPartitionsToTxnRequest:
    """Return the request that makes partitions a part of the transaction (version 1)."""
    by_topic: dict[str, list[int]] = {}
    for where in partitions:
        by_topic.setdefault(where.topic, []).append(where.partition)
    return adding.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=[
            adding.AddPartitionsToTxnTopic(name=name, partitions=found)
            for name, found in by_topic.items()
        ],
    )


def commit_offsets(
    transactional_id: str, identity: Producer, sent: SentOffsets
) -> committing.TxnOffsetCommitRequest:
    """Return the request that commits the offsets that are left, with the transaction. A request
    has either ids for all its topics or names: those with ids go first."""
    known = sent.group.topic_ids or {}
    ids = {where: known.get(where, ZERO_UUID) for where in sent.left}
    has_ids = any(each != ZERO_UUID for each in ids.values())
    by_topic: dict[tuple[str, Uuid], list[committing.TxnOffsetCommitRequestPartition]] = {}
    for where, each in sent.left.items():
        if has_ids and ids[where] == ZERO_UUID:
            continue
        partition = committing.TxnOffsetCommitRequestPartition(
            partition_index=where.partition,
            committed_offset=each.offset,
            committed_leader_epoch=each.leader_epoch,
            committed_metadata=each.metadata,
        )
        by_topic.setdefault((where.topic, ids[where]), []).append(partition)
    return committing.TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=sent.group.group_id,
        producer_id=identity.id,
        producer_epoch=identity.epoch,
        generation_id_or_member_epoch=sent.group.generation,
        member_id=sent.group.member_id,
        group_instance_id=sent.group.instance_id,
        topics=[
            committing.TxnOffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=found)
            for (name, topic_id), found in by_topic.items()
        ],
    )


def codes_in(request: Any, response: Any) -> Iterator[tuple[TopicPartition, int]]:
    """Iterate over the error codes of the partitions in an answer that has them; 0 is none."""
    if isinstance(response, adding.AddPartitionsToTxnResponse):
        for topic in response.results_by_topic_v3_and_below:
            for each in topic.results_by_partition:
                yield TopicPartition(topic.name, each.partition_index), each.partition_error_code
    elif isinstance(response, committing.TxnOffsetCommitResponse):
        names = {each.topic_id: each.name for each in request.topics}
        for topic_ in response.topics:
            name = topic_.name or names.get(topic_.topic_id, "")
            for each_ in topic_.partitions:
                yield TopicPartition(name, each_.partition_index), each_.error_code
