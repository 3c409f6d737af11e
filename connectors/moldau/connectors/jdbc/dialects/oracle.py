"""Oracle, through python-oracledb."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from moldau.connectors.jdbc.columns import Column, ColumnKind, ColumnType, TableId
from moldau.connectors.jdbc.dialects.base import MergeDialect


class Oracle(MergeDialect):
    """Oracle's types and SQL."""

    name = "oracle"
    mark = ":1"
    dual = " FROM DUAL"
    true = "1"
    false = "0"
    now = (
        "SELECT ROUND((CAST(SYS_EXTRACT_UTC(SYSTIMESTAMP) AS DATE) - DATE '1970-01-01') * 86400) "
        "* 1000000 FROM DUAL"
    )
    types: ClassVar[Mapping[ColumnKind, str]] = {
        ColumnKind.BOOLEAN: "NUMBER(1,0)", ColumnKind.INT8: "NUMBER(3,0)",
        ColumnKind.INT16: "NUMBER(5,0)", ColumnKind.INT32: "NUMBER(10,0)",
        ColumnKind.INT64: "NUMBER(19,0)", ColumnKind.FLOAT32: "BINARY_FLOAT",
        ColumnKind.FLOAT64: "BINARY_DOUBLE", ColumnKind.DECIMAL: "NUMBER",
        ColumnKind.STRING: "CLOB", ColumnKind.BYTES: "BLOB", ColumnKind.DATE: "DATE",
        ColumnKind.TIME: "DATE", ColumnKind.TIMESTAMP: "TIMESTAMP",
        ColumnKind.TIMESTAMP_TZ: "TIMESTAMP WITH TIME ZONE", ColumnKind.JSON: "CLOB",
    }  # fmt: skip
    # Oracle allows no large object in a key.
    key_types: ClassVar[Mapping[ColumnKind, str]] = {
        ColumnKind.STRING: "VARCHAR2(4000)",
        ColumnKind.BYTES: "RAW(2000)",
    }

    def placeholder(self, position: int) -> str:
        return f":{position}"

    def decimal(self, column: ColumnType) -> str:
        return "NUMBER" if column.scale is None else f"NUMBER(*,{column.scale})"

    def literal(self, value: object) -> str:
        return f"HEXTORAW('{value.hex()}')" if isinstance(value, bytes) else super().literal(value)

    def add_columns(self, table: TableId, columns: Sequence[Column]) -> list[str]:
        added = ", ".join(self.column_definition(each) for each in columns)
        return [f"ALTER TABLE {self.table(table)} ADD ({added})"]
