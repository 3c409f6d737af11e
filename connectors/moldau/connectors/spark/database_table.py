"""Read a table of a database into Arrow: all rows, or the rows above an offset.

Offsets are text: a number, a date or time in ISO format, or the text itself. The rows come in
batches from a cursor of the server, so memory does not grow with the table. A column of a type that
Spark does not have is read as the text that the database makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from importlib import import_module
from typing import Any, Final

import sqlalchemy as sa

from moldau.connectors.spark.engines import CONNECT_ERRORS, create_engine, no_connection
from moldau.connectors.spark.source_config import SparkSourceConfig
from moldau.errors import ConfigError
from moldau.spark.reach import Unavailable

_BATCH_ROWS: Final = 5_000
_DIGITS_MAX: Final = 38
_SCALE: Final = 18
"""The scale of a numeric column without one."""
_OFFSET_PARSERS: Final[dict[type, Callable[[str], Any]]] = {
    int: int, float: float, Decimal: Decimal, datetime: datetime.fromisoformat,
    date: date.fromisoformat, str: str,
}  # fmt: skip


class DatabaseTable:
    """One table of a database. Each method opens a connection of its own."""

    def __init__(self, config: SparkSourceConfig) -> None:
        self._name = config.source_table or ""
        self._config = config

    def highest(self, column: str, above: str | None, rows_max: int) -> tuple[str | None, bool]:
        """Return the highest value of the first `rows_max` rows above the offset, and whether there
        may be more rows. The value is None if no row is above the offset."""
        with self._connect() as connection:
            table = self._load_table(connection)
            cursor = self._column(table, column)
            first = sa.select(cursor.label("value")).where(cursor.is_not(None))
            if above is not None:
                first = first.where(cursor > _parse_offset(cursor, above))
            rows = first.order_by(cursor).limit(rows_max).subquery()
            found, count = connection.execute(
                sa.select(sa.func.max(rows.c.value), sa.func.count())
            ).one()
        if found is None:
            return None, False
        text = found.isoformat() if isinstance(found, date) else str(found)
        return text, count == rows_max

    @contextmanager
    def rows(
        self, column: str | None, above: str | None, upto: str | None = None
    ) -> Iterator[TableRows]:
        """Give access to the rows until the block ends. With a column, they are sorted by it, lie
        above the offset `above`, and include the offset `upto`."""
        with self._connect() as connection:
            table = self._load_table(connection)
            query = sa.select(*map(_selected, table.columns))
            if column is not None:
                cursor = self._column(table, column)
                if above is not None:
                    query = query.where(cursor > _parse_offset(cursor, above))
                if upto is not None:
                    query = query.where(cursor <= _parse_offset(cursor, upto))
                query = query.order_by(cursor)
            options = {"yield_per": _BATCH_ROWS}  # this makes the cursor one of the server
            with connection.execute(query, execution_options=options) as result:
                yield TableRows(result, list(table.columns))

    @contextmanager
    def _connect(self) -> Iterator[sa.Connection]:
        # Without a pool, the engine needs no close of its own after the connection's.
        try:
            connection = create_engine(self._config, poolclass=sa.pool.NullPool).connect()
        except CONNECT_ERRORS as error:
            raise no_connection(error, self._config) from error
        with connection:
            yield connection

    def _load_table(self, connection: sa.Connection) -> sa.Table:
        schema, _, name = self._name.rpartition(".")
        try:
            return sa.Table(name, sa.MetaData(), schema=schema or None, autoload_with=connection)
        except sa.exc.NoSuchTableError:
            raise Unavailable(
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


class TableRows:
    """The rows of one query. They can be read once."""

    def __init__(self, result: sa.CursorResult[Any], columns: Sequence[sa.Column[Any]]) -> None:
        self._result = result
        arrow = import_module("pyarrow")
        kinds = [(each.name, _arrow_type(each) or arrow.string()) for each in columns]
        self.schema = arrow.schema(kinds)

    def batches(self) -> Iterator[Any]:
        """Yield Arrow batches of some thousand rows each."""
        arrow = import_module("pyarrow")
        for rows in self._result.partitions():
            columns = zip(*rows, strict=True)
            arrays = [
                _arrow_array(arrow, values, field)
                for values, field in zip(columns, self.schema, strict=True)
            ]
            yield arrow.RecordBatch.from_arrays(arrays, schema=self.schema)


def _arrow_array(arrow: Any, values: Sequence[Any], field: Any) -> Any:
    """Return the values of a column as Arrow. ConfigError if one of them does not fit."""
    try:
        return arrow.array(values, field.type)
    except (arrow.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise ConfigError(
            f"a value does not fit the column in Spark: {error}; read a view of the table that "
            "casts the column, a number with more than 18 decimals or 38 digits to text",
            column=field.name,
            type=str(field.type),
        ) from error


def _parse_offset(column: Any, text: str) -> Any:
    """Return the offset as a value of the column. ConfigError if it does not fit."""
    parse = _OFFSET_PARSERS.get(_python_type(column) or str, str)
    try:
        return parse(text)
    except (ValueError, ArithmeticError):
        raise ConfigError(
            "the stored offset does not fit the column: reset the connector's offsets",
            column=column.name,
            offset=text,
        ) from None


def _selected(column: Any) -> Any:
    """Return the expression that reads a column."""
    return sa.cast(column, sa.Text()).label(column.name) if _arrow_type(column) is None else column


def _python_type(column: Any) -> type | None:
    """Return the type of the column's values as SQLAlchemy has them; None if it has none."""
    try:
        found: type = column.type.python_type
    except NotImplementedError:
        return None
    return found


def _arrow_type(column: Any) -> Any:
    """Return the column's type in Arrow; None if Spark has no such type."""
    arrow = import_module("pyarrow")
    kind = _python_type(column)
    if kind is Decimal:
        digits, scale = column.type.precision, column.type.scale
        if not digits:
            return arrow.decimal128(_DIGITS_MAX, _SCALE)
        return arrow.decimal128(digits, scale or 0) if digits <= _DIGITS_MAX else None
    if kind is datetime:
        return arrow.timestamp("us", tz="UTC" if column.type.timezone else None)
    found = {
        bool: arrow.bool_(), int: arrow.int64(), float: arrow.float64(), date: arrow.date32(),
        bytes: arrow.binary(), str: arrow.string(),
    }  # fmt: skip
    return None if kind is None else found.get(kind)
