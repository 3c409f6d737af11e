"""Column types for values: from their schemas, or from the JSON values without a schema."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from moldau.connect.data import Logical, Schema, Type
from moldau.connectors.jdbc.columns import ColumnKind, ColumnType

_KINDS = {
    Type.INT8: ColumnKind.INT8,
    Type.INT16: ColumnKind.INT16,
    Type.INT32: ColumnKind.INT32,
    Type.INT64: ColumnKind.INT64,
    Type.FLOAT32: ColumnKind.FLOAT32,
    Type.FLOAT64: ColumnKind.FLOAT64,
    Type.BOOLEAN: ColumnKind.BOOLEAN,
    Type.STRING: ColumnKind.STRING,
    Type.BYTES: ColumnKind.BYTES,
    Type.MAP: ColumnKind.JSON,
    Type.STRUCT: ColumnKind.JSON,
}
_LOGICAL = {
    Logical.DATE: ColumnKind.DATE,
    Logical.TIME: ColumnKind.TIME,
    Logical.TIMESTAMP: ColumnKind.TIMESTAMP,
}


def type_of_schema(schema: Schema) -> ColumnType:
    """Return the column type for a schema's values; structs and maps become JSON."""
    if schema.logical is Logical.DECIMAL:
        return ColumnType(ColumnKind.DECIMAL, None, schema.scale)
    if schema.logical is not None:
        return ColumnType(_LOGICAL[schema.logical])
    if schema.type is Type.ARRAY:
        assert schema.value_schema is not None
        element = type_of_schema(schema.value_schema)
        if element.kind in (ColumnKind.JSON, ColumnKind.ARRAY):
            return ColumnType(ColumnKind.JSON)
        return ColumnType(ColumnKind.ARRAY, element=element)
    return ColumnType(_KINDS[schema.type])


def type_of_values(values: Iterable[Any]) -> ColumnType | None:
    """Return the narrowest column type for all the values; None if all of them are null.

    Integers widen to decimals, integers and fractions to doubles. All other types that differ
    become text.
    """
    found: ColumnKind | None = None
    for value in values:
        if value is None:
            continue
        kind = _kind_of(value)
        found = kind if found is None else _wider(found, kind)
        if found is ColumnKind.STRING:
            break
    if found is None:
        return None
    return ColumnType(found, None, 0) if found is ColumnKind.DECIMAL else ColumnType(found)


def _kind_of(value: Any) -> ColumnKind:
    if isinstance(value, bool):
        return ColumnKind.BOOLEAN
    if isinstance(value, int):
        return ColumnKind.INT64 if -(2**63) <= value < 2**63 else ColumnKind.DECIMAL
    if isinstance(value, float):
        return ColumnKind.FLOAT64
    if isinstance(value, dict | list):
        return ColumnKind.JSON
    if isinstance(value, bytes | bytearray | memoryview):
        return ColumnKind.BYTES
    if isinstance(value, datetime):
        return ColumnKind.TIMESTAMP
    if isinstance(value, date):
        return ColumnKind.DATE
    if isinstance(value, time):
        return ColumnKind.TIME
    return ColumnKind.FLOAT64 if isinstance(value, Decimal) else ColumnKind.STRING


_NUMBERS = {ColumnKind.INT64, ColumnKind.FLOAT64, ColumnKind.DECIMAL}


def _wider(one: ColumnKind, other: ColumnKind) -> ColumnKind:
    if one is other:
        return one
    both = {one, other}
    if both <= _NUMBERS:
        return ColumnKind.FLOAT64 if ColumnKind.FLOAT64 in both else ColumnKind.DECIMAL
    return ColumnKind.STRING
