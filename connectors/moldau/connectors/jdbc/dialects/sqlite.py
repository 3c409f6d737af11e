"""SQLite, through Python's own module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import ClassVar

from moldau.connectors.jdbc.columns import Column, ColumnKind, ColumnType, TableId
from moldau.connectors.jdbc.dialects.base import Dialect


class Sqlite(Dialect):
    """SQLite's types and SQL. A declared type is an affinity: it says how values are stored."""

    name = "sqlite"
    has_one_writer = True
    true = "1"
    false = "0"
    now = "SELECT CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000"
    types: ClassVar[Mapping[ColumnKind, str]] = {
        ColumnKind.BOOLEAN: "BOOLEAN", ColumnKind.INT8: "INTEGER", ColumnKind.INT16: "INTEGER",
        ColumnKind.INT32: "INTEGER", ColumnKind.INT64: "BIGINT", ColumnKind.FLOAT32: "REAL",
        ColumnKind.FLOAT64: "REAL", ColumnKind.DECIMAL: "DECIMAL_TEXT", ColumnKind.STRING: "TEXT",
        ColumnKind.BYTES: "BLOB", ColumnKind.DATE: "DATE", ColumnKind.TIME: "TIME",
        ColumnKind.TIMESTAMP: "TIMESTAMP", ColumnKind.TIMESTAMP_TZ: "TIMESTAMP",
        ColumnKind.JSON: "JSON_TEXT",
    }  # fmt: skip

    def decimal(self, column: ColumnType) -> str:
        """Return a type with the affinity TEXT: NUMERIC would make digits floating point."""
        if column.scale is None:
            return "DECIMAL_TEXT"
        return f"DECIMAL_TEXT({column.precision or 38},{column.scale})"

    def instant(self, column: str) -> str:
        """Make texts (with or without fraction or `T`) and milliseconds one sortable text."""
        fraction = f"CASE WHEN instr({column}, '.') THEN '' ELSE '.' END"
        text = (
            f"replace(substr({column}, 1, 19), 'T', ' ') || "
            f"substr(rtrim({column}, 'Z') || {fraction} || '000000', 20, 7)"
        )
        number = (
            f"strftime('%Y-%m-%d %H:%M:%S', {column} / 1000, 'unixepoch') || "
            f"printf('.%03d000', {column} % 1000)"
        )
        return f"CASE typeof({column}) WHEN 'text' THEN {text} ELSE {number} END"

    def instant_parameter(self, instant: datetime, zone: tzinfo, *, has_zone: bool) -> object:
        wall = instant.astimezone(zone).replace(tzinfo=None)
        return wall.isoformat(sep=" ", timespec="microseconds")

    def add_columns(self, table: TableId, columns: Sequence[Column]) -> list[str]:
        """Return one statement for each column: SQLite cannot add several at once."""
        start = f"ALTER TABLE {self.table(table)} ADD COLUMN"
        return [f"{start} {self.column_definition(each)}" for each in columns]
