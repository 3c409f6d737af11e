"""DuckDB, through duckdb-engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from moldau.connectors.jdbc.columns import Column, ColumnKind, ColumnType, TableId
from moldau.connectors.jdbc.dialects.base import Dialect

_DATED = frozenset({ColumnKind.DATE, ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ})


class DuckDb(Dialect):
    """DuckDB's types and SQL."""

    name = "duckdb"
    default_schema = "main"
    now = "SELECT epoch_us(now())"
    types: ClassVar[Mapping[ColumnKind, str]] = {
        ColumnKind.BOOLEAN: "BOOLEAN", ColumnKind.INT8: "TINYINT", ColumnKind.INT16: "SMALLINT",
        ColumnKind.INT32: "INTEGER", ColumnKind.INT64: "BIGINT", ColumnKind.FLOAT32: "REAL",
        ColumnKind.FLOAT64: "DOUBLE", ColumnKind.DECIMAL: "DECIMAL(38,10)",
        ColumnKind.STRING: "VARCHAR", ColumnKind.BYTES: "BLOB", ColumnKind.DATE: "DATE",
        ColumnKind.TIME: "TIME", ColumnKind.TIMESTAMP: "TIMESTAMP",
        ColumnKind.TIMESTAMP_TZ: "TIMESTAMPTZ", ColumnKind.JSON: "VARCHAR",
    }  # fmt: skip

    def array(self, column: ColumnType) -> str:
        assert column.element is not None
        return f"{self.type_name(column.element)}[]"

    def reading(self, column: Column) -> str:
        """Cast what the driver would change: an interval's month would be 30 days, and the date
        infinity the last day of Python."""
        name = super().reading(column)
        if column.type.kind in _DATED:
            text = self.literal(f"column {column.name}: infinity is no date; select it as text")
            return f"CASE WHEN isinf({name}) THEN error({text}) ELSE {name} END AS {name}"
        if not column.type.is_cast:
            return name
        kind = "JSON" if column.type.kind is ColumnKind.JSON else "VARCHAR"
        return f"CAST({name} AS {kind}) AS {name}"

    def literal(self, value: object) -> str:
        if isinstance(value, bytes):
            return f"'{''.join(f'{chr(92)}x{byte:02X}' for byte in value)}'::BLOB"
        return super().literal(value)

    def column_definition(self, column: Column, *, in_key: bool = False) -> str:
        """Return the definition without NULL, which DuckDB rejects in ADD COLUMN."""
        text = super().column_definition(column, in_key=in_key)
        return text if text.endswith(" NOT NULL") else text.removesuffix(" NULL")

    def add_columns(self, table: TableId, columns: Sequence[Column]) -> list[str]:
        """Return one statement for each column, without constraints: DuckDB supports no others."""
        start = f"ALTER TABLE {self.table(table)} ADD COLUMN"
        return [
            f"{start} {self.column_definition(each).removesuffix(' NOT NULL')}" for each in columns
        ]
