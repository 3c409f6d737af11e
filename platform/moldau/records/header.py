"""The 61 bytes in front of every record batch (format version 2, the only one that is supported).

Invariant: a `BatchHeader` has the values of the bytes, unchecked; `read_header` rejects only what
makes it impossible to find the next batch (an invalid size or format version). `validate` checks
whether the values are true.

It is a NamedTuple that one `struct` call fills, because a broker reads every header that passes,
and nothing behind it.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, TypeAlias

from moldau.errors import CorruptRecord

Buffer: TypeAlias = bytes | bytearray | memoryview

HEADER_BYTES: Final = 61
OVERHEAD_BYTES: Final = 12
"""The bytes that `batch_length` does not count: the base offset and itself."""
MAGIC: Final = 2

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

LEADER_EPOCH_AT: Final = 12
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_AT: Final = 43

LAYOUT: Final = struct.Struct(">qiibIhiqqqhii")
assert LAYOUT.size == HEADER_BYTES

_SEQUENCE_MASK: Final = 0x7FFFFFFF


class BatchHeader(NamedTuple):
    """The fields of a batch header, in their order on the wire."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The size of the whole batch, header included."""
        return self.batch_length + OVERHEAD_BYTES

    @property
    def codec_id(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether all records have `max_timestamp`, the time at which the broker appended them."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the records are for brokers and clients, never for applications."""
        return bool(self.attributes & CONTROL)

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time when compaction may drop tombstones and markers; None if it is not decided."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; after 2**31 - 1 comes 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & _SEQUENCE_MASK


_unpack_from = LAYOUT.unpack_from


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header at `position`. Raise CorruptRecord if fewer than 61 bytes are there."""
    try:
        header = BatchHeader._make(_unpack_from(buffer, position))
    except struct.error as error:
        raise CorruptRecord("batch header is cut short", at=position) from error
    if header.magic != MAGIC:
        raise CorruptRecord("record format is not version 2", at=position, magic=header.magic)
    if header.batch_length < HEADER_BYTES - OVERHEAD_BYTES:
        raise CorruptRecord(
            "batch length is out of bounds", at=position, batch_length=header.batch_length
        )
    return header
