"""Read Avro values with fastavro, and translate an Avro schema to a Spark type.

The outermost type of a schema must be a record. Spark has no type for a union of several types:
such a schema is rejected when the query is made, not when the query meets the first value.
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


class _UnsupportedSchema(ValueError):
    """The schema is valid Avro, but Spark has no row type for it."""


def avro_to_ddl(text: str, option: str = "value.schema") -> str:
    """Translate an Avro record schema to a Spark type, as DDL.

    Raises ConfigError, which names `option`, if the schema is not valid or not a record."""
    try:
        schema = json.loads(text)
        if not isinstance(schema, dict) or schema.get("type") != "record":
            raise _UnsupportedSchema("the outermost type must be a record")
        return _ddl(schema)
    except ValueError as error:
        why = str(error) if isinstance(error, _UnsupportedSchema) else "it is not JSON"
        raise ConfigError(
            f"the Avro schema cannot be used for rows: {why}", option=option, value=text[:200]
        ) from None


def avro_reader(text: str, *, is_framed: bool = False) -> Callable[[bytes], dict[str, Any]]:
    """Return a function that reads one whole value.

    With `is_framed`, a value begins with the five bytes of a Schema Registry."""
    fastavro = _fastavro()
    schema = fastavro.parse_schema(json.loads(text))
    start = _FRAME_BYTES if is_framed else 0

    def read(value: bytes) -> dict[str, Any]:
        if is_framed and (len(value) < start or value[0] != _MAGIC):
            raise ValueError("it does not begin with the five bytes of a Schema Registry")
        data = io.BytesIO(value[start:])
        found: dict[str, Any] = fastavro.schemaless_reader(data, schema)
        if data.read(1):
            raise ValueError("it has bytes after its end: it was written with another schema")
        return found

    return read


def _ddl(schema: Any) -> str:
    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        if len(kinds) != 1:
            raise _UnsupportedSchema("a union may have only one type beside null")
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
        raise _UnsupportedSchema(f"the type {kind} is not supported")
    return _PRIMITIVES[kind]


def _fastavro() -> Any:
    try:
        return import_module("fastavro")
    except ImportError as error:
        raise ConfigError(
            "value.format=avro needs fastavro: pip install fastavro", missing="fastavro"
        ) from error
