"""Read Avro values with fastavro, and translate an Avro schema to a Spark type.

The outermost type of a schema must be a record. Spark has no type for a union of several types:
such a schema is rejected when the query is made, not when the query meets the first value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from moldau.errors import ConfigError
from moldau.values.avro.printed import parse
from moldau.values.avro.read import shape_of, value_reader
from moldau.values.avro.schemas import parse_alone
from moldau.values.compatibility import InvalidSchema
from moldau.values.schema import Schema

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
}
_FRAME_BYTES: Final = 5
_MAGIC: Final = 0


def avro_to_ddl(text: str, option: str = "value.schema") -> str:
    """Translate an Avro record schema to a Spark type, as DDL.

    Raises ConfigError, which names `option`, if the schema is not valid or not a record."""
    try:
        schema = parse(Schema(text))
        if not isinstance(schema.parsed, dict) or schema.parsed["type"] != "record":
            raise InvalidSchema("the outermost type must be a record")
        return _ddl(schema.parsed, schema.named, ())
    except InvalidSchema as error:
        raise ConfigError(
            f"the Avro schema cannot be used for rows: {error}", option=option, value=text[:200]
        ) from None


def avro_reader(text: str, *, is_framed: bool = False) -> Callable[[bytes], dict[str, Any]]:
    """Return a function that reads one whole value.

    With `is_framed`, a value begins with the five bytes of a Schema Registry."""
    named: dict[str, Any] = {}
    parsed = parse_alone(Schema(text), named)
    of_bytes = value_reader(shape_of(parsed, named), parsed)
    start = _FRAME_BYTES if is_framed else 0

    def read(value: bytes) -> dict[str, Any]:
        if is_framed and (len(value) < start or value[0] != _MAGIC):
            raise ValueError("it does not begin with the five bytes of a Schema Registry")
        found: dict[str, Any] = of_bytes(value, start)
        return found

    return read


def _ddl(schema: Any, named: Mapping[str, Any], around: tuple[str, ...]) -> str:
    """Return the Spark type of a parsed schema; `around` are the records that contain it."""
    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        if len(kinds) != 1:
            raise InvalidSchema("a union may have only one type beside null")
        return _ddl(kinds[0], named, around)
    schema = named.get(schema, {"type": schema}) if isinstance(schema, str) else schema
    kind = schema["type"]
    if not isinstance(kind, str):
        return _ddl(kind, named, around)
    if kind == "record":
        name = schema["name"]
        if name in around:
            raise InvalidSchema(f"the record {name} contains itself")
        fields = (
            f"`{each['name']}`: {_ddl(each['type'], named, (*around, name))}"
            for each in schema["fields"]
        )
        return f"STRUCT<{', '.join(fields)}>"
    logical = schema.get("logicalType")
    if logical == "decimal":
        return f"DECIMAL({schema['precision']},{schema.get('scale', 0)})"
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if kind == "array":
        return f"ARRAY<{_ddl(schema['items'], named, around)}>"
    if kind == "map":
        return f"MAP<STRING, {_ddl(schema['values'], named, around)}>"
    if kind not in _PRIMITIVES:
        raise InvalidSchema(f"the type {kind} is not supported")
    return _PRIMITIVES[kind]
