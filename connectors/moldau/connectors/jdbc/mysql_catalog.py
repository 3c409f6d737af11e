"""MySQL's and MariaDB's types, by their names in the catalog and by their numbers in results."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy.engine import Connection

from moldau.connectors.jdbc.columns import INTEGERS, Column, ColumnKind, ColumnType, Table, TableId

_COLUMNS: Final = (
    "SELECT column_name, data_type, column_type, is_nullable, column_default, extra, "
    "numeric_precision, numeric_scale FROM information_schema.columns "
    "WHERE table_schema = COALESCE(%s, DATABASE()) AND table_name = %s ORDER BY ordinal_position"
)
_KEY: Final = (
    "SELECT column_name FROM information_schema.statistics WHERE index_name = 'PRIMARY' "
    "AND table_schema = COALESCE(%s, DATABASE()) AND table_name = %s ORDER BY seq_in_index"
)
_UNIQUE: Final = (
    "SELECT index_name, column_name FROM information_schema.statistics WHERE non_unique = 0 "
    "AND table_schema = COALESCE(%s, DATABASE()) AND table_name = %s"
)
_KINDS: Final[Mapping[str, ColumnKind]] = {
    "tinyint": ColumnKind.INT8,
    "smallint": ColumnKind.INT16,
    "mediumint": ColumnKind.INT32,
    "int": ColumnKind.INT32,
    "bigint": ColumnKind.INT64,
    "year": ColumnKind.INT32,
    "double": ColumnKind.FLOAT64,
    "date": ColumnKind.DATE,
    "time": ColumnKind.TIME,
    "datetime": ColumnKind.TIMESTAMP,
    "timestamp": ColumnKind.TIMESTAMP,
    "json": ColumnKind.JSON,
    **dict.fromkeys(("binary", "varbinary", "vector"), ColumnKind.BYTES),
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob"), ColumnKind.BYTES),
    **dict.fromkeys(("geometry", "point", "linestring", "polygon", "multipoint"), ColumnKind.BYTES),
    **dict.fromkeys(("multilinestring", "multipolygon", "geometrycollection"), ColumnKind.BYTES),
    "geomcollection": ColumnKind.BYTES,
}
"""The other types are text: char, varchar, text, enum, set, uuid, inet4, inet6."""
_BY_NUMBER: Final[Mapping[int, ColumnKind]] = {
    1: ColumnKind.INT8, 2: ColumnKind.INT16, 3: ColumnKind.INT32, 5: ColumnKind.FLOAT64,
    7: ColumnKind.TIMESTAMP, 8: ColumnKind.INT64, 9: ColumnKind.INT32, 10: ColumnKind.DATE,
    11: ColumnKind.TIME, 12: ColumnKind.TIMESTAMP, 245: ColumnKind.JSON, 255: ColumnKind.BYTES,
}  # fmt: skip
_BIT: Final = 16
_FLOAT: Final = 4
_YEAR: Final = 13
_DECIMALS: Final = (0, 246)
_TEXTS: Final = (15, 249, 250, 251, 252, 253, 254)
_UNSIGNED: Final = 32
_BINARY_CHARSET: Final = 63
_WIDER: Final = dict(zip(INTEGERS, (*INTEGERS[1:], ColumnKind.INT64), strict=True))
UNSIGNED_DIGITS: Final = 20


def mysql_table(connection: Connection, table: TableId) -> Table | None:
    """Read a table's columns and key. Return None if it does not exist."""
    parameters = (table.schema, table.name)
    rows = connection.exec_driver_sql(_COLUMNS, parameters).fetchall()
    if not rows:
        return None
    key = connection.exec_driver_sql(_KEY, parameters).fetchall()
    columns = tuple(_column(row) for row in rows)
    return Table(table, columns, tuple(str(row[0]) for row in key))


def mysql_has_unique(connection: Connection, table: TableId, key: Collection[str]) -> bool:
    """Whether a primary key or unique index says that no two rows have the same key. Without one,
    ON DUPLICATE KEY UPDATE inserts every row."""
    found: dict[str, set[str]] = {}
    for index, column in connection.exec_driver_sql(_UNIQUE, (table.schema, table.name)):
        found.setdefault(index, set()).add(column)
    return any(columns <= set(key) for columns in found.values())


def _column(row: Sequence[Any]) -> Column:
    name, kind, declared, nullable, default, extra, precision, scale = row
    increments = "auto_increment" in extra.lower()
    return Column(
        name,
        mysql_type(kind.lower(), declared.lower(), precision, scale),
        nullable=nullable.upper() == "YES",
        has_default=default not in (None, "NULL") or increments,
        is_auto_increment=increments,
    )


def mysql_type(
    kind: str, declared: str, precision: int | None = None, scale: int | None = None
) -> ColumnType:
    """Return the column type for a type in the catalog, such as `int` and `int(11) unsigned`."""
    if kind == "decimal":
        return ColumnType(ColumnKind.DECIMAL, precision, scale)
    if kind == "bit":
        return _bits(int(re.sub(r"\D", "", declared) or 1))
    if kind == "float":
        return ColumnType(ColumnKind.FLOAT32, is_cast=True)
    found = _KINDS.get(kind, ColumnKind.STRING)
    return _unsigned(found) if "unsigned" in declared and kind != "year" else ColumnType(found)


def mysql_result_type(described: Sequence[Any]) -> ColumnType | None:
    """Return the type of a result's column, whose description ends with flags and charset."""
    code, flags, charset = described[1], described[7], described[8]
    if code in _DECIMALS:
        return ColumnType(ColumnKind.DECIMAL, described[4], described[5])
    if code == _BIT:
        return _bits(described[3])
    if code == _FLOAT:
        return ColumnType(ColumnKind.FLOAT32, is_cast=True)
    if code == _YEAR:
        return ColumnType(ColumnKind.INT32)
    if code in _TEXTS:
        return ColumnType(ColumnKind.BYTES if charset == _BINARY_CHARSET else ColumnKind.STRING)
    found = _BY_NUMBER.get(code)
    if found is None:
        return None
    return _unsigned(found) if flags & _UNSIGNED else ColumnType(found)


def _bits(count: int) -> ColumnType:
    return ColumnType(ColumnKind.BOOLEAN if count == 1 else ColumnKind.BYTES)


def _unsigned(kind: ColumnKind) -> ColumnType:
    """Return the next wider whole number. An unsigned BIGINT is an INT64 whose values are checked,
    because almost all of them are small."""
    if kind is ColumnKind.INT64:
        return ColumnType(kind, UNSIGNED_DIGITS)
    return ColumnType(_WIDER.get(kind, kind))
