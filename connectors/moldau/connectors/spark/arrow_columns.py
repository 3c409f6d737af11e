"""Arrow's columns for a database: the type of each, and its values as the driver takes them.

An instant is the same in all of them: values with a zone are converted to UTC, which is the zone of
the connection, and values without one are taken as UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC
from importlib import import_module
from typing import Any

from moldau.connectors.jdbc.columns import ColumnKind, ColumnType
from moldau.errors import ConfigError


def column_type(kind: Any) -> ColumnType:
    """Return the column type for an Arrow type. ConfigError if there is none."""
    types = import_module("pyarrow").types
    if types.is_decimal(kind):
        return ColumnType(ColumnKind.DECIMAL, kind.precision, kind.scale)
    if types.is_struct(kind) or types.is_map(kind):
        return ColumnType(ColumnKind.JSON)
    if types.is_list(kind):
        element = column_type(kind.value_type)
        if types.is_nested(kind.value_type) or types.is_temporal(kind.value_type):
            return ColumnType(ColumnKind.JSON)
        return ColumnType(ColumnKind.ARRAY, element=element)
    for is_kind, found in _rules(types):
        if is_kind(kind):
            return ColumnType(found)
    raise ConfigError(
        "a database has no column for this type: cast it to text in transforms.sql", type=str(kind)
    )


def _rules(types: Any) -> Sequence[tuple[Callable[[Any], bool], ColumnKind]]:
    return (
        (types.is_boolean, ColumnKind.BOOLEAN),
        (types.is_int8, ColumnKind.INT8),
        (types.is_int16, ColumnKind.INT16),
        (types.is_int32, ColumnKind.INT32),
        (types.is_integer, ColumnKind.INT64),
        (types.is_float32, ColumnKind.FLOAT32),
        (types.is_floating, ColumnKind.FLOAT64),
        (types.is_timestamp, ColumnKind.TIMESTAMP_TZ),
        (types.is_date, ColumnKind.DATE),
        (types.is_binary, ColumnKind.BYTES),
        (types.is_large_binary, ColumnKind.BYTES),
        (types.is_string, ColumnKind.STRING),
        (types.is_large_string, ColumnKind.STRING),
    )


def column_values(column: Any) -> list[Any]:
    """Return the values of an Arrow column. Times are in UTC, maps are dicts."""
    arrow = import_module("pyarrow")
    if not arrow.types.is_timestamp(column.type):
        found: list[Any] = column.to_pylist(maps_as_pydicts="strict")
        return found
    # Arrow counts from 1970 in UTC, so this cast changes no instant. A zone costs Arrow much more.
    naive = column.cast(arrow.timestamp(column.type.unit)).to_pylist()
    return [None if each is None else each.replace(tzinfo=UTC) for each in naive]
