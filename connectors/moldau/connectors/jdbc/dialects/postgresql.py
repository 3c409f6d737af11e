"""PostgreSQL, through psycopg."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from moldau.connectors.jdbc.columns import ColumnType, Kind
from moldau.connectors.jdbc.dialects.base import Dialect


class PostgreSql(Dialect):
    """PostgreSQL's types and SQL. Arrays stay arrays, objects become JSONB."""

    name = "postgresql"
    mark = "%s"
    default_schema = "public"
    now = "SELECT CAST(EXTRACT(EPOCH FROM CURRENT_TIMESTAMP) * 1000000 AS BIGINT)"
    types: ClassVar[Mapping[Kind, str]] = {
        Kind.BOOLEAN: "BOOLEAN",
        Kind.INT8: "SMALLINT",
        Kind.INT16: "SMALLINT",
        Kind.INT32: "INT",
        Kind.INT64: "BIGINT",
        Kind.FLOAT32: "REAL",
        Kind.FLOAT64: "DOUBLE PRECISION",
        Kind.DECIMAL: "DECIMAL",
        Kind.STRING: "TEXT",
        Kind.BYTES: "BYTEA",
        Kind.DATE: "DATE",
        Kind.TIME: "TIME",
        Kind.TIMESTAMP: "TIMESTAMP",
        Kind.TIMESTAMP_TZ: "TIMESTAMPTZ",
        Kind.JSON: "JSONB",
    }

    def session(self, zone: str) -> tuple[str, ...]:
        return (f"SET TIME ZONE {self.literal(zone)}",)

    def decimal(self, column: ColumnType) -> str:
        """Return DECIMAL without limits: Connect's decimals have a scale and no precision."""
        return "DECIMAL"

    def array(self, column: ColumnType) -> str:
        assert column.element is not None
        return f"{self.type_name(column.element)}[]"

    def literal(self, value: object) -> str:
        if isinstance(value, bytes):
            return f"'\\x{value.hex()}'"
        return super().literal(value)
