"""Converts schemas to and from the JSON of Kafka's envelope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.connect.converters.json_values import Readers, Writers
from moldau.connect.data.schema import Field, Schema, Type
from moldau.connect.errors import DataError


def schema_from_json(described: Any, readers: Readers) -> Schema | None:
    """Return the schema in an envelope; `readers` read its default values."""
    if described is None:
        return None
    if not isinstance(described, dict) or not isinstance(described.get("type"), str):
        raise DataError("Schema must contain 'type' field")
    try:
        kind = Type(described["type"])
    except ValueError:
        raise DataError(f"Unknown schema type: {described['type']}") from None
    name, version, doc = (described.get(each) for each in ("name", "version", "doc"))
    schema = Schema(
        kind,
        optional=described.get("optional") is True,
        name=name if isinstance(name, str) else None,
        version=version if type(version) is int else None,
        doc=doc if isinstance(doc, str) else None,
        parameters=_parameters(described),
        fields=_fields(described, readers) if kind is Type.STRUCT else (),
        key_schema=_part(described, "keys", readers) if kind is Type.MAP else None,
        value_schema=_value_schema(kind, described, readers),
    )
    default = described.get("default")
    return schema if default is None else schema.replace(default=readers.of(schema)(default))


def _value_schema(kind: Type, described: Mapping[str, Any], readers: Readers) -> Schema | None:
    if kind is Type.ARRAY:
        return _part(described, "items", readers)
    return _part(described, "values", readers) if kind is Type.MAP else None


def _part(described: Mapping[str, Any], name: str, readers: Readers) -> Schema:
    part = schema_from_json(described.get(name), readers)
    if part is None:
        raise DataError(f'the schema of an {described["type"]} needs "{name}"')
    return part


def _parameters(described: Mapping[str, Any]) -> dict[str, str] | None:
    parameters = described.get("parameters")
    if not isinstance(parameters, dict):
        return None
    if not all(isinstance(value, str) for value in parameters.values()):
        raise DataError("Schema parameters must have string values.")
    return dict(parameters) or None


def _fields(described: Mapping[str, Any], readers: Readers) -> tuple[Field, ...]:
    fields = described.get("fields")
    if not isinstance(fields, list):
        raise DataError('Struct schema\'s "fields" argument is not an array.')
    members = []
    for position, field in enumerate(fields):
        name = field.get("field") if isinstance(field, dict) else None
        schema = schema_from_json(field, readers)
        if not isinstance(name, str) or schema is None:
            raise DataError("Struct schema's field name not specified properly")
        members.append(Field(name, position, schema))
    return tuple(members)


def schema_to_json(schema: Schema, writers: Writers) -> dict[str, Any]:
    """Return the JSON of a schema; `writers` write its default values."""
    described: dict[str, Any] = {"type": schema.type.value}
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        described["items"] = schema_to_json(schema.value_schema, writers)
    elif schema.type is Type.MAP and schema.key_schema and schema.value_schema:
        described["keys"] = schema_to_json(schema.key_schema, writers)
        described["values"] = schema_to_json(schema.value_schema, writers)
    elif schema.type is Type.STRUCT:
        described["fields"] = [
            {**schema_to_json(field.schema, writers), "field": field.name}
            for field in schema.fields
        ]
    described["optional"] = schema.optional
    for name in ("name", "version", "doc"):
        value = getattr(schema, name)
        if value is not None:
            described[name] = str(value) if name == "name" else value
    if schema.parameters is not None:
        described["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        described["default"] = writers.of(schema)(schema.default)
    return described
