"""The settings of `SparkSourceConnector`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final, Literal

from moldau.connect.api import Problem, key
from moldau.connectors.spark.base_config import FILES, SparkConfig
from moldau.errors import ConfigError
from moldau.spark.avro_writing import check_record

STREAMED: Final = (*FILES, "text", "rate", "table")
"""What Spark can follow by itself."""
_PATHS: Final = (*FILES, "text", "delta")
_SOURCE, _TOPIC = "Source", "Topic"


class SparkSourceConfig(SparkConfig):
    """Rows in, records out."""

    open_prefixes: ClassVar[tuple[str, ...]] = (
        *SparkConfig.open_prefixes, "source.option.", "topic.creation.", "producer.override.",
    )  # fmt: skip
    unsupported: ClassVar[dict[str, str]] = {
        "spark.task.per.topic": "a source writes one topic: leave it out",
        "partitioner": "give the column partition with value.format=columns",
    }

    mode: Literal["bulk", "incremental", "stream"] = key(
        "mode", "bulk",
        doc="bulk: all rows, again and again. incremental: rows above the highest value of "
        "incremental.column so far. stream: what is new, as Spark follows it.",
        importance="high", group=_SOURCE,
    )  # fmt: skip
    query: str | None = key(
        "query", None, doc="A query in Spark's SQL, in place of source.format.",
        importance="high", group=_SOURCE,
    )  # fmt: skip
    source_format: Literal[
        "parquet", "orc", "json", "csv", "text", "rate", "table", "delta", "iceberg", "jdbc"
    ] | None = key(
        "source.format", None, doc="What to read.", importance="high", group=_SOURCE
    )  # fmt: skip
    source_path: str | None = key(
        "source.path", None, doc="The directory of files or of the Delta table.",
        importance="high", group=_SOURCE,
    )  # fmt: skip
    source_table: str | None = key(
        "source.table", None, doc="The table, for table, iceberg and jdbc.", group=_SOURCE
    )
    source_schema: str | None = key(
        "source.schema", None,
        doc="The columns as DDL; a stream of files needs it, except text.", group=_SOURCE,
    )  # fmt: skip
    incremental_column: str | None = key(
        "incremental.column", None, doc="A column that rises with each new row.", group=_SOURCE
    )
    schedule_ms: int = key(
        "schedule.interval.ms", 60_000, kind="LONG",
        doc="Between the begins of two reads, for bulk and incremental.", ge=1, group=_SOURCE,
    )  # fmt: skip
    topic: str = key("topic", doc="The topic.", importance="high", group=_TOPIC)
    key_columns: list[str] = key(
        "key.columns", [], doc="The columns of the key: one as text, several as JSON.",
        group=_TOPIC,
    )  # fmt: skip
    value_format: Literal["json", "avro", "string", "columns"] = key(
        "value.format", "json",
        doc="json, avro: the row. string: its only column as text. columns: the query gives the "
        "columns value, key, headers, partition and timestamp itself.",
        importance="high", group=_TOPIC,
    )  # fmt: skip
    value_schema: str | None = key(
        "value.schema", None,
        doc="The Avro schema of the values; without it that of the row's columns.", group=_TOPIC,
    )  # fmt: skip
    value_registry: str | None = key(
        "value.registry", None,
        doc="A Schema Registry, http://localhost:8081: the schema is registered for the topic, and "
        "values begin with its id.",
        group=_TOPIC,
    )  # fmt: skip
    timestamp_column: str | None = key(
        "timestamp.column", None, doc="The column that is the record's timestamp.", group=_TOPIC
    )
    header_columns: list[str] = key(
        "headers.columns", [], doc="Columns that become headers as well.", group=_TOPIC
    )

    @property
    def is_stream(self) -> bool:
        """Whether Spark follows the source by itself."""
        return self.mode == "stream"

    @property
    def origin(self) -> str:
        """What is read, in few words."""
        if self.query is not None:
            return "query"
        return f"{self.source_format}:{self.source_table or self.source_path or ''}".rstrip(":")

    @property
    def guarantee(self) -> str:
        """What is promised when a process dies at any point."""
        if self.is_stream:
            return "at least once: a batch that is repeated is sent again"
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
        if kind in _PATHS:
            needed = ["source.path"]
        elif kind in ("table", "iceberg", "jdbc"):
            needed = ["source.table"]
        if kind == "jdbc":
            needed.append("jdbc.url")
        if kind == "iceberg":
            needed.append("source.option.uri")
        for name in needed:
            if not self.originals.get(name):
                yield Problem(name, f"source.format={kind} needs it")
        if not self.is_stream:
            return
        if kind is None or kind not in STREAMED:
            told = "a query" if kind is None else kind
            yield Problem("mode", f"Spark cannot follow {told}: use incremental or bulk")
        if kind in FILES and not self.source_schema:
            yield Problem("source.schema", f"a stream of {kind} files needs it: id BIGINT, ...")
