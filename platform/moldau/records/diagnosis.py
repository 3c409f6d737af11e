"""Finds out what is wrong with a records section, one careful step at a time.

Invariant: whatever a kernel rejects is rejected here with a reason, the record's index and the
position of the bad field, and whatever passes here passes in both kernels (tests compare them).

The kernels are fast because they only check "is this record valid?". If it is not, they pass the
failing record on, so that the compiled kernel and its pure twin raise the very same errors, and
neither has to contain messages. Only the failing record is read again: a bad batch of a million
records costs no more than a good one.

Records and their headers must also stay within a number of objects. Two bytes on the wire make a
header, which has some seventy bytes in memory, and a few kilobytes decompress to millions of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, Protocol

from moldau.errors import CorruptRecord

if TYPE_CHECKING:
    from moldau.records.header import BatchHeader

# length, attributes, timestamp delta, offset delta, key length, value length, header count
RECORD_BYTES_MIN: Final = 7
HEADER_BYTES_MIN: Final = 2

DENSE: Final = 1
"""Rule: offset deltas are 0, 1, 2, ... (as produced); without it they only have to grow."""
KEYED: Final = 2
"""Rule: no key is null (a compacted topic)."""

OBJECT_BYTES: Final = 128
"""The estimated cost of a record or a header besides its content: about CPython's true sizes, with
keys and values as objects too. A limit in bytes, divided by this, is a number of objects."""
OBJECTS_MAX: Final = (128 << 20) // OBJECT_BYTES

_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1


class Bytes(Protocol):
    """The bytes of a section, or what reads them one by one, forward only."""

    def __len__(self) -> int: ...

    def __getitem__(self, position: int, /) -> int: ...


class KernelProgress(NamedTuple):
    """The progress of a kernel: it stopped before the record with this number."""

    record: int
    position: int
    previous: int  # offset delta
    room: int  # for headers, after all records of the batch were counted


class _Reader:
    """Reads the fields of record `index` and tracks its position."""

    def __init__(self, data: Bytes, reached: KernelProgress) -> None:
        self.data = data
        self.position = reached.position
        self.end = len(data)
        self.index = reached.record
        self.room = reached.room

    def fail(self, reason: str, at: int, **context: object) -> NoReturn:
        raise CorruptRecord(reason, record=self.index, at=at, **context)

    def varint(self, what: str, bits: int = 32) -> int:
        """Read a zig-zag varint of at most `bits` bits."""
        start, shift, value = self.position, 0, 0
        while True:
            if self.position >= self.end:
                self.fail(f"{what} is cut short", start)
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if value >> bits:
                self.fail(f"{what} has more than {bits} bits", start)
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
            if shift >= bits:
                self.fail(f"{what} has more than {bits} bits", start)

    def skip_bytes(self, what: str, *, nullable: bool) -> bool:
        """Skip a length and its bytes. Return True if the length means null."""
        start = self.position
        length = self.varint(f"{what} length")
        if length == -1 and nullable:
            return True
        if length < 0 or length > self.end - self.position:
            self.fail(f"{what} length is out of bounds", start, length=length)
        self.position += length
        return False

    def enter_record(self) -> None:
        """Read the record's length and limit the reader to the record."""
        start = self.position
        length = self.varint("record length")
        if length < RECORD_BYTES_MIN - 1 or length > self.end - self.position:
            self.fail("record length is out of bounds", start, length=length)
        self.end = self.position + length
        self.position += 1

    def skip_headers(self) -> None:
        start = self.position
        count = self.varint("header count")
        if count < 0 or count * HEADER_BYTES_MIN > self.end - self.position:
            self.fail("header count is out of bounds", start, count=count)
        if count > self.room:
            self.fail("more headers than the limit allows", start, count=count, room=self.room)
        self.room -= count
        for _ in range(count):
            self.skip_bytes("header key", nullable=False)
            self.skip_bytes("header value", nullable=True)


def check_objects(header: BatchHeader, objects_max: int) -> None:
    """Reject a record count that makes too many objects, before anything is decompressed."""
    if header.record_count > objects_max:
        raise CorruptRecord(
            "more records than the limit allows", count=header.record_count, objects_max=objects_max
        )


def check_count(size: int, header: BatchHeader, objects_max: int) -> int:
    """Reject a record count that `size` bytes cannot hold, before anything is allocated for it.
    Return how many headers are allowed beside the records."""
    if header.record_count < 0 or header.record_count * RECORD_BYTES_MIN > size:
        raise CorruptRecord(
            "record count is out of bounds", count=header.record_count, size_bytes=size
        )
    check_objects(header, objects_max)
    return objects_max - header.record_count


def check_record(
    data: Bytes, header: BatchHeader, reached: KernelProgress, rules: int
) -> KernelProgress:
    """Check the next record and return the progress behind it. Raise CorruptRecord if it is bad."""
    return check_timed(data, header, reached, rules)[1]


def check_timed(
    data: Bytes, header: BatchHeader, reached: KernelProgress, rules: int
) -> tuple[int, KernelProgress]:
    """Do the same, and return the record's timestamp as well."""
    index, _, previous, _ = reached
    reader = _Reader(data, reached)
    reader.enter_record()
    at = reader.position
    timestamp = header.base_timestamp + reader.varint("timestamp delta", 64)
    if not _INT64_MIN <= timestamp <= _INT64_MAX:
        reader.fail("timestamp is out of range", at)
    at = reader.position
    delta = reader.varint("offset delta")
    if delta <= previous or delta > header.last_offset_delta:
        reader.fail("offset delta is out of order", at, offset_delta=delta, previous=previous)
    if rules & DENSE and delta != index:
        reader.fail("offset delta is not the record's index", at, offset_delta=delta)
    if header.base_offset + delta > _INT64_MAX:
        reader.fail("offset is out of range", at)
    at = reader.position
    if reader.skip_bytes("key", nullable=True) and rules & KEYED:
        reader.fail("key is null where the topic needs one", at)
    reader.skip_bytes("value", nullable=True)
    reader.skip_headers()
    if reader.position != reader.end:
        reader.fail("record is longer than its fields", reader.position, end=reader.end)
    return timestamp, KernelProgress(index + 1, reader.end, delta, reader.room)


def explain(data: bytes, header: BatchHeader, reached: KernelProgress, rules: int) -> NoReturn:
    """Raise the error of the record before which a kernel stopped."""
    if reached.record == header.record_count:
        raise CorruptRecord(
            "bytes follow the last record", at=reached.position, size_bytes=len(data)
        )
    check_record(data, header, reached, rules)
    raise AssertionError(f"a kernel refused a good record: {reached}")
