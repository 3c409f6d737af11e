"""Reads a database's tables: their names, columns, types and keys.

SQLAlchemy reads the names of tables, and for SQL Server and Oracle the columns. For the other
databases the exact types are needed, which SQLAlchemy does not have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.sql import sqltypes

from moldau.connectors.jdbc.columns import Column, ColumnKind, ColumnType, Table, TableId
from moldau.connectors.jdbc.mysql_catalog import mysql_table
from moldau.connectors.jdbc.postgresql_catalog import postgresql_table

_SYSTEM_SCHEMAS = re.compile(
    "pg_.*|information_schema|sys|mysql|performance_schema|db_.*|guest|INFORMATION_SCHEMA", re.I
)
_SQLITE_KINDS = (
    (re.compile("DECIMAL_TEXT|NUMERIC|DECIMAL"), ColumnKind.DECIMAL),
    (re.compile("BOOL"), ColumnKind.BOOLEAN),
    (re.compile("DATETIME|TIMESTAMP"), ColumnKind.TIMESTAMP),
    (re.compile("^DATE"), ColumnKind.DATE),
    (re.compile("^TIME"), ColumnKind.TIME),
    (re.compile("INT"), ColumnKind.INT64),
    (re.compile("CHAR|CLOB|TEXT"), ColumnKind.STRING),
    (re.compile("REAL|FLOA|DOUB"), ColumnKind.FLOAT64),
    (re.compile("BLOB|BINARY"), ColumnKind.BYTES),
)
_DUCKDB_KINDS: Mapping[str, ColumnKind] = {
    "BOOLEAN": ColumnKind.BOOLEAN, "TINYINT": ColumnKind.INT8, "SMALLINT": ColumnKind.INT16,
    "UTINYINT": ColumnKind.INT16, "INTEGER": ColumnKind.INT32, "USMALLINT": ColumnKind.INT32,
    "BIGINT": ColumnKind.INT64, "UINTEGER": ColumnKind.INT64, "FLOAT": ColumnKind.FLOAT32,
    "DOUBLE": ColumnKind.FLOAT64, "VARCHAR": ColumnKind.STRING, "UUID": ColumnKind.STRING,
    "BIT": ColumnKind.STRING, "BIGNUM": ColumnKind.STRING, "BLOB": ColumnKind.BYTES,
    "DATE": ColumnKind.DATE, "TIME": ColumnKind.TIME, "TIMESTAMP": ColumnKind.TIMESTAMP,
    "TIMESTAMP_NS": ColumnKind.TIMESTAMP, "TIMESTAMP_MS": ColumnKind.TIMESTAMP,
    "TIMESTAMP_S": ColumnKind.TIMESTAMP, "TIMESTAMP WITH TIME ZONE": ColumnKind.TIMESTAMP_TZ,
    "JSON": ColumnKind.JSON,
}  # fmt: skip
_DUCKDB_LIST = re.compile(r"\[\d*\]$")
# The first class that fits is used, so a subclass is listed before its base.
_SQLALCHEMY_KINDS: tuple[tuple[type[Any], ColumnKind], ...] = (
    (sqltypes.Boolean, ColumnKind.BOOLEAN), (sqltypes.SmallInteger, ColumnKind.INT16),
    (sqltypes.BigInteger, ColumnKind.INT64), (sqltypes.Integer, ColumnKind.INT32),
    (sqltypes.REAL, ColumnKind.FLOAT32), (sqltypes.Float, ColumnKind.FLOAT64),
    (sqltypes.Numeric, ColumnKind.DECIMAL), (sqltypes.DateTime, ColumnKind.TIMESTAMP),
    (sqltypes.Date, ColumnKind.DATE), (sqltypes.Time, ColumnKind.TIME),
    (sqltypes._Binary, ColumnKind.BYTES), (sqltypes.JSON, ColumnKind.JSON),
    (sqltypes.String, ColumnKind.STRING),
)  # fmt: skip
_BY_NAME: Mapping[str, ColumnKind] = {
    "TINYINT": ColumnKind.INT8, "DOUBLE": ColumnKind.FLOAT64,
    "DOUBLE_PRECISION": ColumnKind.FLOAT64, "DATETIMEOFFSET": ColumnKind.TIMESTAMP_TZ,
    "BIT": ColumnKind.BOOLEAN, "FLOAT": ColumnKind.FLOAT64,
}  # fmt: skip


def list_tables(
    connection: Connection, schema_pattern: str | None, table_types: Iterable[str]
) -> list[TableId]:
    """Return the tables that a connector may read, without system tables, sorted."""
    kinds = {each.strip().upper() for each in table_types}
    if connection.dialect.name == "duckdb":
        return _duckdb_tables(connection, schema_pattern, kinds)
    inspector = sa.inspect(connection)
    catalog = catalog_of(connection)
    found: list[TableId] = []
    for schema in _schemas(connection, inspector):
        if schema is not None and not _is_like(schema, schema_pattern):
            continue
        names: list[str] = []
        if kinds & {"TABLE", "BASE TABLE", "PARTITIONED TABLE"}:
            names += inspector.get_table_names(schema=schema)
        if "VIEW" in kinds:
            names += inspector.get_view_names(schema=schema)
        if "MATERIALIZED VIEW" in kinds:
            names += inspector.get_materialized_view_names(schema=schema)
        found += [TableId(catalog, schema, name) for name in names]
    return sorted(found, key=str)


def read_table(connection: Connection, table: TableId) -> Table | None:
    """Read a table's columns and key from the database. Return None if it does not exist."""
    own = _OWN.get(connection.dialect.name)
    if own is not None:
        return own(connection, table)
    inspector = sa.inspect(connection)
    try:
        described = inspector.get_columns(table.name, schema=table.schema)
        constraint = inspector.get_pk_constraint(table.name, schema=table.schema)
    except sa.exc.NoSuchTableError:
        return None
    if not described:
        return None
    key = constraint.get("constrained_columns", [])
    return Table(table, tuple(_column(each) for each in described), tuple(key))


def catalog_of(connection: Connection) -> str | None:
    """Return the catalog as Java's driver names it: the database's name, or None."""
    return None if connection.dialect.name == "sqlite" else connection.engine.url.database


def _schemas(connection: Connection, inspector: sa.Inspector) -> list[str | None]:
    """Return the schemas with tables; [None] for MySQL and SQLite, which have none."""
    if connection.dialect.name in {"sqlite", "mysql", "mariadb"}:
        return [None]
    return [name for name in inspector.get_schema_names() if not _SYSTEM_SCHEMAS.fullmatch(name)]


def _is_like(name: str, pattern: str | None) -> bool:
    """Whether a name fits JDBC's pattern: `%` is any text, `_` any character; None fits all."""
    if not pattern:
        return True
    regex = "".join({"%": ".*", "_": "."}.get(letter, re.escape(letter)) for letter in pattern)
    return re.fullmatch(regex, name, re.DOTALL) is not None


def _column(described: Mapping[str, Any]) -> Column:
    increments = described.get("autoincrement") is True or bool(described.get("identity"))
    return Column(
        described["name"],
        column_type(described["type"]),
        nullable=bool(described.get("nullable", True)),
        has_default=described.get("default") is not None or increments,
        is_auto_increment=increments,
    )


def column_type(declared: Any) -> ColumnType:
    """Return the column type for a SQLAlchemy type. An unknown type is read as text."""
    if isinstance(declared, sqltypes.ARRAY):
        return ColumnType(ColumnKind.ARRAY, element=column_type(declared.item_type))
    name = type(declared).__name__.upper()
    kind = _BY_NAME.get(name)
    if kind is None:
        fitting = (kind for cls, kind in _SQLALCHEMY_KINDS if isinstance(declared, cls))
        kind = next(fitting, ColumnKind.JSON)
    if getattr(declared, "unsigned", False):
        wider = {
            ColumnKind.INT8: ColumnKind.INT16,
            ColumnKind.INT16: ColumnKind.INT32,
            ColumnKind.INT32: ColumnKind.INT64,
        }
        kind = wider.get(kind, kind)
    if kind is ColumnKind.TIMESTAMP and getattr(declared, "timezone", False):
        kind = ColumnKind.TIMESTAMP_TZ
    if kind is ColumnKind.DECIMAL:
        return ColumnType(kind, declared.precision, declared.scale)
    return ColumnType(kind)


def sqlite_type(declared: str) -> ColumnType:
    """Return the column type for SQLite's declared type, which is free text, by similar rules."""
    text = declared.upper()
    for pattern, kind in _SQLITE_KINDS:
        if pattern.search(text):
            if kind is ColumnKind.DECIMAL:
                return ColumnType(kind, *_digits(text))
            return ColumnType(kind)
    return ColumnType(ColumnKind.JSON)


def duckdb_type(declared: str) -> ColumnType:
    """Return the column type for DuckDB's type, also for `DECIMAL(10,2)` and `INTEGER[]`."""
    text = declared.upper()
    if (listed := _DUCKDB_LIST.search(text)) is not None:
        element = duckdb_type(text[: listed.start()])
        return element if element.is_cast else ColumnType(ColumnKind.ARRAY, element=element)
    if text.startswith("DECIMAL"):
        return ColumnType(ColumnKind.DECIMAL, *_digits(text))
    if text in {"HUGEINT", "UBIGINT", "UHUGEINT"}:
        return ColumnType(ColumnKind.DECIMAL, 38, 0)
    if text.startswith("ENUM"):
        return ColumnType(ColumnKind.STRING)
    if text.startswith(("STRUCT", "VARIANT")):
        return ColumnType(ColumnKind.JSON, is_cast=True)
    kind = _DUCKDB_KINDS.get(text)
    return ColumnType(ColumnKind.STRING, is_cast=True) if kind is None else ColumnType(kind)


def _digits(text: str) -> tuple[int | None, int | None]:
    found = re.search(r"\(\s*(\d+)\s*(?:,\s*(-?\d+)\s*)?\)", text)
    if found is None:
        return None, None
    return int(found[1]), int(found[2] or 0)


def _sqlite_table(connection: Connection, table: TableId) -> Table | None:
    name = table.name.replace('"', '""')
    rows = connection.exec_driver_sql(f'PRAGMA table_xinfo("{name}")').fetchall()
    shown = [row for row in rows if row[6] != 1]
    key = [row[1] for row in sorted(shown, key=lambda row: int(row[5])) if row[5]]
    columns = []
    for _, column, declared, is_not_null, default, _, _ in shown:
        found = sqlite_type(declared)
        # Such a column is the row's number: never NULL, and assigned by SQLite.
        is_row_number = key == [column] and declared.upper() == "INTEGER"
        columns.append(
            Column(
                column,
                found,
                nullable=not is_not_null and not is_row_number,
                has_default=default is not None or is_row_number,
                is_auto_increment=is_row_number,
            )
        )
    return Table(table, tuple(columns), tuple(key)) if columns else None


def _duckdb_tables(
    connection: Connection, schema_pattern: str | None, kinds: set[str]
) -> list[TableId]:
    rows = connection.exec_driver_sql(
        "SELECT table_catalog, table_schema, table_name, table_type "
        "FROM information_schema.tables WHERE table_catalog = current_database()"
    ).fetchall()
    names = {"BASE TABLE": "TABLE"}
    return sorted(
        (
            TableId(catalog, schema, name)
            for catalog, schema, name, kind in rows
            if _is_like(schema, schema_pattern) and names.get(kind, kind) in kinds
        ),
        key=str,
    )


def _duckdb_table(connection: Connection, table: TableId) -> Table | None:
    where = "table_name = ? AND schema_name = ? AND database_name = current_database()"
    parameters = (table.name, table.schema or "main")
    rows = connection.exec_driver_sql(
        "SELECT column_name, data_type, is_nullable, column_default FROM duckdb_columns() "
        f"WHERE {where} ORDER BY column_index",
        parameters,
    ).fetchall()
    if not rows:
        return None
    keys = connection.exec_driver_sql(
        "SELECT constraint_column_names FROM duckdb_constraints() "
        f"WHERE {where} AND constraint_type = 'PRIMARY KEY'",
        parameters,
    ).fetchall()
    columns = tuple(
        Column(
            name,
            duckdb_type(declared),
            nullable=bool(nullable),
            has_default=default is not None,
            is_auto_increment=default is not None and "nextval" in str(default),
        )
        for name, declared, nullable, default in rows
    )
    return Table(table, columns, tuple(keys[0][0]) if keys else ())


_OWN: Mapping[str, Callable[[Connection, TableId], Table | None]] = {
    "duckdb": _duckdb_table, "sqlite": _sqlite_table, "postgresql": postgresql_table,
    "mysql": mysql_table, "mariadb": mysql_table,
}  # fmt: skip
