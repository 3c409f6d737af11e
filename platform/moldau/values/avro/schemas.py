"""Parses Avro schemas with all their references, and checks them before they are used to read.

Some bytes can do harm with a schema that looks harmless, and what a producer wrote into a topic
must not be able to crash a reader:

* a schema that contains itself lets few bytes nest so deeply that fastavro's compiled reader runs
  out of stack, which crashes the process; if a payload is long enough for that, `avro_nested`
  reads it;
* a record that requires itself never ends;
* an array whose items take no bytes may claim billions of them; `avro_nested` counts them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final

from moldau.deferred import dataclass
from moldau.errors import ConfigError
from moldau.plugins.extras import need
from moldau.values.schema import Schema

_ENDLESS: Final = 1 << 40
_SIZES: Final = {"null": 0, "float": 4, "double": 8}
PRIMITIVES: Final = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
)


def avro_schema(schema: str | Schema) -> Schema:
    """Return the schema of a text, in which a bare name such as `string` is a type."""
    if isinstance(schema, Schema):
        return schema
    text = schema.strip()
    if text[:1] not in ("{", "[", '"'):
        text = json.dumps({"type": text})
    try:
        json.loads(text)
    except ValueError as error:
        raise ConfigError(f"the Avro schema is no JSON: {error}", schema=text[:80]) from error
    return Schema(text)


def parse_avro(schema: Schema, referenced: Iterable[Schema]) -> tuple[Any, dict[str, Any]]:
    """Return the schema parsed for fastavro, and by name all schemas inside and referenced; these
    come each after those that it needs."""
    named: dict[str, Any] = {}
    for each in referenced:
        parse_alone(each, named)
    parsed = parse_alone(schema, named)
    if schema.references:
        whole, named = with_definitions(parsed, named), {}
        parsed = parse_loaded(whole, named)
    return parsed, named


def with_definitions(schema: Any, named: Mapping[str, Any]) -> Any:
    """Return the parsed schema with each schema that it refers to inserted at its first use, where
    fastavro and other programs need it."""
    return _whole(schema, named, set())


def _whole(schema: Any, named: Mapping[str, Any], defined: set[str]) -> Any:
    if isinstance(schema, str):
        if schema not in named or schema in defined:
            return schema
        schema = named[schema]
    if isinstance(schema, list):
        return [_whole(each, named, defined) for each in schema]
    made = {key: each for key, each in schema.items() if not key.startswith("__")}
    if "name" in made:
        defined.add(made["name"])
        if "." not in made["name"]:
            made["namespace"] = ""  # and not that of the schema around it now
    if "fields" in made:
        made["fields"] = [
            {**each, "type": _whole(each["type"], named, defined)} for each in made["fields"]
        ]
    for key in ("items", "values"):
        if key in made:
            made[key] = _whole(made[key], named, defined)
    return made


def parse_alone(schema: Schema, named: dict[str, Any]) -> Any:
    """Return the schema parsed for fastavro. Add the schemas that it names to `named`."""
    unusable = need("fastavro", "avro").schema.SchemaParseException
    try:
        return parse_loaded(json.loads(schema.text, object_hook=_meant), named)
    except (unusable, ValueError, KeyError, TypeError) as error:
        reason = f"{type(error).__name__}: {error}"
        if isinstance(error, KeyError):
            reason = f"a part has no {error}"
        elif isinstance(error, TypeError):
            reason = "a part is no type"
        raise ConfigError(
            f"the Avro schema cannot be used: {reason}", schema=schema.text[:80]
        ) from error


def _meant(part: dict[str, Any]) -> dict[str, Any]:
    """Remove a logical type that Avro's rules ignore: a decimal without its precision."""
    if part.get("logicalType") == "decimal" and not part.get("precision"):
        del part["logicalType"]
    return part


def parse_loaded(schema: Any, named: dict[str, Any]) -> Any:
    """Parse a schema that is no longer text, as `parse_alone` does; the errors are fastavro's.

    fastavro marks the records that it has parsed, and parses everything else again for each value.
    So the rest is marked here. Otherwise it would not know referenced names, and would reject
    defaults that are no longer JSON.
    """
    parsed = need("fastavro", "avro").parse_schema(schema, named_schemas=named)
    if isinstance(parsed, list):
        return [_with_marks(each, named) for each in parsed]
    return _with_marks(parsed, named)


def _with_marks(parsed: Any, named: Mapping[str, Any]) -> Any:
    """Return a marked copy: the schema may be in `named`, and would then contain itself."""
    return {**parsed, **marked(named)} if isinstance(parsed, dict) else parsed


def marked(named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that tell fastavro that a schema is parsed, and which schemas it names."""
    return {"__fastavro_parsed": True, "__named_schemas": named}


def name_of(schema: Schema) -> str | None:
    """Return the full name of the record, or the name of the primitive type, or None."""
    parsed = json.loads(schema.text)
    if not isinstance(parsed, dict):
        return parsed if isinstance(parsed, str) else None
    name, namespace = parsed.get("name"), parsed.get("namespace")
    if name is None:
        kind = parsed.get("type")
        return kind if isinstance(kind, str) else None
    return f"{namespace}.{name}" if namespace and "." not in name else str(name)


def is_bytes(parsed: Any) -> bool:
    """Whether the schema is the type `bytes` and nothing else."""
    if isinstance(parsed, dict):
        return parsed.get("type") == "bytes" and "logicalType" not in parsed
    return bool(parsed == "bytes")


def has_records(union: list[Any], named: Mapping[str, Any]) -> bool:
    """Whether the union has more than one record."""
    wholes = [named.get(each) if isinstance(each, str) else each for each in union]
    return [each["type"] for each in wholes if each is not None].count("record") > 1


def has_choice(union: list[Any]) -> bool:
    """Whether the union has more than one branch beside null."""
    return len([each for each in union if each != "null"]) > 1


@dataclass
class Shape:
    """What a schema allows its bytes to do. `named` are the schemas that it refers to by name."""

    named: Mapping[str, Any]
    is_recursive: bool = False
    has_empty_items: bool = False
    has_choices: bool = False
    has_unions: bool = False
    _open: set[str] = field(default_factory=set)
    _records: dict[str, Any] = field(default_factory=dict)
    _items: list[Any] = field(default_factory=list)
    _sizes: dict[str, int] = field(default_factory=dict)

    def problem(self, parsed: Any) -> str | None:
        """Return why it is not safe to read with the schema, or None. Set the other attributes.

        A record counts as endless until its fields have a smaller size, and all sizes are computed
        again until none changes: where records need each other, no single order would be right.
        """
        self._visit(parsed)
        while self._shrinks():
            pass
        self.has_empty_items = any(self._least(each) == 0 for each in self._items)
        if self._least(parsed) >= _ENDLESS:
            return "its schema needs itself without an end"
        return None

    def _visit(self, schema: Any) -> None:
        """Collect the records, each after those that it needs, and the items of arrays."""
        if isinstance(schema, list):
            self.has_choices |= has_records(schema, self.named)
            self.has_unions |= has_choice(schema)
            for each in schema:
                self._visit(each)
        elif isinstance(schema, str):
            if schema in self._open:
                self.is_recursive = True
            elif schema not in PRIMITIVES and schema not in self._records:
                self._visit(self.named[schema])
        elif schema["type"] == "array":
            self._items.append(schema["items"])
            self._visit(schema["items"])
        elif schema["type"] == "map":
            self._visit(schema["values"])
        elif schema["type"] in ("record", "error"):
            self._visit_record(schema)
        elif schema["type"] not in ("fixed", "enum"):
            self._visit(schema["type"])

    def _visit_record(self, schema: Mapping[str, Any]) -> None:
        name = schema["name"]
        if name in self._records or name in self._open:
            return
        self._open.add(name)
        for each in schema["fields"]:
            self._visit(each["type"])
        self._open.discard(name)
        self._records[name] = schema

    def _shrinks(self) -> bool:
        """Compute the least size of each record again. Return whether one has changed."""
        before = dict(self._sizes)
        for name, schema in self._records.items():
            size = sum(self._least(each["type"]) for each in schema["fields"])
            self._sizes[name] = min(size, _ENDLESS)
        return self._sizes != before

    def _least(self, schema: Any) -> int:
        """Return the least number of bytes that a value takes, as far as it is known."""
        if isinstance(schema, list):
            return 1 + min(map(self._least, schema), default=0)
        if isinstance(schema, str):
            return self._least_named(schema)
        kind = schema["type"]
        if kind in ("array", "map", "enum"):
            return 1
        if kind in ("record", "error"):
            return self._sizes.get(schema["name"], _ENDLESS)
        return int(schema["size"]) if kind == "fixed" else self._least(kind)

    def _least_named(self, name: str) -> int:
        if name in PRIMITIVES:
            return _SIZES.get(name, 1)
        if name in self._records:
            return self._sizes.get(name, _ENDLESS)
        return self._least(self.named[name])
