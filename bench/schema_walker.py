"""A generic codec to compare with: it walks a description of the message, one object for each type.

Most Kafka libraries do it like this, and it is written here as well as the approach allows: the
description is laid out once a version, values travel as dicts, reading is by position over one
buffer. It checks nothing that Python does not check by itself.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Protocol

from moldau.protocol.spec import ArrayOf, FieldSpec, MessageSpec, StructSpec
from moldau.protocol.types import BYTES_VIEW, RECORDS, STRING, Scalar


class Cursor:
    """The input and the position in it."""

    __slots__ = ("data", "position")

    def __init__(self, data: Any) -> None:
        self.data = data
        self.position = 0


class Type(Protocol):
    """One type of the description."""

    def read(self, cursor: Cursor) -> Any: ...

    def write(self, parts: list[bytes], value: Any) -> None: ...


class Fixed:
    """A number, a flag or an id."""

    def __init__(self, format: str) -> None:
        self._packing = Struct(">" + format)

    def read(self, cursor: Cursor) -> Any:
        position = cursor.position
        cursor.position = position + self._packing.size
        return self._packing.unpack_from(cursor.data, position)[0]

    def write(self, parts: list[bytes], value: Any) -> None:
        parts.append(self._packing.pack(value))


class Varint:
    """An unsigned varint."""

    def read(self, cursor: Cursor) -> int:
        value: int = 0
        shift = 0
        while True:
            byte = cursor.data[cursor.position]
            cursor.position += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def write(self, parts: list[bytes], value: int) -> None:
        encoded = bytearray()
        while value > 127:
            encoded.append(value & 127 | 128)
            value >>= 7
        encoded.append(value)
        parts.append(bytes(encoded))


class Length:
    """A length or count, -1 for null, in plain or compact form."""

    def __init__(self, format: str, *, compact: bool) -> None:
        self._number: Type = Varint() if compact else Fixed(format)
        self._shift = int(compact)

    def read(self, cursor: Cursor) -> int:
        number: int = self._number.read(cursor)
        return number - self._shift

    def write(self, parts: list[bytes], value: int) -> None:
        self._number.write(parts, value + self._shift)


class Sized:
    """A string, bytes, or a view of records."""

    def __init__(self, kind: Scalar, *, compact: bool) -> None:
        self._length = Length("h" if kind is STRING else "i", compact=compact)
        self._is_text = kind is STRING
        self._is_view = kind is RECORDS or kind is BYTES_VIEW

    def read(self, cursor: Cursor) -> Any:
        size = self._length.read(cursor)
        if size < 0:
            return None
        start = cursor.position
        cursor.position = start + size
        content = cursor.data[start : start + size]
        if self._is_text:
            return str(content, "utf-8")
        return content if self._is_view else bytes(content)

    def write(self, parts: list[bytes], value: Any) -> None:
        if value is None:
            self._length.write(parts, -1)
            return
        content = value.encode() if self._is_text else value
        self._length.write(parts, len(content))
        parts.append(content)


class Array:
    """Elements of one type."""

    def __init__(self, element: Type, *, compact: bool) -> None:
        self._length = Length("i", compact=compact)
        self._element = element

    def read(self, cursor: Cursor) -> Any:
        count = self._length.read(cursor)
        if count < 0:
            return None
        element = self._element
        return [element.read(cursor) for _ in range(count)]

    def write(self, parts: list[bytes], value: Any) -> None:
        if value is None:
            self._length.write(parts, -1)
            return
        self._length.write(parts, len(value))
        for item in value:
            self._element.write(parts, item)


class Fields:
    """A struct: its fields in order, then its tags."""

    def __init__(self, spec: StructSpec, version: int, *, flexible: bool) -> None:
        present = [field for field in spec.fields if field.is_present(version)]
        self._plain = [
            (field.name, type_of(field, version, flexible=flexible))
            for field in present
            if not field.is_tagged(version)
        ]
        self._tagged = {
            field.tag: (field.name, field.make_default(), type_of(field, version, flexible=True))
            for field in present
            if field.is_tagged(version)
        }
        self._flexible = flexible
        self._varint = Varint()

    def read(self, cursor: Cursor) -> dict[str, Any]:
        values = {name: kind.read(cursor) for name, kind in self._plain}
        if self._flexible:
            for name, default, _ in self._tagged.values():
                values[name] = default
            for _ in range(self._varint.read(cursor)):
                tag, size = self._varint.read(cursor), self._varint.read(cursor)
                if tag in self._tagged:
                    name, _, kind = self._tagged[tag]
                    values[name] = kind.read(cursor)
                else:
                    cursor.position += size
        return values

    def write(self, parts: list[bytes], value: dict[str, Any]) -> None:
        for name, kind in self._plain:
            kind.write(parts, value[name])
        if self._flexible:
            set_tags = [
                (tag, value[name], kind)
                for tag, (name, default, kind) in self._tagged.items()
                if value[name] != default
            ]
            self._varint.write(parts, len(set_tags))
            for tag, content, kind in set_tags:
                body: list[bytes] = []
                kind.write(body, content)
                self._varint.write(parts, tag or 0)
                self._varint.write(parts, sum(map(len, body)))
                parts.extend(body)


class Nullable:
    """A struct that may be null."""

    def __init__(self, fields: Fields) -> None:
        self._flag = Fixed("b")
        self._fields = fields

    def read(self, cursor: Cursor) -> Any:
        return None if self._flag.read(cursor) < 0 else self._fields.read(cursor)

    def write(self, parts: list[bytes], value: Any) -> None:
        self._flag.write(parts, -1 if value is None else 1)
        if value is not None:
            self._fields.write(parts, value)


def type_of(field: FieldSpec, version: int, *, flexible: bool) -> Type:
    """Return the object that reads and writes a field in that version."""
    compact = flexible and field.flexible
    kind = field.type
    if isinstance(kind, ArrayOf):
        return Array(element_of(kind.element, version, flexible=flexible), compact=compact)
    if isinstance(kind, StructSpec):
        fields = Fields(kind, version, flexible=flexible)
        return Nullable(fields) if field.is_nullable(version) else fields
    return Fixed(kind.format) if kind.format else Sized(kind, compact=compact)


def element_of(kind: Scalar | StructSpec, version: int, *, flexible: bool) -> Type:
    """Return the object that reads and writes an element of an array."""
    if isinstance(kind, StructSpec):
        return Fields(kind, version, flexible=flexible)
    return Fixed(kind.format) if kind.format else Sized(kind, compact=flexible)


class SchemaWalker:
    """Encodes and decodes one message in one version, as a dict."""

    def __init__(self, spec: MessageSpec, version: int) -> None:
        self._fields = Fields(spec, version, flexible=spec.is_flexible(version))

    def decode(self, data: Any) -> dict[str, Any]:
        """Return the message as a dict."""
        return self._fields.read(Cursor(data))

    def encode(self, value: dict[str, Any]) -> bytes:
        """Return the bytes of a message that is given as a dict."""
        parts: list[bytes] = []
        self._fields.write(parts, value)
        return b"".join(parts)
