"""Reading the batches of a segment's log.

Invariants: only whole batches are returned. Bytes that cannot be a batch raise CorruptRecord, and
so does a batch that would end behind the end. Callers check checksums where they need to.

Files are read in pieces, since a segment may be larger than memory. A lookup needs headers only,
but reads a whole piece: a system call costs more than the few KB between two entries of an index.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from moldau.broker.log.slice import SegmentFile
from moldau.errors import CorruptRecord
from moldau.records import HEADER_BYTES, Batch, read_header
from moldau.records.header import MAGIC, OVERHEAD_BYTES

PIECE_BYTES: Final = 256 << 10
_LOOK_UP_BYTES: Final = 8 << 10
_BATCH_LENGTH_MIN: Final = HEADER_BYTES - OVERHEAD_BYTES
_ENDS: Final = struct.Struct(">qi4xb6xi")  # base offset, batch length, magic, last offset delta


class FoundBatch(NamedTuple):
    """The place of a batch in a segment."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int


def batches(source: SegmentFile, position: int, end: int) -> Iterator[Batch]:
    """Iterate over the batches from `position` to `end`. The caller may keep them."""
    file = source.file
    while position < end:
        piece = file.read_at(position, min(PIECE_BYTES, end - position))
        if len(piece) < HEADER_BYTES:
            raise _cut_short(source, position)
        size = read_header(piece).size_bytes
        if size > end - position:
            raise _cut_short(source, position)
        if size > len(piece):
            piece = file.read_at(position, size)
            if len(piece) < size:
                raise _cut_short(source, position)
        view = memoryview(piece)
        start = 0
        while len(piece) - start >= HEADER_BYTES:
            header = read_header(piece, start)
            stop = start + header.size_bytes
            if stop > len(piece):
                break
            yield Batch(header, view[start:stop], position + start)
            start = stop
        position += start


def find_batch(
    source: SegmentFile, position: int, offset: int, end: int | None = None
) -> FoundBatch | None:
    """Return the first batch from `position` that ends at `offset` or later and lies before
    `end`."""
    file = source.file
    if end is None:
        end = file.size
    read = _ENDS.unpack_from
    while end - position >= HEADER_BYTES:
        piece = file.read_at(position, min(_LOOK_UP_BYTES, end - position))
        start, last_start = 0, len(piece) - _ENDS.size
        if last_start < 0:
            raise _cut_short(source, position)
        while start <= last_start:
            base, length, magic, delta = read(piece, start)
            if length < _BATCH_LENGTH_MIN or magic != MAGIC:
                raise CorruptRecord(
                    "there is no batch",
                    path=file.path,
                    at=position + start,
                    batch_length=length,
                    magic=magic,
                )
            if base + delta >= offset:
                return FoundBatch(position + start, length + OVERHEAD_BYTES, base, base + delta)
            start += length + OVERHEAD_BYTES
        position += start
    return None


def _cut_short(source: SegmentFile, position: int) -> CorruptRecord:
    return CorruptRecord("batch is cut short", path=source.file.path, at=position)
