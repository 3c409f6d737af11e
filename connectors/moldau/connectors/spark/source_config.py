"""The settings of `SparkSourceConnector`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final, Literal

from moldau.connect.api import Problem, key
from moldau.connectors.spark.base_config import (
    FILE_FORMATS,
    SparkConfig,
    check_columns,
    check_database,
)
from moldau.errors import ConfigError
from moldau.spark.avro_writing import check_record

STREAM_FORMATS: Final = (*FILE_FORMATS, "text", "rate", "table")
"""The formats that Spark can read as a stream."""
_PATH_FORMATS: Final = (*FILE_FORMATS, "text", "delta")
_DATABASE_ROWS: Final = 20_000
_SCANNED_ROWS: Final = 1_000_000
_SOURCE, _TOPIC = "Source", "Topic"


class SparkSourceConfig(SparkConfig):
    """The settings of a source, which reads rows and writes records."""

    open_prefixes: ClassVar[tuple[str, ...]] = (
        *SparkConfig.open_prefixes, "source.option.", "topic.creation.", "producer.override.",
    )  # fmt: skip
    converter_hint: ClassVar[str] = "use value.format and key.columns"
    unsupported: ClassVar[dict[str, str]] = {
        "spark.task.per.topic": "a source writes one topic: leave it out",
        "partitioner": "give the column partition with value.format=columns",
    }

    mode: Literal["bulk", "incremental", "stream"] = key(
        "mode", "bulk",
        doc="bulk: each read takes all rows. incremental: a read takes the rows above the highest "
        "value of incremental.column so far. stream: Spark reads new rows as they come.",
        importance="high", group=_SOURCE,
    )  # fmt: skip
    query: str | None = key(
        "query", None, doc="A query in Spark's SQL. It replaces source.format.",
        importance="high", group=_SOURCE,
    )  # fmt: skip
    source_format: Literal[
        "parquet", "orc", "json", "csv", "text", "rate", "table", "delta", "iceberg", "jdbc"
    ] | None = key(
        "source.format", None, doc="The format to read.", importance="high", group=_SOURCE,
    )  # fmt: skip
    source_path: str | None = key(
        "source.path", None, doc="The directory of files or of the Delta table.",
        importance="high", group=_SOURCE,
    )  # fmt: skip
    source_table: str | None = key(
        "source.table", None, doc="The table, for table, iceberg and jdbc.", group=_SOURCE
    )
    source_catalog: str = key(
        "source.catalog", "moldau",
        doc="The name of the Iceberg catalog. Tables of an SQL catalog belong to its name.",
        group=_SOURCE,
    )  # fmt: skip
    source_schema: str | None = key(
        "source.schema", None,
        doc="The columns as DDL. A stream of files needs it, except text.", group=_SOURCE,
    )  # fmt: skip
    incremental_column: str | None = key(
        "incremental.column", None, doc="A column that rises with each new row.", group=_SOURCE
    )
    max_batch_rows: int | None = key(
        "max.rows.per.batch", None,
        doc="How many rows an incremental read sends before it stores its offset; more if they "
        "have one value. The default is 20000 for jdbc, and 1000000 for others, which each read "
        "scans as a whole.", ge=1, group=_SOURCE,
    )  # fmt: skip
    schedule_interval_ms: int = key(
        "schedule.interval.ms", 60_000, kind="LONG",
        doc="The time between the starts of two reads, for bulk and incremental.", ge=1,
        group=_SOURCE,
    )  # fmt: skip
    topic: str = key("topic", doc="The topic to write.", importance="high", group=_TOPIC)
    key_columns: list[str] = key(
        "key.columns", [], doc="The columns of the key. One is text, several are JSON.",
        group=_TOPIC,
    )  # fmt: skip
    value_format: Literal["json", "avro", "string", "columns"] = key(
        "value.format", "json",
        doc="json, avro: the value is the row. string: the value is its only column as text. "
        "columns: the query itself makes the columns value, key, headers, partition and timestamp.",
        importance="high", group=_TOPIC,
    )  # fmt: skip
    value_schema: str | None = key(
        "value.schema", None,
        doc="The Avro schema of the values. The default is made from the row's columns.",
        group=_TOPIC,
    )  # fmt: skip
    value_registry: str | None = key(
        "value.registry", None,
        doc="The address of a Schema Registry, http://localhost:8081. The schema is registered "
        "for the topic, and values begin with its id.", group=_TOPIC,
    )  # fmt: skip
    contract_rules: Literal["refuse", "ignore"] = key(
        "data.contract.rules", "refuse",
        doc="refuse: a schema of value.registry with rules (a data contract) for what is written "
        "fails the connector, because they are not run here. ignore: leave them aside.",
        group=_TOPIC,
    )  # fmt: skip
    timestamp_column: str | None = key(
        "timestamp.column", None, doc="The column that is the record's timestamp.", group=_TOPIC
    )
    header_columns: list[str] = key(
        "headers.columns", [], doc="The columns that also become headers.", group=_TOPIC
    )

    @property
    def is_stream(self) -> bool:
        """Whether Spark reads the source as a stream."""
        return self.mode == "stream"

    @property
    def writes_in_transactions(self) -> bool:
        return self.is_stream

    @property
    def batch_rows(self) -> int:
        """The number of rows of an incremental read, which a crash may repeat."""
        if self.max_batch_rows is not None:
            return self.max_batch_rows
        return _DATABASE_ROWS if self.source_format == "jdbc" else _SCANNED_ROWS

    @property
    def source_name(self) -> str:
        """The format and the place that are read, as `json:/data/in`, or `query`.

        Connect stores offsets under this name.
        """
        if self.query is not None:
            return "query"
        return f"{self.source_format}:{self.source_table or self.source_path or ''}".rstrip(":")

    @property
    def guarantee(self) -> str:
        """The guarantee for each row if a process dies at any point."""
        is_tolerant = self.originals.get("errors.tolerance", "").strip().lower() == "all"
        if is_tolerant and self.source_format in ("json", "csv"):
            return f"{self._guarantee_of_rows}; rows that cannot be parsed are dropped"
        return self._guarantee_of_rows

    @property
    def _guarantee_of_rows(self) -> str:
        """The guarantee for each row that becomes a record."""
        if self.is_stream:
            return self.guarantee_of_records
        if self.mode == "incremental":
            return "at least once: rows since the last stored offset are sent again"
        return "at least once: each read sends all rows"

    def check(self) -> Iterable[Problem]:
        yield from super().check()
        if (self.query is None) == (self.source_format is None):
            yield Problem("source.format", "give either source.format or query")
        yield from self._check_source()
        if self.mode == "incremental" and not self.incremental_column:
            yield Problem("incremental.column", "mode=incremental needs it")
        if self.max_batch_rows is not None and self.mode != "incremental":
            yield Problem("max.rows.per.batch", "it is for mode=incremental: leave it out")
        if self.value_format == "columns" and (self.key_columns or self.header_columns):
            yield Problem("value.format", "with columns, the query makes keys and headers itself")
        yield from self._check_avro()

    def _check_avro(self) -> Iterable[Problem]:
        if self.value_format != "avro":
            for name, text in (("schema", self.value_schema), ("registry", self.value_registry)):
                if text is not None:
                    yield Problem(f"value.{name}", "it is for value.format=avro: leave it out")
        elif self.value_schema is None:
            if self.value_registry is None:
                yield Problem("value.registry", "value.format=avro needs it, or value.schema")
        else:
            try:
                check_record(self.value_schema)
            except ConfigError as error:
                yield Problem("value.schema", str(error))

    def _check_source(self) -> Iterable[Problem]:
        kind = self.source_format
        needed = []
        if kind in _PATH_FORMATS:
            needed = ["source.path"]
        elif kind in ("table", "iceberg", "jdbc"):
            needed = ["source.table"]
        if kind == "jdbc":
            needed.append("jdbc.url")
            yield from check_database(self, "source.option.")
        if self.source_schema:
            yield from check_columns("source.schema", self.source_schema)
        if kind == "iceberg":
            needed.append("source.option.uri")
        elif "source.catalog" in self.originals:
            yield Problem("source.catalog", "it is for iceberg: leave it out")
        for name in needed:
            if not self.originals.get(name):
                yield Problem(name, f"source.format={kind} needs it")
        if not self.is_stream:
            return
        if kind is None or kind not in STREAM_FORMATS:
            source = "a query" if kind is None else kind
            yield Problem("mode", f"Spark cannot follow {source}: use incremental or bulk")
        if kind in FILE_FORMATS and not self.source_schema:
            yield Problem("source.schema", f"a stream of {kind} files needs it: id BIGINT, ...")
