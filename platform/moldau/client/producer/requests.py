"""Produce requests from batches, and the effects of their responses on each batch. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.client.producer.accumulator import Accumulator
from moldau.client.producer.batch import Batch
from moldau.client.producer.refusal import TOO_LARGE
from moldau.client.producer.transaction_core import TransactionCore
from moldau.client.producer.transaction_requests import PRODUCE_NEWEST_V1
from moldau.errors.codes import ErrorCode, KafkaError, error_from
from moldau.ids import ZERO_UUID, Uuid
from moldau.link.addresses import Address
from moldau.link.metadata import Listener, Metadata, Speaker, TopicPartition
from moldau.protocol.messages import produce as producing

_NEWEST_WITH_NAMES: Final = 12
_TOLD_RECORDS_MAX: Final = 5
_LARGE_RECORD: Final = (
    "a record is larger than the topic takes: raise the topic's max.message.bytes (segment.bytes "
    "if that is less); a lower max.request.size of this producer would refuse it in send"
)
_LARGE_BATCH: Final = "the batch is larger than the topic's max.message.bytes or segment.bytes"


def produce_request(
    speaker: Speaker,
    batches: list[Batch],
    metadata: Metadata,
    acks: int,
    timeout_ms: int,
    transaction: TransactionCore | None = None,
) -> tuple[producing.ProduceRequest, int, dict[Uuid, str]]:
    """Return the request and its version: by topic id if all topics have one, else by name. Return
    the names by the ids too: the response has no names, and metadata may have lost the topic by
    then."""
    by_topic: dict[str, list[producing.PartitionProduceData]] = {}
    for batch in batches:
        data = producing.PartitionProduceData(index=batch.where.partition, records=batch.data)
        by_topic.setdefault(batch.where.topic, []).append(data)
    topics: list[producing.TopicProduceData] = []
    names: dict[Uuid, str] = {}
    for name, partitions in by_topic.items():
        topic = metadata.topics.get(name)
        topic_id = ZERO_UUID if topic is None else topic.topic_id
        names[topic_id] = name
        topics.append(
            producing.TopicProduceData(name=name, topic_id=topic_id, partition_data=partitions)
        )
    at_most = _NEWEST_WITH_NAMES if ZERO_UUID in names else None
    if transaction is not None and not transaction.is_v2:
        at_most = PRODUCE_NEWEST_V1
    version = speaker.version_of(producing.ProduceRequest, at_most=at_most)
    request = producing.ProduceRequest(
        transactional_id=None if transaction is None else transaction.transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=topics,
    )
    return request, version, names


def settle_response(
    response: producing.ProduceResponse,
    batches: list[Batch],
    names: Mapping[Uuid, str],
    accumulator: Accumulator,
    listener: Listener,
    now: float,
) -> None:
    """Report the outcome of each batch to the accumulator."""
    metadata = listener.metadata
    answered: dict[TopicPartition, producing.PartitionProduceResponse] = {}
    for topic in response.responses:
        name = topic.name or names.get(topic.topic_id, "")
        for each in topic.partition_responses:
            answered[TopicPartition(name, each.index)] = each
    addresses: dict[int, Address] = {}
    for node in response.node_endpoints:
        addresses[node.node_id] = Address(node.host, node.port)
    for batch in batches:
        answer = answered.get(batch.where)
        if answer is not None and not answer.error_code:
            accumulator.acknowledged(batch, answer.base_offset, answer.log_append_time_ms)
            continue
        error = _error(batch, answer)
        leader = None if answer is None else answer.current_leader
        if leader is None or not metadata.moved(
            batch.where, leader.leader_id, leader.leader_epoch, addresses.get(leader.leader_id)
        ):
            listener.note(error)
        accumulator.refused(batch, error, now)


def _error(batch: Batch, answer: producing.PartitionProduceResponse | None) -> KafkaError:
    where: dict[str, object] = batch.where._asdict()
    if answer is None:
        return KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the answer lacks the partition", **where
        )
    reason = answer.error_message or ""
    if answer.error_code in TOO_LARGE:
        assert batch.data is not None
        where |= {"size_bytes": len(batch.data), "setting": "max.message.bytes"}
        reason = _LARGE_RECORD if batch.count == 1 else _LARGE_BATCH
    bad = [
        f"{each.batch_index}: {each.batch_index_error_message}"
        for each in answer.record_errors[:_TOLD_RECORDS_MAX]
    ]
    if bad:
        where["bad_records"] = bad
    return error_from("Produce", answer.error_code, reason, **where, records=batch.count)
