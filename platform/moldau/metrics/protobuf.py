"""Protobuf's wire format, as much as OTLP uses of it: fields in, fields out. No IO.

Invariant: reading checks every length against what remains, so bytes from a client cost at most
time in proportion to their number. Groups, which protobuf has given up, are refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, TypeAlias

from moldau.errors import MalformedMessage
from moldau.protocol.wire import varint_bytes

Value: TypeAlias = int | bytes
"""A varint as int; a fixed64, a fixed32 or a length-delimited field as its bytes."""

_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2
_FIXED32: Final = 5
_VARINT_BYTES: Final = 10
_FIXED: Final = {_FIXED64: 8, _FIXED32: 4}
_DOUBLE: Final = struct.Struct("<d")
_SIGNED: Final = struct.Struct("<q")


def message(number: int, body: bytes) -> bytes:
    """Return a field with a length: a message, text as UTF-8, or packed numbers."""
    return varint_bytes(number << 3 | _BYTES) + varint_bytes(len(body)) + body


def text(number: int, value: str) -> bytes:
    """Return a string field."""
    return message(number, value.encode())


def unsigned(number: int, value: int) -> bytes:
    """Return a varint field: an enum or a bool."""
    return varint_bytes(number << 3 | _VARINT) + varint_bytes(value)


def signed64(number: int, value: int) -> bytes:
    """Return a field of eight bytes: sfixed64, or fixed64 of a number below 2**63."""
    return varint_bytes(number << 3 | _FIXED64) + _SIGNED.pack(value)


def double(number: int, value: float) -> bytes:
    """Return a double field."""
    return varint_bytes(number << 3 | _FIXED64) + _DOUBLE.pack(value)


def fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """Yield number and value of each field. Raise MalformedMessage."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _read_varint(data, position)
        kind, number = tag & 7, tag >> 3
        if number == 0:
            raise MalformedMessage("a protobuf field has the number 0")
        if kind == _VARINT:
            value, position = _read_varint(data, position)
            yield number, value
            continue
        if kind == _BYTES:
            size, position = _read_varint(data, position)
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise MalformedMessage(f"protobuf has no wire type {kind}")
        if size > end - position:
            raise MalformedMessage("a protobuf field is longer than its message")
        yield number, data[position : position + size]
        position += size


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    for index in range(position, min(len(data), position + _VARINT_BYTES)):
        byte = data[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, index + 1
        shift += 7
    raise MalformedMessage("a protobuf number does not end")


def as_double(value: Value) -> float:
    """Return the number in the eight bytes of a double field."""
    return float(_DOUBLE.unpack(_eight(value))[0])


def as_signed64(value: Value) -> int:
    """Return the number in the eight bytes of an sfixed64 field."""
    return int(_SIGNED.unpack(_eight(value))[0])


def as_bytes(value: Value) -> bytes:
    """Return the content of a field with a length."""
    if isinstance(value, int):
        raise MalformedMessage("a protobuf field has a number where bytes are due")
    return value


def as_int(value: Value) -> int:
    """Return a varint."""
    if not isinstance(value, int):
        raise MalformedMessage("a protobuf field has bytes where a number is due")
    return value


def as_text(value: Value) -> str:
    """Return the content of a string field."""
    try:
        return as_bytes(value).decode()
    except UnicodeDecodeError as error:
        raise MalformedMessage("a protobuf string is not UTF-8") from error


def _eight(value: Value) -> bytes:
    found = as_bytes(value)
    if len(found) != _SIGNED.size:
        raise MalformedMessage("a protobuf number does not have eight bytes")
    return found
