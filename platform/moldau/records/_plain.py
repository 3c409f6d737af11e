"""Plain records, read in plain Python: those that nearly all batches are made of.

`plain_records` goes through a section and knows no mercy: whatever is in doubt it refuses, and
`_pure` looks closer. Most sections have records that are laid out alike: no key, no headers, and
each field as many bytes long as in the record before. Those are unpacked by one call of `struct`,
two bytes of a varint as one number that a table tells the meaning of; any other record is read
field by field. The first way takes four fifths of the time of the second.
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
_DELTAS: Final = 1 << 20  # what three bytes can tell
_NO_KEY: Final = 1  # -1 as a varint
_FEW: Final = 8  # are not worth looking for
_MANY: Final = 64  # are read before the next look, if few were alike
# A varint's bytes as a little-endian sum with 7-bit steps: one byte 0..127, two bytes 128..16511.
_UNZIGZAG: Final = [number >> 1 ^ -(number & 1) for number in (*range(0x80), *range(0x80 << 7))]
_STAMPS: Final = 1 << 13  # no timestamp is further from the first than two bytes can tell
# In tables: no varint of so many bytes, or none that may stand there. An offset that is so far from
# the first one, a timestamp or a length is found out.
_NOTHING: Final = 1 << 40
_unpack_beginning: Final = struct.Struct("x5B").unpack_from  # the attributes mean nothing


class Record(NamedTuple):
    """One record; a value, never changed. Its fields are the contract, being a tuple is not."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class _Fields(NamedTuple):
    """What a `ConsumerRecord` is made of, in the order in which it is given."""

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
    """One record, and where it is; a value, never changed. It lies as a `Record` does, with what
    its batch shares at the end."""

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
    """The same records with other keys and values."""
    return [
        tuple.__new__(ConsumerRecord, (*each[:2], key, value, *each[4:]))
        for each, key, value in zip(records, keys, values, strict=True)
    ]


class Into(NamedTuple):
    """Where decoded records go: of which class they are, and what they share."""

    kind: type[tuple[Any, ...]]
    shared: tuple[Any, ...]
    records: list[Any]


class Layout(NamedTuple):
    """How many bytes each field has in records without key and headers. The tables tell what the
    bytes of a field mean, taken as one little-endian number."""

    unpack: Callable[[bytes, int], tuple[Any, ...]]  # length, timestamp, offset, key, value's size
    head: int  # bytes before the value
    around: int  # bytes of what the length counts that are not the value's
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
    """By the bytes of the record's length, of timestamp, offset and the value's size."""
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
    """The records where all varints have one or two bytes, as nearly always; offsets, of which a
    large batch has many, may have three. Refuses whatever is in doubt with IndexError, ValueError
    or struct.error. Tuples that lie in between would cost collections of garbage."""
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
        # Where they are of many kinds, looking for those that are alike is soon given up.
        at_once = 1 if len(records) - before >= _FEW else _MANY * at_once
        if some := min(at_once, count - len(records)):
            position, room = _take_any(data, position, some, room, header, into)
    if position != len(data) or (records and records[-1][0] - base > header.last_offset_delta):
        raise ValueError
    return records


def _layout_at(data: bytes, position: int) -> Layout | None:
    """That of the record there; None if it has a key."""
    length = 2 if data[position] > 0x7F else 1
    stamp = 2 if data[position := position + length + 1] > 0x7F else 1
    delta = 2 if data[position := position + stamp] > 0x7F else 1
    if data[position := position + delta] != _NO_KEY:
        return None
    return _LAYOUTS[length, stamp, delta, 2 if data[position + 1] > 0x7F else 1]


def _take_alike(data: bytes, position: int, count: int, header: BatchHeader, into: Into) -> int:
    """Add those, at most so many, whose fields have as many bytes as those of the first one, and
    that have neither key nor headers; where the next record begins."""
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
    except struct.error:  # the last record may be shorter than such a head
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
    """Add so many records; (where the next one begins, room for how many headers more).

    A third byte leads behind the end of `_UNZIGZAG`, and a length that leads out of the record ends
    elsewhere. Of what stands behind a record's length five bytes are read at once, as many as the
    shortest has behind its attributes. `number` begins the key's length, `after` comes next."""
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
    """Of the first two bytes, which were added as they are, and the last one; none is negative."""
    if third > 0x7F or number & 1:
        raise ValueError
    return (number - 0x80 - (0x80 << 7) + (third << 14)) >> 1


def read_varint(data: bytes, position: int, bits: int) -> tuple[int, int]:
    """A varint of any length, and where it ends; ValueError where there is none."""
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
    """(how many headers, where they end); ValueError where one is not inside, or too many are."""
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
    """Headers that `skip_headers` has stepped over; as in Java, what is not UTF-8 is replaced."""
    count, position = read_varint(data, position, 32)
    headers = []
    for _ in range(count):
        length, start = read_varint(data, position, 32)
        key = data[start : start + length].decode("utf-8", "replace")
        length, start = read_varint(data, start + length, 32)
        position = start if length < 0 else start + length
        headers.append((key, None if length < 0 else data[start:position]))
    return tuple(headers)
