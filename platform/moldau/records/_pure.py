"""The kernel in plain Python: used without the compiled `_speed`, and as its reference in tests.

Both have the same names, give the same bytes and records, and reject the same input with the same
errors. When a decoder here fails (a length that is out of bounds, a short buffer), it calls
`diagnosis.explain`, which raises the reason.

The code is shaped by speed: in CPython a call costs more than the work of a varint, so lengths up
to `_TABLE` come from a table, one-byte varints are read in line, and a batch is joined once at its
end.
"""

from __future__ import annotations

import struct
from array import array
from contextlib import suppress
from itertools import chain, islice, repeat
from itertools import count as count_from
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from moldau.errors import CorruptRecord
from moldau.records._hashing import java_string_hash as java_string_hash
from moldau.records._hashing import murmur2 as murmur2
from moldau.records._hashing import partition_for_key as partition_for_key
from moldau.records._plain import ConsumerRecord as ConsumerRecord
from moldau.records._plain import (
    Into,
    Record,
    decode_headers,
    plain_records,
    read_varint,
    skip_headers,
)
from moldau.records._plain import with_contents as with_contents
from moldau.records._produced import produced_batches as produced_batches
from moldau.records._spans import contents, ends_of, rows_of, sizes_of, spans_of
from moldau.records._spans import span_list as span_list
from moldau.records.checksum import crc32c
from moldau.records.codecs import (
    DECOMPRESSED_BYTES_MAX,
    USUAL_BYTES_MAX,
    Codec,
    OversizedRecords,
    codec_of,
    decompress,
)
from moldau.records.diagnosis import (
    DENSE,
    KEYED,
    OBJECTS_MAX,
    KernelProgress,
    check_count,
    check_timed,
    explain,
)
from moldau.records.header import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL,
    HEADER_BYTES,
    LAYOUT,
    LEADER_EPOCH_AT,
    LOG_APPEND_TIME,
    MAGIC,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    OVERHEAD_BYTES,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
)
from moldau.records.record import (
    BATCH_BYTES_MAX,
    ColumnBuffers,
    Columns,
    Entry,
    HeaderBuffers,
    Headers,
    Opened,
    OpenedColumns,
    Row,
    Spans,
    TimestampType,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

Fields: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int]

_INT32_MAX: Final = (1 << 31) - 1
_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1
_UNUSUAL: Final = CODEC_MASK | TRANSACTIONAL | CONTROL
_CODEC_MAX: Final = max(Codec)
_unpack_header: Final = LAYOUT.unpack_from
_put_offset: Final = struct.Struct(">q").pack_into
_put_epoch: Final = struct.Struct(">i").pack_into
_TABLE: Final = 1 << 13
_BLANK_HEADER: Final = bytes(HEADER_BYTES)


def varint(number: int) -> bytes:
    """Return the zig-zag varint of a signed number of up to 64 bits."""
    rest = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


_VARINTS: Final = [varint(number) for number in range(_TABLE)]
_NULL: Final = varint(-1)
_NO_HEADERS: Final[Headers] = ()
_NONE_FOLLOW: Final = varint(0)  # the count of no headers
_COMMON: Final = _TABLE - 32  # the sum of key and value sizes up to which the table is used
_STAMPS: Final = [b"\0" + encoded for encoded in _VARINTS]  # behind a record's attributes
_FRAMED: Final = [len(encoded) + number for number, encoded in enumerate(_VARINTS)]


def _length(number: int) -> bytes:
    return _VARINTS[number] if number < _TABLE else varint(number)


def _deltas(first: int) -> Iterator[bytes]:
    """Yield the encoded offset deltas from `first` on. `islice` would step over all earlier ones,
    for each record that is appended by itself."""
    table: Any = iter(_VARINTS)
    table.__setstate__(first)
    return chain(table, map(varint, count_from(max(first, _TABLE))))


def _nullable(what: str, content: bytes | None) -> tuple[bytes, bytes]:
    if content is None:
        return _NULL, b""
    if not isinstance(content, bytes):
        raise TypeError(f"{what} must be bytes or None, not {type(content).__name__}")
    return _length(len(content)), content


def _headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    if not isinstance(headers, (tuple, list)):
        raise TypeError(f"headers must be a tuple or a list, not {type(headers).__name__}")
    parts = [_length(len(headers))]
    for header in headers:
        if not isinstance(header, tuple) or len(header) != 2:
            raise TypeError("a header must be a tuple of its key and its value")
        key, value = header
        if not isinstance(key, str):
            raise TypeError(f"header key must be str, not {type(key).__name__}")
        name = key.encode()
        parts += (_length(len(name)), name, *_nullable("header value", value))
    return b"".join(parts)


def _check_row(row: object) -> None:
    if not isinstance(row, tuple) or len(row) != 4:
        raise TypeError("a row must be a tuple of timestamp, key, value and headers")


def _check_timestamp(timestamp: int) -> int:
    if not isinstance(timestamp, int):
        raise TypeError(f"timestamp must be int, not {type(timestamp).__name__}")
    if not _INT64_MIN <= timestamp <= _INT64_MAX:
        raise OverflowError("timestamp does not fit 64 bits")
    return timestamp


def _timestamp_delta(timestamp: int, base: int) -> bytes:
    delta = _check_timestamp(timestamp) - base
    if not _INT64_MIN <= delta <= _INT64_MAX:
        raise OverflowError("timestamp is too far from the first one of its batch")
    return varint(delta)


def _record(row: Row, delta: bytes, base: int) -> tuple[bytes, ...]:
    """Return any record in pieces, with every field checked."""
    timestamp, key, value, headers = row
    stamp = _timestamp_delta(timestamp, base)
    pieces = (b"\0", stamp, delta, *_nullable("key", key), *_nullable("value", value))
    tail = _NONE_FOLLOW if headers is _NO_HEADERS else _headers(headers)
    return _length(sum(map(len, pieces)) + len(tail)), *pieces, tail


class Slot:
    """One record of a batch that is being written: its batch, index and timestamp. `await` returns
    the outcome that the batch reports for this record."""

    __slots__ = ("batch", "index", "timestamp")

    def __init__(self, batch: Any, index: int, timestamp: int = -1) -> None:
        self.batch = batch
        self.index = index
        self.timestamp = timestamp

    @property
    def is_done(self) -> bool:
        """Whether the outcome of the record is known."""
        return bool(self.batch.is_done)

    def __await__(self) -> Generator[Any, None, Any]:
        outcome = self.batch.outcome(self.index, self.timestamp)
        waiting: Generator[Any, None, Any] = outcome.__await__()
        return waiting

    def __repr__(self) -> str:
        return f"<Slot {self.index} of {self.batch!r}>"


class Appender:
    """Records that are encoded one after another behind a blank header, up to a size limit."""

    def __init__(self, size_bytes_max: int = BATCH_BYTES_MAX) -> None:
        self.size_bytes_max = min(size_bytes_max, BATCH_BYTES_MAX)
        self.size_bytes = HEADER_BYTES
        self.count = 0
        self.base_timestamp = -1
        self.max_timestamp = -1
        self._near = 0  # how far from the base a timestamp is still looked up
        self._parts: list[bytes] | None = [_BLANK_HEADER]
        self._owner: Any = None
        self._clock_ns: Callable[[], int] | None = None
        self._wall_from_ns = 0

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> int | None:
        """Append a record; return its offset delta, or None if it does not fit. The first does."""
        delta = self.count
        return delta if self.extend(((timestamp, key, value, headers),)) else None

    def widen(self, more: int) -> None:
        """Increase the size limit by `more` bytes."""
        if more < 0:
            raise ValueError("more must not be negative")
        self.size_bytes_max += min(more, BATCH_BYTES_MAX - self.size_bytes_max)

    def open_for(self, owner: Any, clock_ns: Callable[[], int], wall_from_ns: int) -> None:
        """Let `place` return slots of `owner` with the time of this clock. The clock returns
        nanoseconds; with `wall_from_ns` added they are wall time."""
        self._owner, self._clock_ns, self._wall_from_ns = owner, clock_ns, wall_from_ns

    def place(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> Slot | None:
        """Append a record with the present time; return its slot, or None if it does not fit."""
        owner, clock_ns = self._owner, self._clock_ns
        if owner is None or clock_ns is None:
            raise ValueError("the records have been taken, or this was not opened")
        index = self.count
        stamp = (clock_ns() + self._wall_from_ns) // 1_000_000
        fits = self.extend(((stamp, key, value, headers),))
        return Slot(owner, index, stamp) if fits else None

    def extend_values(self, timestamp: int, values: Sequence[bytes | None], start: int = 0) -> int:
        """Append values without keys and headers, from `start` on; return how many fitted."""
        if self._parts is None:
            raise ValueError("the records have been taken")
        if not isinstance(values, (tuple, list)):
            raise TypeError(f"values must be a list or a tuple, not {type(values).__name__}")
        if start < 0:
            raise ValueError("start must not be negative")
        _check_timestamp(timestamp)
        count = self.count
        left = islice(values, start, None)
        self._write(((timestamp, None, value, _NO_HEADERS) for value in left), self._parts)
        return self.count - count

    def extend_spans(
        self, timestamp: int, values: Spans, keys: Spans | None = None, start: int = 0
    ) -> int:
        """Append values (and keys) of `Spans`, from `start` on; return how many fitted."""
        if self._parts is None:
            raise ValueError("the records have been taken")
        if start < 0:
            raise ValueError("start must not be negative")
        _check_timestamp(timestamp)
        if keys is not None and keys.length != values.length:
            raise ValueError("there are not as many keys as values")
        count = self.count
        of_values = contents(values, start)
        of_keys: Iterator[bytes | None] = repeat(None)
        if keys is not None:
            of_keys = contents(keys, start)
        pairs = zip(of_values, of_keys, strict=False)
        self._write(((timestamp, key, value, _NO_HEADERS) for value, key in pairs), self._parts)
        return self.count - count

    def extend_buffers(self, columns: ColumnBuffers, start: int = 0) -> int:
        """Append the records of the columns, except offsets, from `start` on; return how many
        fitted."""
        if self._parts is None:
            raise ValueError("the records have been taken")
        if start < 0:
            raise ValueError("start must not be negative")
        count = self.count
        self._write(rows_of(columns, start), self._parts)
        return self.count - count

    def extend(self, rows: Sequence[Row], start: int = 0) -> int:
        """Append rows (timestamp, key, value, headers), from `start` on; return how many fitted."""
        if self._parts is None:
            raise ValueError("the records have been taken")
        if not isinstance(rows, (tuple, list)):
            raise TypeError(f"rows must be a list or a tuple, not {type(rows).__name__}")
        if start < 0:
            raise ValueError("start must not be negative")
        count = self.count
        self._write(rows[start:] if start else rows, self._parts)
        return self.count - count

    def _write(self, rows: Iterable[Row], parts: list[bytes]) -> None:
        """Encode the rows until one does not fit. `finally` keeps the good rows before a bad one.

        The branch in the middle encodes the common record in line; `_record` encodes all others.
        """
        varints, stamps, framed, table = _VARINTS, _STAMPS, _FRAMED, _TABLE
        no_headers, put = _NO_HEADERS, parts.extend
        count, size, room = self.count, self.size_bytes, self.size_bytes_max
        base, newest, near = self.base_timestamp, self.max_timestamp, self._near
        try:
            for row, delta in zip(rows, _deltas(count), strict=False):
                if row.__class__ is not tuple:
                    _check_row(row)
                try:
                    timestamp, key, value, headers = row
                except ValueError:
                    _check_row(row)
                if not count:
                    base = newest = _check_timestamp(timestamp)
                    near = min(table, _INT64_MAX - base + 1)
                if (
                    value.__class__ is bytes
                    and (key is None or key.__class__ is bytes)
                    and headers is no_headers
                    and timestamp.__class__ is int
                    and 0 <= (apart := timestamp - base) < near
                    and len(key or b"") + (value_size := len(value)) < _COMMON
                ):
                    stamp = stamps[apart]
                    named = (_NULL,) if key is None else (varints[len(key)], key)
                    length = len(stamp) + len(delta) + 1 + framed[value_size]
                    length += 1 if key is None else framed[len(key)]
                    total = size + framed[length]
                    if total > room and count:
                        break
                    lead = varints[length], stamp, delta
                    put((*lead, *named, varints[value_size], value, _NONE_FOLLOW))
                else:
                    record = _record((timestamp, key, value, headers), delta, base)
                    total = size + sum(map(len, record))
                    if total > room and (count or total > BATCH_BYTES_MAX):
                        if not count:
                            raise ValueError("a record does not fit a batch of 2 GiB")
                        break
                    put(record)
                size = total
                count += 1
                if timestamp > newest:
                    newest = timestamp
        finally:
            self.count, self.size_bytes = count, size
            if count:
                self.base_timestamp, self.max_timestamp, self._near = base, newest, near

    def take(self) -> bytearray:
        """Return the written bytes, with 61 blank ones in front; this appender is then spent."""
        if self._parts is None:
            raise ValueError("the records have been taken")
        parts, self._parts = self._parts, None
        self._owner = self._clock_ns = None
        return bytearray().join(parts)


def _key_and_value(data: bytes, position: int) -> tuple[int, int, int, int, int]:
    """Return (key, key end, value, value end, headers) as positions; a null has -1 for both."""
    if (number := data[position]) < 0x80:
        length, key = number >> 1 ^ -(number & 1), position + 1
    else:
        length, key = read_varint(data, position, 32)
    if length >= 0:
        position = key_end = key + length
    elif length == -1:
        position, key, key_end = key, -1, -1
    else:
        raise ValueError
    if (number := data[position]) < 0x80:
        length, value = number >> 1 ^ -(number & 1), position + 1
    elif (second := data[position + 1]) < 0x80:
        number = number & 0x7F | second << 7
        length, value = number >> 1 ^ -(number & 1), position + 2
    else:
        length, value = read_varint(data, position, 32)
    if length >= 0:
        return key, key_end, value, value + length, value + length
    if length == -1:
        return key, key_end, -1, -1, value
    raise ValueError


def _walk(data: bytes, header: BatchHeader, objects_max: int, rules: int = 0) -> Iterator[Fields]:
    """Yield the fields of each record as positions in `data`, with every check that is possible.

    A position outside of the data ends in IndexError. One outside of the record leads to an end
    that is not the record's.
    """
    size, base = len(data), header.base_timestamp
    room = check_count(size, header, objects_max)
    last_delta = min(header.last_offset_delta, _INT64_MAX - header.base_offset)
    keyed, dense = rules & KEYED, rules & DENSE
    position, start, previous, index = 0, 0, -1, 0
    try:
        for index in range(header.record_count):
            start = position
            if (number := data[start]) < 0x80:
                length, position = number >> 1 ^ -(number & 1), start + 1
            elif (second := data[start + 1]) < 0x80:
                number = number & 0x7F | second << 7
                length, position = number >> 1 ^ -(number & 1), start + 2
            else:
                length, position = read_varint(data, start, 32)
            end = position + length
            if length < 6 or end > size:
                raise ValueError
            position += 1
            if (number := data[position]) < 0x80:
                timestamp, tail = number >> 1 ^ -(number & 1), position + 1
            else:
                timestamp, tail = read_varint(data, position, 64)
            if (number := data[tail]) < 0x80:
                delta, position = number >> 1 ^ -(number & 1), tail + 1
            elif (second := data[tail + 1]) < 0x80:
                number = number & 0x7F | second << 7
                delta, position = number >> 1 ^ -(number & 1), tail + 2
            else:
                delta, position = read_varint(data, tail, 32)
            timestamp += base
            if not previous < delta <= last_delta or not _INT64_MIN <= timestamp <= _INT64_MAX:
                raise ValueError
            key, key_end, value, value_end, headers = _key_and_value(data, position)
            count, headers_end = 0, headers + 1
            if data[headers]:
                count, headers_end = skip_headers(data, headers, end, room)
            if headers_end != end or (keyed and key < 0) or (dense and delta != index):
                raise ValueError
            previous, position = delta, end
            room -= count
            yield delta, timestamp, key, key_end, value, value_end, headers, start, tail, end
        if position != size:
            start, index = position, header.record_count
            raise ValueError
    except (ValueError, IndexError):
        explain(data, header, KernelProgress(index, start, previous, room), rules)


def _bytes(buffer: Buffer) -> bytes:
    return buffer if buffer.__class__ is bytes else bytes(memoryview(buffer))


def _careful_records(data: bytes, header: BatchHeader, objects_max: int, into: Into) -> list[Any]:
    base = header.base_offset
    return [
        tuple.__new__(
            into.kind,
            (
                base + delta,
                timestamp,
                data[key:key_end] if key >= 0 else None,
                data[value:value_end] if value >= 0 else None,
                decode_headers(data, headers) if data[headers] else (),
                *into.shared,
            ),
        )
        for delta, timestamp, key, key_end, value, value_end, headers, *_ in _walk(
            data, header, objects_max
        )
    ]


def decode(buffer: Buffer, header: BatchHeader, objects_max: int = OBJECTS_MAX) -> list[Any]:
    """Return the records of an uncompressed section; with headers, at most `objects_max`."""
    return _decode(buffer, header, objects_max, Record, ())


def decode_consumed(
    buffer: Buffer,
    header: BatchHeader,
    topic: str,
    partition: int,
    objects_max: int = OBJECTS_MAX,
) -> list[Any]:
    """Return the records as `decode` does, with their topic and partition."""
    kind = TimestampType(bool(header.attributes & LOG_APPEND_TIME))
    shared = (topic, partition, header.partition_leader_epoch, kind)
    return _decode(buffer, header, objects_max, ConsumerRecord, shared)


def _decode(
    buffer: Buffer,
    header: BatchHeader,
    objects_max: int,
    kind: type[tuple[Any, ...]],
    shared: tuple[Any, ...],
) -> list[Any]:
    data = _bytes(buffer)
    records = None
    with suppress(
        IndexError, ValueError, struct.error
    ):  # releases the records of the failed attempt
        records = plain_records(data, header, objects_max, Into(kind, shared, []))
    if records is None:
        records = _careful_records(data, header, objects_max, Into(kind, shared, []))
    if header.attributes & LOG_APPEND_TIME:
        stamp = header.max_timestamp
        records = [tuple.__new__(kind, (each[0], stamp, *each[2:])) for each in records]
    return records


def _follows(header: BatchHeader, last: BatchHeader) -> bool:
    return (
        header.base_offset >= last.next_offset
        and header.partition_leader_epoch == last.partition_leader_epoch
        and header.attributes == last.attributes
    )


def decode_usual(
    buffer: Buffer, position: int, wanted: int, check_crc: bool, topic: str, partition: int
) -> Opened | None:
    """Return the records of consecutive batches from `position` on: at least `wanted`, or fewer if
    another kind of batch comes first. That is a batch of another leader epoch, with other
    attributes, with offsets that were there already, or one that is compressed, transactional, a
    control batch, empty, cut short or damaged. Return None if the first batch is such a one."""
    view = memoryview(buffer)
    records: list[Any] = []  # our own `Record`, not the compiled one's
    last = None
    while len(records) < wanted and len(view) - position >= HEADER_BYTES:
        header = BatchHeader._make(_unpack_header(view, position))
        end = position + OVERHEAD_BYTES + header.batch_length
        if header.magic != MAGIC or not position + HEADER_BYTES <= end <= len(view):
            break
        if header.attributes & _UNUSUAL or header.record_count < 1:
            break
        if last is not None and not _follows(header, last):
            break
        if check_crc and crc32c(view[position + ATTRIBUTES_AT : end]) != header.crc:
            break
        if not 0 <= header.base_offset < _INT64_MAX - _INT32_MAX:
            break
        try:
            section = view[position + HEADER_BYTES : end]
            records += decode_consumed(section, header, topic, partition)
        except CorruptRecord:
            break
        last, position = header, end
    if last is None:
        return None
    epoch = last.partition_leader_epoch
    return Opened(records, position, last.next_offset, epoch, last.attributes)


class ColumnBuilder:
    """Builds columns from the records of batches, up to 2 GiB of keys, values or headers."""

    def __init__(self) -> None:
        self._records: list[Any] = []
        self._sizes = [0, 0, 0, 0]

    @property
    def count(self) -> int:
        """The number of records so far."""
        return len(self._records)

    def add(
        self,
        buffer: Buffer,
        header: BatchHeader,
        first_offset: int = 0,
        objects_max: int = OBJECTS_MAX,
    ) -> bool:
        """Add the records of an uncompressed section from `first_offset` on. Return False, and add
        nothing, if they do not fit. Raise the errors that `decode` would raise."""
        records = decode(buffer, header, objects_max)
        if header.base_offset < first_offset:
            records = [each for each in records if each.offset >= first_offset]
        if not records:
            return True
        added = map(sum, zip(*map(sizes_of, records), strict=True))
        sizes = [had + more for had, more in zip(self._sizes, added, strict=True)]
        if max(*sizes, self.count + len(records)) > _INT32_MAX:
            return False
        self._records += records
        self._sizes = sizes
        return True

    def add_usual(
        self,
        buffer: Buffer,
        position: int,
        wanted: int,
        first_offset: int,
        check_crc: bool,
        unusual: int,
    ) -> OpenedColumns | None:
        """Add the records from `first_offset` on of consecutive batches, from `position` on: at
        least `wanted`, or fewer if another kind of batch comes first. That is a batch of another
        leader epoch, with other attributes or one of `unusual`, or one that does not fit, is empty,
        cut short or damaged. Return None if the first batch is such a one."""
        view, before, last = memoryview(buffer), self.count, None
        while self.count - before < wanted:
            header = _usual_header(view, position, last, unusual)
            if header is None:
                break
            end = position + header.size_bytes
            if check_crc and crc32c(view[position + ATTRIBUTES_AT : end]) != header.crc:
                break
            try:
                section = decompress(codec_of(header.codec_id), view[position + HEADER_BYTES : end])
                if not self.add(section, header, first_offset):
                    break
            except CorruptRecord:
                break
            last, position = header, end
        if last is None:
            return None
        epoch, attributes = last.partition_leader_epoch, last.attributes
        return OpenedColumns(self.count - before, position, last.next_offset, epoch, attributes)

    def take(self) -> ColumnBuffers:
        """Return the columns; the builder is empty afterwards."""
        records, self._records = self._records, []
        self._sizes = [0, 0, 0, 0]
        headers = None
        if any(each.headers for each in records):
            flat = [header for each in records for header in each.headers]
            headers = HeaderBuffers(
                ends_of(len(each.headers) for each in records),
                spans_of([name.encode() for name, _ in flat]),
                spans_of([content for _, content in flat]),
            )
        return ColumnBuffers(
            len(records),
            bytearray(array("q", [each.offset for each in records]).tobytes()),
            bytearray(array("q", [each.timestamp for each in records]).tobytes()),
            spans_of([each.key for each in records]),
            spans_of([each.value for each in records]),
            headers,
        )


def _usual_header(
    view: memoryview, position: int, last: BatchHeader | None, unusual: int
) -> BatchHeader | None:
    """Return the header of the batch at `position`; None if unusual or not following `last`."""
    if len(view) - position < HEADER_BYTES:
        return None
    header = BatchHeader._make(_unpack_header(view, position))
    end = position + OVERHEAD_BYTES + header.batch_length
    if header.magic != MAGIC or not position + HEADER_BYTES <= end <= len(view):
        return None
    if header.attributes & unusual or not 1 <= header.record_count <= OBJECTS_MAX:
        return None
    if last is not None and not _follows(header, last):
        return None
    return header if 0 <= header.base_offset < _INT64_MAX - _INT32_MAX else None


def columns(buffer: Buffer, header: BatchHeader, objects_max: int = OBJECTS_MAX) -> Columns:
    """Return the records of an uncompressed section as parallel lists."""
    records = decode(buffer, header, objects_max)
    return (
        Columns(*map(list, zip(*records, strict=True))) if records else Columns([], [], [], [], [])
    )


def entries(buffer: Buffer, header: BatchHeader, objects_max: int = OBJECTS_MAX) -> list[Entry]:
    """Return the positions of each record, for compaction. Headers are counted, not created."""
    data, base = _bytes(buffer), header.base_offset
    stamp = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    return [
        Entry(
            base + delta,
            timestamp if stamp is None else stamp,
            data[key:key_end] if key >= 0 else None,
            value_end - value if value >= 0 else -1,
            start,
            tail,
            end,
        )
        for delta, timestamp, key, key_end, value, value_end, _, start, tail, end in _walk(
            data, header, objects_max
        )
    ]


def scan(
    buffer: Buffer, header: BatchHeader, rules: int, objects_max: int = OBJECTS_MAX
) -> tuple[int, int, int]:
    """Return (oldest timestamp, newest timestamp, offset delta of the newest) of the records; (-1,
    -1, -1) without records. Raise the errors that `decode` would raise."""
    oldest, newest, newest_delta = _INT64_MAX, _INT64_MIN - 1, -1
    for delta, timestamp, *_ in _walk(_bytes(buffer), header, objects_max, rules):
        if timestamp > newest:
            newest, newest_delta = timestamp, delta
        if timestamp < oldest:
            oldest = timestamp
    return (oldest, newest, newest_delta) if newest_delta >= 0 else (-1, -1, -1)


def scan_part(
    buffer: Buffer, header: BatchHeader, rules: int, reached: KernelProgress
) -> tuple[int, int, int, KernelProgress]:
    """Return what `scan` does of the whole records at the start of a part of a section, and the
    progress behind them. The part, and its positions, begin where the section was `reached`."""
    data = _bytes(buffer)
    oldest, newest, newest_delta = _INT64_MAX, _INT64_MIN - 1, -1
    reached = reached._replace(position=0)
    while reached.record < header.record_count and _is_whole(data, reached.position):
        timestamp, reached = check_timed(data, header, reached, rules)
        if timestamp > newest:
            newest, newest_delta = timestamp, reached.previous
        if timestamp < oldest:
            oldest = timestamp
    return oldest, newest, newest_delta, reached


def _is_whole(data: bytes, position: int) -> bool:
    """Whether a record ends within the data, or has a length that none has."""
    try:
        length, start = read_varint(data, position, 32)
    except IndexError:
        return False
    except ValueError:
        return True
    return length <= len(data) - start


def _is_usual_header(header: BatchHeader, size: int) -> bool:
    """Whether a header fits one batch of `size` bytes, and claims only what a producer may."""
    if header.batch_length != size - OVERHEAD_BYTES or header.magic != MAGIC or header.base_offset:
        return False
    producer_id, attributes = header.producer_id, header.attributes
    if attributes & ~(CODEC_MASK | TRANSACTIONAL) or attributes & CODEC_MASK > _CODEC_MAX:
        return False
    if attributes & TRANSACTIONAL and producer_id < 0:
        return False
    if producer_id != NO_PRODUCER_ID and (
        producer_id < 0 or header.producer_epoch < 0 or header.base_sequence < 0
    ):
        return False
    count = header.record_count
    return 1 <= count <= OBJECTS_MAX and header.last_offset_delta == count - 1


def admit_usual(
    buffer: Buffer,
    rules: int,
    timestamp_min: int,
    timestamp_max: int,
    base_offset: int,
    leader_epoch: int,
) -> tuple[int, int, int] | None:
    """Stamp the one batch that `buffer` is with its place in a log, if it passes every check of a
    produced batch. Return (last offset, greatest timestamp, producer id).

    Return None, and change nothing, if the batch needs a closer look. Raise OversizedRecords, and
    change nothing, if a compressed batch has more than USUAL_BYTES_MAX.
    """
    view = memoryview(buffer)
    if view.readonly or len(view) < HEADER_BYTES or base_offset > _INT64_MAX - _INT32_MAX:
        return None
    header = BatchHeader._make(_unpack_header(view))
    if not _is_usual_header(header, len(view)) or crc32c(view[ATTRIBUTES_AT:]) != header.crc:
        return None
    try:
        codec = codec_of(header.codec_id)
        limit = USUAL_BYTES_MAX if codec else DECOMPRESSED_BYTES_MAX
        section = decompress(codec, view[HEADER_BYTES:], limit)
        oldest, newest, _ = scan(section, header, rules | DENSE)
    except OversizedRecords:
        raise
    except CorruptRecord:
        return None
    if newest != header.max_timestamp or newest > timestamp_max:
        return None
    if oldest != NO_TIMESTAMP and oldest < max(timestamp_min, 0):
        return None
    _put_offset(view, 0, base_offset)
    _put_epoch(view, LEADER_EPOCH_AT, leader_epoch)
    return base_offset + header.last_offset_delta, newest, header.producer_id
