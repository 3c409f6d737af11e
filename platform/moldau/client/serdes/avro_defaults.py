"""Defaults of a reader's schema, as the values that they stand for.

A default is JSON: bytes are text there, a time is a number, and a record may leave out what has
defaults of its own. fastavro gives out what stands there, and one list for the values of all.
So each default is written and read once, in place of the JSON, and what can be changed is copied.

Invariant: whoever gets a value may change it, and no other value changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any

from moldau.client.serdes.avro_plain import Misfit
from moldau.client.serdes.avro_schemas import marked
from moldau.client.serdes.avro_values import Values
from moldau.client.serdes.extras import need
from moldau.errors import ConfigError


def make_defaults(readers: Mapping[str, Any], writers: Mapping[str, Any]) -> bool:
    """Puts the values into the records that a reader's schema names, with `writers` those of the
    writer's. Whether one is a list or a dict that may be given out, which `copied` has to follow.
    """
    values, made = Values(readers), []
    for name, record in readers.items():
        for each in record.get("fields", ()):
            if "default" in each:
                made.append((record, each, _value(name, each, values, readers)))
    for _, each, value in made:  # not before: a default is made with those of what is in it
        each["default"] = value
    return any(
        isinstance(value, list | dict) and _may_be_missing(each["name"], record, writers)
        for record, each, value in made
    )


def _value(name: str, field: Mapping[str, Any], values: Values, named: Mapping[str, Any]) -> Any:
    fastavro = need("fastavro", "avro")
    alone = {"type": "record", "name": name, "fields": [{"name": "", "type": field["type"]}]}
    schema = {**alone, **marked(named)}
    try:
        value = values.defaulted(field["type"], field["default"])
    except (Misfit, ValueError) as error:
        raise ConfigError(
            f"the Avro schema has a default that is none: {error}", field=f"{name}.{field['name']}"
        ) from None
    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, schema, {"": value})
    buffer.seek(0)
    return fastavro.schemaless_reader(buffer, schema, None)[""]


def _may_be_missing(field: str, record: Mapping[str, Any], writers: Mapping[str, Any]) -> bool:
    """Whether some record that may be read as this one has no such field."""
    last = record["name"].rpartition(".")[2]
    alike = [each for name, each in writers.items() if name.rpartition(".")[2] == last]
    if "aliases" in record or not alike:
        return True
    return any(field not in (theirs["name"] for theirs in each.get("fields", ())) for each in alike)


def copied(value: Any) -> Any:
    """The same, with lists and dicts of its own."""
    kind = type(value)
    if kind is dict:
        return {key: copied(each) for key, each in value.items()}
    if kind is list or kind is tuple:
        return kind(map(copied, value))
    return value
