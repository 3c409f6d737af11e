"""JSON Schemas: checked by jsonschema-rs, references resolved, compared by `json_compatibility`.

The canonical text is the JSON without blanks, in the order that it was given. Normalized, the keys
of objects are sorted, and so are lists in which order means nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

from moldau.client.serdes.json_schema import check_json_schema
from moldau.client.serdes.registry.schemas import Reference, Schema
from moldau.errors import ConfigError
from moldau.registry.formats.contract import Difference, InvalidSchema, Resolve, Work, collect
from moldau.registry.formats.json_compatibility import differences

_UNORDERED: Final = ("required", "type", "enum")


class JsonSchema:
    """A parsed JSON Schema. `known` are the referenced ones by name."""

    def __init__(self, raw: Any, known: Mapping[str, Any]) -> None:
        self.raw = raw
        self.known = known

    @cached_property
    def canonical(self) -> str:
        return _dump(self.raw)

    @property
    def identity(self) -> str:
        return self.canonical

    @cached_property
    def normalized(self) -> str:
        return _dump(_sorted(self.raw, ""))

    def differences(self, writer: JsonSchema, work: Work) -> list[Difference]:
        return differences(self.raw, self.known, writer.raw, writer.known, work)

    def text(self, format: str) -> str | None:
        return None


def parse(schema: Schema, resolve: Resolve) -> JsonSchema:
    """Parse a schema. Raise InvalidSchema."""
    known: dict[str, Any] = {}

    def add(reference: Reference, found: Schema) -> None:
        known.setdefault(reference.name, _loaded(found.text))

    try:
        raw = _loaded(schema.text)
        collect(schema, resolve, add)
        check_json_schema(schema, known)
    except ConfigError as error:
        if "library" in error.context:
            raise
        raise InvalidSchema(error.reason) from error
    except RecursionError:
        raise InvalidSchema("it is nested too deeply") from None
    return JsonSchema(raw, known)


def _loaded(text: str) -> Any:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InvalidSchema(f"it is no JSON: {error}") from None
    if not isinstance(found, (dict, bool)):
        raise InvalidSchema("a JSON Schema is an object, true or false")
    return found


def _sorted(raw: Any, name: str) -> Any:
    if isinstance(raw, dict):
        return {key: _sorted(raw[key], key) for key in sorted(raw)}
    if isinstance(raw, list):
        made = [_sorted(each, "") for each in raw]
        return sorted(made, key=_dump) if name in _UNORDERED else made
    return raw


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
