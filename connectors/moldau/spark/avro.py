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
    "local-timestamp-millis": "TIMESTAMP_NTZ",
    "local-timestamp-micros": "TIMESTAMP_NTZ",
    "uuid": "STRING",
}
_FRAME_BYTES: Final = 5
_MAGIC: Final = 0


class _Unfit(ValueError):
    """A schema that is good Avro, and no rows."""


def avro_to_ddl(text: str, option: str = "value.schema") -> str:
    """The type of a record as DDL. ConfigError names the option that the schema is from."""
    try:
        schema = json.loads(text)
        if not isinstance(schema, dict) or schema.get("type") != "record":
            raise _Unfit("its top must be a record")
        return _ddl(schema)
    except ValueError as error:
        why = str(error) if isinstance(error, _Unfit) else "it is no JSON"
        raise ConfigError(
            f"no Avro schema for rows: {why}", option=option, value=text[:200]
        ) from None


def avro_reader(text: str, *, is_framed: bool = False) -> Callable[[bytes], dict[str, Any]]:
    """Reads one value, all of it. `is_framed`: after the five bytes that a Schema Registry puts
    before it."""
    fastavro = _fastavro()
    schema = fastavro.parse_schema(json.loads(text))
    start = _FRAME_BYTES if is_framed else 0

    def read(value: bytes) -> dict[str, Any]:
        if is_framed and (len(value) < start or value[0] != _MAGIC):
            raise ValueError("a registry's five bytes do not stand before it")
        data = io.BytesIO(value[start:])
        found: dict[str, Any] = fastavro.schemaless_reader(data, schema)
        if data.read(1):
            raise ValueError("bytes are left over: it was written with another schema")
        return found

    return read


def _ddl(schema: Any) -> str:
    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        if len(kinds) != 1:
            raise _Unfit("a union may have one type beside null")
        return _ddl(kinds[0])
    if isinstance(schema, str):
        schema = {"type": schema}
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal":
        return f"DECIMAL({schema['precision']},{schema.get('scale', 0)})"
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if kind == "record":
        fields = (f"`{each['name']}`: {_ddl(each['type'])}" for each in schema["fields"])
        return f"STRUCT<{', '.join(fields)}>"
    if kind == "array":
        return f"ARRAY<{_ddl(schema['items'])}>"
    if kind == "map":
        return f"MAP<STRING, {_ddl(schema['values'])}>"
    if isinstance(kind, dict | list):
        return _ddl(kind)
    if kind not in _PRIMITIVES:
        raise _Unfit(f"the type {kind} is not known here")
    return _PRIMITIVES[kind]


def _fastavro() -> Any:
    try:
        return import_module("fastavro")
    except ImportError as error:
        raise ConfigError(
            "value.format=avro needs fastavro: pip install fastavro", missing="fastavro"
        ) from error
