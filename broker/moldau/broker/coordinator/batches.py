"""Encode a coordinator's records as batches of its log, and decode them.

Invariant: the records of one outcome are in one batch, which the log holds as a whole or not at
all. A record of another version of Kafka for which there is no schema is skipped, not rejected. It
stays in the log until compaction removes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from moldau.broker.coordinator.outcome import LogRecord
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import LogKey, LogValue
from moldau.protocol.schemas import UnknownRecordType
from moldau.protocol.schemas.coordinator_log import CoordinatorLog
from moldau.records import (
    NO_PRODUCER,
    BatchBuilder,
    Buffer,
    Codec,
    ControlType,
    Producer,
    control_records,
    walk,
)

_ENDS: Final[dict[int, bool]] = {ControlType.ABORT: False, ControlType.COMMIT: True}


class StoredRecord(NamedTuple):
    """A record and its key and value, as read from the log."""

    offset: int
    producer_id: int
    key: LogKey
    value: LogValue | None


class TransactionMarker(NamedTuple):
    """A transaction marker."""

    offset: int
    producer_id: int
    is_commit: bool


class Piece(NamedTuple):
    """The records of a part of the log, and where the next part begins."""

    entries: list[StoredRecord | TransactionMarker]
    next_offset: int
    unknown: int
    """The number of records without a schema."""


def encode_batch(
    log: CoordinatorLog,
    records: Iterable[LogRecord],
    timestamp_ms: int,
    codec: Codec,
    size_bytes_max: int,
    producer: Producer = NO_PRODUCER,
) -> bytearray:
    """Encode the records as one batch of their producer. Raise MESSAGE_TOO_LARGE if it is larger
    than the log accepts."""
    builder = BatchBuilder(codec=codec)
    for record in records:
        key = log.encode_key(record.key)
        value = None
        if record.value is not None:
            version = record.version
            if version is None:
                version = type(record.value).spec.versions.last
            value = log.encode_value(record.value, version)
        taken = builder.append(timestamp_ms, key, value)
        if taken is None:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, topic=log.topic)
    batch = builder.build(producer=producer)
    if len(batch) > size_bytes_max:
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, topic=log.topic, size_bytes=len(batch))
    return batch


def decode_piece(log: CoordinatorLog, data: Buffer, offset: int) -> Piece:
    """Decode the whole batches in `data`, from `offset` on. Raise MalformedMessage or CorruptRecord
    if the log cannot be read."""
    entries: list[StoredRecord | TransactionMarker] = []
    unknown = 0
    next_offset = offset
    for batch in walk(data):
        header = batch.header
        batch.check_crc()
        if header.is_control:
            for control in control_records(batch):
                is_commit = _ENDS.get(control.type)
                if is_commit is not None and control.offset >= offset:
                    entries.append(TransactionMarker(control.offset, header.producer_id, is_commit))
        else:
            producer_id = header.producer_id if header.is_transactional else NO_PRODUCER.id
            for record in batch.records():
                if record.offset < offset or record.key is None:
                    continue
                try:
                    key, value = log.decode(record.key, record.value)
                except UnknownRecordType:
                    unknown += 1
                    continue
                entries.append(StoredRecord(record.offset, producer_id, key, value))
        next_offset = max(next_offset, header.last_offset + 1)
    return Piece(entries, next_offset, unknown)


def chunks(
    entries: list[StoredRecord | TransactionMarker], size: int
) -> Iterator[list[StoredRecord | TransactionMarker]]:
    """Split the entries into parts of at most `size` entries."""
    for start in range(0, len(entries), size):
        yield entries[start : start + size]
