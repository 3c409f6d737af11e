"""Scans the records of a compressed batch part by part.

A few kilobytes may decompress to a hundred megabytes. Here they are decompressed in parts, of which
each is scanned and forgotten: the memory is that of two parts, whatever the batch claims, and no
call holds the interpreter for longer than one part takes. It is made for a thread: codecs release
the interpreter, and between two parts others run.

Invariant: a batch passes here exactly if `Batch.scan` passes it, with the same times. Only a limit
for single records is checked here alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from moldau.errors import CorruptRecord
from moldau.records import kernel
from moldau.records.batch import Batch
from moldau.records.codecs import (
    DECOMPRESSED_BYTES_MAX,
    RECORD_BYTES_MAX,
    Codec,
    LargeRecord,
    decompressed_parts,
)
from moldau.records.diagnosis import (
    OBJECT_BYTES,
    OBJECTS_MAX,
    KernelProgress,
    check_objects,
    check_timed,
)
from moldau.records.header import HEADER_BYTES, BatchHeader, Buffer
from moldau.records.record import Entry

SCANNED_BYTES: Final = 256 << 10
"""The bytes of one call of the kernel, which takes less than a millisecond."""
PART_RECORDS: Final = 4096
"""How many records one call of the kernel reads: a few milliseconds."""
_PART_BYTES: Final = 28 << 10
"""No more records than that are in so many bytes: the smallest one has 7 bytes."""
_ENDLESS: Final = 1 << 62
_LENGTH_BYTES_MAX: Final = 5
_NO_TIMES: Final = (-1, -1, -1)


class Part(NamedTuple):
    """Whole records of a batch: their bytes, and the header of the batch with their count."""

    data: Buffer
    header: BatchHeader


def whole_parts(batch: Batch, limit: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Part]:
    """Yield the records of a batch in parts of at most PART_RECORDS, or one that is larger. Raise
    CorruptRecord where the batch is bad, like `Batch.entries`. A batch of few records is one part,
    decompressed at once."""
    header = batch.header
    check_objects(header, limit // OBJECT_BYTES)
    if header.record_count <= PART_RECORDS:
        yield Part(batch.section(limit), header)
        return
    source = _source_of(batch, limit)
    reached = KernelProgress(0, 0, -1, limit // OBJECT_BYTES - header.record_count)
    while reached.record < header.record_count:
        start = reached.position
        data, behind = _next_whole(source, header, reached)
        part = header._replace(record_count=behind.record - reached.record)
        yield Part(data[: behind.position], part)
        reached = behind._replace(position=start + behind.position)
    if source.at(reached.position):
        raise CorruptRecord("bytes follow the last record", at=reached.position)


def entries_by_part(
    batch: Batch,
    limit: int = DECOMPRESSED_BYTES_MAX,
    record_bytes_max: int = RECORD_BYTES_MAX,
) -> Iterator[tuple[Buffer, list[Entry]]]:
    """Yield the bytes of each of `whole_parts`, and its records with their positions there. Raise
    LargeRecord if one of a compressed batch is larger than `record_bytes_max`."""
    record_bytes_max = _limit_of_records(batch, record_bytes_max)
    for data, header in whole_parts(batch, limit):
        entries = kernel.entries(data, header, OBJECTS_MAX)
        if len(data) > record_bytes_max:
            for entry in entries:
                _check_size(entry.end - entry.start, record_bytes_max, entry.offset)
        yield data, entries


def _next_whole(
    source: _Source, header: BatchHeader, reached: KernelProgress
) -> tuple[memoryview, KernelProgress]:
    """Return the next bytes, and the point behind the records that are whole in them: one record
    at least. Its position counts from these bytes."""
    start, size = reached.position, _PART_BYTES
    while True:
        data = source.at(start, size)[:size]
        *_, behind = kernel.scan_part(data, header, 0, reached._replace(position=0))
        if behind.record > reached.record:
            return data, behind
        if len(data) < size:
            raise CorruptRecord("record is cut short", record=reached.record, at=start)
        size *= 4


def scan_in_parts(
    batch: Batch,
    rules: int,
    limit: int = DECOMPRESSED_BYTES_MAX,
    record_bytes_max: int = RECORD_BYTES_MAX,
) -> tuple[int, int, int]:
    """Return what `Batch.scan` returns. Raise CorruptRecord for what it refuses, and LargeRecord
    if a record of a compressed batch is larger than `record_bytes_max`."""
    record_bytes_max = _limit_of_records(batch, record_bytes_max)
    header = batch.header
    objects_max = limit // OBJECT_BYTES
    if header.record_count < 0:
        raise CorruptRecord("record count is out of bounds", count=header.record_count)
    check_objects(header, objects_max)
    if header.record_count == 0 and len(batch.data) == HEADER_BYTES:
        return _NO_TIMES
    source = _source_of(batch, limit)
    reached = KernelProgress(0, 0, -1, objects_max - header.record_count)
    oldest, newest, newest_delta = _NO_TIMES
    while reached.record < header.record_count:
        data = source.at(reached.position)
        first, last, delta, behind = _scan_next(source, header, rules, reached)
        size = behind.position - reached.position
        if size > record_bytes_max:
            for entry in _entries_between(data, header, reached, behind, first):
                _check_size(entry.end - entry.start or size, record_bytes_max, entry.offset)
        if newest_delta < 0 or last > newest:
            newest, newest_delta = last, delta
        if reached.record == 0 or first < oldest:
            oldest = first
        reached = behind
    if source.at(reached.position):
        raise CorruptRecord("bytes follow the last record", at=reached.position)
    return oldest, newest, newest_delta


def first_since(
    batch: Batch,
    timestamp: int,
    start_offset: int,
    limit: int = DECOMPRESSED_BYTES_MAX,
    record_bytes_max: int = RECORD_BYTES_MAX,
) -> Entry | None:
    """Return the first record from an offset on that has this timestamp or a later one; None if
    there is none. Parts without it are scanned, and only one is read record by record. Raise
    LargeRecord if one of a compressed batch, up to there, is larger than `record_bytes_max`."""
    record_bytes_max = _limit_of_records(batch, record_bytes_max)
    header = batch.header
    source = _source_of(batch, limit)
    reached = KernelProgress(0, 0, -1, OBJECTS_MAX - header.record_count)
    while reached.record < header.record_count:
        data = source.at(reached.position)
        _, newest, _, behind = _scan_next(source, header, 0, reached)
        if header.is_log_append_time:
            newest = header.max_timestamp
        may_be_here = newest >= timestamp and header.base_offset + behind.previous >= start_offset
        size = behind.position - reached.position
        if may_be_here or size > record_bytes_max:
            for entry in _entries_between(data, header, reached, behind, newest):
                if size > record_bytes_max:
                    _check_size(entry.end - entry.start or size, record_bytes_max, entry.offset)
                if entry.timestamp >= timestamp and entry.offset >= start_offset:
                    return entry
        reached = behind
    return None


def _limit_of_records(batch: Batch, record_bytes_max: int) -> int:
    """Return how large a record of the batch may be: without compression, as large as it is."""
    return RECORD_BYTES_MAX if batch.codec is Codec.NONE else record_bytes_max


def _check_size(size_bytes: int, record_bytes_max: int, offset: int) -> None:
    """Raise LargeRecord if a record with its length is larger than one without may be."""
    body_bytes = size_bytes
    for length_bytes in range(1, _LENGTH_BYTES_MAX + 1):
        body_bytes = size_bytes - length_bytes
        if (body_bytes << 1) >> (7 * length_bytes) == 0:
            break
    if body_bytes > record_bytes_max:
        raise LargeRecord(
            "a compressed record is larger than max.decompressed.message.bytes",
            size_bytes=body_bytes,
            limit=record_bytes_max,
            offset=offset,
        )


def entries_in_parts(
    batch: Batch,
    limit: int = DECOMPRESSED_BYTES_MAX,
    record_bytes_max: int = RECORD_BYTES_MAX,
) -> Iterator[Entry]:
    """Yield what `Batch.entries` returns, but the positions are those in parts of the section, and
    a record that is larger than a part has none. Raise CorruptRecord where a bad record is
    reached, and LargeRecord as `first_since` does."""
    record_bytes_max = _limit_of_records(batch, record_bytes_max)
    header = batch.header
    source = _source_of(batch, limit)
    reached = KernelProgress(0, 0, -1, limit // OBJECT_BYTES - header.record_count)
    while reached.record < header.record_count:
        data = source.at(reached.position)
        times = _scan_next(source, header, 0, reached)
        behind = times[-1]
        size = behind.position - reached.position
        for entry in _entries_between(data, header, reached, behind, times[0]):
            if size > record_bytes_max:
                _check_size(entry.end - entry.start or size, record_bytes_max, entry.offset)
            yield entry
        reached = behind


def _entries_between(
    data: memoryview,
    header: BatchHeader,
    reached: KernelProgress,
    behind: KernelProgress,
    timestamp: int,
) -> Iterable[Entry]:
    """Return the records between two points. `timestamp` is that of one which is larger than the
    `data` at the first of them: of that one no more is known."""
    size = behind.position - reached.position
    if size <= len(data):
        part = header._replace(record_count=behind.record - reached.record)
        return kernel.entries(data[:size], part, OBJECTS_MAX)
    return (Entry(header.base_offset + behind.previous, timestamp, b"", 0, 0, 0, 0),)


def _source_of(batch: Batch, limit: int) -> _Source:
    return _Source(decompressed_parts(batch.codec, batch.data[HEADER_BYTES:], limit))


def _scan_next(
    source: _Source, header: BatchHeader, rules: int, reached: KernelProgress
) -> tuple[int, int, int, KernelProgress]:
    """Scan the records that are whole in the next bytes, or one that is larger than they are."""
    start = reached.position
    try:
        oldest, newest, delta, behind = kernel.scan_part(
            source.at(start), header, rules, reached._replace(position=0)
        )
    except CorruptRecord as error:
        if "at" in error.context:
            error.context["at"] += start
        raise
    if behind.record > reached.record:
        return oldest, newest, delta, behind._replace(position=start + behind.position)
    try:
        timestamp, behind = check_timed(source, header, reached, rules)
    except IndexError:
        raise CorruptRecord("record is cut short", record=reached.record, at=start) from None
    return timestamp, timestamp, behind.previous, behind


class _Source:
    """The decompressed bytes, of which a part is in memory. It is read forward only."""

    def __init__(self, parts: Iterator[Buffer]) -> None:
        self._parts = parts
        self._start = 0
        self._data = memoryview(b"")
        self._is_ended = False

    def __len__(self) -> int:
        return self._start + len(self._data) if self._is_ended else _ENDLESS

    def __getitem__(self, position: int) -> int:
        """Return one byte. Raise IndexError behind the last one."""
        assert position >= self._start, "it is read forward only"
        while position >= self._start + len(self._data):
            if not self._read_on():
                raise IndexError(position)
        return self._data[position - self._start]

    def at(self, position: int, size: int = SCANNED_BYTES) -> memoryview:
        """Return the next bytes, at least `size` if there are so many, and not many more."""
        while position >= self._start + len(self._data):
            if not self._read_on():
                return memoryview(b"")
        kept = self._data[position - self._start :]
        if len(kept) < size:
            self._start = position
            joined = bytearray(kept)
            while len(joined) < size and (part := self._next_part()) is not None:
                joined += part
            self._data = kept = memoryview(joined)
        return kept[: max(size, SCANNED_BYTES)]

    def _read_on(self) -> bool:
        """Forget the part in memory, and read the next one. Return False behind the last one."""
        part = self._next_part()
        if part is None:
            return False
        self._start += len(self._data)
        self._data = memoryview(part)
        return True

    def _next_part(self) -> Buffer | None:
        part = next(self._parts, None)
        self._is_ended = part is None
        return part
