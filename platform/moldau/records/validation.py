"""The checks of a leader before it appends a batch, without creating record objects.

Invariant: every kernel can decode what `validate` accepts. It reads the batch and never changes it;
it returns the true timestamps, so that the caller can decide and `stamp`.

The order of the checks is that of trust: length, format, checksum, then the header's claims, then
the records behind them. A wrong checksum is damage in transit (CorruptRecord, error 2); what is
wrong under a right checksum was written so (InvalidRecord, error 87, or InvalidTimestamp, error
32). If there is only more than is decompressed here, it is OversizedRecords, error 10, for which a
producer sends smaller batches.
"""

from __future__ import annotations

from typing import Final, NamedTuple, NoReturn

from moldau.deferred import dataclass
from moldau.errors import CorruptRecord
from moldau.records.batch import Batch, open_batch
from moldau.records.codecs import (
    DECOMPRESSED_BYTES_MAX,
    RECORD_BYTES_MAX,
    Codec,
    OversizedRecords,
)
from moldau.records.diagnosis import DENSE, KEYED
from moldau.records.header import NO_TIMESTAMP, BatchHeader, Buffer
from moldau.records.parts import scan_in_parts

_INT64_MAX: Final = (1 << 63) - 1


class InvalidRecord(CorruptRecord):
    """The batch is as its producer wrote it, but breaks a rule."""


class InvalidTimestamp(InvalidRecord):
    """A timestamp that the topic does not allow."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that depend on the topic and on the sender.

    `needs_keys`        the topic is compacted.
    `from_client`       one batch of a producer: dense offsets, no control records, CreateTime.
                        Otherwise it is a batch of a log (a follower's fetch, recovery, a snapshot),
                        where compaction may have left gaps or no records at all.
    `timestamp_ms_min`, `timestamp_ms_max`   the bounds of CreateTime, both inclusive.
    `decompressed_bytes_max`   where decompression fails, as would a later read with this limit.
    `record_bytes_max`  how large a record of a compressed batch may be.
    """

    needs_keys: bool = False
    from_client: bool = True
    timestamp_ms_min: int | None = None
    timestamp_ms_max: int | None = None
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
    record_bytes_max: int = RECORD_BYTES_MAX


PRODUCED: Final = Rules()
LOGGED: Final = Rules(from_client=False)


class ValidatedBatch(NamedTuple):
    """A batch that may be appended, and its records' true timestamps (-1 without records)."""

    batch: Batch
    timestamp_min: int
    timestamp_max: int
    offset_of_timestamp_max: int

    @property
    def claims_wrong_timestamp(self) -> bool:
        """Whether the header has a wrong max timestamp: `stamp` the batch with `timestamp_max`."""
        header = self.batch.header
        if header.is_log_append_time or not header.record_count:
            return False
        return header.max_timestamp != self.timestamp_max


def validate(
    buffer: Buffer, rules: Rules = PRODUCED, *, is_in_parts: bool = False
) -> ValidatedBatch:
    """Check the one batch that fills `buffer`. Raise CorruptRecord, or a subclass, if it is bad.
    `is_in_parts`: never hold all that it decompresses to."""
    batch = open_batch(buffer)
    batch.check_crc()
    header = batch.header
    _check_header(header, rules)
    if rules.from_client:
        _check_claims(header)
    asked = (DENSE if rules.from_client else 0) | (KEYED if rules.needs_keys else 0)
    try:
        limit, record_bytes_max = rules.decompressed_bytes_max, rules.record_bytes_max
        if is_in_parts or (header.codec_id and record_bytes_max < limit):
            times = scan_in_parts(batch, asked, limit, record_bytes_max)
        else:
            times = batch.scan(asked, limit)
    except OversizedRecords:
        raise
    except CorruptRecord as error:
        raise InvalidRecord(
            error.reason, base_offset=header.base_offset, **error.context
        ) from error
    oldest, newest, newest_delta = times
    _check_timestamps(oldest, newest, rules)
    return ValidatedBatch(batch, oldest, newest, header.base_offset + newest_delta)


def _refuse(header: BatchHeader, reason: str, **context: object) -> NoReturn:
    raise InvalidRecord(reason, base_offset=header.base_offset, **context)


def _check_header(header: BatchHeader, rules: Rules) -> None:
    """Reject fields that contradict one another, from any sender."""
    if header.last_offset_delta < 0 or header.record_count < 0:
        _refuse(
            header,
            "record count or last offset delta is negative",
            record_count=header.record_count,
            last_offset_delta=header.last_offset_delta,
        )
    if header.record_count > header.last_offset_delta + 1:
        _refuse(
            header,
            "more records than offsets",
            record_count=header.record_count,
            last_offset_delta=header.last_offset_delta,
        )
    if header.base_offset < 0 or header.base_offset > _INT64_MAX - header.last_offset_delta:
        _refuse(header, "offsets are out of range", last_offset_delta=header.last_offset_delta)
    if header.is_control and header.codec_id != Codec.NONE:
        _refuse(header, "control records are never compressed", codec_id=header.codec_id)
    if header.is_transactional and header.producer_id < 0:
        _refuse(header, "a transaction needs a producer id", producer_id=header.producer_id)
    if header.producer_id < -1 or (header.has_producer_id and header.producer_epoch < 0):
        _refuse(
            header,
            "producer id or epoch is out of range",
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
        )


def _check_claims(header: BatchHeader) -> None:
    """Reject fields that a producer may not set."""
    if header.is_control:
        _refuse(header, "control records come from brokers only")
    if header.record_count != header.last_offset_delta + 1:
        _refuse(
            header,
            "record count does not match the last offset delta",
            record_count=header.record_count,
            last_offset_delta=header.last_offset_delta,
        )
    if header.has_producer_id and header.base_sequence < 0:
        _refuse(header, "a producer id needs a sequence", base_sequence=header.base_sequence)
    if header.delete_horizon_ms is not None:
        _refuse(header, "the delete horizon is the cleaner's", horizon=header.delete_horizon_ms)
    if header.is_log_append_time:
        raise InvalidTimestamp(
            "LogAppendTime is the broker's to set", base_offset=header.base_offset
        )


def _check_timestamps(oldest: int, newest: int, rules: Rules) -> None:
    if rules.from_client and oldest < NO_TIMESTAMP:
        raise InvalidTimestamp("timestamp is negative", timestamp=oldest)
    if rules.timestamp_ms_min is not None and NO_TIMESTAMP < oldest < rules.timestamp_ms_min:
        raise InvalidTimestamp("timestamp is too old", timestamp=oldest, min=rules.timestamp_ms_min)
    if rules.timestamp_ms_max is not None and newest > rules.timestamp_ms_max:
        raise InvalidTimestamp("timestamp is too new", timestamp=newest, max=rules.timestamp_ms_max)
