"""Replaces the defaults of a reader's schema by the values that they stand for.

A default is JSON: bytes are text there, a time is a number, and a record may leave out fields that
have defaults. fastavro returns that JSON unchanged, and the same list for all values. So each
default is written and read once and replaces the JSON, and its lists and dicts are copied.

Invariant: a caller may change the value it got, and no other value changes. fastavro alone gives
one list to all (tests/values/avro/test_libraries.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any, Final

from moldau.errors import ConfigError
from moldau.plugins.extras import need
from moldau.values.avro.fit import Values
from moldau.values.avro.plain import Misfit
from moldau.values.avro.schemas import marked

_WITH_ITEMS: Final = frozenset((dict, list, tuple))


def make_defaults(readers: Mapping[str, Any], writers: Mapping[str, Any]) -> bool:
    """Replace the defaults of the records in `readers` by values; `writers` are the writer's
    schemas by name. Return whether a value may get a default that is a list or a dict, which
    `copied` must copy."""
    values, made = Values(readers), []
    for name, record in readers.items():
        for each in record.get("fields", ()):
            if "default" in each:
                is_needed = _may_be_missing(each, record, writers)
                value = _value_or_json(name, each, values, readers, is_needed=is_needed)
                made.append((each, value, is_needed))
    for each, value, _ in made:  # not before: a default is made with the JSON defaults inside it
        each["default"] = value
    return any(is_needed and isinstance(value, list | dict) for _, value, is_needed in made)


def _value_or_json(
    name: str,
    field: Mapping[str, Any],
    values: Values,
    named: Mapping[str, Any],
    *,
    is_needed: bool,
) -> Any:
    """Return the default's value. Without one, return the JSON, or raise ConfigError if needed."""
    try:
        return _value(name, field, values, named)
    except (Misfit, ValueError, TypeError, ArithmeticError) as error:
        if not is_needed:
            return field["default"]
        raise ConfigError(
            f"the Avro schema has a default that is none: {error}", field=f"{name}.{field['name']}"
        ) from None


def _value(name: str, field: Mapping[str, Any], values: Values, named: Mapping[str, Any]) -> Any:
    fastavro = need("fastavro", "avro")
    alone = {"type": "record", "name": name, "fields": [{"name": "", "type": field["type"]}]}
    schema = {**alone, **marked(named)}
    value = values.defaulted(field["type"], field["default"])
    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, schema, {"": value})
    buffer.seek(0)
    return fastavro.schemaless_reader(buffer, schema, None)[""]


def _may_be_missing(
    field: Mapping[str, Any], record: Mapping[str, Any], writers: Mapping[str, Any]
) -> bool:
    """Whether a writer's record that is read as this one may lack the field."""
    lasts = {each.rpartition(".")[2] for each in (record["name"], *record.get("aliases", ()))}
    names = {field["name"], *field.get("aliases", ())}
    return any(
        names.isdisjoint(theirs["name"] for theirs in each["fields"])
        for name, each in writers.items()
        if "fields" in each and name.rpartition(".")[2] in lasts
    )


def copied(value: Any) -> Any:
    """Return the value with copies of all lists and dicts, at all levels."""
    left = list[Any]()  # copies, whose items are still shared
    whole = _copied(value, left)
    while left:
        inside = left.pop()
        for key, each in inside.items() if type(inside) is dict else enumerate(inside):
            if type(each) in _WITH_ITEMS:
                inside[key] = _copied(each, left)
    return whole


def _copied(value: Any, left: list[Any]) -> Any:
    """Return a copy of the outermost level, and add it to `left` for the levels inside."""
    kind = type(value)
    if kind is tuple:  # a name and a record
        return tuple(_copied(each, left) for each in value)
    if kind is not dict and kind is not list:
        return value
    left.append(kind(value))
    return left[-1]
