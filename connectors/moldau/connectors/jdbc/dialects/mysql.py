"""MySQL and MariaDB, through PyMySQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from moldau.connectors.jdbc.columns import Column, ColumnKind
from moldau.connectors.jdbc.dialects.base import Dialect


class MySql(Dialect):
    """MySQL's and MariaDB's types and SQL."""

    name = "mysql"
    quote_marks = ("`", "`")
    mark = "%s"
    shows_transactions = True
    now = "SELECT CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS SIGNED)"
    types: ClassVar[Mapping[ColumnKind, str]] = {
        ColumnKind.BOOLEAN: "TINYINT(1)", ColumnKind.INT8: "TINYINT", ColumnKind.INT16: "SMALLINT",
        ColumnKind.INT32: "INT", ColumnKind.INT64: "BIGINT", ColumnKind.FLOAT32: "FLOAT",
        ColumnKind.FLOAT64: "DOUBLE", ColumnKind.DECIMAL: "DECIMAL(65,30)",
        ColumnKind.STRING: "TEXT", ColumnKind.BYTES: "LONGBLOB", ColumnKind.DATE: "DATE",
        ColumnKind.TIME: "TIME(6)", ColumnKind.TIMESTAMP: "DATETIME(6)",
        ColumnKind.TIMESTAMP_TZ: "DATETIME(6)", ColumnKind.JSON: "LONGTEXT",
    }  # fmt: skip
    decimal_digits = 65, 30
    # MySQL needs a length for an indexed column.
    key_types: ClassVar[Mapping[ColumnKind, str]] = {
        ColumnKind.STRING: "VARCHAR(255)",
        ColumnKind.BYTES: "VARBINARY(255)",
    }

    def session(self, zone: str) -> tuple[str, ...]:
        """Set the time zone; UTC as an offset, because a server may have no zone names loaded."""
        return (f"SET time_zone = {self.literal('+00:00' if zone == 'UTC' else zone)}",)

    def reading(self, column: Column) -> str:
        """Read a FLOAT as a DOUBLE, because the server sends only six digits of a FLOAT."""
        name = super().reading(column)
        return f"({name} + 0e0) AS {name}" if column.type.is_cast else name

    def on_conflict(self, key: Sequence[str], columns: Sequence[str]) -> str:
        """Use VALUES(column), which both MySQL and MariaDB support."""
        others = [column for column in columns if column not in key] or list(key)
        updates = ", ".join(f"{n} = VALUES({n})" for n in map(self.identifier, others))
        return f"ON DUPLICATE KEY UPDATE {updates}"
