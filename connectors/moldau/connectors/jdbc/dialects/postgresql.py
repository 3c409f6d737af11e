"""PostgreSQL, through psycopg."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from moldau.connectors.jdbc.columns import ColumnKind, ColumnType
from moldau.connectors.jdbc.dialects.base import Dialect


class PostgreSql(Dialect):
    """PostgreSQL's types and SQL. Arrays stay arrays, objects become JSONB."""

    name = "postgresql"
    mark = "%s"
    default_schema = "public"
    shows_transactions = True
    now = "SELECT CAST(EXTRACT(EPOCH FROM CURRENT_TIMESTAMP) * 1000000 AS BIGINT)"
    types: ClassVar[Mapping[ColumnKind, str]] = {
        ColumnKind.BOOLEAN: "BOOLEAN", ColumnKind.INT8: "SMALLINT", ColumnKind.INT16: "SMALLINT",
        ColumnKind.INT32: "INT", ColumnKind.INT64: "BIGINT", ColumnKind.FLOAT32: "REAL",
        ColumnKind.FLOAT64: "DOUBLE PRECISION", ColumnKind.DECIMAL: "DECIMAL",
        ColumnKind.STRING: "TEXT", ColumnKind.BYTES: "BYTEA", ColumnKind.DATE: "DATE",
        ColumnKind.TIME: "TIME", ColumnKind.TIMESTAMP: "TIMESTAMP",
        ColumnKind.TIMESTAMP_TZ: "TIMESTAMPTZ", ColumnKind.JSON: "JSONB",
    }  # fmt: skip

    def session(self, zone: str) -> tuple[str, ...]:
        return (f"SET TIME ZONE {self.literal(zone)}",)

    def decimal(self, column: ColumnType) -> str:
        """Return DECIMAL without limits if there is no precision, as for Connect's decimals."""
        return "DECIMAL" if column.precision is None else super().decimal(column)

    def array(self, column: ColumnType) -> str:
        assert column.element is not None
        return f"{self.type_name(column.element)}[]"

    def literal(self, value: object) -> str:
        if isinstance(value, bytes):
            return f"'\\x{value.hex()}'"
        return super().literal(value)
