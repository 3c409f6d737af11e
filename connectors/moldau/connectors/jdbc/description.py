"""The columns of a query's result, where no table defines them.

PostgreSQL, MySQL and DuckDB return the type of each column of a result. SQLite does not: there the
first rows decide, and a column with only NULLs is text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from moldau.connectors.jdbc.catalog import duckdb_type
from moldau.connectors.jdbc.columns import Column, ColumnType, Kind

_POSTGRES: Mapping[int, Kind] = {
    16: Kind.BOOLEAN,
    17: Kind.BYTES,
    20: Kind.INT64,
    21: Kind.INT16,
    23: Kind.INT32,
    26: Kind.INT64,
    700: Kind.FLOAT32,
    701: Kind.FLOAT64,
    **dict.fromkeys((18, 19, 25, 1042, 1043), Kind.STRING),
    1082: Kind.DATE,
    1083: Kind.TIME,
    1114: Kind.TIMESTAMP,
    1184: Kind.TIMESTAMP_TZ,
}
_POSTGRES_ARRAYS: Mapping[int, Kind] = {
    1000: Kind.BOOLEAN,
    1005: Kind.INT16,
    1007: Kind.INT32,
    1016: Kind.INT64,
    1021: Kind.FLOAT32,
    1022: Kind.FLOAT64,
    1009: Kind.STRING,
    1015: Kind.STRING,
}
_POSTGRES_NUMERIC = 1700
_MYSQL: Mapping[int, Kind] = {
    1: Kind.INT8,
    2: Kind.INT16,
    3: Kind.INT32,
    4: Kind.FLOAT32,
    5: Kind.FLOAT64,
    7: Kind.TIMESTAMP,
    8: Kind.INT64,
    9: Kind.INT32,
    10: Kind.DATE,
    11: Kind.TIME,
    12: Kind.TIMESTAMP,
    13: Kind.INT32,
    16: Kind.BYTES,
}
_MYSQL_DECIMALS = (0, 246)
_PYTHON: tuple[tuple[type, Kind], ...] = (
    (bool, Kind.BOOLEAN),
    (int, Kind.INT64),
    (float, Kind.FLOAT64),
    (Decimal, Kind.DECIMAL),
    (str, Kind.STRING),
    (bytes, Kind.BYTES),
    (bytearray, Kind.BYTES),
    (datetime, Kind.TIMESTAMP),
    (date, Kind.DATE),
    (time, Kind.TIME),
    (timedelta, Kind.TIME),
)


def result_columns(
    backend: str, description: Sequence[Any], rows: Sequence[Sequence[Any]]
) -> list[Column]:
    """Return the columns of a result. All may be NULL, because no result says otherwise."""
    columns = []
    for index, described in enumerate(description):
        found = _declared(backend, described) or _of_values(row[index] for row in rows)
        columns.append(Column(str(described[0]), found))
    return columns


def _declared(backend: str, described: Any) -> ColumnType | None:
    code = described[1]
    if backend == "postgresql":
        if code == _POSTGRES_NUMERIC:
            return ColumnType(Kind.DECIMAL, described.precision, described.scale)
        if code in _POSTGRES_ARRAYS:
            return ColumnType(Kind.ARRAY, element=ColumnType(_POSTGRES_ARRAYS[code]))
        return ColumnType(_POSTGRES.get(code, Kind.JSON))
    if backend == "mysql":
        if code in _MYSQL_DECIMALS:
            return ColumnType(Kind.DECIMAL, described[4], described[5])
        return ColumnType(_MYSQL[code]) if code in _MYSQL else None
    if backend == "duckdb":
        return duckdb_type(str(code))
    return None


def _of_values(values: Any) -> ColumnType:
    for value in values:
        if value is not None:
            kind = next((kind for cls, kind in _PYTHON if isinstance(value, cls)), Kind.JSON)
            return ColumnType(kind)
    return ColumnType(Kind.JSON)
