"""The settings of `SparkSinkConnector`.

`SparkSinkConfig.guarantee` says what a config promises, in words that stand in the connector's
status.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import ClassVar, Final, Literal

from moldau.connect.api import Problem, key
from moldau.connectors.spark.base_config import FILES, SparkConfig
from moldau.connectors.spark.topics import check_split, check_whole, props_of
from moldau.errors import ConfigError
from moldau.spark.options import REGISTERED, parse_read

_SOURCE, _QUERY, _SINK = "Source", "Query", "Sink"
TABLES: Final = ("delta", "iceberg", "jdbc")
_BATCH_RECORDS: Final = 1_000_000
_WATERMARK: Final = re.compile(r"[^,]+,\s*(?:interval\s+)?'?\d.*", re.IGNORECASE)
_DATE_OF: Final = re.compile(r"date\((\w+)\)", re.IGNORECASE)


class SparkSinkConfig(SparkConfig):
    """Topics in, rows out."""

    open_prefixes: ClassVar[tuple[str, ...]] = (
        *SparkConfig.open_prefixes, "sink.option.", "value.option.",
    )  # fmt: skip

    value_format: Literal["json", "csv", "avro", "protobuf", "string", "binary"] = key(
        "value.format", "json", doc="What the values of the records are.",
        importance="high", group=_SOURCE,
    )  # fmt: skip
    value_schema: str | None = key(
        "value.schema", None,
        doc="The columns of a JSON or CSV value as DDL (`id BIGINT, at TIMESTAMP`), `infer` to "
        "take them from the first records, `registry` to take them from value.registry, or an Avro "
        "schema.",
        importance="high", group=_SOURCE,
    )  # fmt: skip
    value_registry: str | None = key(
        "value.registry", None,
        doc="The address of the Schema Registry that has the schemas of the values (avro, protobuf,"
        " json), in place of value.schema.",
        group=_SOURCE,
    )  # fmt: skip
    key_format: Literal["binary", "string", "json", "avro"] = key(
        "key.format", "binary", doc="What the keys are, in the column `_key`.", group=_SOURCE
    )
    key_schema: str | None = key(
        "key.schema", None, doc="The fields of a JSON key as DDL, or an Avro schema.", group=_SOURCE
    )
    is_split: bool = key(
        "spark.task.per.topic", False,
        doc="A task with a query of its own for each topic, so that one goes on when another "
        "fails. ${topic} in sink.path, sink.table and sink.topic is the topic.",
        group=_SOURCE,
    )  # fmt: skip
    starting_offsets: str = key(
        "starting.offsets", "earliest", doc="Where a new query begins: earliest, latest, or JSON.",
        group=_SOURCE,
    )  # fmt: skip
    max_offsets: int | None = key(
        "max.offsets.per.trigger", None,
        doc="The largest batch, in records. For delta, iceberg and jdbc the default is 1000000.",
        ge=1, group=_SOURCE,
    )  # fmt: skip
    min_partitions: int | None = key(
        "min.partitions", None, doc="Read with at least about so many Spark tasks.", ge=1,
        group=_SOURCE,
    )  # fmt: skip
    fail_on_data_loss: bool = key(
        "fail.on.data.loss", True, doc="Fail when records were deleted before they were read.",
        group=_SOURCE,
    )  # fmt: skip
    watermark: str | None = key(
        "watermark", None, doc="A column and a delay: `at, 10 minutes`.", group=_QUERY
    )
    dedup_columns: list[str] = key(
        "dedup.columns", [], doc="Rows that agree in these columns are written once.", group=_QUERY
    )
    output_mode: Literal["append", "update", "complete"] = key(
        "output.mode", "append", doc="Spark's output mode.", group=_QUERY
    )
    sink_format: Literal[
        "parquet", "orc", "json", "csv", "delta", "iceberg", "jdbc", "topic", "console", "noop"
    ] = key("sink.format", doc="What to write.", importance="high", group=_SINK)
    sink_path: str | None = key(
        "sink.path", None, doc="The directory of files or of the Delta table.",
        importance="high", group=_SINK,
    )  # fmt: skip
    sink_table: str | None = key(
        "sink.table", None, doc="The table, for jdbc and iceberg.", group=_SINK
    )
    sink_topic: str | None = key("sink.topic", None, doc="The topic, for topic.", group=_SINK)
    sink_mode: Literal["append", "upsert", "overwrite"] = key(
        "sink.mode", "append",
        doc="upsert: a row replaces the one with the same sink.keys. overwrite: a batch replaces "
        "all rows, for output.mode=complete.",
        group=_SINK,
    )  # fmt: skip
    sink_keys: list[str] = key(
        "sink.keys", [], doc="The columns that tell rows apart; for topic, those of the key.",
        group=_SINK,
    )  # fmt: skip
    partition_by: list[str] = key(
        "partition.by",
        [],
        doc="Columns that partitions are made of, or `date(column)`.",
        group=_SINK,
    )
    coalesce: int | None = key(
        "coalesce", None, doc="Write each batch with at most so many files.", ge=1, group=_SINK
    )
    target_file_rows: int | None = key(
        "target.file.rows", None, doc="Begin another file after so many rows.", ge=1, group=_SINK
    )
    auto_create: bool = key("auto.create", True, doc="Make a table that is missing.", group=_SINK)
    auto_evolve: bool = key(
        "auto.evolve", False, doc="Add columns that a table lacks: delta, iceberg and jdbc.",
        group=_SINK,
    )  # fmt: skip

    def of_topic(self, topic: str) -> SparkSinkConfig:
        """The settings of the query of one topic, with `spark.task.per.topic=true`."""
        assert self.is_split
        return SparkSinkConfig.of(props_of(self.originals, topic))

    @property
    def batch_limit(self) -> int | None:
        """The largest batch. Batches that this process writes have a limit in any case: they lie
        beside the checkpoint until they are written, and a merge holds one of them in memory."""
        if self.max_offsets is None and self.sink_format in TABLES:
            return _BATCH_RECORDS
        return self.max_offsets

    @property
    def infers(self) -> bool:
        """Whether the columns are taken from the first records."""
        return (self.value_schema or "").strip().lower() == "infer" and not self.value_registry

    @property
    def is_typed(self) -> bool:
        """Whether the data source reads the values into columns itself."""
        return bool(self.value_registry) or self.value_format == "avro"

    @property
    def is_parsed(self) -> bool:
        """Whether Spark reads the values into columns."""
        return self.value_format in ("json", "csv") and not self.is_typed

    @property
    def is_key_typed(self) -> bool:
        """Whether a key may be one that cannot be read."""
        return self.key_format in ("json", "avro")

    @property
    def tolerates_errors(self) -> bool:
        """Whether a value that cannot be read is skipped."""
        return self.originals.get("errors.tolerance", "none").strip().lower() == "all"

    @property
    def dead_letter_topic(self) -> str | None:
        """Where values that cannot be read go."""
        return self.originals.get("errors.deadletterqueue.topic.name", "").strip() or None

    def partition_columns(self) -> list[tuple[str, str | None]]:
        """Each column to partition by, and the column whose date it is if it is made of one."""
        found: list[tuple[str, str | None]] = []
        for each in self.partition_by:
            match = _DATE_OF.fullmatch(each.strip())
            found.append((each.strip(), None) if match is None else ("date", match[1]))
        return found

    @property
    def guarantee(self) -> str:
        """What is promised when a process dies at any point."""
        if self.sink_format in FILES:
            return (
                "exactly once: a reader that honours _spark_metadata (Spark does) sees each row "
                "once"
            )
        if self.sink_format == "iceberg":
            return "exactly once: the number of the last batch is in the same commit as its rows"
        if self.sink_format == "delta":
            return "exactly once: the table's log holds the number of the last batch"
        if self.sink_format == "jdbc":
            return "exactly once: rows and the number of the batch are one database transaction"
        if self.sink_format == "topic":
            return "at least once: a batch that is repeated is sent again"
        return "none: nothing is kept"

    def check(self) -> Iterable[Problem]:
        yield from super().check()
        yield from self._check_values()
        if self.watermark is not None and not _WATERMARK.fullmatch(self.watermark.strip()):
            yield Problem("watermark", "use a column and a delay, as in `at, 10 minutes`")
        yield from self._check_offsets()
        if self.dead_letter_topic and not (self.is_typed or self.is_parsed or self.is_key_typed):
            yield Problem(
                "errors.deadletterqueue.topic.name",
                f"each value fits value.format={self.value_format}: leave it out",
            )
        yield from self._check_sink()
        if self.is_split:
            yield from check_split(self.originals, self.sink_format, self.sink_mode)
        else:
            yield from check_whole(self.originals)

    def _check_offsets(self) -> Iterable[Problem]:
        """By the rules of the data source, which says what is wrong in its own words."""
        given = {"kafka.bootstrap.servers": "-", "subscribe": "-"}
        given["startingOffsets"] = self.starting_offsets
        try:
            parse_read(given, is_stream=True)
        except ConfigError as error:
            yield Problem("starting.offsets", f"use earliest, latest or JSON: {error}")

    def _check_values(self) -> Iterable[Problem]:
        kind = self.value_format
        if (self.value_schema or "").strip().lower() == "registry" and not self.value_registry:
            yield Problem(
                "value.registry", "value.schema=registry needs its address: http://localhost:8081"
            )
        if self.value_registry:
            if kind not in REGISTERED:
                yield Problem("value.registry", f"it is for value.format={', '.join(REGISTERED)}")
            if self.originals.get("topics.regex"):
                yield Problem("value.registry", "name the topics: the first has the schema")
        elif kind == "protobuf":
            yield Problem("value.registry", "value.format=protobuf needs it: http://localhost:8081")
        elif kind in ("json", "csv", "avro") and not self.value_schema:
            yield Problem(
                "value.schema", f"value.format={kind} needs it: columns, infer, or value.registry"
            )
        if self.is_key_typed and not self.key_schema:
            yield Problem("key.schema", f"key.format={self.key_format} needs it")
        if self.infers and kind != "json":
            yield Problem("value.schema", "infer is for value.format=json")

    def _check_sink(self) -> Iterable[Problem]:
        needs = {**dict.fromkeys((*FILES, "delta"), "sink.path"), "topic": "sink.topic"}
        needed = [needs[self.sink_format]] if self.sink_format in needs else []
        if self.sink_format == "jdbc":
            needed = ["sink.table", "jdbc.url"]
        if self.sink_format == "iceberg":
            needed = ["sink.table", "sink.option.uri"]
            if "." not in (self.sink_table or "."):
                yield Problem("sink.table", "name the namespace too, as in shop.orders")
        for name in needed:
            if not self.originals.get(name):
                yield Problem(name, f"sink.format={self.sink_format} needs it")
        yield from self._check_mode()
        if self.target_file_rows and self.sink_format not in FILES:
            yield Problem("target.file.rows", f"it is for {', '.join(FILES)}: leave it out")
        if self.auto_evolve and self.sink_format not in TABLES:
            yield Problem("auto.evolve", f"it is for {', '.join(TABLES)}: leave it out")
        if self.partition_by and self.sink_format not in (*FILES, "delta", "iceberg"):
            yield Problem("partition.by", f"{self.sink_format} has no partitions: leave it out")
        if self.output_mode != "append" and self.sink_format in FILES:
            yield Problem("output.mode", f"{self.sink_format} files can only be appended to")

    def _check_mode(self) -> Iterable[Problem]:
        if self.sink_mode == "upsert":
            if self.sink_format not in ("jdbc", "delta"):
                yield Problem("sink.mode", "only jdbc and delta can replace rows: use append")
            if not self.sink_keys:
                yield Problem("sink.keys", "sink.mode=upsert needs the columns of the key")
        if self.sink_mode == "overwrite":
            if self.sink_format not in TABLES:
                yield Problem(
                    "sink.mode", f"only {', '.join(TABLES)} can be overwritten: use append"
                )
            if self.output_mode != "complete":
                yield Problem(
                    "sink.mode",
                    "overwrite would leave the rows of the last batch alone: it needs "
                    "output.mode=complete, where each batch has all rows",
                )
        if (self.sink_mode, self.output_mode) == ("append", "complete") and (
            self.sink_format in TABLES
        ):
            yield Problem(
                "sink.mode",
                "output.mode=complete has all rows in each batch: use overwrite, or upsert",
            )


def topics_of(props: Mapping[str, str]) -> dict[str, str]:
    """The subscription as an option of the data source; ConfigError unless there is one."""
    topics, pattern = props.get("topics", "").strip(), props.get("topics.regex", "").strip()
    if bool(topics) == bool(pattern):
        raise ConfigError("give either topics or topics.regex", topics=topics, pattern=pattern)
    return {"subscribe": topics} if topics else {"subscribePattern": pattern}
