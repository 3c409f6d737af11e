"""Confluent's wire format: which schema some bytes were written with.

    0x00 | id of the schema, 4 bytes big-endian | [message indexes] | payload
    0x01 | GUID of the schema, 16 bytes         | [message indexes] | payload

The part before the payload may be in a header instead; then the data is only the payload. Message
indexes are protobuf's: zig-zag varints that begin with their count. The usual path, the one index
0, is written as a single 0.
"""

from __future__ import annotations

from typing import Final

from moldau.records.kernel import varint
from moldau.values.failures import DeserializationFailed

ID_SIZE: Final = 5
GUID_SIZE: Final = 17

_BY_ID: Final = 0
_BY_GUID: Final = 1
_INDEXES_MAX: Final = 64
_VARINT_BYTES_MAX: Final = 5
_FIRST: Final = (0,)

SchemaKey = int | str
"""The id of a schema, or its GUID as text."""


def frame(schema_id: int) -> bytes:
    """Return the prefix of a payload: the id of its schema."""
    return b"\x00" + schema_id.to_bytes(4, "big")


def unframe(data: bytes) -> tuple[SchemaKey, int]:
    """Return the schema's key, and the position after it."""
    if len(data) >= ID_SIZE and data[0] == _BY_ID:
        return int.from_bytes(data[1:ID_SIZE], "big"), ID_SIZE
    if len(data) >= GUID_SIZE and data[0] == _BY_GUID:
        return guid_text(data[1:GUID_SIZE]), GUID_SIZE
    raise DeserializationFailed(
        "it does not begin with a schema's id: was it written without a Schema Registry?",
        begins=data[:8].hex(" "),
        size_bytes=len(data),
    )


def guid_text(raw: bytes) -> str:
    """Return the GUID as the text that the registry uses."""
    text = raw.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def write_indexes(indexes: tuple[int, ...]) -> bytes:
    """Return the bytes of a path to a message in its file."""
    if indexes == _FIRST:
        return b"\x00"
    return b"".join(map(varint, (len(indexes), *indexes)))


def read_indexes(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Return the path, and the position after it. Raise DeserializationFailed for a bad path."""
    count, at = _read_varint(data, at)
    if count == 0:
        return _FIRST, at
    if not 0 < count <= _INDEXES_MAX:
        raise DeserializationFailed("its message indexes make no sense", count=count)
    indexes = []
    for _ in range(count):
        index, at = _read_varint(data, at)
        if index < 0:
            raise DeserializationFailed("its message indexes make no sense", index=index)
        indexes.append(index)
    return tuple(indexes), at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    for end in range(at, min(len(data), at + _VARINT_BYTES_MAX)):
        number |= (data[end] & 0x7F) << shift
        if data[end] < 0x80:
            return (number >> 1) ^ -(number & 1), end + 1
        shift += 7
    raise DeserializationFailed("its message indexes are cut short", size_bytes=len(data))
