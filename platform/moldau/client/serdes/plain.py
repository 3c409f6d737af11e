"""Serdes of single values, with the same bytes as Java's classes of the same names.

Numbers are big-endian and of a fixed size, a UUID is its text, a boolean one byte. One point is
stricter than in Java: text that its encoding does not have is an error and not a question mark,
because a silent change loses data.

Invariant: a deserializer returns what its serializer wrote, except that a `float` is rounded to its
4 bytes. A value of another type or out of range is rejected and never converted.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from moldau.client.serdes.contract import Place
from moldau.client.serdes.remade import Remade
from moldau.values.failures import DeserializationFailed, SerializationFailed

if TYPE_CHECKING:
    from uuid import UUID


class BytesSerializer:
    """Returns bytes unchanged; bytearray and memoryview are copied."""

    def __call__(self, value: bytes | bytearray | memoryview, place: Place, /) -> bytes:
        given: object = value
        if type(given) is bytes:
            return given
        if isinstance(given, bytes | bytearray | memoryview):
            return bytes(given)
        raise SerializationFailed("bytes were expected")

    def many(self, values: Sequence[Any], place: Place, /) -> list[bytes | None]:
        """Serialize all values; None stays None."""
        return [None if value is None else self(value, place) for value in values]


class BytesDeserializer:
    """Returns bytes unchanged."""

    def __call__(self, data: bytes, place: Place, /) -> bytes:
        return data

    def many(self, data: Sequence[bytes | None], place: Place, /) -> list[bytes | None]:
        """Return all values unchanged."""
        return list(data)


class StringSerializer:
    """Writes text in an encoding, by default UTF-8."""

    def __init__(self, encoding: str = "UTF-8") -> None:
        self._encoding = _known(encoding)

    def __call__(self, value: str, place: Place, /) -> bytes:
        given: object = value
        if not isinstance(given, str):
            raise SerializationFailed("text was expected")
        return given.encode(self._encoding)

    def many(self, values: Sequence[Any], place: Place, /) -> list[bytes | None]:
        """Serialize all values; None stays None."""
        return [None if value is None else self(value, place) for value in values]


class StringDeserializer:
    """Reads text of an encoding, by default UTF-8."""

    def __init__(self, encoding: str = "UTF-8") -> None:
        self._encoding = _known(encoding)

    def __call__(self, data: bytes, place: Place, /) -> str:
        return data.decode(self._encoding)

    def many(self, data: Sequence[bytes | None], place: Place, /) -> list[str | None]:
        """Deserialize all values; None stays None."""
        encoding = self._encoding
        return [None if each is None else each.decode(encoding) for each in data]


def _known(encoding: str) -> str:
    try:
        "".encode(encoding)
    except LookupError:
        raise ValueError(f"no such encoding: {encoding}") from None
    return encoding


class NumberSerializer(Remade):
    """Writes a number of a fixed size, big-endian: `short`, `int`, `long`, `float`, `double`."""

    def __init__(self, kind: str) -> None:
        layout, self._types = _NUMBERS[kind]
        self._kind = kind
        self._struct = struct.Struct(layout)
        self._rounds = float in self._types

    def __call__(self, value: float, place: Place, /) -> bytes:
        if type(value) not in self._types:
            raise SerializationFailed(f"a number of the kind {self._kind} was expected")
        try:
            data = self._struct.pack(value)
        except (struct.error, OverflowError):
            raise SerializationFailed(f"out of range for {self._kind}", value=value) from None
        if self._rounds and type(value) is int and self._struct.unpack(data)[0] != value:
            raise SerializationFailed(f"{self._kind} cannot hold it exactly", value=value)
        return data


class NumberDeserializer(Remade):
    """Reads a number that `NumberSerializer` wrote."""

    def __init__(self, kind: str) -> None:
        layout, _ = _NUMBERS[kind]
        self._kind = kind
        self._unpack = struct.Struct(layout).unpack

    def __call__(self, data: bytes, place: Place, /) -> int | float:
        try:
            (value,) = self._unpack(data)
        except struct.error:
            raise DeserializationFailed(
                f"no {self._kind}: its size", size_bytes=len(data)
            ) from None
        number: int | float = value
        return number


_NUMBERS: Final[dict[str, tuple[str, tuple[type, ...]]]] = {
    "short": (">h", (int,)),
    "int": (">i", (int,)),
    "long": (">q", (int,)),
    "float": (">f", (float, int)),
    "double": (">d", (float, int)),
}


class BooleanSerializer:
    """Writes a boolean as one byte, 0 or 1."""

    def __call__(self, value: bool, place: Place, /) -> bytes:
        given: object = value
        if given is True:
            return b"\x01"
        if given is False:
            return b"\x00"
        raise SerializationFailed("True or False was expected")


class BooleanDeserializer:
    """Reads a boolean from one byte, 0 or 1."""

    def __call__(self, data: bytes, place: Place, /) -> bool:
        if data not in (b"\x00", b"\x01"):
            raise DeserializationFailed("no boolean: it is not the byte 0 or 1", data=data[:20])
        return data == b"\x01"


class UuidSerializer:
    """Writes a UUID as its text of 36 characters."""

    def __call__(self, value: UUID, place: Place, /) -> bytes:
        if not hasattr(value, "hex") or not hasattr(value, "urn"):
            raise SerializationFailed("a UUID was expected")
        return str(value).encode("ascii")


class UuidDeserializer(Remade):
    """Reads a UUID from its text of 36 characters."""

    def __init__(self) -> None:
        from pydantic_core import SchemaValidator, core_schema

        # `uuid` can also generate UUIDs, which only the runtime may, so pydantic reads them.
        self._read = SchemaValidator(core_schema.uuid_schema()).validate_python

    def __call__(self, data: bytes, place: Place, /) -> UUID:
        if len(data) != _UUID_SIGNS:
            raise DeserializationFailed("no UUID: its size", size_bytes=len(data))
        return cast("UUID", self._read(data.decode("ascii")))


_UUID_SIGNS: Final = 36


class VoidSerializer:
    """Rejects all values, for a side that is always None: no serializer is called for None."""

    def __call__(self, value: Any, place: Place, /) -> bytes:
        raise SerializationFailed("None was expected, and nothing else")


class VoidDeserializer:
    """Rejects all values, for a side that is always None: no deserializer is called for None."""

    def __call__(self, data: bytes, place: Place, /) -> None:
        raise DeserializationFailed("nothing was expected", size_bytes=len(data))
