"""The columns of a query's result, where no table defines them.

PostgreSQL, MySQL and DuckDB return the type of each column of a result. SQLite does not: there the
first rows decide, and a column with only NULLs is text.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from moldau.connectors.jdbc.catalog import duckdb_type
from moldau.connectors.jdbc.columns import Column, ColumnKind, ColumnType
from moldau.connectors.jdbc.mysql_catalog import mysql_result_type
from moldau.connectors.jdbc.postgresql_catalog import postgresql_type

_PYTHON: tuple[tuple[type, ColumnKind], ...] = (
    (bool, ColumnKind.BOOLEAN), (int, ColumnKind.INT64), (float, ColumnKind.FLOAT64),
    (Decimal, ColumnKind.DECIMAL), (str, ColumnKind.STRING), (bytes, ColumnKind.BYTES),
    (bytearray, ColumnKind.BYTES), (datetime, ColumnKind.TIMESTAMP), (date, ColumnKind.DATE),
    (time, ColumnKind.TIME), (timedelta, ColumnKind.TIME),
)  # fmt: skip


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
    if backend == "postgresql":
        return postgresql_type(described.type_code, (described.precision, described.scale))
    if backend == "mysql":
        return mysql_result_type(described)
    return duckdb_type(str(described[1])) if backend == "duckdb" else None


def changed_columns(columns: Sequence[Column]) -> list[str]:
    """Return the columns of a query whose values the driver would change: a query is not altered,
    and only the columns of tables are cast."""
    return [
        each.name for each in columns if each.type.is_cast and each.type.kind is not ColumnKind.JSON
    ]


def _of_values(values: Any) -> ColumnType:
    for value in values:
        if value is not None:
            kind = next((kind for cls, kind in _PYTHON if isinstance(value, cls)), ColumnKind.JSON)
            return ColumnType(kind)
    return ColumnType(ColumnKind.JSON)
