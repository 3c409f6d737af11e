"""The start of a transaction in a partition: the coordinator is asked before records are taken.

Invariants:
- Records of a transaction are taken only if the producer has the transaction open in this
  partition, or if its coordinator has confirmed that the partition is in it. So none is left
  without an end (KIP-890).
- A confirmation counts only while the partition has seen nothing of the producer since the
  question. Otherwise this could happen: 1. the coordinator confirms, 2. it aborts the transaction,
  3. its marker comes, 4. the records are taken, and no further marker ends them.
- Of two batches in flight the first can be refused for the moment, and the later one be confirmed.
  The later one is refused then too, with an error after which the client sends both again, in their
  order: it does not continue what the client knows to be in the log. So the first records of a
  producer that a partition does not know begin with sequence 0, by a client of version 2. Those of
  an older one, whose sequences go on through transactions, are none behind a refused batch.
- A partition is asked about once for the start of a transaction, not for each batch.
- The batches that wait for an answer are copies, and take at most UNCONFIRMED_BYTES_MAX in all, or
  one request. What is beyond is refused with an error after which clients send it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moldau.broker.api.joining import ask_coordinator, verifies
from moldau.broker.coordinator.transaction.membership import JoiningPartitions
from moldau.broker.coordinator.transaction.producers import Producer
from moldau.broker.coordinator.transaction.state import TopicPartition
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.records import HEADER_BYTES
from moldau.records.header import PRODUCER_AT, TRANSACTIONAL

if TYPE_CHECKING:
    from moldau.broker.api.joining import Codes
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.broker.replication.partition import Partition
    from moldau.protocol.messages.produce import ProduceRequest

UNCONFIRMED_BYTES_MAX: Final = 64 << 20
_CODEC_AT: Final = 22
_TOPIC_IDS_SINCE: Final = 13
_BUMPS_SINCE: Final = 12
"""The version of Produce with which clients of transaction version 2 begin."""
_ABORTABLE_SINCE: Final = 11
_producer = Struct(">qh").unpack_from
_sequence = Struct(">10xi").unpack_from
"""Reads the first sequence, which follows the producer."""
_LATER: Final = frozenset(
    (
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
    )
)
"""Errors after which the client sends the batch again."""


class VerifiedPartitions(NamedTuple):
    """The coordinator's answers about the partitions of one request."""

    codes: Codes
    seen: Mapping[TopicPartition, object]
    """What each partition knew of the producer when the coordinator was asked."""


NOTHING_CONFIRMED: Final = VerifiedPartitions({}, {})


def confirm(
    node: Node,
    request: ApiRequest,
    message: ProduceRequest,
    on_done: Callable[[VerifiedPartitions], bool],
) -> None:
    """Ask the coordinator about the partitions in which the request begins a transaction.
    `on_done` appends the batches. It is called once, perhaps before this returns; if not, the
    batches were copied, and further requests of the connection wait until it returns, or longer if
    it returns False: then it releases the order itself."""
    version = request.arrival.version
    seen: dict[TopicPartition, object] = {}
    producer = None
    for topic in message.topic_data:
        for data in topic.partition_data:
            records = data.records
            if records is None or len(records) < HEADER_BYTES:
                continue
            if not records[_CODEC_AT] & TRANSACTIONAL:
                continue
            partition = _partition(node, version, topic, data.index)
            if partition is None:
                continue
            found = Producer(*_producer(records, PRODUCER_AT))
            if is_open(partition, found):
                continue
            producer = producer or found
            if found == producer:
                place = TopicPartition(partition.topic, partition.index)
                seen[place] = partition.producers.get(found.id)
    client_version = 2 if version >= _BUMPS_SINCE else 0
    if producer is None or not verifies(node, client_version):
        on_done(NOTHING_CONFIRMED)
        return
    transactional_id = message.transactional_id
    assert transactional_id is not None
    size_bytes = sum(
        len(data.records or b"") for topic in message.topic_data for data in topic.partition_data
    )
    if node.unconfirmed_bytes and node.unconfirmed_bytes + size_bytes > UNCONFIRMED_BYTES_MAX:
        on_done(VerifiedPartitions(dict.fromkeys(seen, ErrorCode.COORDINATOR_NOT_AVAILABLE), seen))
        return
    joining = JoiningPartitions(transactional_id, producer, frozenset(seen), client_version)
    is_answered, held_bytes = False, 0

    def on_codes(codes: Codes) -> None:
        nonlocal is_answered
        is_answered = True
        node.unconfirmed_bytes -= held_bytes
        has_ended = True
        try:
            has_ended = on_done(VerifiedPartitions(codes, seen))
        finally:
            if has_ended:
                request.release_order()

    ask_coordinator(node, joining, on_codes, verify_only=version < _BUMPS_SINCE)
    if not is_answered:
        held_bytes = size_bytes
        node.unconfirmed_bytes += held_bytes
        _copy_batches(message)
        request.hold_order()


def _copy_batches(message: ProduceRequest) -> None:
    """Keep the batches beyond this call: they are views of the connection's buffer."""
    for topic in message.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                data.records = bytearray(data.records)


def _partition(node: Node, version: int, topic: Any, index: int) -> Partition | None:
    try:
        if version < _TOPIC_IDS_SINCE:
            return node.replicas.partition(topic.name, index)
        return node.replicas.partition_by_id(topic.topic_id, index)
    except KafkaError:
        return None  # refused later, with its reason


def is_open(partition: Partition, producer: Producer) -> bool:
    """Whether the producer has a transaction open in this partition."""
    entry = partition.producers.get(producer.id)
    return (
        entry is not None
        and entry.epoch == producer.epoch
        and entry.transaction_first_offset is not None
    )


def check_transaction(
    node: Node, partition: Partition, records: Any, confirmed: VerifiedPartitions, version: int
) -> None:
    """Raise KafkaError if these records of a transaction may not be taken."""
    producer = Producer(*_producer(records, PRODUCER_AT))
    if is_open(partition, producer):
        return
    if not verifies(node, 2 if version >= _BUMPS_SINCE else 0):
        return
    place = TopicPartition(partition.topic, partition.index)
    code = ErrorCode(confirmed.codes.get(place, ErrorCode.COORDINATOR_NOT_AVAILABLE))
    entry = partition.producers.get(producer.id)
    if code is ErrorCode.NONE and entry is not confirmed.seen.get(place):
        code = ErrorCode.CONCURRENT_TRANSACTIONS
    if entry is None:
        (sequence,) = _sequence(records, PRODUCER_AT)
        if code in _LATER:
            node.refused_starts.note(place, producer, sequence)
        elif code is ErrorCode.NONE:
            _check_first(node, place, producer, sequence, version)
    if code is not ErrorCode.NONE:
        raise _refusal(code, version)


def _check_first(
    node: Node, place: TopicPartition, producer: Producer, sequence: int, version: int
) -> None:
    """Raise KafkaError if these cannot be the first records of the producer in the partition."""
    is_behind = node.refused_starts.is_behind_one(place, producer, sequence)
    if is_behind or (sequence and version >= _BUMPS_SINCE):
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            "these are not the first records of the producer here",
            sequence=sequence,
        )


def _refusal(code: ErrorCode, version: int) -> KafkaError:
    if code is ErrorCode.PRODUCER_FENCED:
        return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_SINCE:
        return KafkaError(ErrorCode.INVALID_TXN_STATE)
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and version >= _BUMPS_SINCE:
        return KafkaError(code)
    if code in _LATER:
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            "cannot verify that the partition is part of the transaction",
            cause=code.name,
        )
    return KafkaError(code)
