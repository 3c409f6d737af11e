"""The AvroConverter: Avro with a schema registry, in Confluent's wire format."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any

from moldau.connect.converters.avro_schemas import (
    DEFAULT_NAME,
    UNION,
    branch_name,
    from_avro,
    to_avro,
)
from moldau.connect.converters.registered import Read, RegisteredConverter, Write
from moldau.connect.data.schema import Schema, Type
from moldau.connect.data.struct import Struct
from moldau.connect.data.validation import validate
from moldau.connect.errors import DataError
from moldau.errors import ConfigError
from moldau.plugins.extras import need
from moldau.values.avro.read import shape_of, value_reader
from moldau.values.avro.schemas import parse_avro
from moldau.values.failures import DeserializationFailed
from moldau.values.schema import Schema as RegistrySchema

Convert = Callable[[Any], Any]


class AvroConverter(RegisteredConverter):
    """Converts values with a schema to and from Avro, in the wire format of Confluent's schema
    registry."""

    java_names = ("io.confluent.connect.avro.AvroConverter",)
    libraries = (("fastavro", "avro"),)

    def configure(self, props: Mapping[str, str], is_key: bool) -> None:
        self._fastavro = need("fastavro", "avro")
        super().configure(props, is_key)

    def registered(self, schema: Schema | None, value: Any) -> tuple[RegistrySchema, str | None]:
        if schema is None:
            raise DataError(
                "AvroConverter needs a schema, and this value has none; "
                "use JsonConverter with schemas.enable=false, or give it a schema"
            )
        described = to_avro(schema.optionally(False))
        name = str(schema.name or DEFAULT_NAME) if schema.type is Type.STRUCT else None
        return RegistrySchema(json.dumps(described)), name

    def writer(self, schema: Schema | None, registered: RegistrySchema) -> Write:
        assert schema is not None
        fastavro = self._fastavro
        parsed, named = self._parsed(registered)
        names = {full.rpartition(".")[2]: full for full in named}
        convert, required = _to_avro_value(schema, names), schema.optionally(False)

        def write(value: Any) -> bytes:
            validate(required, value)
            out = BytesIO()
            try:
                fastavro.schemaless_writer(out, parsed, convert(value))
            except (TypeError, ValueError, KeyError, AttributeError) as error:
                raise DataError(f"a value does not fit its Avro schema: {error}") from None
            return out.getvalue()

        return write

    def reader(self, registered: RegistrySchema) -> tuple[Schema | None, Read]:
        parsed, named = self._parsed(registered)
        schema = from_avro(parsed)
        convert = _from_avro_value(schema)
        of_bytes = value_reader(shape_of(parsed, named), parsed, names_branches=True)

        def read(data: bytes, start: int) -> Any:
            try:
                found = of_bytes(data, start)
            except DeserializationFailed as error:
                raise DataError(f"this is no Avro of its schema: {error}") from None
            return convert(found)

        return schema, read

    def _parsed(self, registered: RegistrySchema) -> tuple[Any, dict[str, Any]]:
        """Return the schema parsed for fastavro, with those of other subjects that it refers to."""
        referenced = self._asked(self._registry.references, registered)
        try:
            return parse_avro(registered, referenced.values())
        except ConfigError as error:
            raise DataError(error.reason) from error


def _same(value: Any) -> Any:
    return value


def _to_avro_value(schema: Schema, names: Mapping[str, str]) -> Convert:
    """Return a function from a Connect value to a value that fastavro writes. `names` are the full
    names of Avro's types by their short ones, by which a union's struct has its branches."""
    if schema.type is Type.STRUCT:
        fields = [(f.name, _to_avro_value(f.schema, names)) for f in schema.fields]
        if schema.name == UNION:
            named = [(names.get(name, name), convert) for name, convert in fields]
            return lambda value: _chosen(named, value)
        return lambda value: (
            None
            if value is None
            else {
                name: convert(item) for (name, convert), item in zip(fields, value.row, strict=True)
            }
        )
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        convert = _to_avro_value(schema.value_schema, names)
        return lambda value: None if value is None else [convert(item) for item in value]
    if schema.type is Type.MAP and schema.value_schema is not None:
        return _map_to_avro(schema, names)
    return _same


def _map_to_avro(schema: Schema, names: Mapping[str, str]) -> Convert:
    assert schema.key_schema is not None
    assert schema.value_schema is not None
    keys, values = (
        _to_avro_value(schema.key_schema, names),
        _to_avro_value(schema.value_schema, names),
    )
    if schema.key_schema.type is Type.STRING and not schema.key_schema.optional:
        return lambda value: (
            None if value is None else {name: values(item) for name, item in value.items()}
        )
    return lambda value: (
        None
        if value is None
        else [{"key": keys(name), "value": values(item)} for name, item in value.items()]
    )


def _chosen(fields: list[tuple[str, Convert]], value: Struct | None) -> Any:
    """Return the only field that is set in a union's struct: the branch's name and the value."""
    if value is None:
        return None
    for (name, convert), item in zip(fields, value.row, strict=True):
        if item is not None:
            return name, convert(item)
    return None


def _from_avro_value(schema: Schema) -> Convert:
    """Return a function from a value that fastavro reads to a Connect value."""
    if schema.type is Type.STRUCT:
        return _union_from_avro(schema) if schema.name == UNION else _struct_from_avro(schema)
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        convert = _from_avro_value(schema.value_schema)
        return lambda value: None if value is None else [convert(item) for item in value]
    if schema.type is Type.MAP and schema.key_schema and schema.value_schema:
        keys, values = (_from_avro_value(each) for each in (schema.key_schema, schema.value_schema))

        def read(value: Any) -> Any:
            if value is None:
                return None
            pairs = value.items() if isinstance(value, dict) else _pairs(value)
            return {keys(name): values(item) for name, item in pairs}

        return read
    return _same


def _pairs(entries: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    return [(entry["key"], entry["value"]) for entry in entries]


def _struct_from_avro(schema: Schema) -> Convert:
    fields = [(f.name, _from_avro_value(f.schema)) for f in schema.fields]

    def read(value: Any) -> Any:
        if value is None:
            return None
        return Struct.of_row(schema, [convert(value[name]) for name, convert in fields])

    return read


def _union_from_avro(schema: Schema) -> Convert:
    fields = {
        field.name: (field.position, _from_avro_value(field.schema)) for field in schema.fields
    }

    def read(value: Any) -> Any:
        if value is None:
            return None
        name, inner = value
        position, convert = fields[branch_name(name)]
        row: list[Any] = [None] * len(fields)
        row[position] = convert(inner)
        return Struct.of_row(schema, row)

    return read
