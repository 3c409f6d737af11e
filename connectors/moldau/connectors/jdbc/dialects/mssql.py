"""SQL Server, through pymssql."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from moldau.connectors.jdbc.columns import Column, ColumnKind, TableId
from moldau.connectors.jdbc.dialects.base import MergeDialect


class SqlServer(MergeDialect):
    """SQL Server's types and SQL. MERGE holds its lock, or two tasks could insert one key."""

    name = "mssql"
    quote_marks = ("[", "]")
    mark = "%s"
    default_schema = "dbo"
    merge_hint = " WITH (HOLDLOCK)"
    merge_end = ";"
    true = "1"
    false = "0"
    now = "SELECT DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01' AS DATETIME2), SYSUTCDATETIME())"
    types: ClassVar[Mapping[ColumnKind, str]] = {
        ColumnKind.BOOLEAN: "BIT", ColumnKind.INT8: "TINYINT", ColumnKind.INT16: "SMALLINT",
        ColumnKind.INT32: "INT", ColumnKind.INT64: "BIGINT", ColumnKind.FLOAT32: "REAL",
        ColumnKind.FLOAT64: "FLOAT", ColumnKind.DECIMAL: "DECIMAL(38,10)",
        ColumnKind.STRING: "NVARCHAR(MAX)", ColumnKind.BYTES: "VARBINARY(MAX)",
        ColumnKind.DATE: "DATE", ColumnKind.TIME: "TIME", ColumnKind.TIMESTAMP: "DATETIME2",
        ColumnKind.TIMESTAMP_TZ: "DATETIMEOFFSET", ColumnKind.JSON: "NVARCHAR(MAX)",
    }  # fmt: skip
    # An index key has at most 900 bytes.
    key_types: ClassVar[Mapping[ColumnKind, str]] = {
        ColumnKind.STRING: "NVARCHAR(450)",
        ColumnKind.BYTES: "VARBINARY(900)",
    }

    def literal(self, value: object) -> str:
        return f"0x{value.hex()}" if isinstance(value, bytes) else super().literal(value)

    def add_columns(self, table: TableId, columns: Sequence[Column]) -> list[str]:
        added = ", ".join(self.column_definition(each) for each in columns)
        return [f"ALTER TABLE {self.table(table)} ADD {added}"]
