"""Read a table of a database into Arrow: all rows, or the rows above an offset.

Offsets are text: a number, a date or time in ISO format, or the text itself.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from importlib import import_module
from typing import Any, Final

import sqlalchemy as sa

from moldau.connectors.spark.database import database_url
from moldau.connectors.spark.source_config import SparkSourceConfig
from moldau.errors import ConfigError

_OFFSET_PARSERS: Final[dict[type, Callable[[str], Any]]] = {
    int: int,
    float: float,
    Decimal: Decimal,
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    str: str,
}


class DatabaseTable:
    """One table of a database. Each method opens a connection of its own."""

    def __init__(self, config: SparkSourceConfig) -> None:
        self._name = config.source_table or ""
        self._url = database_url(config)

    def highest(self, column: str, above: str | None) -> str | None:
        """Return the highest value of a column; None if no value is above the offset."""
        with self._connect() as connection:
            table = self._load_table(connection)
            cursor = self._column(table, column)
            query = sa.select(sa.func.max(cursor))
            if above is not None:
                query = query.where(cursor > _parse_offset(cursor, above))
            found = connection.scalar(query)
        if found is None:
            return None
        return found.isoformat() if isinstance(found, date) else str(found)

    def rows(self, column: str | None, above: str | None, upto: str | None = None) -> Any:
        """Return an Arrow table of the rows. With a column, they are sorted by it, lie above the
        offset `above`, and include the offset `upto`."""
        arrow = import_module("pyarrow")
        with self._connect() as connection:
            table = self._load_table(connection)
            query = sa.select(table)
            if column is not None:
                cursor = self._column(table, column)
                if above is not None:
                    query = query.where(cursor > _parse_offset(cursor, above))
                if upto is not None:
                    query = query.where(cursor <= _parse_offset(cursor, upto))
                query = query.order_by(cursor)
            found = [dict(row) for row in connection.execute(query).mappings()]
        kinds = [(each.name, _arrow_type(arrow, each)) for each in table.columns]
        return arrow.Table.from_pylist(found, arrow.schema(kinds))

    def _connect(self) -> sa.Connection:
        # Without a pool, the engine needs no close of its own after the connection's.
        engine = sa.create_engine(self._url, poolclass=sa.pool.NullPool)
        try:
            return engine.connect()
        except (sa.exc.OperationalError, ImportError) as error:
            shown = self._url.render_as_string(hide_password=True)
            reason = str(getattr(error, "orig", None) or error).splitlines()[0]
            raise ConfigError(
                f"no connection to the database: {reason}; check jdbc.url, and that it runs",
                url=shown,
            ) from error

    def _load_table(self, connection: sa.Connection) -> sa.Table:
        schema, _, name = self._name.rpartition(".")
        try:
            return sa.Table(name, sa.MetaData(), schema=schema or None, autoload_with=connection)
        except sa.exc.NoSuchTableError:
            raise ConfigError(
                "there is no such table: check source.table", table=self._name
            ) from None

    def _column(self, table: sa.Table, name: str) -> Any:
        if name not in table.c:
            raise ConfigError(
                "the table lacks the column of incremental.column: choose one of its columns",
                missing=name,
                columns=", ".join(table.c.keys()),
            )
        return table.c[name]


def _parse_offset(column: Any, text: str) -> Any:
    """Return the offset as a value of the column. ConfigError if it does not fit."""
    parse = _OFFSET_PARSERS.get(_python_type(column), str)
    try:
        return parse(text)
    except (ValueError, ArithmeticError):
        raise ConfigError(
            "the stored offset does not fit the column: reset the connector's offsets",
            column=column.name,
            offset=text,
        ) from None


def _python_type(column: Any) -> type:
    try:
        found: type = column.type.python_type
    except NotImplementedError:
        return str
    return found


def _arrow_type(arrow: Any, column: Any) -> Any:
    kind = _python_type(column)
    if kind is Decimal:
        digits, scale = column.type.precision, column.type.scale
        return arrow.decimal128(digits or 38, (scale or 0) if digits else 18)
    if kind is datetime:
        return arrow.timestamp("us", tz="UTC" if column.type.timezone else None)
    found = {
        bool: arrow.bool_(),
        int: arrow.int64(),
        float: arrow.float64(),
        date: arrow.date32(),
        bytes: arrow.binary(),
        str: arrow.string(),
    }.get(kind)
    if found is None:
        raise ConfigError(
            "Spark has no type for this column: leave it out by a view of the table",
            column=column.name,
            type=str(column.type),
        )
    return found
