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
from moldau.plugins.extras import install_command

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
_NAMED: Final = ("record", "enum", "fixed")
_LOGICAL: Final = {
    "date": "DATE",
    "timestamp-millis": "TIMESTAMP",
    "timestamp-micros": "TIMESTAMP",
    "local-timestamp-millis": "TIMESTAMP_NTZ",
    "local-timestamp-micros": "TIMESTAMP_NTZ",
}
_FRAME_BYTES: Final = 5
_SHOWN_CHARACTERS: Final = 80
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
        return _SchemaTypes().ddl(schema)
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


class _SchemaTypes:
    """Translates one schema. It keeps the named types, because a schema may name them again."""

    def __init__(self) -> None:
        self._named: dict[str, str | None] = {}
        """The Spark type of each full name. It is None while that record is translated."""

    def ddl(self, schema: Any, namespace: str = "") -> str:
        """Return the Spark type of a schema that stands in this namespace."""
        if isinstance(schema, list):
            kinds = [each for each in schema if each != "null"]
            if len(kinds) != 1:
                raise _UnsupportedSchema("a union may have only one type beside null")
            return self.ddl(kinds[0], namespace)
        if isinstance(schema, str):
            schema = {"type": schema}
        if not isinstance(schema, dict):
            raise _UnsupportedSchema(f"{json.dumps(schema)} is not a type")
        kind = _part(schema, "type")
        if isinstance(kind, dict | list):
            return self.ddl(kind, namespace)
        if kind not in _NAMED:
            return _logical_ddl(schema) or self._unnamed_ddl(schema, kind, namespace)
        name = str(_part(schema, "name"))
        if "." not in name:
            namespace = schema.get("namespace", namespace)
            name = f"{namespace}.{name}" if namespace else name
        namespace = name.rpartition(".")[0]
        self._named[name] = None
        if kind == "record":
            found = self._record_ddl(schema, namespace)
        else:
            found = _logical_ddl(schema) or _PRIMITIVES[kind]
        self._named[name] = found
        return found

    def _record_ddl(self, schema: Any, namespace: str) -> str:
        fields = [
            f"`{_part(each, 'name')}`: {self.ddl(_part(each, 'type'), namespace)}"
            for each in _part(schema, "fields")
        ]
        return f"STRUCT<{', '.join(fields)}>"

    def _unnamed_ddl(self, schema: Any, kind: str, namespace: str) -> str:
        if kind == "array":
            return f"ARRAY<{self.ddl(_part(schema, 'items'), namespace)}>"
        if kind == "map":
            return f"MAP<STRING, {self.ddl(_part(schema, 'values'), namespace)}>"
        if kind in _PRIMITIVES:
            return _PRIMITIVES[kind]
        full_name = f"{namespace}.{kind}" if namespace and "." not in kind else kind
        name = full_name if full_name in self._named else kind
        if name not in self._named:
            raise _UnsupportedSchema(f"the type {kind} is not supported")
        found = self._named[name]
        if found is None:
            raise _UnsupportedSchema(f"the record {name} contains itself")
        return found


def _logical_ddl(schema: Any) -> str | None:
    """Return the Spark type of a logical type, or None if only the type below it counts."""
    logical = schema.get("logicalType")
    if logical == "decimal":
        return f"DECIMAL({_part(schema, 'precision')},{schema.get('scale', 0)})"
    return _LOGICAL.get(logical)


def _part(schema: Any, name: str) -> Any:
    """Return an attribute of a schema. Raises _UnsupportedSchema if it is missing."""
    if not isinstance(schema, dict) or name not in schema:
        raise _UnsupportedSchema(f"{json.dumps(schema)[:_SHOWN_CHARACTERS]} has no {name}")
    return schema[name]


def _fastavro() -> Any:
    try:
        return import_module("fastavro")
    except ImportError as error:
        raise ConfigError(
            f"value.format=avro needs fastavro: {install_command('avro')}", missing="fastavro"
        ) from error
