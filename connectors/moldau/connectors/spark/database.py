"""Write batches into a database exactly once: rows and batch number in one transaction.

The rows are written as the JDBC sink writes them: with its tables, types, statements and errors. A
connection is open only while a batch is written, because a server or a proxy may close one that
rests between two batches.

A table of the database has the number of the last batch of each query in each table. A batch with
its number there was written before a crash, and is left out. The key of a row is the query's name,
a blank and the table's name. Rows of an earlier version have the query's name alone; they count for
every table until the query has written its next batch.

An instant is the same in all databases: values with a zone are converted to UTC, which is the zone
of the connection, and values without one are taken as UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC
from importlib import import_module
from typing import Any, Final

from sqlalchemy.engine import Connection

from moldau.connect.errors import ConnectError
from moldau.connectors.jdbc.catalog import read_table
from moldau.connectors.jdbc.columns import Column, ColumnKind, ColumnType, TableId, parse_table_id
from moldau.connectors.jdbc.columnwise import UnsortableError, converted, last_rows
from moldau.connectors.jdbc.database import PoisonError
from moldau.connectors.jdbc.dialects import Dialect
from moldau.connectors.jdbc.mysql_catalog import mysql_has_unique
from moldau.connectors.jdbc.reduction import last_of_each_key
from moldau.connectors.jdbc.sink_settings import InsertMode
from moldau.connectors.jdbc.structure import MissingColumns, RowColumns, Structure
from moldau.connectors.jdbc.values import Conversions, Convert
from moldau.connectors.jdbc.writing import TargetTable, writer_for
from moldau.connectors.spark.batches import QueryCheckpoint, WriteBatch, is_repeated
from moldau.connectors.spark.config import SparkSinkConfig
from moldau.connectors.spark.engines import open_database
from moldau.connectors.spark.spool import SpooledRows, spooled_rows
from moldau.errors import ConfigError
from moldau.spark.reach import Unavailable

_ROWS: Final = 5_000
"""How many rows are held as Python's values at once."""
_SETTINGS: Final[Mapping[str, str]] = {
    "connection.url": "jdbc.url",
    "connection.user": "jdbc.user",
    "connection.password": "jdbc.password",
    "pk.fields": "sink.keys",
}
"""The JDBC sink's names of settings, and those of this one."""

BATCH_TABLE: Final = "moldau_spark_batches"
_TABLE: Final = TableId(None, None, BATCH_TABLE)
_QUERY, _BATCH = "query", "batch"
_KEY_CHARS: Final = 255
_TYPES: Final = {_QUERY: ColumnType(ColumnKind.STRING), _BATCH: ColumnType(ColumnKind.INT64)}
BATCH_COLUMNS: Final = RowColumns(
    _TABLE, (_QUERY,), (_BATCH,), lambda name, _: Column(name, _TYPES[name], nullable=False)
)


def database_writer(config: SparkSinkConfig, checkpoint: QueryCheckpoint) -> WriteBatch:
    """Return the function that writes a batch. It opens the database with the first one."""
    return DatabaseSink(config, checkpoint).write


class DatabaseSink:
    """The sink of one query: a table of a database. Before the first batch it can be pickled."""

    def __init__(self, config: SparkSinkConfig, checkpoint: QueryCheckpoint) -> None:
        self._config = config
        self._checkpoint = checkpoint
        self._table: _DatabaseTable | None = None

    def write(self, batch: Any, number: int) -> None:
        """Write the rows of a DataFrame and the batch number, unless they were written before.

        Both are committed on return.
        """
        if self._table is None:
            with _errors_of_spark():
                self._table = _DatabaseTable(self._config, self._checkpoint)
        with spooled_rows(batch, self._checkpoint.spool) as rows, _errors_of_spark():
            self._table.write(rows, number)


class _DatabaseTable:
    """The table that a query writes, and beside it the table of batch numbers, which is created
    here."""

    def __init__(self, config: SparkSinkConfig, checkpoint: QueryCheckpoint) -> None:
        assert config.sink_table is not None
        self._config = config
        self._name = config.sink_table
        self._is_fresh = checkpoint.is_fresh
        self._database = open_database(config)
        self._dialect = self._database.dialect
        self._structure = Structure(
            self._database,
            auto_create=config.auto_create,
            auto_evolve=config.auto_evolve,
            or_else="select others in transforms.sql",
        )
        self._conversions = Conversions(self._dialect.name, UTC)
        self._writer = writer_for(self._database)
        self._numbers = BatchNumbers(self._dialect, checkpoint.query_name, self._name)
        try:
            Structure(self._database, auto_create=True, auto_evolve=True).fit(BATCH_COLUMNS)
        finally:
            self._database.close()

    def write(self, rows: SpooledRows, number: int) -> None:
        """Write a batch and its number in one transaction, unless the batch is there."""
        try:
            with self._database.transaction() as connection:
                if self._has(self._numbers.locked(connection), number):
                    return
            target, others, converts = self._fit(rows.schema)
            names = target.key + others
            with self._database.transaction() as connection:
                found = self._numbers.locked(connection)
                if self._has(found, number):
                    return
                if self._config.sink_mode == "overwrite":
                    connection.exec_driver_sql(self._dialect.delete_all(target.table))
                for columns in _pieces(rows, names, converts):
                    self._write_piece(connection, target, others, columns)
                self._numbers.store(connection, number, found)
        finally:
            self._database.close()

    def _has(self, found: Mapping[str, int], number: int) -> bool:
        return is_repeated(self._numbers.last(found), number, is_fresh=self._is_fresh)

    def _fit(self, schema: Any) -> tuple[TargetTable, tuple[str, ...], list[tuple[int, Convert]]]:
        """Make the table fit the rows. Return it, the columns that are no key, and the conversions
        by the indexes of all columns."""
        kinds = {field.name: column_type(field.type) for field in schema}
        if len(kinds) < len(schema):
            raise ConfigError(
                "name each column once in transforms.sql", columns=", ".join(schema.names)
            )
        key = self._key(schema.names)
        others = tuple(name for name in schema.names if name not in key)
        # Another program may have changed the tables since the last batch.
        self._structure.forget()
        self._writer.forget()
        rows = RowColumns(
            self._table_id(), key, others,
            lambda name, in_key: Column(name, kinds[name], nullable=not in_key),
        )  # fmt: skip
        self._structure.fit(rows)
        table = self._structure.table(rows.table)
        if key and self._dialect.name == "mysql":
            self._check_unique(rows.table, key)
        converts = []
        for index, name in enumerate((*key, *others)):
            convert = self._conversions.typed(kinds[name], table.by_name[name].type)
            if convert is not None:
                converts.append((index, convert))
        mode = InsertMode.UPSERT if key else InsertMode.INSERT
        return TargetTable(rows.table, key, mode), others, converts

    def _check_unique(self, table: TableId, key: tuple[str, ...]) -> None:
        """Raise Unavailable if MySQL would insert each row. Other databases refuse that."""
        with self._database.transaction() as connection:
            is_unique = mysql_has_unique(connection, table, key)
        if not is_unique:
            raise Unavailable(
                "an upsert needs a primary key or a unique index on sink.keys: create one",
                table=str(table),
                keys=", ".join(key),
            )

    def _key(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the columns of the key as the rows have them: Spark's names have no case."""
        if self._config.sink_mode != "upsert":
            return ()
        by_lower = {name.lower(): name for name in names}
        found = [by_lower.get(each.strip("` ").lower()) for each in self._config.sink_keys]
        if None in found:
            raise ConfigError(
                "sink.keys names columns that the rows lack", columns=", ".join(names)
            )
        return tuple(each for each in found if each is not None)

    def _table_id(self) -> TableId:
        """Return the table of `sink.table`: the one with this whole name if it is there, otherwise
        dots are between the names of its schema and its own."""
        whole = TableId(None, None, self._name)
        if "." not in self._name:
            return whole
        with self._database.transaction() as connection:
            if read_table(connection, whole) is not None:
                return whole
        try:
            return parse_table_id(self._name)
        except ValueError as error:
            raise ConfigError(f"sink.table: {error}") from None

    def _write_piece(
        self,
        connection: Connection,
        target: TargetTable,
        others: tuple[str, ...],
        columns: list[Sequence[Any]],
    ) -> None:
        """Write some rows of a batch; of those with one key the last."""
        keys = len(target.key)
        try:
            columns = last_rows(columns, keys)
        except UnsortableError:
            rows = list(zip(*columns, strict=True))
            for step in last_of_each_key([(row[:keys], others, row[keys:]) for row in rows]):
                self._writer.write(connection, target, step)
            return
        self._writer.write_batch(connection, target, others, columns)


def _pieces(
    rows: SpooledRows, names: Sequence[str], converts: list[tuple[int, Convert]]
) -> Iterator[list[Sequence[Any]]]:
    """Yield the rows as columns of some thousand values."""
    for batch in rows.batches():
        for start in range(0, batch.num_rows, _ROWS):
            piece = batch.slice(start, _ROWS)
            try:
                columns: list[Sequence[Any]] = [column_values(piece.column(each)) for each in names]
                columns = converted(columns, converts)
            except (ValueError, TypeError, ArithmeticError, KeyError) as error:
                raise ConfigError(
                    f"a value does not fit its column of the table: {error}; cast the column, or "
                    "leave such rows out, in transforms.sql"
                ) from error
            yield columns


@contextmanager
def _errors_of_spark() -> Iterator[None]:
    """Raise the errors of the JDBC sink as those of a query: ConfigError if each further try fails
    too, otherwise Unavailable."""
    try:
        yield
    except PoisonError as error:
        raise ConfigError(
            f"the database rejects a row: {error}; leave such rows out in transforms.sql, or "
            "change the table"
        ) from error
    except MissingColumns as error:
        raise ConfigError(_in_own_words(error)) from error
    except ConnectError as error:
        raise Unavailable(_in_own_words(error)) from error


def _in_own_words(error: ConnectError) -> str:
    text = str(error)
    for theirs, own in _SETTINGS.items():
        text = text.replace(theirs, own)
    return text


def column_type(kind: Any) -> ColumnType:
    """Return the column type for an Arrow type. ConfigError if there is none."""
    types = import_module("pyarrow").types
    if types.is_decimal(kind):
        return ColumnType(ColumnKind.DECIMAL, kind.precision, kind.scale)
    if types.is_struct(kind) or types.is_map(kind):
        return ColumnType(ColumnKind.JSON)
    if types.is_list(kind):
        element = column_type(kind.value_type)
        if types.is_nested(kind.value_type) or types.is_temporal(kind.value_type):
            return ColumnType(ColumnKind.JSON)
        return ColumnType(ColumnKind.ARRAY, element=element)
    for is_kind, found in _rules(types):
        if is_kind(kind):
            return ColumnType(found)
    raise ConfigError(
        "a database has no column for this type: cast it to text in transforms.sql", type=str(kind)
    )


def _rules(types: Any) -> Sequence[tuple[Callable[[Any], bool], ColumnKind]]:
    return (
        (types.is_boolean, ColumnKind.BOOLEAN),
        (types.is_int8, ColumnKind.INT8),
        (types.is_int16, ColumnKind.INT16),
        (types.is_int32, ColumnKind.INT32),
        (types.is_integer, ColumnKind.INT64),
        (types.is_float32, ColumnKind.FLOAT32),
        (types.is_floating, ColumnKind.FLOAT64),
        (types.is_timestamp, ColumnKind.TIMESTAMP_TZ),
        (types.is_date, ColumnKind.DATE),
        (types.is_binary, ColumnKind.BYTES),
        (types.is_large_binary, ColumnKind.BYTES),
        (types.is_string, ColumnKind.STRING),
        (types.is_large_string, ColumnKind.STRING),
    )


def column_values(column: Any) -> list[Any]:
    """Return the values of an Arrow column. Times are in UTC, maps are dicts."""
    arrow = import_module("pyarrow")
    if not arrow.types.is_timestamp(column.type):
        found: list[Any] = column.to_pylist(maps_as_pydicts="strict")
        return found
    # Arrow counts from 1970 in UTC, so this cast changes no instant. A zone costs Arrow much more.
    naive = column.cast(arrow.timestamp(column.type.unit)).to_pylist()
    return [None if each is None else each.replace(tzinfo=UTC) for each in naive]


class BatchNumbers:
    """The row of one query and one table."""

    def __init__(self, dialect: Dialect, query: str, table: str) -> None:
        self._dialect = dialect
        self._own = f"{query} {table}"[:_KEY_CHARS]
        self._earlier = query

    def locked(self, connection: Connection) -> Mapping[str, int]:
        """Return what is stored, by key. No other process changes it until the transaction ends."""
        dialect = self._dialect
        table, query, batch = dialect.table(_TABLE), *map(dialect.identifier, (_QUERY, _BATCH))
        where = f"WHERE {query} IN ({', '.join(dialect.placeholders(2))})"
        keys = (self._own, self._earlier)
        # Not every database has SELECT FOR UPDATE. An update locks the rows in all of them.
        lock = f"UPDATE {table} SET {batch} = {batch} {where}"  # noqa: S608 - quoted names
        connection.exec_driver_sql(lock, keys)
        select = f"SELECT {query}, {batch} FROM {table} {where}"  # noqa: S608 - quoted names
        rows = connection.exec_driver_sql(select, keys)
        return {str(name): int(number) for name, number in rows}

    def last(self, found: Mapping[str, int]) -> int | None:
        """Return the number of the last batch in this table; None if it has none."""
        return found.get(self._own, found.get(self._earlier))

    def store(self, connection: Connection, number: int, found: Mapping[str, int]) -> None:
        """Store the number, in the transaction that `found` comes from. Two processes that store a
        first number fail: one of them inserts a key that is there."""
        dialect = self._dialect
        if self._own in found:
            update = dialect.update(_TABLE, (_QUERY,), (_QUERY, _BATCH))
            connection.exec_driver_sql(update, (number, self._own))
        else:
            insert = dialect.insert(_TABLE, (_QUERY, _BATCH))
            connection.exec_driver_sql(insert, (self._own, number))
        if self._earlier in found and self._earlier != self._own:
            connection.exec_driver_sql(dialect.delete(_TABLE, (_QUERY,)), (self._earlier,))
