"""Serdes between records with schemas and the lines of JSON that people read and write.

A deserializer gives a `DecodedText`: the value for programs, and the JSON of it as one line. A
serializer takes such a line and writes by the latest schema of the subject; the line `null` is a
record without a value. The command line and the console use them.

Invariant: a serializer reads what a deserializer of the same schema wrote, as the same value. Where
JSON alone would not say which value it is, it is tagged, or the deserializer refuses:

    Avro         a branch of a union that would not be found (`avro_texts`): {"int": "2026-11-29"}
    Protobuf     a message that is not the first of its file: {"@type": "shop.Order", ...}
    all          a whole value that is null by its schema: {"null": null}
    JSON Schema  JSON whose numbers a float cannot hold is passed on as it was written
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final, Protocol

from moldau.client.serdes.avro import AvroDeserializer, AvroSerializer, parse_registered
from moldau.client.serdes.contract import Place
from moldau.client.serdes.framed import Read, SchemaDeserializer, SchemaSerializer, Write
from moldau.client.serdes.json_schema import JsonSchemaDeserializer, JsonSchemaSerializer
from moldau.client.serdes.protobuf import ProtobufDeserializer, ProtobufSerializer
from moldau.client.serdes.registry.client import RegistryGiven, SchemaRegistry
from moldau.client.serdes.registry.naming import SchemaOptions
from moldau.deferred import dataclass
from moldau.errors import ConfigError
from moldau.values.avro.plain import told
from moldau.values.avro.read import shape_of
from moldau.values.avro.texts import NULL, JsonValues, without_names
from moldau.values.failures import DeserializationFailed, SerializationFailed
from moldau.values.protobuf.texts import message_to_json, needs_check
from moldau.values.schema import AVRO, JSON, PROTOBUF, Schema
from moldau.values.wire import SchemaKey, frame, read_indexes

_TYPE: Final = "@type"
_FIRST: Final = (0,)


@dataclass(frozen=True, slots=True)
class DecodedText:
    """What a schema decoded. `json` has only JSON's own types, and `text` is its one line."""

    value: Any
    json: Any
    text: str


def _decoded(value: Any, as_json: Any) -> DecodedText:
    return DecodedText(value, as_json, _line(as_json))


def _line(value: Any) -> str:
    try:
        text = _encode(value)
    except RecursionError:
        raise DeserializationFailed("it is nested too deeply to be written as JSON") from None
    return text if text.isascii() or not _has_half_character(text) else json.dumps(value)


_encode: Final = json.JSONEncoder(ensure_ascii=False).encode


def _has_half_character(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


class TextSerializer(SchemaSerializer):
    """Writes lines of JSON by the latest schema of the subject, which is of this type."""

    def __init__(
        self,
        type: str,
        registry: RegistryGiven,
        *,
        options: SchemaOptions | None = None,
        owns_registry: bool = False,
    ) -> None:
        super().__init__(registry, options, owns_registry=owns_registry)
        self._format = _format_of(type)(self.registry, self.options)

    def kind_of(self, value: Any) -> Hashable:
        """Return one kind for all lines."""
        return None

    def subject_of(self, value: Any, place: Place) -> str:
        """Return the subject of the topic."""
        return self.options.subject(place, None)

    def has_own(self, value: Any) -> bool:
        """Whether a line has a schema: it has none."""
        return False

    async def own_schema(self, value: Any) -> Schema | None:
        """Return None: a line has no schema."""
        return None

    async def writer(self, schema_id: int, schema: Schema, value: Any) -> Write:
        """Return a function that writes lines; `null` is a record without a value."""
        write = await self._format.writer(schema_id, schema)

        def of_line(line: str | bytes) -> Any:
            text = line.decode() if isinstance(line, bytes) else line
            try:
                value = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise SerializationFailed(f"it is no JSON: {error}") from None
            return None if value is None else write(value, text)

        return of_line


class TextDeserializer(SchemaDeserializer):
    """Reads records with schemas of this type as `DecodedText`."""

    def __init__(
        self,
        type: str,
        registry: RegistryGiven,
        *,
        options: SchemaOptions | None = None,
        owns_registry: bool = False,
    ) -> None:
        super().__init__(registry, options, owns_registry=owns_registry)
        self._format = _format_of(type)(self.registry, self.options)

    async def reader(self, key: SchemaKey) -> Read:
        """Return a function that reads values and writes their JSON."""
        return await self._format.reader(key)


WriteLine = Callable[[Any, str], bytes]
"""Writes the value that JSON has; also given its text."""


class Format(Protocol):
    """A type of schemas."""

    async def writer(self, schema_id: int, schema: Schema) -> WriteLine: ...

    async def reader(self, key: SchemaKey) -> Callable[[bytes, int], DecodedText]: ...


class AvroLines:
    """Lines of JSON as Avro."""

    def __init__(self, registry: SchemaRegistry, options: SchemaOptions) -> None:
        self._writes = AvroSerializer(registry, options=options)
        self._reads = AvroDeserializer(registry, options=options, names_branches=True)

    async def writer(self, schema_id: int, schema: Schema) -> WriteLine:
        """Return a function that writes JSON."""
        write = await self._writes.writer(schema_id, schema, None)
        parsed, named = await parse_registered(self._writes.registry, schema)
        read = JsonValues(named).whole_reader(parsed)
        return lambda value, _: write(read(value))

    async def reader(self, key: SchemaKey) -> Callable[[bytes, int], DecodedText]:
        """Return a function that reads values and writes their JSON."""
        read = await self._reads.reader(key)
        schema = await self._reads.schema_of(key, AVRO)
        parsed, named = await parse_registered(self._reads.registry, schema)
        to_json = JsonValues(named).whole_writer(parsed)
        has_names = shape_of(parsed, named).has_unions

        def decode(data: bytes, at: int) -> DecodedText:
            value = read(data, at)
            return _decoded(without_names(value) if has_names else value, to_json(value))

        return decode


class ProtobufLines:
    """Lines of JSON as Protobuf."""

    def __init__(self, registry: SchemaRegistry, options: SchemaOptions) -> None:
        self._writes = ProtobufSerializer(registry, options=options)
        self._reads = ProtobufDeserializer(registry, options=options)

    async def writer(self, schema_id: int, schema: Schema) -> WriteLine:
        """Return a function that writes JSON."""
        write = await self._writes.mapping_writer(schema_id, schema)

        def of_object(value: Any, _: str) -> bytes:
            if not isinstance(value, dict):
                raise SerializationFailed(f"an object of JSON was expected, not {told(value)}")
            fields = {name: each for name, each in value.items() if name != _TYPE}
            return write(fields, value.get(_TYPE))

        return of_object

    async def reader(self, key: SchemaKey) -> Callable[[bytes, int], DecodedText]:
        """Return a function that reads messages and writes their JSON."""
        read = await self._reads.reader(key)
        checked: dict[str, bool] = {}

        def decode(data: bytes, at: int) -> DecodedText:
            message = read(data, at)
            name = message.DESCRIPTOR.full_name
            if name not in checked:
                checked[name] = needs_check(message.DESCRIPTOR)
            fields = message_to_json(message, is_checked=checked[name])
            is_first = read_indexes(data, at)[0] == _FIRST
            return _decoded(message, fields if is_first else {_TYPE: name, **fields})

        return decode


class JsonSchemaLines:
    """Lines of JSON that fit a JSON Schema."""

    def __init__(self, registry: SchemaRegistry, options: SchemaOptions) -> None:
        self._writes = JsonSchemaSerializer(registry, options=options)
        self._reads = JsonSchemaDeserializer(registry, options=options)

    async def writer(self, schema_id: int, schema: Schema) -> WriteLine:
        """Return a function that writes JSON that fits the schema."""
        write, prefix = await self._writes.writer(schema_id, schema, None), frame(schema_id)

        def of_json(value: Any, text: str) -> bytes:
            if value == NULL:
                with suppress(SerializationFailed):
                    return write(None)
            written = write(value)
            return written if _is_exact(text) else prefix + text.encode()

        return of_json

    async def reader(self, key: SchemaKey) -> Callable[[bytes, int], DecodedText]:
        """Return a function that reads values and writes their JSON."""
        read = await self._reads.reader(key)
        takes_null = True
        try:
            read(b"null", 0)
        except DeserializationFailed:
            takes_null = False

        def decode(data: bytes, at: int) -> DecodedText:
            value = read(data, at)
            if value is None:
                return _decoded(None, NULL)
            if value == NULL and takes_null:
                raise DeserializationFailed(
                    f"it is the object {NULL}, which in JSON lines means a null of its schema"
                )
            text = data[at:].decode()
            if _is_exact(text):
                return _decoded(value, value)
            return DecodedText(value, value, text.replace("\r", " ").replace("\n", " "))

        return decode


def _is_exact(text: str) -> bool:
    """Whether reading and writing this JSON keeps the digits of all its numbers."""
    inexact = []

    def number(digits: str) -> None:
        if Decimal(digits) != Decimal(repr(float(digits))):
            inexact.append(digits)

    json.loads(text, parse_float=number)
    return not inexact


_FORMATS: Final[dict[str, Callable[[SchemaRegistry, SchemaOptions], Format]]] = {
    AVRO: AvroLines,
    PROTOBUF: ProtobufLines,
    JSON: JsonSchemaLines,
}


def _format_of(type: str) -> Callable[[SchemaRegistry, SchemaOptions], Format]:
    found = _FORMATS.get(type)
    if found is None:
        raise ConfigError("schemas of this type are not known here", type=type)
    return found
