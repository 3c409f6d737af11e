"""`value.schema=infer`: the columns of JSON values, from the first records of the topics.

What was inferred is kept in the checkpoint's folder, so that a restart has the same columns; fields
that come later are not seen until the offsets are reset.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from importlib import import_module
from typing import Any, Final

from moldau.errors import ConfigError

SAMPLE: Final = 1_000


def inferred(values: Iterable[bytes | None]) -> str:
    """The columns as DDL; values that are no JSON objects are left out. ConfigError without any."""
    arrow, reading = import_module("pyarrow"), import_module("pyarrow.json")
    lines = [json.dumps(each) for each in map(_object, values) if each]
    if not lines:
        raise ConfigError(
            "value.schema=infer found no JSON object in the topics: send some records first, or "
            "give the columns, as in id BIGINT, at TIMESTAMP"
        )
    data = "\n".join(lines).encode()
    try:
        found = reading.read_json(
            io.BytesIO(data), read_options=reading.ReadOptions(block_size=len(data) + 1)
        )
    except arrow.ArrowInvalid as error:
        raise ConfigError(
            "value.schema=infer: the records do not agree in a field: give the columns",
            cause=str(error).splitlines()[0],
        ) from error
    return ", ".join(f"`{each.name}` {_ddl(arrow.types, each.type)}" for each in found.schema)


def _object(value: bytes | None) -> dict[str, Any] | None:
    try:
        found = None if value is None else json.loads(value)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _ddl(types: Any, kind: Any) -> str:
    if types.is_struct(kind):
        fields = (f"`{each.name}`: {_ddl(types, each.type)}" for each in kind)
        return f"STRUCT<{', '.join(fields)}>"
    if types.is_list(kind):
        return f"ARRAY<{_ddl(types, kind.value_type)}>"
    if types.is_boolean(kind):
        return "BOOLEAN"
    if types.is_integer(kind):
        return "BIGINT"
    if types.is_floating(kind):
        return "DOUBLE"
    return "TIMESTAMP" if types.is_timestamp(kind) else "STRING"
