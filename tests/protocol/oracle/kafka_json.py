"""A message value in the JSON of Kafka's own converters, and back.

Field names begin with a small letter; bytes and records are base64, a uuid is its 22 characters
of url-safe base64. Records are the exception on the way back: Kafka prints only their size.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from tests.oracle import FieldSchema, MessageSchema
from tests.protocol.oracle.second_codec import Value, complete


def field_name(schema_name: str) -> str:
    """Kafka's JSON name of a field."""
    return schema_name[0].lower() + schema_name[1:]


def to_json(schema: MessageSchema, version: int, value: Value) -> dict[str, Any]:
    """A complete value as Kafka's converters read it; without fields the version lacks."""
    return _struct_to_json(schema, version, schema.fields, value)


def from_json(schema: MessageSchema, version: int, json: Mapping[str, Any]) -> Value:
    """What Kafka printed, as a complete value in which records are their size."""
    return complete(schema, _struct_from_json(schema, version, schema.fields, json))


def with_records_sized(schema: MessageSchema, value: Value) -> Value:
    """A complete value as `from_json` gives it back."""
    return _struct_with_records_sized(schema, schema.fields, value)


def bytes_to_text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def uuid_to_text(uuid: bytes) -> str:
    return base64.urlsafe_b64encode(uuid).decode("ascii").rstrip("=")


def text_to_uuid(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "==")


def _struct_to_json(
    schema: MessageSchema, version: int, fields: Sequence[FieldSchema], value: Value
) -> dict[str, Any]:
    return {
        field_name(field.name): _to_json(schema, version, field, value[field.name])
        for field in fields
        if version in field.versions
    }


def _to_json(schema: MessageSchema, version: int, field: FieldSchema, value: Any) -> Any:
    if isinstance(value, list):
        return [_to_json(schema, version, field, element) for element in value]
    if isinstance(value, dict):
        return _struct_to_json(schema, version, schema.struct_of(field).fields, value)
    if isinstance(value, bytes):
        return uuid_to_text(value) if field.element_type == "uuid" else bytes_to_text(value)
    return value


def _struct_from_json(
    schema: MessageSchema, version: int, fields: Sequence[FieldSchema], json: Mapping[str, Any]
) -> Value:
    value: Value = {}
    for field in fields:
        name = field_name(field.name)
        if name in json:
            value[field.name] = _from_json(schema, version, field, json[name])
        elif f"{name}SizeInBytes" in json:
            value[field.name] = json[f"{name}SizeInBytes"]
    return value


def _from_json(schema: MessageSchema, version: int, field: FieldSchema, json: Any) -> Any:
    if json is None:
        return None
    if isinstance(json, list):
        return [_from_json(schema, version, field, element) for element in json]
    kind = field.element_type
    if isinstance(json, dict):
        return _struct_from_json(schema, version, schema.struct_of(field).fields, json)
    if kind == "uuid":
        return text_to_uuid(json)
    if kind == "bytes":
        return base64.b64decode(json)
    return float(json) if kind == "float64" else json


def _struct_with_records_sized(
    schema: MessageSchema, fields: Sequence[FieldSchema], value: Value
) -> Value:
    return {
        field.name: _with_records_sized(schema, field, value[field.name])
        for field in fields
        if field.name in value
    }


def _with_records_sized(schema: MessageSchema, field: FieldSchema, value: Any) -> Any:
    if isinstance(value, list):
        return [_with_records_sized(schema, field, element) for element in value]
    if isinstance(value, dict):
        return _struct_with_records_sized(schema, schema.struct_of(field).fields, value)
    return len(value) if field.type == "records" and value is not None else value
