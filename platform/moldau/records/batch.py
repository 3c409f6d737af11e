"""Record batches as they lie in a log, a request or a response: found, stamped, opened.

Invariants: a `Batch` borrows the bytes it was found in and never copies them, apart from
decompressing; nothing is decoded before it is asked for; `walk` yields whole batches only.

A broker stays with `walk`, `validate` and `stamp`. A consumer takes `records()` or `columns()`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from crc32c import crc32c

from moldau.errors import CorruptRecord
from moldau.records import kernel
from moldau.records.codecs import DECOMPRESSED_BYTES_MAX, Codec, codec_of, decompress
from moldau.records.diagnosis import OBJECT_BYTES, check_objects
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
    """One whole batch: its header, its bytes, and where they began in what was walked."""

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
        """Where the next batch begins."""
        return self.position + len(self.data)

    def check_crc(self) -> None:
        """CorruptRecord when the bytes behind the checksum are not those that were written."""
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
        """The records' bytes, decompressed, at most `limit` of them."""
        codec = self.codec
        section = self.data[HEADER_BYTES:]
        if self.header.record_count == 0 and not len(section):
            return section  # compaction keeps empty batches, whatever codec they had
        return decompress(codec, section, limit)

    def records(self, limit: int = DECOMPRESSED_BYTES_MAX) -> list[kernel.Record]:
        """All records, whose bytes and whose objects, headers included, take at most `limit` each;
        the checksum is not looked at."""
        return kernel.decode(self._section(limit), self.header, limit // OBJECT_BYTES)

    def consumed(
        self, topic: str, partition: int, limit: int = DECOMPRESSED_BYTES_MAX
    ) -> list[kernel.ConsumerRecord]:
        """As `records`, with where they are."""
        objects_max = limit // OBJECT_BYTES
        section = self._section(limit)
        return kernel.decode_consumed(section, self.header, topic, partition, objects_max)

    def columns(self, limit: int = DECOMPRESSED_BYTES_MAX) -> Columns:
        """All records as parallel lists; the checksum is not looked at."""
        return kernel.columns(self._section(limit), self.header, limit // OBJECT_BYTES)

    def add_to(
        self,
        builder: kernel.ColumnBuilder,
        first_offset: int = 0,
        limit: int = DECOMPRESSED_BYTES_MAX,
    ) -> bool:
        """Adds the records from `first_offset` on to columns; False, and nothing is added, where
        they do not fit. The checksum is not looked at."""
        objects_max = limit // OBJECT_BYTES
        return builder.add(self._section(limit), self.header, first_offset, objects_max)

    def entries(self, limit: int = DECOMPRESSED_BYTES_MAX) -> list[Entry]:
        """Where each record stands in `section()`; the checksum is not looked at."""
        return kernel.entries(self._section(limit), self.header, limit // OBJECT_BYTES)

    def scan(self, rules: int, limit: int = DECOMPRESSED_BYTES_MAX) -> tuple[int, int, int]:
        """The kernel's `scan`: what it lets through, the others read under the same limit."""
        return kernel.scan(self._section(limit), self.header, rules, limit // OBJECT_BYTES)

    def _section(self, limit: int) -> Buffer:
        check_objects(self.header, limit // OBJECT_BYTES)
        return self.section(limit)


def walk(buffer: Buffer, position: int = 0) -> Iterator[Batch]:
    """The whole batches from `position` on.

    A last batch that is cut short, as fetch responses and torn log tails have it, ends the walk
    quietly: `whole_bytes` or the last batch's `end` tells where. Bytes that cannot be a batch are
    CorruptRecord. Checksums are not looked at.
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
    """Where the last whole batch ends; `position` itself when there is none."""
    size = len(buffer)
    while size - position >= HEADER_BYTES:
        end = position + read_header(buffer, position).size_bytes
        if end > size:
            break
        position = end
    return position


def find_last(buffer: Buffer) -> tuple[int, int]:
    """How many whole batches there are before the first that is cut short or is none, and where the
    last of them begins. Makes no objects of them, which take more than a small batch does."""
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
    """The one batch that `buffer` is, to its last byte."""
    header = read_header(buffer)
    if header.size_bytes != len(buffer):
        raise CorruptRecord(
            "batch length is not that of its bytes",
            batch_bytes=header.size_bytes,
            size_bytes=len(buffer),
        )
    return Batch(header, memoryview(buffer))


def decode_batch(buffer: Buffer, limit: int = DECOMPRESSED_BYTES_MAX) -> list[kernel.Record]:
    """The records of one batch, its checksum checked."""
    batch = open_batch(buffer)
    batch.check_crc()
    return batch.records(limit)


def iter_records(
    buffers: Buffer | Iterable[Batch], limit: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[kernel.Record]:
    """The records of several batches, one batch at a time, checksums checked; control batches are
    left out, because applications never see them."""
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
    """Write into the batch at `position` what the leader decides, in place.

    Offset and epoch stand in front of what the checksum covers, so this costs nothing.
    `append_time_ms` makes it a LogAppendTime batch; `max_timestamp` repairs a producer's claim.
    Either writes the checksum again.
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
