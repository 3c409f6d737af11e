"""Confluent's rules for JSON Schema: whether a reader's schema accepts a writer's data. No IO.

The schemas are compared keyword by keyword. A change that makes the reader's schema accept less is
a difference. Whether a property may be added or removed depends on the content model around it:

* open: what is not declared may be anything (`additionalProperties` is true, as by default). A
  declared property is one more restriction, so adding one is a difference and removing one is not.
* closed: nothing else is allowed (false). Adding an optional property is fine, and removing one is
  a difference.
* partially open: what is not declared must fit a schema. A property that is added or removed is
  compared with that schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from operator import gt, lt
from typing import Any, Final

from moldau.plugins.extras import need
from moldau.values.compatibility import Difference, Work

_DEPTH_MAX: Final = 64
_COMPARED_MAX: Final = 20_000
"""How many parts are compared: choices within choices may multiply without an end."""
_UPPER: Final = {
    "maxLength": "MAX_LENGTH",
    "maximum": "MAXIMUM",
    "exclusiveMaximum": "EXCLUSIVE_MAXIMUM",
    "maxProperties": "MAX_PROPERTIES",
    "maxItems": "MAX_ITEMS",
}
_LOWER: Final = {
    "minLength": "MIN_LENGTH",
    "minimum": "MINIMUM",
    "exclusiveMinimum": "EXCLUSIVE_MINIMUM",
    "minProperties": "MIN_PROPERTIES",
    "minItems": "MIN_ITEMS",
}
_TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")
_STEPS_MAX: Final = 1_000
"""Of a pattern of properties that looks for a name: 0.1 ms."""
_PATTERN_PARTS: Final = 20
"""What such a look costs, as parts that are compared."""
_ADDED_TO_OPEN: Final = "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"
_COMBINED: Final = ("allOf", "anyOf", "oneOf")
_OBJECT_WORDS: Final = ("properties", "additionalProperties", "required", "patternProperties")


def differences(
    reader: Any,
    reader_known: Mapping[str, Any],
    writer: Any,
    writer_known: Mapping[str, Any],
    work: Work,
) -> list[Difference]:
    """Return why the reader's schema rejects data of the writer's; [] if it accepts all. Raise
    TooMuchWork."""
    comparison = _Comparison(_Resolver(reader, reader_known), _Resolver(writer, writer_known), work)
    return comparison.compare(reader, writer, "#/", 0)


class _Resolver:
    """Follows the references of one schema, within it and to the ones that it refers to."""

    def __init__(self, root: Any, known: Mapping[str, Any]) -> None:
        self._root = root
        self._known = known

    def resolved(self, schema: Any) -> Any:
        """Return the schema that a reference leads to, with what stands beside the reference."""
        seen: set[str] = set()
        while isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
            reference = schema["$ref"]
            if reference in seen:
                return {}
            seen.add(reference)
            beside = {key: each for key, each in schema.items() if key != "$ref"}
            schema = self._target(reference)
            if isinstance(schema, dict) and beside:
                schema = {**schema, **beside}
        return schema

    def _target(self, reference: str) -> Any:
        name, _, pointer = reference.partition("#")
        root = self._root
        if name:
            root = self._known.get(name, self._by_id(name))
        for part in filter(None, pointer.split("/")):
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(root, list) and key.isdecimal() and int(key) < len(root):
                root = root[int(key)]
            elif isinstance(root, dict):
                root = root.get(key, {})
            else:
                return {}
        return root

    def _by_id(self, name: str) -> Any:
        for each in (self._root, *self._known.values()):
            if isinstance(each, dict) and each.get("$id") == name:
                return each
        ends = (each for key, each in self._known.items() if name.endswith(f"/{key}"))
        return next(ends, {})


class _Comparison:
    def __init__(self, reader: _Resolver, writer: _Resolver, work: Work) -> None:
        self._work = work
        self._reader = reader
        self._writer = writer
        self._open: set[tuple[str, str]] = set()
        self._compared = 0

    def compare(self, reader: Any, writer: Any, path: str, depth: int) -> list[Difference]:
        """Compare two schemas; `path` is where they are."""
        self._compared += 1
        self._work.spend()
        if depth > _DEPTH_MAX or self._compared > _COMPARED_MAX:
            text = "the schemas are too large to compare: set the level NONE for this version"
            return [Difference("SCHEMA_TOO_COMPLEX", path, text)]
        pair = _reference(reader), _reference(writer)
        if all(pair):
            if pair in self._open:
                return []
            self._open.add(pair)
        try:
            found, given = self._reader.resolved(reader), self._writer.resolved(writer)
            return self._compare(found, given, path, depth)
        finally:
            if all(pair):
                self._open.discard(pair)

    def _compare(self, reader: Any, writer: Any, path: str, depth: int) -> list[Difference]:
        if _accepts_all(reader) or writer is False or reader == writer:
            return []
        if reader is False:
            return [Difference("TYPE_NARROWED", path, "nothing is accepted any more")]
        if _accepts_all(writer):
            return [Difference("TYPE_NARROWED", path, "not everything is accepted any more")]
        reader, writer = _unwrapped(reader), _unwrapped(writer)
        if _combined(reader) or _combined(writer):
            return self._combinations(reader, writer, path, depth)
        types = _types(reader, writer, path)
        if types:
            return types
        return [
            *_constants(reader, writer, path),
            *_limits(reader, writer, path),
            *self._objects(reader, writer, path, depth),
            *self._arrays(reader, writer, path, depth),
            *self._negations(reader, writer, path, depth),
        ]

    # Objects

    def _objects(
        self, reader: dict[str, Any], writer: dict[str, Any], path: str, depth: int
    ) -> list[Difference]:
        if not any(name in each for each in (reader, writer) for name in _OBJECT_WORDS):
            return []
        own, old = reader.get("properties") or {}, writer.get("properties") or {}
        self._work.spend(len(own) + len(old))
        new = set(_required(reader)) - set(_required(writer))
        found = list(self._additional(reader, writer, path, depth))
        for name in own.keys() & old.keys():
            place = f"{path}properties/{name}/"
            found += self.compare(own[name], old[name], place, depth + 1)
            if name in new and not _has_default(own[name]):
                text = f"the property {name} has become required"
                found.append(Difference("REQUIRED_ATTRIBUTE_ADDED", place, text))
        for name in sorted(own.keys() - old.keys()):
            added = self._added(name, reader, writer, path, depth)
            is_open = any(each.kind == _ADDED_TO_OPEN for each in added)
            if name in new and not is_open and not _has_default(own[name]):
                place, text = f"{path}properties/{name}/", f"the required property {name} was added"
                kind = "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"
                added.append(Difference(kind, place, text))
            found += added
        for name in sorted(old.keys() - own.keys()):
            found += self._removed(name, reader, writer, path, depth)
        for name in sorted(new - own.keys()):
            text = f"the property {name} has become required"
            found.append(Difference("REQUIRED_ATTRIBUTE_ADDED", f"{path}required/{name}", text))
        return found + _dependencies(reader, writer, path)

    def _additional(
        self, reader: dict[str, Any], writer: dict[str, Any], path: str, depth: int
    ) -> Iterator[Difference]:
        own, old = _additional_of(reader), _additional_of(writer)
        if own is True:
            return
        if own is False and old is not False:
            yield Difference(
                "ADDITIONAL_PROPERTIES_REMOVED",
                path,
                "properties that are not declared are refused",
            )
        elif old is True:
            text = "properties that are not declared must fit a schema"
            yield Difference("ADDITIONAL_PROPERTIES_NARROWED", path, text)
        elif old is not False:
            yield from self.compare(own, old, f"{path}additionalProperties/", depth + 1)

    def _added(
        self, name: str, reader: dict[str, Any], writer: dict[str, Any], path: str, depth: int
    ) -> list[Difference]:
        """A property that only the reader declares: the data have what the writer's rest allows."""
        place, schema = f"{path}properties/{name}/", reader["properties"][name]
        found: list[Difference] = []
        rest = self._rest(writer, name)
        if rest is True and not _accepts_all(self._reader.resolved(schema)):
            text = f"the property {name} was added to an open content model"
            return [Difference(_ADDED_TO_OPEN, place, text)]
        if rest not in (True, False) and self.compare(schema, rest, place, depth + 1):
            text = f"the property {name} was added, and data that had it need not fit"
            kind = "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            found.append(Difference(kind, place, text))
        return found

    def _removed(
        self, name: str, reader: dict[str, Any], writer: dict[str, Any], path: str, depth: int
    ) -> list[Difference]:
        """A property that only the writer declares: the reader's rest must accept it."""
        place, schema = f"{path}properties/{name}/", writer["properties"][name]
        rest = self._rest(reader, name)
        if rest is True or schema is False:
            return []
        text = f"the property {name} was removed"
        if rest is False:
            kind = "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"
            return [Difference(kind, place, text)]
        if self.compare(rest, schema, place, depth + 1):
            kind = "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            return [Difference(kind, place, text)]
        return []

    def _rest(self, schema: dict[str, Any], name: str) -> Any:
        """Return what a property that is not declared must fit."""
        patterns = schema.get("patternProperties") or {}
        self._work.spend(_PATTERN_PARTS * len(patterns))
        for pattern, each in patterns.items():
            if _matches(pattern, name):
                return each
        return _additional_of(schema)

    # Arrays

    def _arrays(
        self, reader: dict[str, Any], writer: dict[str, Any], path: str, depth: int
    ) -> list[Difference]:
        own, old = _positions(reader), _positions(writer)
        own_rest, old_rest = _items_rest(reader), _items_rest(writer)
        found: list[Difference] = []
        for index in range(max(len(own), len(old))):
            mine = own[index] if index < len(own) else own_rest
            theirs = old[index] if index < len(old) else old_rest
            found += self.compare(mine, theirs, f"{path}items/{index}/", depth + 1)
        if own_rest is False and old_rest is not False:
            text = "further items are refused"
            found.append(Difference("ADDITIONAL_ITEMS_REMOVED", path, text))
        else:
            found += self.compare(own_rest, old_rest, f"{path}items/", depth + 1)
        if reader.get("uniqueItems") is True and writer.get("uniqueItems") is not True:
            found.append(Difference("UNIQUE_ITEMS_ADDED", path, "items must be unique"))
        return found

    # Combinations

    def _combinations(
        self, reader: dict[str, Any], writer: dict[str, Any], path: str, depth: int
    ) -> list[Difference]:
        """Each choice of the writer must be accepted by a choice of the reader; all of the reader's
        demands must be met by one of the writer's."""
        if "allOf" in reader:
            demands = [*reader["allOf"], _without(reader, "allOf")]
            found = []
            for each in demands:
                found += self._demand(each, writer, path, depth)
            return found
        word = _choice_word(writer)
        if word is not None:
            found = []
            rest = _without(writer, word)
            for index, each in enumerate(writer[word]):
                place = f"{path}{word}/{index}/"
                found += self.compare(reader, _together(each, rest, self._writer), place, depth + 1)
            if found:
                text = "a choice is not accepted any more"
                found.insert(0, Difference("SUM_TYPE_NARROWED", path, text))
            return found
        word = _choice_word(reader)
        kinds = writer.get("type")
        if word is not None and isinstance(kinds, list) and len(kinds) > 1:  # a choice as well
            found = []
            for each in kinds:
                found += self.compare(reader, {**writer, "type": each}, path, depth + 1)
            return found
        if word is not None:
            rest = _without(reader, word)
            for each in reader[word]:
                whole = _together(each, rest, self._reader)
                if not self.compare(whole, writer, path, depth + 1):
                    return []
            text = "no choice accepts the data"
            return [Difference("COMBINED_TYPE_SUBSCHEMAS_CHANGED", path, text)]
        return self.compare(reader, _merged_all(writer, self._writer), path, depth + 1)

    def _demand(self, demand: Any, writer: Any, path: str, depth: int) -> list[Difference]:
        if _accepts_all(demand):
            return []
        parts = writer["allOf"] if isinstance(writer, dict) and "allOf" in writer else ()
        if any(not self.compare(demand, each, path, depth + 1) for each in parts):
            return []
        whole = _merged_all(writer, self._writer) if parts else writer
        found = self.compare(demand, whole, path, depth + 1)
        if not found:
            return []
        text = "a demand was added that the data need not meet"
        return [Difference("PRODUCT_TYPE_EXTENDED", path, text)]

    def _negations(
        self, reader: dict[str, Any], writer: dict[str, Any], path: str, depth: int
    ) -> list[Difference]:
        if "not" not in reader:
            return []
        text = "more is forbidden"
        if "not" not in writer or self.compare(writer["not"], reader["not"], path, depth + 1):
            return [Difference("NOT_TYPE_EXTENDED", f"{path}not/", text)]
        return []


# Parts of a schema


def _reference(schema: Any) -> str:
    found = schema.get("$ref") if isinstance(schema, dict) else None
    return found if isinstance(found, str) else ""


def _accepts_all(schema: Any) -> bool:
    """Whether a schema restricts nothing: true, {} and those with descriptions only."""
    if not isinstance(schema, dict):
        return schema is True
    words = {"title", "description", "default", "examples", "$id", "$schema", "$comment"}
    words |= {"definitions", "$defs", "readOnly", "writeOnly", "deprecated"}
    return not schema.keys() - words


def _unwrapped(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a combination of a single schema as that schema."""
    for word in _COMBINED:
        parts = schema.get(word)
        if isinstance(parts, list) and len(parts) == 1 and _accepts_all(_without(schema, word)):
            inner = parts[0]
            return inner if isinstance(inner, dict) and "$ref" not in inner else schema
    return schema


def _combined(schema: Any) -> bool:
    return isinstance(schema, dict) and any(schema.get(word) for word in _COMBINED)


def _choice_word(schema: Any) -> str | None:
    words = (each for each in ("oneOf", "anyOf") if isinstance(schema, dict) and schema.get(each))
    return next(words, None)


def _without(schema: Mapping[str, Any], word: str) -> dict[str, Any]:
    return {key: each for key, each in schema.items() if key != word}


def _together(part: Any, rest: Mapping[str, Any], resolver: _Resolver) -> Any:
    """Return a choice with what stands beside the list of choices."""
    part = resolver.resolved(part)
    if not isinstance(part, dict) or _accepts_all(dict(rest)):
        return part
    made = {**rest, **part}
    if isinstance(rest.get("properties"), dict) and isinstance(part.get("properties"), dict):
        made["properties"] = {**rest["properties"], **part["properties"]}
    made["required"] = sorted({*_required(dict(rest)), *_required(part)})
    return made


def _merged_all(schema: Any, resolver: _Resolver) -> Any:
    """Return the parts of `allOf` as one schema."""
    made: Any = _without(schema, "allOf")
    for each in schema.get("allOf") or ():
        made = _together(each, made, resolver)
        if not isinstance(made, dict):
            return made
    return made


def _types_of(schema: dict[str, Any]) -> set[str]:
    kind = schema.get("type")
    if kind is None:
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if isinstance(values, list):
            return {_type_of(each) for each in values}
        return set(_TYPES)
    return set(kind) if isinstance(kind, list) else {str(kind)}


def _type_of(value: Any) -> str:
    kinds: dict[type, str] = {
        type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string",
        list: "array", dict: "object",
    }  # fmt: skip
    return kinds[type(value)]


def _types(reader: dict[str, Any], writer: dict[str, Any], path: str) -> list[Difference]:
    own, old = _types_of(reader), _types_of(writer)
    if "number" in own:
        own.add("integer")
    missing = sorted(old - own)
    if not missing:
        return []
    kind = "TYPE_NARROWED" if own & old else "TYPE_CHANGED"
    text = f"the type {', '.join(missing)} is not accepted any more"
    return [Difference(kind, path, text)]


def _constants(reader: dict[str, Any], writer: dict[str, Any], path: str) -> list[Difference]:
    own, old = _values(reader), _values(writer)
    if own is None:
        return []
    if old is None:
        return [Difference("ENUM_ARRAY_NARROWED", f"{path}enum", "only some values are accepted")]
    missing = sorted(old - own)
    if not missing:
        return []
    kind = "ENUM_ARRAY_NARROWED" if own & old else "ENUM_ARRAY_CHANGED"
    text = f"the values {', '.join(missing)} are not accepted any more"
    return [Difference(kind, f"{path}enum", text)]


def _values(schema: dict[str, Any]) -> set[str] | None:
    if "const" in schema:
        return {json.dumps(schema["const"], sort_keys=True)}
    values = schema.get("enum")
    if not isinstance(values, list):
        return None
    return {json.dumps(each, sort_keys=True) for each in values}


def _limits(reader: dict[str, Any], writer: dict[str, Any], path: str) -> list[Difference]:
    found = []
    for table, is_tighter, verb in ((_UPPER, lt, "DECREASED"), (_LOWER, gt, "INCREASED")):
        for word, name in table.items():
            own: Any = reader.get(word)
            old: Any = writer.get(word)
            if not _is_number(own):
                continue
            if not _is_number(old):
                found.append(Difference(f"{name}_ADDED", f"{path}{word}", f"{word} was added"))
            elif is_tighter(own, old):
                text = f"{word} is {own} and was {old}"
                found.append(Difference(f"{name}_{verb}", f"{path}{word}", text))
    return found + _pattern(reader, writer, path) + _multiple(reader, writer, path)


def _pattern(reader: dict[str, Any], writer: dict[str, Any], path: str) -> list[Difference]:
    own, old = reader.get("pattern"), writer.get("pattern")
    if own is None or own == old:
        return []
    kind = "PATTERN_ADDED" if old is None else "PATTERN_CHANGED"
    return [Difference(kind, f"{path}pattern", f"the pattern is {own}")]


def _multiple(reader: dict[str, Any], writer: dict[str, Any], path: str) -> list[Difference]:
    own: Any = reader.get("multipleOf")
    old: Any = writer.get("multipleOf")
    if not _is_number(own) or own == old:
        return []
    place = f"{path}multipleOf"
    if not _is_number(old):
        return [Difference("MULTIPLE_OF_ADDED", place, "multipleOf was added")]
    if old % own == 0:
        return []
    kind = "MULTIPLE_OF_EXPANDED" if own % old == 0 else "MULTIPLE_OF_CHANGED"
    return [Difference(kind, place, f"multipleOf is {own} and was {old}")]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _required(schema: dict[str, Any]) -> list[str]:
    found = schema.get("required")
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _has_default(schema: Any) -> bool:
    return isinstance(schema, dict) and "default" in schema


def _additional_of(schema: dict[str, Any]) -> Any:
    found = schema.get("additionalProperties", schema.get("unevaluatedProperties", True))
    return True if _accepts_all(found) else found


def _matches(pattern: str, name: str) -> bool:
    """Whether a pattern finds something in a name. One that needs too many steps finds nothing:
    Python's engine would take years for some patterns."""
    return _matcher(pattern)(name)


@lru_cache(maxsize=512)
def _matcher(pattern: str) -> Callable[[str], bool]:
    rs = need("jsonschema_rs", "json-schema")
    try:
        options = rs.FancyRegexOptions(backtrack_limit=_STEPS_MAX)
        found = rs.Draft7Validator({"pattern": pattern}, pattern_options=options)
    except (rs.ValidationError, ValueError):
        return lambda name: False
    matches: Callable[[str], bool] = found.is_valid
    return matches


def _positions(schema: dict[str, Any]) -> list[Any]:
    found = schema.get("prefixItems", schema.get("items"))
    return found if isinstance(found, list) else []


def _items_rest(schema: dict[str, Any]) -> Any:
    if isinstance(schema.get("items"), list):
        return schema.get("additionalItems", True)
    return schema.get("items", True)


def _dependencies(reader: dict[str, Any], writer: dict[str, Any], path: str) -> list[Difference]:
    found = []
    for word in ("dependentRequired", "dependencies"):
        own, old = reader.get(word) or {}, writer.get(word) or {}
        for name, needed in own.items():
            if not isinstance(needed, list):
                continue
            known = old.get(name)
            if not isinstance(known, list):
                kind, text = "DEPENDENCY_ARRAY_ADDED", f"{name} needs other properties"
                found.append(Difference(kind, f"{path}{word}/{name}", text))
            elif set(needed) - set(known):
                kind, text = "DEPENDENCY_ARRAY_EXTENDED", f"{name} needs more properties"
                found.append(Difference(kind, f"{path}{word}/{name}", text))
    return found
