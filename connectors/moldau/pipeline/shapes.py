"""What is known of the values of a topic: their format and their fields. No IO.

A shape comes from columns as DDL, from a JSON Schema, or from an Avro schema. The types of a field
are those of JSON: a type that is not known is None, and fits everything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from moldau.deferred import dataclass
from moldau.errors import MoldauError

_TIMEOUT_MS = 5000

TEXT: Final = "text"
JSON: Final = "JSON"
ENVELOPE: Final = "JSON with a schema in each record"
AVRO: Final = "Avro of a registry"
JSON_SCHEMA: Final = "JSON Schema of a registry"
PROTOBUF: Final = "Protobuf of a registry"
BYTES: Final = "bytes"
REGISTERED: Final = frozenset({AVRO, JSON_SCHEMA, PROTOBUF})

Types = frozenset[str]
_NULL: Final = "null"
_COLUMN: Final = re.compile(r"\s*(`(?:[^`]|``)+`|\w+)\s*:?\s*(\w+(?:\([^)]*\))?)?")
_DDL_TYPES: Final[Mapping[str, Types]] = {
    **dict.fromkeys(
        ("TINYINT", "BYTE", "SMALLINT", "SHORT", "INT", "INTEGER", "BIGINT", "LONG"),
        frozenset({"integer"}),
    ),
    **dict.fromkeys(("FLOAT", "REAL", "DOUBLE"), frozenset({"number"})),
    **dict.fromkeys(("DECIMAL", "DEC", "NUMERIC"), frozenset({"number", "string"})),
    **dict.fromkeys(("STRING", "CHARACTER", "CHAR", "VARCHAR", "BINARY"), frozenset({"string"})),
    **dict.fromkeys(
        ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"),
        frozenset({"string", "number"}),
    ),
    "BOOLEAN": frozenset({"boolean"}),
    "ARRAY": frozenset({"array"}),
    "MAP": frozenset({"object"}),
    "STRUCT": frozenset({"object"}),
}
_AVRO_TYPES: Final[Mapping[str, Types]] = {
    "null": frozenset({_NULL}),
    "boolean": frozenset({"boolean"}),
    **dict.fromkeys(("int", "long"), frozenset({"integer"})),
    **dict.fromkeys(("float", "double"), frozenset({"number"})),
    **dict.fromkeys(("string", "bytes", "fixed", "enum"), frozenset({"string"})),
    **dict.fromkeys(("record", "map"), frozenset({"object"})),
    "array": frozenset({"array"}),
}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record. `text` is its type as the user knows it."""

    types: Types | None
    text: str
    is_required: bool = False
    """A reader fails on a record without it."""
    can_be_null: bool = True

    def takes(self, written: Types) -> bool:
        """Whether values of all these types can be read as this field, apart from null."""
        return self.types is None or all(
            each in self.types or (each == "integer" and "number" in self.types)
            for each in written - {_NULL}
        )


@dataclass(frozen=True, slots=True)
class Shape:
    """The format of the values of a topic, and their fields if they are known."""

    format: str
    fields: Mapping[str, Field] | None = None


def ddl_fields(ddl: str, *, is_lenient: bool = False) -> dict[str, Field]:
    """Return the columns of a DDL, without those inside of them.

    `is_lenient`: a STRING is read from any value, as Spark reads JSON."""
    found: dict[str, Field] = {}
    for name, kind in _columns(ddl):
        types = _DDL_TYPES.get(kind.partition("(")[0].upper())
        if is_lenient and types == frozenset({"string"}):
            types = None
        found[name] = Field(types, kind.upper())
    return found


def _columns(ddl: str) -> list[tuple[str, str]]:
    found, depth, start = [], 0, 0
    for position, character in enumerate(f"{ddl},"):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            match = _COLUMN.match(f"{ddl},", start)
            if match is not None and match.end(1) <= position:
                found.append((match[1].strip("`").replace("``", "`"), match[2] or ""))
            start = position + 1
    return found


def json_schema_fields(schema: Any, *, is_lax: bool = False) -> dict[str, Field] | None:
    """Return the fields of a JSON Schema; None if it is not known to be one of an object.

    `is_lax`: its reader takes numbers from texts, as pydantic does."""
    root = _resolved(schema, schema)
    if not isinstance(root, Mapping) or not isinstance(root.get("properties"), Mapping):
        return None
    required = root.get("required", ())
    found = {}
    for name, each in root["properties"].items():
        types = _json_types(each, schema)
        can_be_null = types is None or _NULL in types
        text = _text(types)
        if is_lax and types is not None and types & {"integer", "number", "boolean"}:
            types |= {"string"}
        found[name] = Field(types, text, name in required, can_be_null)
    return found


def _resolved(node: Any, root: Any) -> Any:
    for _ in range(8):  # a reference to a reference
        if not isinstance(node, Mapping) or not isinstance(node.get("$ref"), str):
            return node
        path, node = node["$ref"], root
        if not path.startswith("#"):
            return None
        for part in path.removeprefix("#").strip("/").split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            if part:
                node = node.get(name) if isinstance(node, Mapping) else None
    return None


def _json_types(node: Any, root: Any) -> Types | None:
    """Return the types of a schema, or None if it allows any, or they are not known."""
    node = _resolved(node, root)
    if not isinstance(node, Mapping):
        return None
    for key in ("anyOf", "oneOf"):
        if isinstance(node.get(key), list):
            return _united(node[key], lambda each: _json_types(each, root))
    if isinstance(node.get("enum"), list):
        return frozenset(_type_of(each) for each in node["enum"])
    if "const" in node:
        return frozenset({_type_of(node["const"])})
    found = node.get("type")
    if isinstance(found, str):
        # A Decimal is written as a text, and read from a number too.
        return frozenset({found, "number"} if node.get("format") == "decimal" else {found})
    if isinstance(found, list) and all(isinstance(each, str) for each in found):
        return frozenset(found)
    return None


def _type_of(value: object) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return _NULL if value is None else names.get(type(value), "object")


def avro_fields(schema: Any) -> dict[str, Field] | None:
    """Return the fields of an Avro schema; None if it is not one of a record."""
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        return None
    found = {}
    for each in schema.get("fields", ()):
        types = _avro_types(each["type"])
        can_be_null = types is None or _NULL in types
        found[each["name"]] = Field(types, _text(types), "default" not in each, can_be_null)
    return found


def _avro_types(kind: Any) -> Types | None:
    if isinstance(kind, list):
        return _united(kind, _avro_types)
    if isinstance(kind, Mapping):
        return None if "logicalType" in kind else _avro_types(kind.get("type"))
    return _AVRO_TYPES.get(kind) if isinstance(kind, str) else None


def _united(nodes: list[Any], types_of: Callable[[Any], Types | None]) -> Types | None:
    found: Types = frozenset()
    for each in nodes:
        types = types_of(each)
        if types is None:
            return None
        found |= types
    return found or None


def _text(types: Types | None) -> str:
    if types is None:
        return "any type"
    return " or ".join([*sorted(types - {_NULL}), *(types & {_NULL})])


def schema_shape(kind: str, text: str) -> Shape:
    """Return the shape of a schema in a registry: `kind` is AVRO, JSON or PROTOBUF.

    Raises ValueError if the text is not JSON."""
    if kind == "AVRO":
        return Shape(AVRO, avro_fields(json.loads(text)))
    if kind == "JSON":
        return Shape(JSON_SCHEMA, json_schema_fields(json.loads(text)))
    return Shape(PROTOBUF)


def registered_shape(url: str, topic: str) -> Shape | str:
    """Return what the latest schema of the topic's values says, or why that is not known."""
    from moldau.client.sync import SchemaRegistry

    try:
        with SchemaRegistry(
            url,
            http_connect_timeout_ms=_TIMEOUT_MS,
            http_read_timeout_ms=_TIMEOUT_MS,
            max_retries=0,
        ) as registry:
            found = registry.latest(f"{topic}-value").schema
        return schema_shape(found.type, found.text)
    except (MoldauError, ValueError) as error:
        return str(error)
