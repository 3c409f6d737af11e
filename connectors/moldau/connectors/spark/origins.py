"""Where the rows of a source come from: DataFrames of files, tables, databases and queries.

Files, tables and SQL are read by Spark. A database is read by SQLAlchemy, Delta by deltalake and
Iceberg by pyiceberg, as the sinks do, so that no jar is needed; their rows pass through the driver.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from moldau.connectors.spark.source_config import SparkSourceConfig
from moldau.errors import ConfigError


class News(NamedTuple):
    """Rows above the last offset, and the highest value among them: the next offset."""

    rows: Any
    highest: str


class Origin:
    """One source of rows in one session."""

    def __init__(self, session: Any, config: SparkSourceConfig) -> None:
        self._session = session
        self._config = config
        self._functions = import_module("pyspark.sql.functions")

    def stream(self) -> Any:
        """A streaming DataFrame."""
        config = self._config
        reader = self._session.readStream.options(**config.with_prefix("source.option."))
        if config.source_format == "table":
            return reader.table(config.source_table)
        if config.source_schema:
            reader = reader.schema(config.source_schema)
        reader = reader.format(config.source_format)
        return reader.load(config.source_path) if config.source_path else reader.load()

    def everything(self) -> Any:
        """All rows that there are now."""
        return self._transformed(self._all())

    def news(self, above: str | None) -> News | None:
        """The rows above an offset; None where there are none."""
        column = self._config.incremental_column
        assert column is not None
        if self._config.source_format == "jdbc":
            return self._news_of_database(column, above)
        rows = self._all()
        if column not in rows.columns:
            raise _no_column(column, rows.columns)
        f = self._functions
        kind = dict(rows.dtypes)[column]
        if above is not None:
            rows = rows.where(f.col(column) > f.lit(above).cast(kind))
        highest = rows.agg(f.max(column).cast("string")).first()[0]
        if highest is None:
            return None
        # What comes while this is read belongs to the next read.
        rows = rows.where(f.col(column) <= f.lit(highest).cast(kind))
        return News(self._transformed(rows), highest)

    def _all(self) -> Any:
        config = self._config
        if config.query is not None:
            return self._session.sql(config.query)
        match config.source_format:
            case "table":
                return self._session.table(config.source_table)
            case "jdbc":
                return self._of_arrow(self._database().rows(None, None))
            case "delta":
                return self._of_arrow(_delta_table(config))
            case "iceberg":
                return self._of_arrow(_iceberg_table(config))
        reader = self._session.read.options(**config.with_prefix("source.option."))
        if config.source_schema:
            reader = reader.schema(config.source_schema)
        reader = reader.format(config.source_format)
        return reader.load(config.source_path) if config.source_path else reader.load()

    def _news_of_database(self, column: str, above: str | None) -> News | None:
        """As `news`; the database leaves out what is not wanted."""
        database = self._database()
        highest = database.highest(column, above)
        if highest is None:
            return None
        rows = self._of_arrow(database.rows(column, above, highest))
        return News(self._transformed(rows), highest)

    def _database(self) -> Any:
        from moldau.connectors.spark.database_table import DatabaseTable

        return DatabaseTable(self._config)

    def _of_arrow(self, table: Any) -> Any:
        return self._session.createDataFrame(table)

    def _transformed(self, rows: Any) -> Any:
        return transformed(self._session, self._config, rows)


def transformed(session: Any, config: SparkSourceConfig, rows: Any) -> Any:
    """After `transforms.sql` and `transforms.python`."""
    from moldau.connectors.spark.query import function_of

    if config.transforms_sql is not None:
        rows.createOrReplaceTempView("source")
        rows = session.sql(config.transforms_sql)
    if config.transforms_python is not None:
        rows = function_of(config.transforms_python)(rows)
    return rows


def _no_column(column: str, columns: list[str]) -> ConfigError:
    return ConfigError(
        "the source lacks the column of incremental.column: choose one that there is",
        missing=column,
        columns=", ".join(columns),
    )


def _delta_table(config: SparkSourceConfig) -> Any:
    try:
        delta = import_module("deltalake")
    except ImportError as error:
        raise ConfigError(
            "source.format=delta needs deltalake: pip install 'moldau-connectors[delta]'",
            missing="deltalake",
        ) from error
    options = config.with_prefix("source.option.") or None
    if not delta.DeltaTable.is_deltatable(config.source_path, storage_options=options):
        raise ConfigError("there is no Delta table: check source.path", path=config.source_path)
    return delta.DeltaTable(config.source_path, storage_options=options).to_pyarrow_table()


def _iceberg_table(config: SparkSourceConfig) -> Any:
    try:
        catalogs = import_module("pyiceberg.catalog")
        missing = import_module("pyiceberg.exceptions").NoSuchTableError
    except ImportError as error:
        raise ConfigError(
            "source.format=iceberg needs pyiceberg: pip install 'moldau-connectors[iceberg]'",
            missing=error.name,
        ) from error
    catalog = catalogs.load_catalog("moldau", **config.with_prefix("source.option."))
    try:
        return catalog.load_table(config.source_table).scan().to_arrow()
    except missing:
        raise ConfigError(
            "there is no such table: check source.table", table=config.source_table
        ) from None
    finally:
        catalog.close()
