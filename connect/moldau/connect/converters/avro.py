"""The AvroConverter: Avro with a schema registry, in Confluent's wire format."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any

from moldau.client.base.extras import need
from moldau.client.serdes.registry.schemas import Schema as RegistrySchema
from moldau.connect.converters.avro_schemas import DEFAULT_NAME, UNION, from_avro, to_avro
from moldau.connect.converters.registered import Read, RegisteredConverter, Write
from moldau.connect.data.schema import Schema, Type
from moldau.connect.data.struct import Struct
from moldau.connect.data.validation import validate
from moldau.connect.errors import DataError

Convert = Callable[[Any], Any]


class AvroConverter(RegisteredConverter):
    """Converts values with a schema to and from Avro, in the wire format of Confluent's schema
    registry."""

    java_names = ("io.confluent.connect.avro.AvroConverter",)
    libraries = (("fastavro", "avro"), ("httpcore2", "schema-registry"))

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
        parsed = fastavro.parse_schema(json.loads(registered.text))
        convert, required = _to_avro_value(schema), schema.optionally(False)

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
        fastavro = self._fastavro
        described = json.loads(registered.text)
        schema = from_avro(described)
        parsed, convert = fastavro.parse_schema(described), _from_avro_value(schema)

        def read(data: bytes, start: int) -> Any:
            buffer = BytesIO(data)
            buffer.seek(start)
            try:
                found = fastavro.schemaless_reader(buffer, parsed, None)
            except (EOFError, ValueError, IndexError, KeyError, TypeError) as error:
                raise DataError(f"this is no Avro of its schema: {error}") from None
            left = len(data) - buffer.tell()
            if left:
                raise DataError("this is no Avro of its schema: bytes are left over", bytes=left)
            return convert(found)

        return schema, read


def _same(value: Any) -> Any:
    return value


def _to_avro_value(schema: Schema) -> Convert:
    """Return a function from a Connect value to a value that fastavro writes."""
    if schema.type is Type.STRUCT:
        fields = [(f.name, _to_avro_value(f.schema)) for f in schema.fields]
        if schema.name == UNION:
            return lambda value: _chosen(fields, value)
        return lambda value: (
            None
            if value is None
            else {
                name: convert(item) for (name, convert), item in zip(fields, value.row, strict=True)
            }
        )
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        convert = _to_avro_value(schema.value_schema)
        return lambda value: None if value is None else [convert(item) for item in value]
    if schema.type is Type.MAP and schema.value_schema is not None:
        return _map_to_avro(schema)
    return _same


def _map_to_avro(schema: Schema) -> Convert:
    assert schema.key_schema is not None
    assert schema.value_schema is not None
    keys, values = _to_avro_value(schema.key_schema), _to_avro_value(schema.value_schema)
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
    """Return the value of the only field that is set in a union's struct."""
    if value is None:
        return None
    for (_, convert), item in zip(fields, value.row, strict=True):
        if item is not None:
            return convert(item)
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


_PYTHON: dict[Type, tuple[type, ...]] = {
    Type.INT8: (int,),
    Type.INT16: (int,),
    Type.INT32: (int,),
    Type.INT64: (int,),
    Type.FLOAT32: (float,),
    Type.FLOAT64: (float,),
    Type.BOOLEAN: (bool,),
    Type.STRING: (str,),
    Type.BYTES: (bytes,),
    Type.ARRAY: (list,),
    Type.MAP: (dict,),
    Type.STRUCT: (dict,),
}


def _union_from_avro(schema: Schema) -> Convert:
    fields = [(field.schema, _from_avro_value(field.schema)) for field in schema.fields]

    def read(value: Any) -> Any:
        if value is None:
            return None
        row: list[Any] = [None] * len(fields)
        for position, (part, convert) in enumerate(fields):
            if _is_of(part, value):
                row[position] = convert(value)
                return Struct.of_row(schema, row)
        raise DataError(f"no type of the union fits a {type(value).__name__}")

    return read


def _is_of(schema: Schema, value: Any) -> bool:
    if schema.logical is not None:
        try:
            validate(schema, value)
        except DataError:
            return False
        return True
    if isinstance(value, bool):
        return schema.type is Type.BOOLEAN
    if schema.type is Type.STRUCT and isinstance(value, dict):
        return value.keys() == schema.positions.keys()
    fits = isinstance(value, _PYTHON[schema.type])
    if fits and schema.type in (Type.INT8, Type.INT16, Type.INT32):
        return bool(-(2**31) <= value < 2**31)
    return fits
