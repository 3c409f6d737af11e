"""Schemas, values and records as JSON that the Java side (`ConnectAnswers.java`) reads and writes.

Values that JSON does not have stand in objects of one field: `$bytes`, `$date` (milliseconds, for
all of Java's dates), `$decimal`, `$float`, `$map` (pairs) and `$struct`.
"""

from __future__ import annotations

import base64
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from moldau.connect.api import ConnectRecord, Headers, SinkRecord, SourceRecord
from moldau.connect.data import Logical, Schema, Struct, Type, logical
from moldau.connect.java.text import java_float

_TYPES = {
    **{kind.name: kind for kind in Type},
}


def schema_json(schema: Schema | None) -> Any:
    if schema is None:
        return None
    described: dict[str, Any] = {"type": schema.type.name}
    if schema.optional:
        described["optional"] = True
    for trait in ("name", "version", "doc"):
        if getattr(schema, trait) is not None:
            described[trait] = getattr(schema, trait)
    if schema.parameters:
        described["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        described["default"] = value_json(schema.default, schema)
    if schema.type is Type.STRUCT:
        described["fields"] = [
            {"name": field.name, "schema": schema_json(field.schema)} for field in schema.fields
        ]
    if schema.type is Type.MAP:
        described["keys"] = schema_json(schema.key_schema)
    if schema.type in (Type.MAP, Type.ARRAY):
        described["values"] = schema_json(schema.value_schema)
    return described


def schema_of(described: Any) -> Schema | None:
    if described is None:
        return None
    parts: dict[str, Any] = {}
    kind = _TYPES[described["type"]]
    if kind is Type.STRUCT:
        fields = {field["name"]: schema_of(field["schema"]) for field in described["fields"]}
        parts["fields"] = Schema.struct({n: s for n, s in fields.items() if s is not None}).fields
    if kind is Type.MAP:
        parts["key_schema"] = schema_of(described["keys"])
    if kind in (Type.MAP, Type.ARRAY):
        parts["value_schema"] = schema_of(described["values"])
    for trait in ("optional", "name", "version", "doc", "parameters"):
        if trait in described:
            parts[trait] = described[trait]
    schema = Schema(kind, **parts)
    if "default" in described:
        schema = schema.replace(default=value_of(described["default"], schema))
    return schema


def value_json(value: Any, schema: Schema | None = None) -> Any:
    """`schema` tells a float from a double."""
    if isinstance(value, Struct):
        pairs = zip(value.schema.fields, value.row, strict=True)
        return {"$struct": {field.name: value_json(item, field.schema) for field, item in pairs}}
    if isinstance(value, dict):
        keys, values = (schema.key_schema, schema.value_schema) if schema else (None, None)
        return {"$map": [[value_json(k, keys), value_json(v, values)] for k, v in value.items()]}
    if isinstance(value, list):
        items = schema.value_schema if schema else None
        return [value_json(item, items) for item in value]
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, datetime):
        return {"$date": logical.timestamp_to_ms(value)}
    if isinstance(value, date):
        return {"$date": logical.date_to_days(value) * logical.DAY_MS}
    if isinstance(value, time):
        return {"$date": logical.time_to_ms(value)}
    if isinstance(value, Decimal):
        return {"$decimal": str(value)}
    if isinstance(value, float):
        return {"$float": java_float(value, schema is not None and schema.type is Type.FLOAT32)}
    return value


def value_of(described: Any, schema: Schema | None) -> Any:
    if isinstance(described, list):
        items = schema.value_schema if schema else None
        return [value_of(item, items) for item in described]
    if not isinstance(described, dict):
        is_float = schema is not None and schema.type in (Type.FLOAT32, Type.FLOAT64)
        return float(described) if is_float and described is not None else described
    ((kind, content),) = described.items()
    match kind:
        case "$bytes":
            return base64.b64decode(content)
        case "$decimal":
            return Decimal(content)
        case "$float":
            return float(content)
        case "$date":
            return _date_of(content, schema)
        case "$map":
            keys, values = (schema.key_schema, schema.value_schema) if schema else (None, None)
            return {value_of(key, keys): value_of(item, values) for key, item in content}
    assert schema is not None
    members = ((name, value_of(item, _field(schema, name))) for name, item in content.items())
    return Struct(schema, dict(members))


def _field(schema: Schema, name: str) -> Schema:
    field = schema.field(name)
    assert field is not None
    return field.schema


def _date_of(ms: int, schema: Schema | None) -> Any:
    if schema is not None and schema.name == Logical.DATE:
        return logical.date_from_days(ms // logical.DAY_MS)
    if schema is not None and schema.name == Logical.TIME:
        return logical.time_from_ms(ms)
    return logical.timestamp_from_ms(ms)


def record_of(described: Any) -> ConnectRecord:
    key_schema, value_schema = (schema_of(described[f"{each}_schema"]) for each in ("key", "value"))
    key = value_of(described["key"], key_schema)
    value = value_of(described["value"], value_schema)
    headers = Headers()
    for header in described["headers"]:
        schema = schema_of(header["schema"])
        headers.add(header["key"], value_of(header["value"], schema), schema)
    if described["is_sink"]:
        return SinkRecord(
            described["topic"],
            described["partition"],
            key_schema,
            key,
            value_schema,
            value,
            described["offset"],
            described["timestamp"],
            headers=headers,
        )
    return SourceRecord(
        {},
        {},
        described["topic"],
        described["partition"],
        key_schema,
        key,
        value_schema,
        value,
        described["timestamp"],
        headers,
    )


def record_json(record: ConnectRecord) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.kafka_partition,
        "key_schema": schema_json(record.key_schema),
        "key": value_json(record.key, record.key_schema),
        "value_schema": schema_json(record.value_schema),
        "value": value_json(record.value, record.value_schema),
        "timestamp": record.timestamp,
        "headers": [
            {
                "key": header.key,
                "schema": schema_json(header.schema),
                "value": value_json(header.value, header.schema),
            }
            for header in record.headers
        ],
    }
