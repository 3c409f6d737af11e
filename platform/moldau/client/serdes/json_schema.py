"""JSON after the id of its JSON Schema, validated by jsonschema-rs.

A value is plain JSON, a dataclass, a pydantic model or a msgspec struct. The serializer's own
schema is given as text or `Schema`, or made from a type. Without either, values are written with
the latest version of the subject in the registry.

Invariant: a value that does not fit its schema is neither written nor returned, unless
`json.fail.invalid.schema` is false. jsonschema-rs is many times faster than the validators that are
written in Python.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import Any

from moldau.client.serdes.contract import Place
from moldau.client.serdes.framed import Read, SchemaDeserializer, SchemaSerializer, Write
from moldau.client.serdes.registry.client import RegistryGiven, SchemaRegistry
from moldau.client.serdes.registry.naming import SchemaOptions
from moldau.values.failures import DeserializationFailed, SerializationFailed
from moldau.values.json.schemas import Check, checker, loaded, validator
from moldau.values.json.typed import (
    is_struct,
    json_reader,
    read_json,
    write_json,
    write_looked_at,
)
from moldau.values.schema import JSON, Schema
from moldau.values.wire import SchemaKey, frame


class JsonSchemaSerializer(SchemaSerializer):
    """Writes values that fit a JSON Schema."""

    def __init__(
        self,
        registry: RegistryGiven,
        schema: str | Schema | None = None,
        *,
        type: type[Any] | None = None,
        options: SchemaOptions | None = None,
        owns_registry: bool = False,
    ) -> None:
        """Take the schema itself, or a type to make one from."""
        super().__init__(registry, options, owns_registry=owns_registry)
        if schema is None and type is not None:
            schema = json.dumps(schema_of_type(type))
        self._schema = Schema(schema, JSON) if isinstance(schema, str) else schema
        if self._schema is not None and not self._schema.references:
            validator(self._schema.text, {})  # report its errors before it is registered
        self._name = None if self._schema is None else _title_of(self._schema)

    def kind_of(self, value: Any) -> Hashable:
        """Return one kind for all values, as they share one schema."""
        return None

    def subject_of(self, value: Any, place: Place) -> str:
        """Return the subject, which may be named by the schema's title."""
        return self.options.subject(place, self._name)

    def has_own(self, value: Any) -> bool:
        """Whether a schema or a type was given."""
        return self._schema is not None

    async def own_schema(self, value: Any) -> Schema | None:
        """Return the schema that was given or made, or None."""
        return self._schema

    async def writer(self, schema_id: int, schema: Schema, value: Any) -> Write:
        """Return a function that validates and writes values."""
        self.check_type(schema_id, schema, JSON)
        prefix = frame(schema_id)
        if not self.options.validates:
            return lambda value: prefix + write_json(value)
        check = await _checker(self.registry, schema, schema_id, SerializationFailed)

        def write(value: Any) -> bytes:
            data, is_plain = write_looked_at(value)
            check(value if is_plain else read_json(data))
            return prefix + data

        return write


class JsonSchemaDeserializer(SchemaDeserializer):
    """Reads values of JSON Schemas, as plain JSON or as instances of a type."""

    def __init__(
        self,
        registry: RegistryGiven,
        *,
        type: type[Any] | None = None,
        options: SchemaOptions | None = None,
        owns_registry: bool = False,
    ) -> None:
        super().__init__(registry, options, owns_registry=owns_registry)
        self._make = None if type is None else json_reader(type)

    async def reader(self, key: SchemaKey) -> Read:
        """Return a function that reads and validates values."""
        schema = await self.schema_of(key, JSON)
        check = None
        if self.options.validates:
            check = await _checker(self.registry, schema, key, DeserializationFailed)
        make = self._make

        def read(data: bytes, at: int) -> Any:
            payload = data[at:]
            value = read_json(payload)
            if check is not None:
                check(value)
            # A type accepts more from JSON than from values: keys and times that are text.
            return value if make is None else make(payload)

        return read


def schema_of_type(type: Any) -> dict[str, Any]:
    """Return the JSON Schema of a dataclass, pydantic model or msgspec struct in written form."""
    if is_struct(type):
        import msgspec

        return {**msgspec.json.schema(type), "title": type.__name__}
    from pydantic import TypeAdapter

    return TypeAdapter(type).json_schema(mode="serialization")


def _title_of(schema: Schema) -> str | None:
    body = loaded(schema.text)
    title = body.get("title") if isinstance(body, dict) else None
    return title if isinstance(title, str) else None


async def _checker(
    registry: SchemaRegistry,
    schema: Schema,
    key: SchemaKey,
    failure: type[SerializationFailed | DeserializationFailed],
) -> Check:
    """Return a function that raises `failure`, with the position, for a value that does not fit."""
    return checker(schema, await registry.references(schema), key, failure)
