"""Writes values as texts that `sniffing` can read, as Kafka's `Values.convertToString` does."""

from __future__ import annotations

import base64
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from moldau.connect.data import logical
from moldau.connect.data.schema import Schema, Type
from moldau.connect.data.struct import Struct
from moldau.connect.errors import DataError
from moldau.connect.java.text import java_float


def written(value: Any, schema: Schema | None = None, *, embedded: bool = False) -> str:
    """Return the text. Texts and bytes inside an array or map are quoted."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return _quoted(value) if embedded else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return java_float(value, schema is not None and schema.type is Type.FLOAT32)
    if isinstance(value, (int, Decimal)):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        text = base64.b64encode(value).decode("ascii")
        return f'"{text}"' if embedded else text
    if isinstance(value, (list, tuple)):
        items = schema.value_schema if schema else None
        return f"[{','.join(written(item, items, embedded=True) for item in value)}]"
    if isinstance(value, dict):
        return _mapped(value, schema)
    if isinstance(value, Struct):
        pairs = (
            f"{_quoted(field.name)}:{written(value[field.name], field.schema, embedded=True)}"
            for field in value.schema.fields
        )
        return f"{{{','.join(pairs)}}}"
    return temporal(value)


def temporal(value: Any) -> str:
    """Return a date, time or timestamp in ISO 8601. A timestamp at midnight is written as a date,
    and one on or before the first day of 1970 as a time: Java has one class for all three."""
    if isinstance(value, datetime):
        ms = logical.timestamp_to_ms(value)
        when = value.astimezone(UTC)
        clock = f"{when:%H:%M:%S}.{when.microsecond // 1000:03}Z"
        if ms < logical.DAY_MS:
            return clock
        day = f"{when.year:04}-{when.month:02}-{when.day:02}"
        return day if ms % logical.DAY_MS == 0 else f"{day}T{clock}"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, time):
        return f"{value:%H:%M:%S}.{value.microsecond // 1000:03}Z"
    raise DataError(f"a value of type {type(value).__name__} cannot be written as a text")


def _mapped(value: dict[Any, Any], schema: Schema | None) -> str:
    keys, values = (schema.key_schema, schema.value_schema) if schema else (None, None)
    pairs = (
        f"{written(key, keys, embedded=True)}:{written(item, values, embedded=True)}"
        for key, item in value.items()
    )
    return f"{{{','.join(pairs)}}}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
