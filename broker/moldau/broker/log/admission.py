"""The checks and changes that a leader applies to a produced batch before it is appended.

Invariants: an admitted batch has passed `moldau.records.validate`, has the topic's codec and
timestamps, and lies in writable memory (for `stamp`). No record object was made. A rejected batch
raises a KafkaError with the same code as in Kafka, and has no effect.

Order: size, then checksum and structure, then time. A batch whose codec is not the topic's is
recompressed as one block of bytes.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from moldau.broker.log.log_config import LogConfig
from moldau.errors import CorruptRecord
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.records import (
    HEADER_BYTES,
    Batch,
    Buffer,
    InvalidRecord,
    InvalidTimestamp,
    OversizedRecords,
    Rules,
    ValidatedBatch,
    compress,
    open_batch,
    stamp,
    validate,
    walk,
)
from moldau.records.batch import seal
from moldau.records.codecs import DECOMPRESSED_BYTES_MAX, LargeRecord
from moldau.records.header import CODEC_MASK, LAYOUT, NO_TIMESTAMP, OVERHEAD_BYTES

NO_APPEND_TIME: Final = -1


Admitted: TypeAlias = tuple[memoryview, int, int, int, int]
"""A batch ready to be stamped and written: its bytes, last offset delta, greatest timestamp,
producer id, and append time (-1 unless the topic has LogAppendTime)."""


def admit(
    records: Buffer, config: LogConfig, rules: Rules, now_ms: int, *, is_in_parts: bool = False
) -> Admitted:
    """Check the one batch that a client sent, and apply the topic's codec and timestamps. `rules`
    are those of `rules_of(config)`.

    It takes the batches that the kernel's `admit_usual` does not, because that gives no reason for
    a rejection and changes nothing but the stamp. With rules that allow less to be decompressed
    than a log takes, raise OversizedRecords for a larger batch. `is_in_parts`: never hold all that
    the batch decompresses to, unless it is to be recompressed.
    """
    if len(records) > config.max_message_bytes:
        raise too_large(len(records), config)
    try:
        found = validate(records, rules, is_in_parts=is_in_parts)
    except CorruptRecord as error:
        is_large = isinstance(error, OversizedRecords)
        if is_large and rules.decompressed_bytes_max < DECOMPRESSED_BYTES_MAX:
            raise
        raise as_kafka_error(error) from error
    batch = found.batch
    header = batch.header
    data = batch.data
    max_timestamp = header.max_timestamp
    if data.readonly:
        data = memoryview(bytearray(data))
        batch = Batch(header, data)
    if config.compression is not None and config.compression != header.codec_id:
        batch = _recompress(batch, config)
        data = batch.data
    append_time_ms = NO_APPEND_TIME
    if config.is_append_time:
        append_time_ms = max_timestamp = now_ms
        stamp(data, header.base_offset, header.partition_leader_epoch, append_time_ms=now_ms)
    else:
        _check_time(found, config, now_ms)
        if found.claims_wrong_timestamp:
            max_timestamp = found.timestamp_max
            stamp(
                data,
                header.base_offset,
                header.partition_leader_epoch,
                max_timestamp=max_timestamp,
            )
    return data, header.last_offset_delta, max_timestamp, header.producer_id, append_time_ms


def rules_of(config: LogConfig, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Rules:
    """Return the rules for a client's batch that do not depend on the time."""
    return Rules(
        needs_keys=config.is_compacted,
        decompressed_bytes_max=decompressed_bytes_max,
        record_bytes_max=config.max_decompressed_message_bytes,
    )


def as_kafka_error(error: CorruptRecord) -> KafkaError:
    """Return the error that a client gets for invalid bytes, or for too many."""
    if isinstance(error, OversizedRecords):
        return KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch decompresses to more than {error.context['limit']} bytes, which is the "
            "most that is opened here; send less in a batch",
        )
    code = ErrorCode.CORRUPT_MESSAGE
    if isinstance(error, InvalidTimestamp):
        code = ErrorCode.INVALID_TIMESTAMP
    elif isinstance(error, InvalidRecord | LargeRecord):
        code = ErrorCode.INVALID_RECORD
    return KafkaError(code, error.reason, **error.context)


def too_large(size: int, config: LogConfig) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE, size_bytes=size, max_message_bytes=config.max_message_bytes
    )


def _check_time(found: ValidatedBatch, config: LogConfig, now_ms: int) -> None:
    oldest, newest = found.timestamp_min, found.timestamp_max
    if oldest > NO_TIMESTAMP and now_ms - oldest > config.timestamp_before_max_ms:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP, "timestamp is too old", timestamp=oldest, now_ms=now_ms
        )
    if newest - now_ms > config.timestamp_after_max_ms:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP, "timestamp is too new", timestamp=newest, now_ms=now_ms
        )


def _recompress(batch: Batch, config: LogConfig) -> Batch:
    """Compress the same records with the topic's codec."""
    codec = config.compression
    assert codec is not None
    section = compress(codec, batch.section(), config.compression_level)
    size = HEADER_BYTES + len(section)
    if size > config.max_message_bytes:
        raise too_large(size, config)
    header = batch.header
    header = header._replace(
        batch_length=size - OVERHEAD_BYTES,
        attributes=header.attributes & ~CODEC_MASK | codec,
    )
    data = bytearray(LAYOUT.pack(*header))
    data += section
    seal(data, 0, size)
    return open_batch(data)


def checked_batches(records: Buffer, log_end_offset: int) -> list[Batch]:
    """Return the whole batches in a leader's bytes. They must continue from the log's end."""
    batches = []
    end = log_end_offset
    try:
        for batch in walk(records):
            batch.check_crc()
            header = batch.header
            if header.base_offset < end or header.last_offset_delta < 0:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    "batch does not go on where the log ends",
                    base_offset=header.base_offset,
                    log_end_offset=end,
                )
            end = header.next_offset
            batches.append(batch)
    except CorruptRecord as error:
        raise as_kafka_error(error) from error
    return batches


def stamped(
    records: Buffer, base_offset: int, leader_epoch: int, append_time_ms: int | None
) -> tuple[bytearray, int]:
    """Return a copy of this node's own batches with their offsets, epoch and time, and the offset
    after them."""
    data, offset = bytearray(records), base_offset
    for batch in walk(data):
        stamp(data, offset, leader_epoch, position=batch.position, append_time_ms=append_time_ms)
        offset += batch.header.last_offset_delta + 1
    return data, offset
