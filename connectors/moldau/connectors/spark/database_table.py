"""A table of a database as Arrow, read by SQLAlchemy: all of it, or what is above an offset.

Offsets are text: numbers, dates and times as ISO writes them, or the text itself.
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

_READ: Final[dict[type, Callable[[str], Any]]] = {
    int: int,
    float: float,
    Decimal: Decimal,
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    str: str,
}


class DatabaseTable:
    """One table; a connection for each question."""

    def __init__(self, config: SparkSourceConfig) -> None:
        self._name = config.source_table or ""
        self._url = database_url(config)

    def highest(self, column: str, above: str | None) -> str | None:
        """The highest value of the column, if there is one above the offset."""
        with self._opened() as connection:
            table = self._reflected(connection)
            of_column = self._column(table, column)
            asked = sa.select(sa.func.max(of_column))
            if above is not None:
                asked = asked.where(of_column > _value(of_column, above))
            found = connection.scalar(asked)
        if found is None:
            return None
        return found.isoformat() if isinstance(found, date) else str(found)

    def rows(self, column: str | None, above: str | None, upto: str | None = None) -> Any:
        """An Arrow table of the rows, those above the offset and up to another one."""
        arrow = import_module("pyarrow")
        with self._opened() as connection:
            table = self._reflected(connection)
            asked = sa.select(table)
            if column is not None:
                of_column = self._column(table, column)
                if above is not None:
                    asked = asked.where(of_column > _value(of_column, above))
                if upto is not None:
                    asked = asked.where(of_column <= _value(of_column, upto))
                asked = asked.order_by(of_column)
            found = [dict(row) for row in connection.execute(asked).mappings()]
        kinds = [(each.name, _arrow_type(arrow, each)) for each in table.columns]
        return arrow.Table.from_pylist(found, arrow.schema(kinds))

    def _opened(self) -> sa.Connection:
        # No pool: the engine goes with the connection.
        engine = sa.create_engine(self._url, poolclass=sa.pool.NullPool)
        try:
            return engine.connect()
        except (sa.exc.OperationalError, ImportError) as error:
            shown = self._url.render_as_string(hide_password=True)
            told = str(getattr(error, "orig", None) or error).splitlines()[0]
            raise ConfigError(
                f"no connection to the database: {told}; check jdbc.url, and that it runs",
                url=shown,
            ) from error

    def _reflected(self, connection: sa.Connection) -> sa.Table:
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
                "the table lacks the column of incremental.column: choose one that there is",
                missing=name,
                columns=", ".join(table.c.keys()),
            )
        return table.c[name]


def _value(column: Any, text: str) -> Any:
    """The offset as the column has it."""
    read = _READ.get(_python_type(column), str)
    try:
        return read(text)
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
            "this column has no type in Spark: leave it out by a view of the table",
            column=column.name,
            type=str(column.type),
        )
    return found
