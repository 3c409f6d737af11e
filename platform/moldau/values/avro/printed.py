"""Avro schemas: parsed by fastavro, printed as Java's Avro prints them.

The canonical text has the attributes in Java's order and the shortest names, so that a schema has
the same text here and in Confluent's registry.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final

from moldau.deferred import dataclass
from moldau.values.avro.compatibility import differences
from moldau.values.avro.schemas import PRIMITIVES, parse_alone, with_definitions
from moldau.values.compatibility import (
    Difference,
    InvalidSchema,
    Resolve,
    Work,
    as_invalid,
    collect,
    no_references,
)
from moldau.values.schema import Schema

_OWN: Final[Mapping[str, tuple[str, ...]]] = {
    "record": ("type", "name", "namespace", "doc", "fields", "aliases"),
    "error": ("type", "name", "namespace", "doc", "fields", "aliases"),
    "enum": ("type", "name", "namespace", "doc", "symbols", "default", "aliases"),
    "fixed": ("type", "name", "namespace", "doc", "size", "aliases"),
    "array": ("type", "items"),
    "map": ("type", "values"),
}
"""The attributes of each type that have a meaning of their own. Others are properties."""
_OF_FIELDS: Final = ("name", "type", "doc", "default", "order", "aliases")


class AvroSchema:
    """A parsed Avro schema."""

    def __init__(self, raw: Any, parsed: Any, named: Mapping[str, Any]) -> None:
        self._raw = raw
        self.parsed = parsed
        self.named = named

    @cached_property
    def canonical(self) -> str:
        return _dump(_Printer(is_sorted=False).schema(self._raw, ""))

    @property
    def identity(self) -> str:
        return self.canonical

    @cached_property
    def normalized(self) -> str:
        return _dump(_Printer(is_sorted=True).schema(self._raw, ""))

    def differences(self, writer: AvroSchema, work: Work) -> list[Difference]:
        return differences(self.parsed, self.named, writer.parsed, writer.named, work)

    def text(self, format: str) -> str | None:
        """Return the schema with all references inside for `resolved`."""
        if format != "resolved":
            return None
        return _dump(with_definitions(self.parsed, self.named))


def parse(schema: Schema, resolve: Resolve = no_references) -> AvroSchema:
    """Parse a schema. Raise InvalidSchema."""
    named: dict[str, Any] = {}
    with as_invalid():
        raw = _loaded(schema.text)
        for name, each in collect(schema, resolve).items():
            if name not in named:
                parse_alone(each, named)
        parsed = parse_alone(Schema(json.dumps(raw)), named)
    _check(raw)
    return AvroSchema(raw, parsed, named)


def _loaded(text: str) -> Any:
    stripped = text.strip()
    if stripped in PRIMITIVES:
        return stripped
    try:
        found = json.loads(stripped)
    except ValueError as error:
        raise InvalidSchema(f"it is no JSON: {error}") from None
    if not isinstance(found, (dict, list, str)):
        raise InvalidSchema("an Avro schema is an object, a list or the name of a type")
    return found


def _check(raw: Any) -> None:
    """Raise InvalidSchema for unions that Avro does not allow, which fastavro accepts."""
    if isinstance(raw, list):
        kinds = [_kind(each) for each in raw]
        if any(isinstance(each, list) for each in raw):
            raise InvalidSchema("a union cannot contain a union")
        doubled = [each for each, count in Counter(kinds).items() if count > 1]
        if doubled:
            raise InvalidSchema(f"a union has two branches of one type: {', '.join(doubled)}")
        for each in raw:
            _check(each)
    elif isinstance(raw, dict):
        for name in ("type", "items", "values"):
            if isinstance(raw.get(name), (dict, list)):
                _check(raw[name])
        if raw.get("type") in ("record", "error") and not isinstance(raw.get("fields"), list):
            raise InvalidSchema(f"the record {raw.get('name')} has no fields")
        names = [each["name"] for each in raw.get("fields") or ()]
        if len(names) != len(set(names)):
            raise InvalidSchema(f"the record {raw.get('name')} has two fields of one name")
        for each in raw.get("fields") or ():
            _check(each["type"])


def _kind(raw: Any) -> str:
    if isinstance(raw, dict):
        return str(raw.get("name") or raw.get("type"))
    return raw if isinstance(raw, str) else "union"


@dataclass(frozen=True)
class _Printer:
    """Orders the parts of a schema as Java prints them. `space` is the namespace around a part."""

    is_sorted: bool

    def schema(self, raw: Any, space: str) -> Any:
        if isinstance(raw, str):
            head, _, tail = raw.rpartition(".")
            return tail if head and head == space else raw
        if isinstance(raw, list):
            return [self.schema(each, space) for each in raw]
        kind = raw["type"]
        if not isinstance(kind, str):
            return self.schema(kind, space)
        if kind in _OWN and "name" in raw:
            return self._named(raw, kind, space)
        if kind in ("array", "map"):
            part = "items" if kind == "array" else "values"
            return {"type": kind, part: self.schema(raw[part], space), **self._rest(raw, kind)}
        rest = self._rest(raw, kind)
        return {"type": kind, **rest} if rest else self.schema(kind, space)

    def _named(self, raw: Mapping[str, Any], kind: str, space: str) -> Any:
        head, _, name = str(raw["name"]).rpartition(".")
        own = head or (raw["namespace"] or "" if "namespace" in raw else space)
        made: dict[str, Any] = {"type": kind, "name": name}
        if own != space:
            made["namespace"] = own
        if raw.get("doc") is not None:
            made["doc"] = raw["doc"]
        if kind in ("record", "error"):
            made["fields"] = [self._field(each, own) for each in raw["fields"]]
        for each in ("symbols", "size"):
            if each in raw:
                made[each] = raw[each]
        if kind == "enum" and "default" in raw:
            made["default"] = raw["default"]
        made |= self._rest(raw, kind)
        if raw.get("aliases"):
            made["aliases"] = [_relative(each, own) for each in raw["aliases"]]
        return made

    def _field(self, raw: Mapping[str, Any], space: str) -> Any:
        made = {"name": raw["name"], "type": self.schema(raw["type"], space)}
        if raw.get("doc") is not None:
            made["doc"] = raw["doc"]
        if "default" in raw:
            made["default"] = raw["default"]
        if raw.get("order", "ascending") != "ascending":
            made["order"] = raw["order"]
        if raw.get("aliases"):
            made["aliases"] = list(raw["aliases"])
        return {**made, **self._others(raw, _OF_FIELDS)}

    def _rest(self, raw: Mapping[str, Any], kind: str) -> dict[str, Any]:
        return self._others(raw, _OWN.get(kind, ("type",)))

    def _others(self, raw: Mapping[str, Any], own: Iterable[str]) -> dict[str, Any]:
        found = {name: each for name, each in raw.items() if name not in own}
        return dict(sorted(found.items())) if self.is_sorted else found


def _relative(name: str, space: str) -> str:
    head, _, tail = name.rpartition(".")
    return tail if head == space else name


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
