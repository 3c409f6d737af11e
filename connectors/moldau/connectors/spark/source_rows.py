"""Read the rows of a source as DataFrames, from files, tables, databases and queries.

Spark reads files, tables and SQL. SQLAlchemy reads a database, deltalake reads Delta and pyiceberg
reads Iceberg, as for the sinks, so that no jar is needed. Rows of these three pass through the
driver; those of a database in pieces (`source_spool`).
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moldau.connectors.spark.base_config import FILE_FORMATS
from moldau.connectors.spark.source_config import SparkSourceConfig
from moldau.connectors.spark.spool import SourceSpool
from moldau.errors import ConfigError
from moldau.plugins.extras import install_command
from moldau.spark.reach import Unavailable

if TYPE_CHECKING:
    from moldau.connectors.spark.database_table import DatabaseTable


LOG: Final = logging.getLogger("moldau.connectors.spark")
_PARSED_FORMATS: Final = ("json", "csv")
_FILES: Final = (*FILE_FORMATS, "text")
_BATCH_LIMITS: Final = ("maxfilespertrigger", "maxbytespertrigger")
_BATCH_FILES: Final = "1000"
"""The most files in a batch of a stream, unless a source.option says otherwise."""


class NewRows(NamedTuple):
    """The rows above the last offset. `highest` is their highest value, and the next offset."""

    rows: Any
    highest: str
    has_more: bool
    """Whether there may be more rows, which are for the next read."""


class SourceRows:
    """The rows of one source, read in one session.

    `spool` is the address of a folder for rows of a database that are too many for memory. They
    stay there until `close`.
    """

    def __init__(self, session: Any, config: SparkSourceConfig, spool: str | None = None) -> None:
        self._session = session
        self._config = config
        self._spool = SourceSpool(session, spool)
        self._functions = import_module("pyspark.sql.functions")

    def close(self) -> None:
        """Remove the spool. The rows that were returned can no longer be read."""
        self._spool.remove()

    def stream(self) -> Any:
        """Return the rows as a streaming DataFrame, before the transforms."""
        config = self._config
        reader = self._session.readStream.options(**_reader_options(config))
        if config.source_format == "table":
            return reader.table(config.source_table)
        if config.source_schema:
            reader = reader.schema(config.source_schema)
        reader = reader.format(config.source_format)
        return reader.load(config.source_path) if config.source_path else reader.load()

    def all_rows(self) -> Any:
        """Return all present rows, after the transforms."""
        return self._transform(self._read_all())

    def rows_above(self, offset: str | None) -> NewRows | None:
        """Return rows above an offset, after the transforms; None if there are none.

        They are the first `max.rows.per.batch` rows, with all rows that have the last one's
        value."""
        column = self._config.incremental_column
        assert column is not None
        if self._config.source_format == "jdbc":
            return self._database_rows_above(column, offset)
        rows = self._read_all()
        if column not in rows.columns:
            raise _missing_column(column, rows.columns)
        f = self._functions
        kind = dict(rows.dtypes)[column]
        if offset is not None:
            rows = rows.where(f.col(column) > f.lit(offset).cast(kind))
        rows_max = self._config.batch_rows
        first = rows.select(column).where(f.col(column).isNotNull()).orderBy(column).limit(rows_max)
        highest, count = first.agg(f.max(column).cast("string"), f.count(f.lit(1))).first()
        if highest is None:
            return None
        # Rows that come during this read belong to the next read.
        rows = rows.where(f.col(column) <= f.lit(highest).cast(kind))
        return NewRows(self._transform(rows), highest, count == rows_max)

    def _read_all(self) -> Any:
        config = self._config
        if config.query is not None:
            return self._session.sql(config.query)
        match config.source_format:
            case "table":
                return self._session.table(config.source_table)
            case "jdbc":
                with self._database().rows(None, None) as found:
                    return self._spool.to_spark(found)
            case "delta":
                return self._from_arrow(_delta_table(config))
            case "iceberg":
                return self._from_arrow(_iceberg_table(config))
        reader = self._session.read.options(**_reader_options(config))
        if config.source_schema:
            reader = reader.schema(config.source_schema)
        reader = reader.format(config.source_format)
        return reader.load(config.source_path) if config.source_path else reader.load()

    def _database_rows_above(self, column: str, offset: str | None) -> NewRows | None:
        """Return the rows above an offset. The database itself selects them."""
        database = self._database()
        highest, has_more = database.highest(column, offset, self._config.batch_rows)
        if highest is None:
            return None
        with database.rows(column, offset, highest) as found:
            rows = self._spool.to_spark(found)
        return NewRows(self._transform(rows), highest, has_more)

    def _database(self) -> DatabaseTable:
        from moldau.connectors.spark.database_table import DatabaseTable

        return DatabaseTable(self._config)

    def _from_arrow(self, table: Any) -> Any:
        return self._session.createDataFrame(table)

    def _transform(self, rows: Any) -> Any:
        return apply_transforms(self._session, self._config, rows)


def apply_transforms(session: Any, config: SparkSourceConfig, rows: Any) -> Any:
    """Return the rows after `transforms.sql` and `transforms.python`."""
    from moldau.connectors.spark.query import load_function

    if config.transforms_sql is not None:
        rows.createOrReplaceTempView("source")
        rows = session.sql(config.transforms_sql)
    if config.transforms_python is not None:
        rows = load_function(config.transforms_python)(rows)
    return rows


def _reader_options(config: SparkSourceConfig) -> dict[str, str]:
    """Return the options of Spark's reader. By default a row of JSON or CSV that cannot be parsed
    fails the read, and with `errors.tolerance=all` it is left out: Spark would make nulls of it."""
    options = config.with_prefix("source.option.")
    given = {each.lower() for each in options}
    if config.is_stream and config.source_format in _FILES and given.isdisjoint(_BATCH_LIMITS):
        options = {"maxFilesPerTrigger": _BATCH_FILES, **options}
    if config.source_format not in _PARSED_FORMATS or any(
        each.lower() == "mode" for each in options
    ):
        return options
    if config.originals.get("errors.tolerance", "none").strip().lower() != "all":
        return {"mode": "FAILFAST", **options}
    LOG.warning(
        "rows of %s that cannot be parsed are left out, for errors.tolerance=all",
        config.source_path,
    )
    return {"mode": "DROPMALFORMED", **options}


def _missing_column(column: str, columns: list[str]) -> ConfigError:
    return ConfigError(
        "the source lacks the column of incremental.column: choose one of its columns",
        missing=column,
        columns=", ".join(columns),
    )


def _delta_table(config: SparkSourceConfig) -> Any:
    try:
        delta = import_module("deltalake")
    except ImportError as error:
        raise ConfigError(
            f"source.format=delta needs deltalake: {install_command('delta')}", missing="deltalake"
        ) from error
    options = config.with_prefix("source.option.") or None
    if not delta.DeltaTable.is_deltatable(config.source_path, storage_options=options):
        raise Unavailable("there is no Delta table: check source.path", path=config.source_path)
    return delta.DeltaTable(config.source_path, storage_options=options).to_pyarrow_table()


def _iceberg_table(config: SparkSourceConfig) -> Any:
    try:
        catalogs = import_module("pyiceberg.catalog")
        missing = import_module("pyiceberg.exceptions").NoSuchTableError
    except ImportError as error:
        raise ConfigError(
            f"source.format=iceberg needs pyiceberg: {install_command('iceberg')}",
            missing=error.name,
        ) from error
    catalog = catalogs.load_catalog(config.source_catalog, **config.with_prefix("source.option."))
    try:
        return catalog.load_table(config.source_table).scan().to_arrow()
    except missing:
        raise Unavailable(
            "there is no such table: check source.table", table=config.source_table
        ) from None
    finally:
        catalog.close()
