"""Column types for values: from their schemas, or from the JSON values without a schema."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from moldau.connect.data import Logical, Schema, Type
from moldau.connectors.jdbc.columns import ColumnType, Kind

_KINDS = {
    Type.INT8: Kind.INT8,
    Type.INT16: Kind.INT16,
    Type.INT32: Kind.INT32,
    Type.INT64: Kind.INT64,
    Type.FLOAT32: Kind.FLOAT32,
    Type.FLOAT64: Kind.FLOAT64,
    Type.BOOLEAN: Kind.BOOLEAN,
    Type.STRING: Kind.STRING,
    Type.BYTES: Kind.BYTES,
    Type.MAP: Kind.JSON,
    Type.STRUCT: Kind.JSON,
}
_LOGICAL = {Logical.DATE: Kind.DATE, Logical.TIME: Kind.TIME, Logical.TIMESTAMP: Kind.TIMESTAMP}


def type_of_schema(schema: Schema) -> ColumnType:
    """Return the column type for a schema's values; structs and maps become JSON."""
    if schema.logical is Logical.DECIMAL:
        return ColumnType(Kind.DECIMAL, None, schema.scale)
    if schema.logical is not None:
        return ColumnType(_LOGICAL[schema.logical])
    if schema.type is Type.ARRAY:
        assert schema.value_schema is not None
        element = type_of_schema(schema.value_schema)
        if element.kind in (Kind.JSON, Kind.ARRAY):
            return ColumnType(Kind.JSON)
        return ColumnType(Kind.ARRAY, element=element)
    return ColumnType(_KINDS[schema.type])


def type_of_values(values: Iterable[Any]) -> ColumnType | None:
    """Return the narrowest column type for all the values; None if all of them are null.

    Integers widen to decimals, integers and fractions to doubles. All other types that differ
    become text.
    """
    found: Kind | None = None
    for value in values:
        if value is None:
            continue
        kind = _kind_of(value)
        found = kind if found is None else _wider(found, kind)
        if found is Kind.STRING:
            break
    if found is None:
        return None
    return ColumnType(found, 38, 0) if found is Kind.DECIMAL else ColumnType(found)


def _kind_of(value: Any) -> Kind:
    if isinstance(value, bool):
        return Kind.BOOLEAN
    if isinstance(value, int):
        return Kind.INT64 if -(2**63) <= value < 2**63 else Kind.DECIMAL
    if isinstance(value, float):
        return Kind.FLOAT64
    if isinstance(value, dict | list):
        return Kind.JSON
    if isinstance(value, bytes | bytearray | memoryview):
        return Kind.BYTES
    if isinstance(value, datetime):
        return Kind.TIMESTAMP
    if isinstance(value, date):
        return Kind.DATE
    if isinstance(value, time):
        return Kind.TIME
    return Kind.FLOAT64 if isinstance(value, Decimal) else Kind.STRING


_NUMBERS = {Kind.INT64, Kind.FLOAT64, Kind.DECIMAL}


def _wider(one: Kind, other: Kind) -> Kind:
    if one is other:
        return one
    both = {one, other}
    if both <= _NUMBERS:
        return Kind.FLOAT64 if Kind.FLOAT64 in both else Kind.DECIMAL
    return Kind.STRING
