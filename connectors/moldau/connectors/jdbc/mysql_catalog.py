"""MySQL's and MariaDB's types, by their names in the catalog and by their numbers in results."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy.engine import Connection

from moldau.connectors.jdbc.columns import INTEGERS, Column, ColumnType, Kind, Table, TableId

_COLUMNS: Final = (
    "SELECT column_name, data_type, column_type, is_nullable, column_default, extra, "
    "numeric_precision, numeric_scale FROM information_schema.columns "
    "WHERE table_schema = COALESCE(%s, DATABASE()) AND table_name = %s ORDER BY ordinal_position"
)
_KEY: Final = (
    "SELECT column_name FROM information_schema.statistics WHERE index_name = 'PRIMARY' "
    "AND table_schema = COALESCE(%s, DATABASE()) AND table_name = %s ORDER BY seq_in_index"
)
_KINDS: Final[Mapping[str, Kind]] = {
    "tinyint": Kind.INT8,
    "smallint": Kind.INT16,
    "mediumint": Kind.INT32,
    "int": Kind.INT32,
    "bigint": Kind.INT64,
    "year": Kind.INT32,
    "double": Kind.FLOAT64,
    "date": Kind.DATE,
    "time": Kind.TIME,
    "datetime": Kind.TIMESTAMP,
    "timestamp": Kind.TIMESTAMP,
    "json": Kind.JSON,
    **dict.fromkeys(("binary", "varbinary", "vector"), Kind.BYTES),
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob"), Kind.BYTES),
    **dict.fromkeys(("geometry", "point", "linestring", "polygon", "multipoint"), Kind.BYTES),
    **dict.fromkeys(("multilinestring", "multipolygon", "geometrycollection"), Kind.BYTES),
    "geomcollection": Kind.BYTES,
}
"""The other types are text: char, varchar, text, enum, set, uuid, inet4, inet6."""
_BY_NUMBER: Final[Mapping[int, Kind]] = {
    1: Kind.INT8,
    2: Kind.INT16,
    3: Kind.INT32,
    5: Kind.FLOAT64,
    7: Kind.TIMESTAMP,
    8: Kind.INT64,
    9: Kind.INT32,
    10: Kind.DATE,
    11: Kind.TIME,
    12: Kind.TIMESTAMP,
    245: Kind.JSON,
    255: Kind.BYTES,
}
_BIT: Final = 16
_FLOAT: Final = 4
_YEAR: Final = 13
_DECIMALS: Final = (0, 246)
_TEXTS: Final = (15, 249, 250, 251, 252, 253, 254)
_UNSIGNED: Final = 32
_BINARY_CHARSET: Final = 63
_WIDER: Final = dict(zip(INTEGERS, (*INTEGERS[1:], Kind.INT64), strict=True))
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
        return ColumnType(Kind.DECIMAL, precision, scale)
    if kind == "bit":
        return _bits(int(re.sub(r"\D", "", declared) or 1))
    if kind == "float":
        return ColumnType(Kind.FLOAT32, is_cast=True)
    found = _KINDS.get(kind, Kind.STRING)
    return _unsigned(found) if "unsigned" in declared and kind != "year" else ColumnType(found)


def mysql_result_type(described: Sequence[Any]) -> ColumnType | None:
    """Return the type of a result's column, whose description ends with flags and charset."""
    code, flags, charset = described[1], described[7], described[8]
    if code in _DECIMALS:
        return ColumnType(Kind.DECIMAL, described[4], described[5])
    if code == _BIT:
        return _bits(described[3])
    if code == _FLOAT:
        return ColumnType(Kind.FLOAT32, is_cast=True)
    if code == _YEAR:
        return ColumnType(Kind.INT32)
    if code in _TEXTS:
        return ColumnType(Kind.BYTES if charset == _BINARY_CHARSET else Kind.STRING)
    found = _BY_NUMBER.get(code)
    if found is None:
        return None
    return _unsigned(found) if flags & _UNSIGNED else ColumnType(found)


def _bits(count: int) -> ColumnType:
    return ColumnType(Kind.BOOLEAN if count == 1 else Kind.BYTES)


def _unsigned(kind: Kind) -> ColumnType:
    """Return the next wider whole number. An unsigned BIGINT is an INT64 whose values are checked,
    because almost all of them are small."""
    if kind is Kind.INT64:
        return ColumnType(kind, UNSIGNED_DIGITS)
    return ColumnType(_WIDER.get(kind, kind))
