"""Record batches in the bytes of a log, a request or a response: finds, stamps and decodes them.

Invariants: a `Batch` borrows the bytes it was found in and never copies them, except to decompress
them; nothing is decoded before it is needed; `walk` yields only whole batches.

A broker needs only `walk`, `validate` and `stamp`. A consumer uses `records()` or `columns()`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from moldau.errors import CorruptRecord
from moldau.records import kernel
from moldau.records.checksum import crc32c
from moldau.records.codecs import DECOMPRESSED_BYTES_MAX, Codec, codec_of, decompress
from moldau.records.diagnosis import OBJECT_BYTES, OBJECTS_MAX, check_objects
from moldau.records.header import (
    ATTRIBUTES_AT,
    CRC_AT,
    HEADER_BYTES,
    LEADER_EPOCH_AT,
    LOG_APPEND_TIME,
    MAGIC,
    MAX_TIMESTAMP_AT,
    OVERHEAD_BYTES,
    BatchHeader,
    Buffer,
    read_header,
)
from moldau.records.record import Columns, Entry

_frame_from = struct.Struct(">8xi4xb").unpack_from
_put_offset = struct.Struct(">q").pack_into
_put_epoch = struct.Struct(">i").pack_into
_put_crc = struct.Struct(">I").pack_into
_put_attributes = struct.Struct(">h").pack_into


class Batch:
    """One whole batch: its header, its bytes, and its position in the buffer that was walked."""

    __slots__ = ("data", "header", "position")

    def __init__(self, header: BatchHeader, data: memoryview, position: int = 0) -> None:
        assert len(data) == header.size_bytes
        self.header = header
        self.data = data
        self.position = position

    def __repr__(self) -> str:
        return f"Batch(position={self.position}, {self.header!r})"

    @property
    def codec(self) -> Codec:
        return codec_of(self.header.codec_id)

    @property
    def end(self) -> int:
        """The position of the next batch."""
        return self.position + len(self.data)

    def check_crc(self) -> None:
        """Raise CorruptRecord if the bytes behind the checksum do not match it."""
        actual = crc32c(self.data[ATTRIBUTES_AT:])
        if actual != self.header.crc:
            raise CorruptRecord(
                "checksum does not match",
                at=self.position,
                base_offset=self.header.base_offset,
                expected=self.header.crc,
                actual=actual,
            )

    def section(self, limit: int = DECOMPRESSED_BYTES_MAX) -> Buffer:
        """Return the decompressed records' bytes. Raise CorruptRecord for more than `limit`."""
        codec = self.codec
        section = self.data[HEADER_BYTES:]
        if self.header.record_count == 0 and not len(section):
            return section  # compaction keeps empty batches, whatever codec they had
        return decompress(codec, section, limit)

    def records(self, limit: int = DECOMPRESSED_BYTES_MAX) -> list[kernel.Record]:
        """Return all records, without checking the checksum. Both their bytes and their objects,
        headers included, are limited to `limit` bytes."""
        return kernel.decode(self._section(limit), self.header, limit // OBJECT_BYTES)

    def consumed(
        self, topic: str, partition: int, limit: int = DECOMPRESSED_BYTES_MAX
    ) -> list[kernel.ConsumerRecord]:
        """Return all records as `records` does, with their topic and partition."""
        objects_max = limit // OBJECT_BYTES
        section = self._section(limit)
        return kernel.decode_consumed(section, self.header, topic, partition, objects_max)

    def columns(self, limit: int = DECOMPRESSED_BYTES_MAX) -> Columns:
        """Return all records as parallel lists, without checking the checksum."""
        return kernel.columns(self._section(limit), self.header, limit // OBJECT_BYTES)

    def add_to(
        self,
        builder: kernel.ColumnBuilder,
        first_offset: int = 0,
        limit: int = DECOMPRESSED_BYTES_MAX,
    ) -> bool:
        """Add the records from `first_offset` on to columns. Return False, and add nothing, if they
        do not fit. The checksum is not checked."""
        objects_max = limit // OBJECT_BYTES
        return builder.add(self._section(limit), self.header, first_offset, objects_max)

    def entries(self, limit: int = DECOMPRESSED_BYTES_MAX) -> list[Entry]:
        """Return the positions of each record in `section()`, without checking the checksum."""
        return kernel.entries(self._section(limit), self.header, limit // OBJECT_BYTES)

    def scan(self, rules: int, limit: int = DECOMPRESSED_BYTES_MAX) -> tuple[int, int, int]:
        """Return the kernel's `scan` of the records; what passes decodes under the usual limit. A
        lower one is for the bytes alone, because no objects are made of the records here."""
        check_objects(self.header, OBJECTS_MAX)
        return kernel.scan(self.section(limit), self.header, rules, OBJECTS_MAX)

    def _section(self, limit: int) -> Buffer:
        check_objects(self.header, limit // OBJECT_BYTES)
        return self.section(limit)


def walk(buffer: Buffer, position: int = 0) -> Iterator[Batch]:
    """Yield the whole batches from `position` on.

    A last batch that is cut short, as in fetch responses and torn log tails, ends the walk without
    an error: `whole_bytes`, or the last batch's `end`, is the position where it begins. Bytes that
    cannot be a batch raise CorruptRecord. Checksums are not checked.
    """
    view = memoryview(buffer)
    size = len(view)
    while size - position >= HEADER_BYTES:
        header = read_header(view, position)
        end = position + header.size_bytes
        if end > size:
            return
        yield Batch(header, view[position:end], position)
        position = end


def whole_bytes(buffer: Buffer, position: int = 0) -> int:
    """Return the end of the last whole batch; `position` itself if there is none."""
    size = len(buffer)
    while size - position >= HEADER_BYTES:
        end = position + read_header(buffer, position).size_bytes
        if end > size:
            break
        position = end
    return position


def find_last(buffer: Buffer) -> tuple[int, int]:
    """Return how many batches precede the first incomplete or invalid one, and the position of the
    last of them. Create no objects for them, which need more memory than a small batch."""
    size = len(buffer)
    count = begin = position = 0
    while size - position >= HEADER_BYTES:
        batch_length, magic = _frame_from(buffer, position)
        end = position + OVERHEAD_BYTES + batch_length
        if magic != MAGIC or batch_length < HEADER_BYTES - OVERHEAD_BYTES or end > size:
            break
        count, begin, position = count + 1, position, end
    return count, begin


def open_batch(buffer: Buffer) -> Batch:
    """Return the one batch that fills `buffer` exactly. Raise CorruptRecord if it does not."""
    header = read_header(buffer)
    if header.size_bytes != len(buffer):
        raise CorruptRecord(
            "batch length is not that of its bytes",
            batch_bytes=header.size_bytes,
            size_bytes=len(buffer),
        )
    return Batch(header, memoryview(buffer))


def decode_batch(buffer: Buffer, limit: int = DECOMPRESSED_BYTES_MAX) -> list[kernel.Record]:
    """Return the records of one batch, with its checksum checked."""
    batch = open_batch(buffer)
    batch.check_crc()
    return batch.records(limit)


def iter_records(
    buffers: Buffer | Iterable[Batch], limit: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[kernel.Record]:
    """Yield the records of several batches, one batch at a time, with their checksums checked. Skip
    control batches, because applications never see them."""
    batches = walk(buffers) if isinstance(buffers, bytes | bytearray | memoryview) else buffers
    for batch in batches:
        batch.check_crc()
        if not batch.header.is_control:
            yield from batch.records(limit)


def stamp(
    buffer: bytearray | memoryview,
    base_offset: int,
    leader_epoch: int,
    *,
    position: int = 0,
    append_time_ms: int | None = None,
    max_timestamp: int | None = None,
) -> None:
    """Write into the batch at `position`, in place, the fields that the leader decides.

    Offset and epoch precede the bytes of the checksum, so writing them is cheap. `append_time_ms`
    makes it a LogAppendTime batch; `max_timestamp` corrects the producer's value. With either of
    them the checksum is written anew.
    """
    _put_offset(buffer, position, base_offset)
    _put_epoch(buffer, position + LEADER_EPOCH_AT, leader_epoch)
    if append_time_ms is None and max_timestamp is None:
        return
    header = read_header(buffer, position)
    attributes = header.attributes
    if append_time_ms is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp = append_time_ms
    _put_attributes(buffer, position + ATTRIBUTES_AT, attributes)
    _put_offset(buffer, position + MAX_TIMESTAMP_AT, max_timestamp)
    seal(buffer, position, header.size_bytes)


def seal(buffer: bytearray | memoryview, position: int, size_bytes: int) -> None:
    """Write the checksum of the batch of `size_bytes` at `position`."""
    covered = memoryview(buffer)[position + ATTRIBUTES_AT : position + size_bytes]
    _put_crc(buffer, position + CRC_AT, crc32c(covered))
