"""Decodes plain records in plain Python: the records that nearly all batches consist of.

`plain_records` reads a section and rejects everything that is in doubt; then `_pure` looks closer.
Most sections have records with the same layout: no key, no headers, and the same number of bytes
for each field as in the record before. One call of `struct` unpacks such a record; a two-byte
varint is unpacked as one number, and a table has its meaning. Any other record is read field by
field. The first way takes four fifths of the time of the second.
"""

from __future__ import annotations

import struct
from itertools import product, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moldau.records.diagnosis import check_count
from moldau.records.record import TimestampType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from moldau.records.header import BatchHeader
    from moldau.records.record import Headers

_INT64_MAX: Final = (1 << 63) - 1
_DELTAS: Final = 1 << 20  # the limit of three bytes
_NO_KEY: Final = 1  # -1 as a varint
_FEW: Final = 8  # fewer are not worth the search for equal layouts
_MANY: Final = 64  # are read before the next search, if few had the same layout
# A varint's bytes as a little-endian sum with 7-bit steps: one byte 0..127, two bytes 128..16511.
_UNZIGZAG: Final = [number >> 1 ^ -(number & 1) for number in (*range(0x80), *range(0x80 << 7))]
_STAMPS: Final = 1 << 13  # timestamps are at most this far from the first one: two bytes
# In tables: not a valid varint of this many bytes, or not allowed there. It is so large that any
# offset, timestamp or length with it fails a check.
_NOTHING: Final = 1 << 40
_unpack_beginning: Final = struct.Struct("x5B").unpack_from  # the attributes are not used


class Record(NamedTuple):
    """One record; an immutable value. Its fields are the contract; that it is a tuple is not."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class _Fields(NamedTuple):
    """The fields of a `ConsumerRecord`, in the order of its constructor."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: Headers = ()
    leader_epoch: int = -1
    timestamp_type: int = TimestampType.NO_TIMESTAMP_TYPE


class ConsumerRecord(tuple[Any, ...]):
    """One record with its topic and partition; an immutable value. Its tuple begins like that of a
    `Record`; the fields that its batch shares are at the end."""

    __slots__ = ()

    def __new__(cls, *given: Any, **named: Any) -> ConsumerRecord:
        topic, partition, *record, leader_epoch, kind = _Fields(*given, **named)
        return tuple.__new__(cls, (*record, topic, partition, leader_epoch, TimestampType(kind)))

    offset = property(itemgetter(0))
    timestamp = property(itemgetter(1))
    key = property(itemgetter(2))
    value = property(itemgetter(3))
    headers = property(itemgetter(4))
    topic = property(itemgetter(5))
    partition = property(itemgetter(6))
    leader_epoch = property(itemgetter(7))
    timestamp_type = property(itemgetter(8))

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (*self[5:7], *self[:5], *self[7:])

    def __repr__(self) -> str:
        return repr(_Fields(*self.__getnewargs__())).replace("_Fields", "ConsumerRecord", 1)


def with_contents(records: list[Any], keys: list[Any], values: list[Any]) -> list[Any]:
    """Return the same records with other keys and values."""
    return [
        tuple.__new__(ConsumerRecord, (*each[:2], key, value, *each[4:]))
        for each, key, value in zip(records, keys, values, strict=True)
    ]


class Into(NamedTuple):
    """The target of decoded records: their class, the fields that they share, and the list."""

    kind: type[tuple[Any, ...]]
    shared: tuple[Any, ...]
    records: list[Any]


class Layout(NamedTuple):
    """The number of bytes of each field in records without key and headers. A table maps the bytes
    of a field, as one little-endian number, to its value."""

    unpack: Callable[[bytes, int], tuple[Any, ...]]  # length, timestamp, offset, key, value's size
    head: int  # bytes before the value
    around: int  # bytes that the length includes, without the value
    lengths: Sequence[int]
    stamps: Sequence[int]
    deltas: Sequence[int]
    sizes: Sequence[int]


def _one_byte(meanings: Sequence[int]) -> list[int]:
    return [*meanings[:0x80], *[_NOTHING] * 0x80]


def _two_bytes(meanings: Sequence[int]) -> list[int]:
    table = [_NOTHING] * (1 << 16)
    for high in range(0x80):
        first = (high << 8) + 0x80
        table[first : first + 0x80] = meanings[(high + 1) << 7 : (high + 2) << 7]
    return table


def _layouts() -> dict[tuple[int, int, int, int], Layout]:
    """Return the layouts by byte counts: of length, timestamp, offset and value size."""
    sizes = [_NOTHING if number & 1 else meant for number, meant in enumerate(_UNZIGZAG)]
    makers = {1: _one_byte, 2: _two_bytes}
    signed = {count: make(_UNZIGZAG) for count, make in makers.items()}
    counted = {count: make(sizes) for count, make in makers.items()}
    letters = {1: "B", 2: "H"}
    found = {}
    for length, stamp, delta, size in product((1, 2), repeat=4):
        fields = f"<{letters[length]}x{letters[stamp]}{letters[delta]}B{letters[size]}"
        layout = struct.Struct(fields)
        found[length, stamp, delta, size] = Layout(
            layout.unpack_from,
            layout.size,
            layout.size - length + 1,
            signed[length],
            signed[stamp],
            signed[delta],
            counted[size],
        )
    return found


_LAYOUTS: Final = _layouts()


def plain_records(data: bytes, header: BatchHeader, objects_max: int, into: Into) -> list[Any]:
    """Decode records whose varints all have one or two bytes, as nearly always. Offsets, which are
    large in large batches, may have three. Raise IndexError, ValueError or struct.error for
    anything in doubt. Intermediate tuples would cause garbage collections, so there are none."""
    room = check_count(len(data), header, objects_max)
    base = header.base_offset
    if not 0 <= header.base_timestamp < _INT64_MAX - _STAMPS or base > _INT64_MAX - _DELTAS:
        raise ValueError
    records = into.records
    count, position, at_once = header.record_count, 0, 1
    if count < _FEW:
        position, room = _take_any(data, position, count, room, header, into)
    while (before := len(records)) < count:
        position = _take_alike(data, position, count - before, header, into)
        # With records of many kinds, soon stop searching for equal layouts.
        at_once = 1 if len(records) - before >= _FEW else _MANY * at_once
        if some := min(at_once, count - len(records)):
            position, room = _take_any(data, position, some, room, header, into)
    if position != len(data) or (records and records[-1][0] - base > header.last_offset_delta):
        raise ValueError
    return records


def _layout_at(data: bytes, position: int) -> Layout | None:
    """Return the layout of the record at `position`; None if it has a key."""
    length = 2 if data[position] > 0x7F else 1
    stamp = 2 if data[position := position + length + 1] > 0x7F else 1
    delta = 2 if data[position := position + stamp] > 0x7F else 1
    if data[position := position + delta] != _NO_KEY:
        return None
    return _LAYOUTS[length, stamp, delta, 2 if data[position + 1] > 0x7F else 1]


def _take_alike(data: bytes, position: int, count: int, header: BatchHeader, into: Into) -> int:
    """Add up to `count` records whose fields have as many bytes as those of the first one, and that
    have neither key nor headers. Return the position of the next record."""
    layout = _layout_at(data, position)
    if layout is None:
        return position
    unpack, head, around, lengths, stamps, deltas, sizes = layout
    base, base_timestamp = header.base_offset, header.base_timestamp
    record, shared, records = into
    previous = records[-1][0] if records else base - 1
    new, put = tuple.__new__, records.append
    try:
        for _ in repeat(None, count):
            length, stamp, delta, key, size = unpack(data, position)
            stamp, offset, size = stamps[stamp], base + deltas[delta], sizes[size]
            if (
                key != _NO_KEY
                or lengths[length] - size != around
                or stamp == _NOTHING
                or offset <= previous
                or data[(end := position + head + size)]
            ):
                break
            value = data[position + head : end]
            put(new(record, (offset, base_timestamp + stamp, None, value, ()) + shared))
            position, previous = end + 1, offset
    except struct.error:  # the last record may be shorter than this head
        return position
    return position


def _take_any(
    data: bytes,
    position: int,
    count: int,
    room: int,
    header: BatchHeader,
    into: Into,
) -> tuple[int, int]:
    """Add `count` records; return (position of the next one, number of headers still allowed). A
    third byte leads beyond `_UNZIGZAG`, and a length that leaves the record ends at a wrong
    position. Five bytes behind the record's length are read at once, as many as the shortest record
    has behind its attributes. `number` is the first byte of the key's length, `after` the byte
    behind it."""
    base, base_timestamp, unzigzag = header.base_offset, header.base_timestamp, _UNZIGZAG
    two_bytes, beginning = len(unzigzag), _unpack_beginning
    (record, shared, records), new = into, tuple.__new__
    put, previous = records.append, records[-1][0] - base if records else -1
    for _ in repeat(None, count):
        if (number := data[position]) > 0x7F:
            position += 1
            number += data[position] << 7
        position += 1
        end = position + unzigzag[number]
        stamp, first, second, number, after = beginning(data, position)
        if stamp > 0x7F:
            position += 1
            stamp += first << 7
            first, second, number, after = second, number, after, data[position + 5]
        if first < 0x80:
            delta, number, after = unzigzag[first], second, number
            position += 4
        elif (first := first + (second << 7)) < two_bytes:
            delta = unzigzag[first]
            position += 5
        else:
            delta = _long_delta(first, number)
            number, after = after, data[position + 6]
            position += 6
        if delta <= previous:
            raise ValueError
        previous = delta
        key = value = None
        if number != _NO_KEY:
            if number > 0x7F:
                number += after << 7
                position += 1
            if (length := unzigzag[number]) < 0:
                raise ValueError
            key = data[position : (position := position + length)]
            after = data[position]
        position += 1
        if after > 0x7F:
            after += data[position] << 7
            position += 1
        if (length := unzigzag[after]) >= 0:
            value = data[position : (position := position + length)]
        elif length != -1:
            raise ValueError
        headers: Headers = ()
        if data[position]:
            more, stop = skip_headers(data, position, end, room)
            headers, position = decode_headers(data, position), stop
            room -= more
        else:
            position += 1
        if position != end:
            raise ValueError
        stamp = base_timestamp + unzigzag[stamp]
        put(new(record, (base + delta, stamp, key, value, headers) + shared))
    return position, room


def _long_delta(number: int, third: int) -> int:
    """Return the delta of a three-byte varint; `number` is the sum of the first two bytes, as
    added. A negative delta raises ValueError."""
    if third > 0x7F or number & 1:
        raise ValueError
    return (number - 0x80 - (0x80 << 7) + (third << 14)) >> 1


def read_varint(data: bytes, position: int, bits: int) -> tuple[int, int]:
    """Return a varint of any length, and its end. Raise ValueError if there is none."""
    shift = value = 0
    while shift < bits:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> bits:
                break
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    raise ValueError


def skip_headers(data: bytes, position: int, end: int, room: int) -> tuple[int, int]:
    """Return the number of headers and their end. Raise ValueError for bad or too many ones."""
    count, position = read_varint(data, position, 32)
    if count < 0 or count * 2 > end - position or count > room:
        raise ValueError
    for _ in range(count):
        length, position = read_varint(data, position, 32)
        if not 0 <= length <= end - position:
            raise ValueError
        length, position = read_varint(data, position + length, 32)
        if not -1 <= length <= end - position:
            raise ValueError
        if length > 0:
            position += length
    return count, position


def decode_headers(data: bytes, position: int) -> Headers:
    """Return headers that `skip_headers` has checked. As in Java, invalid UTF-8 is replaced."""
    count, position = read_varint(data, position, 32)
    headers = []
    for _ in range(count):
        length, start = read_varint(data, position, 32)
        key = data[start : start + length].decode("utf-8", "replace")
        length, start = read_varint(data, start + length, 32)
        position = start if length < 0 else start + length
        headers.append((key, None if length < 0 else data[start:position]))
    return tuple(headers)
