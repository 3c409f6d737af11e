"""Batches into a database, exactly once: rows and the number of the batch in one transaction.

The table `moldau_spark_batches` has the last batch of each query. A batch that is
there already was written before a crash, and is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, Final

import sqlalchemy as sa

from moldau.connectors.jdbc.address import AddressError, parse_address
from moldau.connectors.spark.base_config import SparkConfig
from moldau.connectors.spark.batches import Place, WriteBatch, check_columns, is_repeated
from moldau.connectors.spark.config import SparkSinkConfig
from moldau.connectors.spark.pieces import Pieces, pieces_of
from moldau.errors import ConfigError

BATCHES: Final = "moldau_spark_batches"
_ROWS: Final = 5_000
_UPSERTS: Final = ("postgresql", "sqlite")


def database_batch(config: SparkSinkConfig, place: Place) -> WriteBatch:
    """What writes one batch; the engine is made with the first one."""
    return DatabaseSink(config, place).write


class DatabaseSink:
    """One table of one database."""

    def __init__(self, config: SparkSinkConfig, place: Place) -> None:
        self._config = config
        self._place = place
        self._engine: sa.Engine | None = None
        self._metadata = sa.MetaData()
        self._batches = sa.Table(
            BATCHES,
            self._metadata,
            sa.Column("query", sa.String(255), primary_key=True),
            sa.Column("batch", sa.BigInteger, nullable=False),
        )

    def write(self, batch: Any, number: int) -> None:
        """A Spark DataFrame; its rows come to this process in pieces."""
        engine = self._opened()
        with pieces_of(batch, self._place.spool) as pieces, engine.begin() as connection:
            last = connection.scalar(
                sa.select(self._batches.c.batch)
                .where(self._batches.c.query == self._place.query)
                .with_for_update()
            )
            if is_repeated(last, number, is_fresh=self._place.is_fresh):
                return
            table = self._table(connection, pieces.schema)
            if self._config.sink_mode == "overwrite":
                connection.execute(sa.delete(table))
            statement = self._statement(table)
            for rows in _chunks(pieces):
                connection.execute(statement, rows)
            self._note(connection, number, is_first=last is None)

    def close(self) -> None:
        """Closes the connections."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.dispose()

    def _opened(self) -> sa.Engine:
        if self._engine is None:
            url = database_url(self._config)
            try:
                self._engine = sa.create_engine(url)
                self._make_batches(self._engine)
            except (sa.exc.OperationalError, ImportError) as error:
                shown = url.render_as_string(hide_password=True)
                raise ConfigError(f"no connection to the database: {error}", url=shown) from error
        return self._engine

    def _make_batches(self, engine: sa.Engine) -> None:
        """The table of the last batches, unless another query makes it at this moment."""
        try:
            self._metadata.create_all(engine, [self._batches])
        except sa.exc.DBAPIError:
            if not sa.inspect(engine).has_table(BATCHES):
                raise

    def _table(self, connection: sa.Connection, schema: Any) -> sa.Table:
        """The target as it is; made from the rows' columns if it is missing."""
        whole = self._config.sink_table
        assert whole is not None
        inspector = sa.inspect(connection)
        schema_name, _, name = (
            ("", "", whole) if inspector.has_table(whole) else whole.rpartition(".")
        )
        place = sa.MetaData(schema=schema_name or None)
        if inspector.has_table(name, schema_name or None):
            table = sa.Table(name, place, autoload_with=connection)
            missing = [each for each in schema.names if each not in table.c]
            if not missing:
                return table
            if not self._config.auto_evolve:
                check_columns(whole, table.c.keys(), schema.names)
            _add(connection, table, [schema.field(each) for each in missing])
            again = sa.MetaData(schema=schema_name or None)
            return sa.Table(name, again, autoload_with=connection)
        if not self._config.auto_create:
            raise ConfigError("there is no such table, and auto.create=false", table=whole)
        columns = [
            sa.Column(each.name, _type_of(each.type), primary_key=each.name in self._keys)
            for each in schema
        ]
        if schema_name and schema_name not in inspector.get_schema_names():
            raise ConfigError(
                "there is no such schema in the database: create it, or correct sink.table",
                schema=schema_name,
            )
        table = sa.Table(name, place, *columns)
        try:
            with connection.begin_nested():
                table.create(connection)
        except sa.exc.DBAPIError:
            # Another query may have made it at this moment.
            if not sa.inspect(connection).has_table(name, schema_name or None):
                raise
            return self._table(connection, schema)
        return table

    @property
    def _keys(self) -> list[str]:
        return self._config.sink_keys if self._config.sink_mode == "upsert" else []

    def _statement(self, table: sa.Table) -> Any:
        if self._config.sink_mode != "upsert":
            return sa.insert(table)
        dialect = self._opened().dialect.name
        if dialect not in _UPSERTS:
            raise ConfigError(
                f"sink.mode=upsert is known for {' and '.join(_UPSERTS)}", database=dialect
            )
        insert = import_module(f"sqlalchemy.dialects.{dialect}").insert(table)
        others = {each.name: insert.excluded[each.name] for each in table.c
                  if each.name not in self._keys}  # fmt: skip
        if not others:
            return insert.on_conflict_do_nothing(index_elements=self._keys)
        return insert.on_conflict_do_update(index_elements=self._keys, set_=others)

    def _note(self, connection: sa.Connection, number: int, *, is_first: bool) -> None:
        if is_first:
            statement: Any = sa.insert(self._batches).values(query=self._place.query, batch=number)
        else:
            mine = self._batches.c.query == self._place.query
            statement = sa.update(self._batches).where(mine).values(batch=number)
        connection.execute(statement)


def _add(connection: sa.Connection, table: sa.Table, fields: Iterable[Any]) -> None:
    """Adds columns, which are null in the rows that are there."""
    dialect = connection.dialect
    where = dialect.identifier_preparer.format_table(table)
    columns = [sa.Column(each.name, _type_of(each.type)) for each in fields]
    for each in sa.Table(table.name, sa.MetaData(), *columns).columns:
        told = sa.schema.CreateColumn(each).compile(dialect=dialect)
        connection.exec_driver_sql(f"ALTER TABLE {where} ADD COLUMN {told}")


def database_url(config: SparkConfig) -> sa.URL:
    """SQLAlchemy's URL of `jdbc.url`, which may be a Java driver's."""
    assert config.jdbc_url is not None
    try:
        address = parse_address(config.jdbc_url)
    except AddressError as error:
        raise ConfigError(str(error), key="jdbc.url") from None
    return address.with_login(config.jdbc_user, config.jdbc_password).url


def _chunks(pieces: Pieces) -> Iterator[list[dict[str, Any]]]:
    for batch in pieces.batches():
        for start in range(0, batch.num_rows, _ROWS):
            yield batch.slice(start, _ROWS).to_pylist()


def _type_of(kind: Any) -> Any:
    """The column type for an Arrow type."""
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
    raise ConfigError("this type has no column in a database: make it text", type=str(kind))
