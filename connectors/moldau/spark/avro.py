"""Avro values through fastavro: the Spark type of a schema, and a reader of values.

A schema's top is a record. Types that Spark has no name for (unions of several types) are refused
when the query is made, not when it meets the first value.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from moldau.errors import ConfigError

_PRIMITIVES: Final = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "bytes": "BINARY",
    "string": "STRING",
    "enum": "STRING",
    "fixed": "BINARY",
}
_LOGICAL: Final = {
    "date": "DATE",
    "timestamp-millis": "TIMESTAMP",
    "timestamp-micros": "TIMESTAMP",
    "uuid": "STRING",
}
_FRAME_BYTES: Final = 5


def avro_to_ddl(text: str) -> str:
    """The type of a record as DDL."""
    schema = _parsed(text)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise _refused("its top must be a record", text)
    return _ddl(schema, text)


def avro_reader(text: str, *, is_framed: bool = False) -> Callable[[bytes], dict[str, Any]]:
    """Reads one value; `is_framed`: after the five bytes that a Schema Registry puts before it."""
    fastavro = _fastavro()
    schema = fastavro.parse_schema(_parsed(text))
    start = _FRAME_BYTES if is_framed else 0

    def read(value: bytes) -> dict[str, Any]:
        found: dict[str, Any] = fastavro.schemaless_reader(io.BytesIO(value[start:]), schema)
        return found

    return read


def _ddl(schema: Any, text: str) -> str:
    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        if len(kinds) != 1:
            raise _refused("a union may have one type beside null", text)
        return _ddl(kinds[0], text)
    if isinstance(schema, str):
        schema = {"type": schema}
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal":
        return f"DECIMAL({schema['precision']},{schema.get('scale', 0)})"
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if kind == "record":
        fields = (f"`{each['name']}`: {_ddl(each['type'], text)}" for each in schema["fields"])
        return f"STRUCT<{', '.join(fields)}>"
    if kind == "array":
        return f"ARRAY<{_ddl(schema['items'], text)}>"
    if kind == "map":
        return f"MAP<STRING, {_ddl(schema['values'], text)}>"
    if isinstance(kind, dict | list):
        return _ddl(kind, text)
    if kind not in _PRIMITIVES:
        raise _refused(f"the type {kind} is not known here", text)
    return _PRIMITIVES[kind]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise _refused("it is no JSON", text) from None


def _refused(why: str, text: str) -> ConfigError:
    return ConfigError(f"no Avro schema for rows: {why}", option="value.schema", value=text[:200])


def _fastavro() -> Any:
    try:
        return import_module("fastavro")
    except ImportError as error:
        raise ConfigError(
            "value.format=avro needs fastavro: pip install fastavro", missing="fastavro"
        ) from error
