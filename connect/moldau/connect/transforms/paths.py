"""Paths to fields (KIP-821): in V1 the name of a top-level field, in V2 a dotted path such as
`a.b`.

A step that contains dots itself is put in backticks; a backtick inside one is escaped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from moldau.connect.config.model import ConfigModel, key
from moldau.connect.data.schema import Schema
from moldau.connect.data.struct import Struct
from moldau.connect.errors import DataError
from moldau.connect.transforms.sided import basics

Syntax = Literal["V1", "V2"]
ConvertSchema = Callable[[Schema], Schema]
ConvertValue = Callable[[Schema | None, Any], Any]


class WithPaths(ConfigModel):
    """The setting that transforms with field names share."""

    field_syntax_version: Syntax = key(
        "field.syntax.version",
        "V1",
        doc="V1: fields at the top, by their names. V2: nested fields by dotted paths.",
        importance="high",
        rank=2,
    )


def parse_path(text: str, syntax: str) -> tuple[str, ...]:
    """Return the steps of a path. Raise ValueError if a backtick is not closed."""
    if syntax == "V1":
        return (text,)
    steps: list[str] = []
    at = 0
    while at < len(text):
        if text[at] == "`":
            step, at = _quoted(text, at)
        else:
            end = text.find(".", at)
            step, at = (text[at:], len(text)) if end < 0 else (text[at:end], end + 1)
        steps.append(step)
    if text.endswith("."):
        steps.append("")
    return tuple(steps) or ("",)


def _quoted(text: str, opening: int) -> tuple[str, int]:
    step, start, at = "", opening + 1, opening + 1
    while True:
        at = text.find("`", at)
        is_last = at == len(text) - 1
        escaped = at > 0 and text[at - 1] == "\\"
        if at < 0 or (is_last and escaped):
            raise ValueError(
                f"Incomplete backtick pair in path: [{text}], consider adding a backslash before "
                f"backtick at position {opening} to escape it"
            )
        if is_last:
            return step + text[start:at], at + 1
        if text[at + 1] != ".":
            at += 1
        elif escaped:
            step += text[start : at - 1] + "`"
            at += 1
            start = at
        else:
            return step + text[start:at], at + 2


def schema_at(schema: Schema, path: tuple[str, ...]) -> Schema | None:
    """Return the schema of a nested field; None if there is none."""
    current = schema
    for step in path:
        field = current.field(step)
        if field is None:
            return None
        current = field.schema
    return current


def value_in_struct(struct: Struct | None, path: tuple[str, ...], with_default: bool) -> Any:
    """Return a nested value; None if a part of the path is missing."""
    current: Any = struct
    for at, step in enumerate(path):
        if current is None:
            return None
        if not isinstance(current, Struct):
            raise DataError(
                "Only Struct objects supported for [nested field access], "
                f"found: {type(current).__name__}"
            )
        if step not in current:
            return None
        is_last = at == len(path) - 1
        current = current[step] if with_default or not is_last else current.stored(step)
    return current


def value_in_map(value: Any, path: tuple[str, ...]) -> Any:
    """Return a nested value of a map; None if a part of the path is missing."""
    current = value
    for step in path:
        if current is None:
            return None
        if not isinstance(current, dict):
            raise DataError(
                "Only Map objects supported in absence of schema for [nested field access], "
                f"found: {type(current).__name__}"
            )
        current = current.get(step)
    return current


def schema_with(schema: Schema, path: tuple[str, ...], convert: ConvertSchema) -> Schema:
    """Return the schema with the field at the path converted; unchanged if there is none."""
    field = schema.field(path[0])
    if field is None:
        return schema
    part = convert(field.schema) if len(path) == 1 else schema_with(field.schema, path[1:], convert)
    if part is field.schema:
        return schema
    changed = basics(
        schema, ((f.name, part if f.name == path[0] else f.schema) for f in schema.fields)
    )
    return changed.optionally(schema.optional)


def struct_with(
    struct: Struct, schema: Schema, path: tuple[str, ...], convert: ConvertValue
) -> Struct:
    """Return a struct of the changed schema with the value at the path converted."""
    position = struct.schema.positions.get(path[0])
    row = struct.row.copy()
    if position is not None:
        before, after = struct.schema.fields[position].schema, schema.fields[position].schema
        value = struct[path[0]]
        if len(path) == 1:
            row[position] = convert(before, value)
        elif value is not None:
            row[position] = struct_with(value, after, path[1:], convert)
    return Struct.of_row(schema, row)


def map_with(value: dict[str, Any], path: tuple[str, ...], convert: ConvertValue) -> dict[str, Any]:
    """Return a map with the value at the path converted. A missing nested map is not created."""
    changed = dict(value)
    if len(path) == 1:
        changed[path[0]] = convert(None, value.get(path[0]))
    elif isinstance(value.get(path[0]), dict):
        changed[path[0]] = map_with(value[path[0]], path[1:], convert)
    return changed
