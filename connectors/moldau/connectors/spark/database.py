"""Write batches into a database exactly once: rows and batch number in one transaction.

The table `moldau_spark_batches` has the number of the last batch of each query in each table. A
batch whose number is there was written before a crash, and is left out. The key of a row is the
query's name, a blank and the table's name. Rows of an earlier version have the query's name alone;
they count for every table until the query has written its next batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from importlib import import_module
from typing import Any, Final

import sqlalchemy as sa

from moldau.connectors.spark.batches import (
    QueryCheckpoint,
    WriteBatch,
    check_columns,
    is_repeated,
)
from moldau.connectors.spark.config import SparkSinkConfig
from moldau.connectors.spark.engines import CONNECT_ERRORS, create_engine, no_connection
from moldau.connectors.spark.spool import SpooledRows, spooled_rows
from moldau.errors import ConfigError
from moldau.spark.reach import Unavailable

BATCH_TABLE: Final = "moldau_spark_batches"
_KEY_CHARS: Final = 255
_ROWS_PER_INSERT: Final = 5_000
_UPSERT_DIALECTS: Final = ("postgresql", "sqlite")


def database_writer(config: SparkSinkConfig, checkpoint: QueryCheckpoint) -> WriteBatch:
    """Return the function that writes a batch. It opens the database with the first one."""
    return DatabaseSink(config, checkpoint).write


class DatabaseSink:
    """The sink of one query: a table of a database."""

    def __init__(self, config: SparkSinkConfig, checkpoint: QueryCheckpoint) -> None:
        self._config = config
        self._checkpoint = checkpoint
        self._engine: sa.Engine | None = None
        self._metadata = sa.MetaData()
        self._batches = sa.Table(
            BATCH_TABLE,
            self._metadata,
            sa.Column("query", sa.String(_KEY_CHARS), primary_key=True),
            sa.Column("batch", sa.BigInteger, nullable=False),
        )

    def write(self, batch: Any, number: int) -> None:
        """Write the rows of a DataFrame and the batch number, unless they were written before.

        Both are committed on return.
        """
        engine = self._open_engine()
        with spooled_rows(batch, self._checkpoint.spool) as rows, engine.begin() as connection:
            last = self._last_number(connection)
            if is_repeated(last, number, is_fresh=self._checkpoint.is_fresh):
                return
            table = self._target_table(connection, rows.schema)
            if self._config.sink_mode == "overwrite":
                connection.execute(sa.delete(table))
            statement = self._insert_statement(table)
            for values in _insert_values(rows, table):
                connection.execute(statement, values)
            self._store_number(connection, number)

    def close(self) -> None:
        """Close the connections to the database."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.dispose()

    def _open_engine(self) -> sa.Engine:
        if self._engine is None:
            try:
                # A server or a proxy may close a connection that rests between two batches.
                engine = create_engine(self._config, pool_pre_ping=True)
                with ExitStack() as on_error:
                    on_error.callback(engine.dispose)
                    self._create_batch_table(engine)
                    on_error.pop_all()
            except CONNECT_ERRORS as error:
                raise no_connection(error, self._config) from error
            self._engine = engine
        return self._engine

    def _create_batch_table(self, engine: sa.Engine) -> None:
        """Create the table of batch numbers if it is missing. Another query may create it at the
        same moment."""
        try:
            self._metadata.create_all(engine, [self._batches])
        except sa.exc.DBAPIError:
            if not sa.inspect(engine).has_table(BATCH_TABLE):
                raise

    def _target_table(self, connection: sa.Connection, schema: Any) -> sa.Table:
        """Return the table of the sink. Create it, or add columns to it, if the config allows."""
        whole = self._config.sink_table
        assert whole is not None
        inspector = sa.inspect(connection)
        schema_name, _, name = (
            ("", "", whole) if inspector.has_table(whole) else whole.rpartition(".")
        )
        metadata = sa.MetaData(schema=schema_name or None)
        if inspector.has_table(name, schema_name or None):
            table = sa.Table(name, metadata, autoload_with=connection)
            missing = [each for each in schema.names if each not in table.c]
            if not missing:
                return table
            if not self._config.auto_evolve:
                check_columns(whole, table.c.keys(), schema.names)
            _add_columns(connection, table, [schema.field(each) for each in missing])
            reloaded = sa.MetaData(schema=schema_name or None)
            return sa.Table(name, reloaded, autoload_with=connection)
        if not self._config.auto_create:
            raise Unavailable(
                "there is no such table, and auto.create=false: create the table, or set "
                "auto.create=true",
                table=whole,
            )
        columns = [
            sa.Column(each.name, _column_type(each.type), primary_key=each.name in self._keys)
            for each in schema
        ]
        if schema_name and schema_name not in inspector.get_schema_names():
            raise Unavailable(
                "there is no such schema in the database: create it, or correct sink.table",
                schema=schema_name,
            )
        table = sa.Table(name, metadata, *columns)
        try:
            with connection.begin_nested():
                table.create(connection)
        except sa.exc.DBAPIError:
            # Another query may have created it at this moment.
            if not sa.inspect(connection).has_table(name, schema_name or None):
                raise
            return self._target_table(connection, schema)
        return table

    @property
    def _keys(self) -> list[str]:
        return self._config.sink_keys if self._config.sink_mode == "upsert" else []

    def _insert_statement(self, table: sa.Table) -> Any:
        if self._config.sink_mode != "upsert":
            return sa.insert(table)
        dialect = self._open_engine().dialect.name
        if dialect not in _UPSERT_DIALECTS:
            raise ConfigError(
                f"sink.mode=upsert works with {' and '.join(_UPSERT_DIALECTS)} only: use append",
                database=dialect,
            )
        insert = import_module(f"sqlalchemy.dialects.{dialect}").insert(table)
        others = {each.name: insert.excluded[each.name] for each in table.c
                  if each.name not in self._keys}  # fmt: skip
        if not others:
            return insert.on_conflict_do_nothing(index_elements=self._keys)
        return insert.on_conflict_do_update(index_elements=self._keys, set_=others)

    @property
    def _row_keys(self) -> tuple[str, str]:
        """The keys of the query's row for this table, and of that of an earlier version."""
        query = self._checkpoint.query_name
        return f"{query} {self._config.sink_table}"[:_KEY_CHARS], query

    def _last_number(self, connection: sa.Connection) -> int | None:
        """Return the number of the last batch in this table; None if it has none."""
        rows = connection.execute(
            sa.select(self._batches.c.query, self._batches.c.batch)
            .where(self._batches.c.query.in_(self._row_keys))
            .with_for_update()
        )
        found: dict[str, int] = {each.query: each.batch for each in rows}
        own, earlier = self._row_keys
        return found.get(own, found.get(earlier))

    def _store_number(self, connection: sa.Connection, number: int) -> None:
        own, _ = self._row_keys
        connection.execute(
            sa.delete(self._batches).where(self._batches.c.query.in_(self._row_keys))
        )
        connection.execute(sa.insert(self._batches).values(query=own, batch=number))


def _add_columns(connection: sa.Connection, table: sa.Table, fields: Iterable[Any]) -> None:
    """Add columns to a table. They are null in its present rows."""
    dialect = connection.dialect
    name = dialect.identifier_preparer.format_table(table)
    columns = [sa.Column(each.name, _column_type(each.type)) for each in fields]
    for each in sa.Table(table.name, sa.MetaData(), *columns).columns:
        column = sa.schema.CreateColumn(each).compile(dialect=dialect)
        connection.exec_driver_sql(f"ALTER TABLE {name} ADD COLUMN {column}")


def _insert_values(rows: SpooledRows, table: sa.Table) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows in lists, each for one INSERT."""
    for each in rows.batches():
        batch = _with_utc_instants(each, table)
        for start in range(0, batch.num_rows, _ROWS_PER_INSERT):
            yield batch.slice(start, _ROWS_PER_INSERT).to_pylist()


def _with_utc_instants(batch: Any, table: sa.Table) -> Any:
    """Return the batch with all instants in UTC. They have no zone if the column has none: drivers
    differ in what they do with a zone then."""
    arrow = import_module("pyarrow")
    columns, fields = list(batch.columns), list(batch.schema)
    for position, field in enumerate(fields):
        if arrow.types.is_timestamp(field.type) and field.type.tz is not None:
            target = table.c[field.name].type
            is_naive = isinstance(target, sa.DateTime) and not target.timezone
            kind = arrow.timestamp(field.type.unit, None if is_naive else "UTC")
            # Arrow counts instants from 1970 in UTC, so a cast changes the zone and no instant.
            columns[position] = columns[position].cast(kind)
            fields[position] = field.with_type(kind)
    return arrow.RecordBatch.from_arrays(columns, schema=arrow.schema(fields))


def _column_type(kind: Any) -> Any:
    """Return the column type for an Arrow type. ConfigError if there is none."""
    types = import_module("pyarrow").types
    rules: list[tuple[Callable[[Any], bool], Any]] = [
        (types.is_boolean, sa.Boolean()),
        (types.is_int64, sa.BigInteger()),
        (types.is_integer, sa.Integer()),
        (types.is_floating, sa.Double()),
        (types.is_timestamp, sa.DateTime(timezone=True)),
        (types.is_date, sa.Date()),
        (types.is_binary, sa.LargeBinary()),
        (types.is_string, sa.Text()),
    ]
    if types.is_decimal(kind):
        return sa.Numeric(kind.precision, kind.scale)
    for is_kind, column in rules:
        if is_kind(kind):
            return column
    raise ConfigError(
        "a database has no column for this type: cast it to text in transforms.sql", type=str(kind)
    )
