"""`value.schema=infer`: take the columns of JSON values from the first records of the topics.

The columns are stored beside the checkpoint, so that a restart has the same ones. Fields that
appear later are not seen until the offsets are reset.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from importlib import import_module
from typing import Any, Final

from moldau.errors import ConfigError
from moldau.spark.reach import Unavailable

SAMPLE_RECORDS: Final = 1_000


def infer_columns(values: Iterable[bytes | None]) -> str:
    """Return the columns of the values as DDL. Values that are no JSON objects are left out.

    ConfigError if no value is a JSON object, or if a field has types that contradict each other.
    """
    arrow, reading = import_module("pyarrow"), import_module("pyarrow.json")
    lines = [json.dumps(each) for each in map(_parse_object, values) if each]
    if not lines:
        raise Unavailable(
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
            "value.schema=infer: the records do not agree in a field: give the columns, as in "
            "id BIGINT, at TIMESTAMP",
            cause=str(error).splitlines()[0],
        ) from error
    return ", ".join(f"`{each.name}` {_ddl_type(arrow.types, each.type)}" for each in found.schema)


def _parse_object(value: bytes | None) -> dict[str, Any] | None:
    try:
        found = None if value is None else json.loads(value)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _ddl_type(types: Any, kind: Any) -> str:
    if types.is_struct(kind):
        fields = (f"`{each.name}`: {_ddl_type(types, each.type)}" for each in kind)
        return f"STRUCT<{', '.join(fields)}>"
    if types.is_list(kind):
        return f"ARRAY<{_ddl_type(types, kind.value_type)}>"
    if types.is_boolean(kind):
        return "BOOLEAN"
    if types.is_integer(kind):
        return "BIGINT"
    if types.is_floating(kind):
        return "DOUBLE"
    return "TIMESTAMP" if types.is_timestamp(kind) else "STRING"
