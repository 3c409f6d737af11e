"""A second codec, written only to be obviously right: it walks the schema for every value.

A value is a dict by schema field names: int, float, bool, str, bytes (also for uuid: 16 of them,
and for records), list, dict or None. `complete` fills in every default, and `decode` returns a
complete value. Nothing is shared with `moldau.protocol`.

Where Kafka's generated classes refuse to write, `Refused` is raised; bytes that are no such
message raise `ValueError` or whatever the walk runs into: this codec reads only good bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from tests.oracle import FieldSchema, MessageSchema

Value = dict[str, Any]
ExtraTags = Mapping[int, bytes]

_FIXED = {
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "float64": ">d",
}


class Refused(Exception):
    """The value cannot be written in this version."""


def complete(
    schema: MessageSchema, value: Mapping[str, Any], fields: Sequence[FieldSchema] | None = None
) -> Value:
    """The value with every field that some version has, defaults where it names none."""
    return {
        field.name: _completed(schema, field, value.get(field.name, field.default))
        for field in _ever_present(schema, schema.fields if fields is None else fields)
    }


def encode(
    schema: MessageSchema,
    version: int,
    value: Mapping[str, Any],
    extra_tags: ExtraTags | None = None,
) -> bytes:
    """The bytes of `value`. `extra_tags` (tag -> bytes) go into every tagged section as well."""
    writer = _Writer(schema, version, extra_tags or {})
    return writer.fields(schema.fields, complete(schema, value))


def decode(schema: MessageSchema, version: int, data: bytes) -> Value:
    """The complete value that `data` holds; all of it must be used."""
    reader = _Reader(schema, version, data)
    value = reader.fields(schema.fields)
    if reader.position != len(data):
        raise ValueError(f"{len(data) - reader.position} bytes left over")
    return value


def is_flexible(schema: MessageSchema, field: FieldSchema | None, version: int) -> bool:
    """Whether lengths are varints; a field may opt out of it."""
    if field is not None and field.flexible is not None:
        return version in field.flexible
    return version in schema.flexible


def is_tagged(schema: MessageSchema, field: FieldSchema, version: int) -> bool:
    return field.tag is not None and version in field.tagged and version in schema.flexible


def _ever_present(schema: MessageSchema, fields: Sequence[FieldSchema]) -> list[FieldSchema]:
    """Without what only versions had that are no longer valid."""
    return [field for field in fields if field.versions.meets(schema.versions)]


def _completed(schema: MessageSchema, field: FieldSchema, value: Any) -> Any:
    if value is None:
        return None
    if field.is_struct:
        return complete(schema, value, schema.struct_of(field).fields)
    if field.has_struct_elements:
        fields = schema.struct_of(field).fields
        return [complete(schema, element, fields) for element in value]
    return value


def _unsigned_varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class _Writer:
    def __init__(self, schema: MessageSchema, version: int, extra_tags: ExtraTags) -> None:
        self.schema = schema
        self.version = version
        self.extra_tags = extra_tags

    def fields(self, fields: Sequence[FieldSchema], value: Value) -> bytes:
        out = b""
        tags = dict(self.extra_tags)
        for field in _ever_present(self.schema, fields):
            if self.version not in field.versions:
                self._refuse_unless_lossless(field, value[field.name])
            elif is_tagged(self.schema, field, self.version):
                if value[field.name] != self._default(field):
                    assert field.tag is not None
                    tags[field.tag] = self.field(field, value[field.name])
            else:
                out += self.field(field, value[field.name])
        if self.version in self.schema.flexible:
            out += _unsigned_varint(len(tags))
            for tag in sorted(tags):
                out += _unsigned_varint(tag) + _unsigned_varint(len(tags[tag])) + tags[tag]
        return out

    def field(self, field: FieldSchema, value: Any) -> bytes:
        flexible = is_flexible(self.schema, field, self.version)
        if value is None:
            return self._null(field, flexible)
        if field.is_array:
            return self._count(len(value), 4, flexible) + b"".join(
                self._element(field, element, flexible) for element in value
            )
        if field.is_struct and self.version in field.nullable:
            return b"\x01" + self._element(field, value, flexible)
        return self._element(field, value, flexible)

    def _element(self, field: FieldSchema, value: Any, flexible: bool) -> bytes:
        kind = field.element_type
        if value is None:
            raise Refused(f"{field.name} holds null")
        if kind in _FIXED:
            return struct.pack(_FIXED[kind], value)
        if kind == "bool":
            return b"\x01" if value else b"\x00"
        if kind == "uuid":
            assert len(value) == 16
            return bytes(value)
        if kind == "string":
            encoded: bytes = value.encode("utf-8")
            return self._count(len(encoded), 2, flexible) + encoded
        if kind in ("bytes", "records"):
            return self._count(len(value), 4, flexible) + bytes(value)
        return self.fields(self.schema.struct_of(field).fields, value)

    def _null(self, field: FieldSchema, flexible: bool) -> bytes:
        if self.version not in field.nullable:
            raise Refused(f"{field.name} is null")
        if field.is_struct:
            return b"\x00" if is_tagged(self.schema, field, self.version) else b"\xff"
        if flexible:
            return b"\x00"
        return b"\xff\xff" if field.type == "string" else b"\xff\xff\xff\xff"

    def _count(self, count: int, width: int, flexible: bool) -> bytes:
        return _unsigned_varint(count + 1) if flexible else count.to_bytes(width, "big")

    def _refuse_unless_lossless(self, field: FieldSchema, value: Any) -> None:
        if not field.ignorable and value != self._default(field):
            raise Refused(f"{field.name} is not in version {self.version}")

    def _default(self, field: FieldSchema) -> Any:
        return _completed(self.schema, field, field.default)


class _Reader:
    def __init__(self, schema: MessageSchema, version: int, data: bytes) -> None:
        self.schema = schema
        self.version = version
        self.data = data
        self.position = 0

    def fields(self, fields: Sequence[FieldSchema]) -> Value:
        value: Value = {}
        for field in _ever_present(self.schema, fields):
            present = self.version in field.versions
            if present and not is_tagged(self.schema, field, self.version):
                value[field.name] = self.field(field)
            else:
                value[field.name] = _completed(self.schema, field, field.default)
        if self.version in self.schema.flexible:
            self._tagged_fields(fields, value)
        return value

    def _tagged_fields(self, fields: Sequence[FieldSchema], value: Value) -> None:
        known = {
            field.tag: field
            for field in fields
            if self.version in field.versions and is_tagged(self.schema, field, self.version)
        }
        for _ in range(self._unsigned_varint()):
            field = known.get(self._unsigned_varint())
            size = self._unsigned_varint()
            end = self.position + size
            if field is None:
                self.position = end
            else:
                value[field.name] = self.field(field)
            if self.position != end:
                raise ValueError("a tagged field lied about its size")

    def field(self, field: FieldSchema) -> Any:
        flexible = is_flexible(self.schema, field, self.version)
        if field.is_array:
            count = self._count(4, flexible)
            if count is None:
                self._check_nullable(field)
                return None
            return [self._element(field, flexible) for _ in range(count)]
        if field.is_struct and self.version in field.nullable and self._is_null_marked(field):
            return None
        return self._element(field, flexible)

    def _element(self, field: FieldSchema, flexible: bool) -> Any:
        kind = field.element_type
        if kind in _FIXED:
            layout = _FIXED[kind]
            return struct.unpack(layout, self._take(struct.calcsize(layout)))[0]
        if kind == "bool":
            return self._take(1) != b"\x00"
        if kind == "uuid":
            return self._take(16)
        if kind in ("string", "bytes", "records"):
            size = self._count(2 if kind == "string" else 4, flexible)
            if size is None:
                assert not field.is_array, "elements are never null"
                self._check_nullable(field)
                return None
            taken = self._take(size)
            return taken.decode("utf-8") if kind == "string" else taken
        return self.fields(self.schema.struct_of(field).fields)

    def _is_null_marked(self, field: FieldSchema) -> bool:
        """Null is marked by a negative byte in line, but by a varint of 0 in a tagged field."""
        if is_tagged(self.schema, field, self.version):
            return self._unsigned_varint() == 0
        return self._take(1) >= b"\x80"

    def _check_nullable(self, field: FieldSchema) -> None:
        if self.version not in field.nullable:
            raise ValueError(f"{field.name} is null")

    def _count(self, width: int, flexible: bool) -> int | None:
        """A size or count; None for null."""
        if flexible:
            size = self._unsigned_varint() - 1
        else:
            size = int.from_bytes(self._take(width), "big", signed=True)
        return None if size < 0 else size

    def _unsigned_varint(self) -> int:
        number = shift = 0
        while True:
            (byte,) = self._take(1)
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def _take(self, size: int) -> bytes:
        end = self.position + size
        if end > len(self.data):
            raise ValueError("the bytes end too early")
        taken = self.data[self.position : end]
        self.position = end
        return taken
