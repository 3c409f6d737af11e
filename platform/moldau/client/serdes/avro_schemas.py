"""Avro schemas: parsed with all that they refer to, and looked at before they are used to read.

Some bytes can do harm with a schema that looks harmless, and a reader must not be ended by what
a producer wrote into a topic:

* a schema that contains itself lets few bytes nest so deeply that fastavro's compiled reader runs
  out of stack, which ends the process; so where the payload is long enough for that, `avro_nested`
  reads it;
* a record that needs itself never ends;
* an array whose items take no bytes may claim billions of them; `avro_nested` counts them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from moldau.client.serdes.extras import need
from moldau.client.serdes.registry.schemas import Schema
from moldau.errors import ConfigError

if TYPE_CHECKING:
    from moldau.client.serdes.registry.client import SchemaRegistry

_DEPTH_MAX: Final = 32
_ENDLESS: Final = 1 << 40
_SIZES: Final = {"null": 0, "float": 4, "double": 8}
_PRIMITIVES: Final = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
)


def avro_schema(schema: str | Schema) -> Schema:
    """A schema of its text; a bare name such as `string` is a type."""
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


async def parse_avro(registry: SchemaRegistry, schema: Schema) -> tuple[Any, dict[str, Any]]:
    """For fastavro, with everything that the schema refers to, which comes by name too."""
    named: dict[str, Any] = {}
    await _add_references(registry, schema, named, _DEPTH_MAX)
    parsed = parse_alone(schema, named)
    if schema.references:
        whole, named = _whole(parsed, named, set()), {}
        parsed = parse_loaded(whole, named)
    return parsed, named


def _whole(schema: Any, named: Mapping[str, Any], defined: set[str]) -> Any:
    """A parsed schema that has all it refers to in itself, each where it is first used. fastavro
    knows what came by name only below a record."""
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
            made["namespace"] = ""  # and not that of what is around it now
    if "fields" in made:
        made["fields"] = [
            {**each, "type": _whole(each["type"], named, defined)} for each in made["fields"]
        ]
    for key in ("items", "values"):
        if key in made:
            made[key] = _whole(made[key], named, defined)
    return made


async def _add_references(
    registry: SchemaRegistry, schema: Schema, named: dict[str, Any], depth: int
) -> None:
    """Depth first: what a schema needs is known before it is."""
    if schema.references and not depth:
        raise ConfigError("the schema's references are too deep or go in a circle")
    for each in schema.references:
        if each.name in named:
            continue
        found = await registry.version(each.subject, each.version)
        await _add_references(registry, found.schema, named, depth - 1)
        parse_alone(found.schema, named)


def parse_alone(schema: Schema, named: dict[str, Any]) -> Any:
    """For fastavro; adds to `named` what the schema names."""
    unusable = need("fastavro", "avro").schema.SchemaParseException
    try:
        return parse_loaded(json.loads(schema.text, object_hook=_meant), named)
    except (unusable, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"the Avro schema cannot be used: {type(error).__name__}: {error}",
            schema=schema.text[:80],
        ) from error


def _meant(part: dict[str, Any]) -> dict[str, Any]:
    """Without a logical type that means nothing, by Avro's rules: a decimal needs its precision."""
    if part.get("logicalType") == "decimal" and not part.get("precision"):
        del part["logicalType"]
    return part


def parse_loaded(schema: Any, named: dict[str, Any]) -> Any:
    """The same of a schema that is no text any more; the errors are fastavro's.

    fastavro marks the records that it has parsed, and parses all else again for each value. So the
    rest is marked here, or it would not know what is only named, and would refuse defaults that are
    no JSON any more."""
    parsed = need("fastavro", "avro").parse_schema(schema, named_schemas=named)
    if isinstance(parsed, list):
        return [_with_marks(each, named) for each in parsed]
    return _with_marks(parsed, named)


def _with_marks(parsed: Any, named: Mapping[str, Any]) -> Any:
    """A copy, as it may be one of those that are named, and would be in itself."""
    return {**parsed, **marked(named)} if isinstance(parsed, dict) else parsed


def marked(named: Mapping[str, Any]) -> dict[str, Any]:
    """What says to fastavro that a schema is parsed, with what it names."""
    return {"__fastavro_parsed": True, "__named_schemas": named}


def name_of(schema: Schema) -> str | None:
    """The record's whole name, or that of the primitive type."""
    parsed = json.loads(schema.text)
    if not isinstance(parsed, dict):
        return parsed if isinstance(parsed, str) else None
    name, namespace = parsed.get("name"), parsed.get("namespace")
    if name is None:
        kind = parsed.get("type")
        return kind if isinstance(kind, str) else None
    return f"{namespace}.{name}" if namespace and "." not in name else str(name)


def is_bytes(parsed: Any) -> bool:
    """Whether it is the type `bytes` and nothing else."""
    if isinstance(parsed, dict):
        return parsed.get("type") == "bytes" and "logicalType" not in parsed
    return bool(parsed == "bytes")


def has_records(union: list[Any], named: Mapping[str, Any]) -> bool:
    """Whether there is a choice between records."""
    wholes = [named.get(each) if isinstance(each, str) else each for each in union]
    return [each["type"] for each in wholes if each is not None].count("record") > 1


@dataclass
class Shape:
    """What bytes of a schema can do. `named` has the schemas that it names."""

    named: Mapping[str, Any]
    is_recursive: bool = False
    has_empty_items: bool = False
    has_choices: bool = False
    _open: set[str] = field(default_factory=set)
    _records: dict[str, Any] = field(default_factory=dict)
    _items: list[Any] = field(default_factory=list)
    _sizes: dict[str, int] = field(default_factory=dict)

    def problem(self, parsed: Any) -> str | None:
        """Why nothing can be read with it safely; also finds out the rest.

        A record counts as endless until its fields say less, and all are asked again until nothing
        changes: where records need each other, no order of asking would be the right one.
        """
        self._visit(parsed)
        while self._shrinks():
            pass
        self.has_empty_items = any(self._least(each) == 0 for each in self._items)
        if self._least(parsed) >= _ENDLESS:
            return "its schema needs itself without an end"
        return None

    def _visit(self, schema: Any) -> None:
        """Finds the records, those that others need before these, and the items of arrays."""
        if isinstance(schema, list):
            self.has_choices |= has_records(schema, self.named)
            for each in schema:
                self._visit(each)
        elif isinstance(schema, str):
            if schema in self._open:
                self.is_recursive = True
            elif schema not in _PRIMITIVES and schema not in self._records:
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
        """Whether some record turns out to take less than it was known to."""
        before = dict(self._sizes)
        for name, schema in self._records.items():
            size = sum(self._least(each["type"]) for each in schema["fields"])
            self._sizes[name] = min(size, _ENDLESS)
        return self._sizes != before

    def _least(self, schema: Any) -> int:
        """How many bytes a value takes at least, as far as it is known."""
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
        if name in _PRIMITIVES:
            return _SIZES.get(name, 1)
        if name in self._records:
            return self._sizes.get(name, _ENDLESS)
        return self._least(self.named[name])
