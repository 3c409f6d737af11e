"""The settings of `SparkSinkConnector`.

`SparkSinkConfig.guarantee` says what a config promises, in the words of the connector's status.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import ClassVar, Final, Literal

from moldau.connect.api import Problem, key
from moldau.connectors.spark.base_config import (
    FILE_FORMATS,
    SparkConfig,
    check_columns,
    check_database,
)
from moldau.connectors.spark.topics import (
    check_one_query,
    check_target_topic,
    check_task_per_topic,
    topic_props,
)
from moldau.errors import ConfigError
from moldau.spark.options import REGISTERED, parse_read

_SOURCE, _QUERY, _SINK = "Source", "Query", "Sink"
TABLE_FORMATS: Final = ("delta", "iceberg", "jdbc")
_BATCH_RECORDS: Final = 1_000_000
_UNIT: Final = r"(?:year|month|week|day|hour|minute|second|millisecond|microsecond)s?"
_WATERMARK: Final = re.compile(
    rf"[^,]+,\s*'?(?:interval\s+)?(?:'?\d+(?:\.\d+)?'?\s*{_UNIT}\b'?\s*)+", re.IGNORECASE
)
_FRONT_FLAGS: Final = re.compile(r"\(\?[a-zA-Z]+\)")
_DATE_OF: Final = re.compile(r"date\((\w+)\)", re.IGNORECASE)


class SparkSinkConfig(SparkConfig):
    """The settings of a sink, which reads topics and writes rows."""

    open_prefixes: ClassVar[tuple[str, ...]] = (
        *SparkConfig.open_prefixes, "sink.option.", "value.option.",
    )  # fmt: skip

    converter_hint: ClassVar[str] = "use value.format and key.format"

    value_format: Literal["json", "csv", "avro", "protobuf", "string", "binary"] = key(
        "value.format", "json", doc="The format of the values of the records.",
        importance="high", group=_SOURCE,
    )  # fmt: skip
    value_schema: str | None = key(
        "value.schema", None,
        doc="The columns of a JSON or CSV value as DDL (`id BIGINT, at TIMESTAMP`); `infer` to "
        "take them from the first records; `registry` to take them from value.registry; or an "
        "Avro schema.", importance="high", group=_SOURCE,
    )  # fmt: skip
    value_registry: str | None = key(
        "value.registry", None,
        doc="The address of the Schema Registry with the schemas of the values (avro, protobuf, "
        "json). It replaces value.schema.", group=_SOURCE,
    )  # fmt: skip
    contract_rules: Literal["refuse", "ignore"] = key(
        "data.contract.rules", "refuse",
        doc="refuse: a schema of value.registry with rules (a data contract) for what is read "
        "fails the connector, because they are not run here. ignore: leave them aside.",
        group=_SOURCE,
    )  # fmt: skip
    key_format: Literal["binary", "string", "json", "avro"] = key(
        "key.format", "binary", doc="The format of the keys, in the column `_key`.", group=_SOURCE
    )
    key_schema: str | None = key(
        "key.schema", None, doc="The fields of a JSON key as DDL, or an Avro schema.", group=_SOURCE
    )
    task_per_topic: bool = key(
        "spark.task.per.topic", False,
        doc="Make a task with a query of its own for each topic, so that one continues when "
        "another fails. ${topic} in sink.path, sink.table and sink.topic is the topic.",
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
        "min.partitions", None, doc="Read with at least about this number of Spark tasks.", ge=1,
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
        "dedup.columns", [], doc="Write rows that are equal in these columns once.", group=_QUERY
    )
    output_mode: Literal["append", "update", "complete"] = key(
        "output.mode", "append", doc="Spark's output mode.", group=_QUERY
    )
    sink_format: Literal[
        "parquet", "orc", "json", "csv", "delta", "iceberg", "jdbc", "topic", "console", "noop"
    ] = key("sink.format", doc="The format to write.", importance="high", group=_SINK)
    sink_path: str | None = key(
        "sink.path", None, doc="The directory of files or of the Delta table.",
        importance="high", group=_SINK,
    )  # fmt: skip
    sink_table: str | None = key(
        "sink.table", None, doc="The table, for jdbc and iceberg.", group=_SINK
    )
    sink_catalog: str = key(
        "sink.catalog", "moldau",
        doc="The name of the Iceberg catalog. Tables of an SQL catalog belong to its name.",
        group=_SINK,
    )  # fmt: skip
    sink_topic: str | None = key(
        "sink.topic", None, doc="The topic, for sink.format=topic.", group=_SINK
    )
    sink_mode: Literal["append", "upsert", "overwrite"] = key(
        "sink.mode", "append",
        doc="upsert: a row replaces the one with the same sink.keys. overwrite: a batch replaces "
        "all rows, for output.mode=complete.", group=_SINK,
    )  # fmt: skip
    sink_keys: list[str] = key(
        "sink.keys", [], doc="The columns that identify a row; for topic, the columns of the key.",
        group=_SINK,
    )  # fmt: skip
    partition_by: list[str] = key(
        "partition.by", [], doc="The columns to partition by, or `date(column)`.", group=_SINK,
    )  # fmt: skip
    coalesce: int | None = key(
        "coalesce", None, doc="The largest number of files of a batch.", ge=1, group=_SINK
    )
    target_file_rows: int | None = key(
        "target.file.rows", None, doc="The largest number of rows of a file.", ge=1, group=_SINK
    )
    auto_create: bool = key("auto.create", True, doc="Create a table that is missing.", group=_SINK)
    auto_evolve: bool = key(
        "auto.evolve", False, doc="Add columns that a table lacks: delta, iceberg and jdbc.",
        group=_SINK,
    )  # fmt: skip

    def for_topic(self, topic: str) -> SparkSinkConfig:
        """Return the settings of the query of one topic, with `spark.task.per.topic=true`."""
        assert self.task_per_topic
        return SparkSinkConfig.of(topic_props(self.originals, topic))

    @property
    def max_batch_records(self) -> int | None:
        """The largest number of records in a batch; None without a limit.

        Batches for a table always have a limit, because one process writes them: their rows lie
        beside the checkpoint until they are written, and a merge holds a whole batch in memory.
        """
        if self.max_offsets is None and self.sink_format in TABLE_FORMATS:
            return _BATCH_RECORDS
        return self.max_offsets

    @property
    def infers_columns(self) -> bool:
        """Whether the columns are taken from the first records."""
        return (self.value_schema or "").strip().lower() == "infer" and not self.value_registry

    @property
    def is_decoded_by_source(self) -> bool:
        """Whether the data source `moldau` decodes the values into columns."""
        return bool(self.value_registry) or self.value_format == "avro"

    @property
    def is_parsed_by_spark(self) -> bool:
        """Whether Spark's own functions parse the values into columns."""
        return self.value_format in ("json", "csv") and not self.is_decoded_by_source

    @property
    def can_reject_keys(self) -> bool:
        """Whether the key has a format that a key may not fit."""
        return self.key_format in ("json", "avro")

    @property
    def tolerates_errors(self) -> bool:
        """Whether a key or value that does not fit its schema is skipped."""
        return self.originals.get("errors.tolerance", "none").strip().lower() == "all"

    @property
    def logs_errors(self) -> bool:
        """Whether the log has a line about the records that a batch has skipped."""
        return self.tolerates_errors and self._is_true("errors.log.enable")

    def _is_true(self, name: str) -> bool:
        return self.originals.get(name, "").strip().lower() == "true"

    @property
    def dead_letter_topic(self) -> str | None:
        """The topic for records whose key or value does not fit its schema; None without one."""
        return self.originals.get("errors.deadletterqueue.topic.name", "").strip() or None

    def partition_columns(self) -> list[tuple[str, str | None]]:
        """Return the columns to partition by. The second item is the column of `date(column)`, or
        None for a plain column."""
        found: list[tuple[str, str | None]] = []
        for each in self.partition_by:
            match = _DATE_OF.fullmatch(each.strip())
            found.append((each.strip(), None) if match is None else ("date", match[1]))
        return found

    @property
    def guarantee(self) -> str:
        """The guarantee for each row if a process dies at any point."""
        if self.dead_letter_topic:
            times = self.guarantee_of_records.partition(":")[0]
            return f"{self._guarantee_of_rows}; bad records go to the dead letter topic, {times}"
        if self.tolerates_errors and self._can_reject_records():
            return f"{self._guarantee_of_rows}; bad records are dropped"
        return self._guarantee_of_rows

    @property
    def _guarantee_of_rows(self) -> str:
        """The guarantee for each record that becomes a row."""
        if self.sink_format in FILE_FORMATS:
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
            return self.guarantee_of_records
        return "none: nothing is kept"

    @property
    def writes_in_transactions(self) -> bool:
        return self.sink_format == "topic" or self.dead_letter_topic is not None

    def check(self) -> Iterable[Problem]:
        yield from super().check()
        if self.originals.get("sink.format", "").strip().lower() == "table":
            yield Problem(
                "sink.format",
                "table is not supported: use iceberg or delta, jdbc for a table of a database, or "
                "parquet with sink.path",
            )
        yield from self._check_values()
        if self.watermark is not None and not _WATERMARK.fullmatch(self.watermark.strip()):
            yield Problem("watermark", "use a column and a delay, as in `at, 10 minutes`")
        yield from self._check_offsets()
        if self.dead_letter_topic and not self._can_reject_records():
            yield Problem(
                "errors.deadletterqueue.topic.name",
                f"each value fits value.format={self.value_format}: leave it out",
            )
        yield from self._check_error_log()
        yield from self._check_sink()
        yield from check_target_topic(
            self.originals,
            self.sink_topic if self.sink_format == "topic" else None,
            each=self.task_per_topic,
        )
        if self.task_per_topic:
            yield from check_task_per_topic(self.originals, self.sink_format, self.sink_mode)
        else:
            yield from check_one_query(self.originals)

    def _can_reject_records(self) -> bool:
        return self.is_decoded_by_source or self.is_parsed_by_spark or self.can_reject_keys

    def _check_error_log(self) -> Iterable[Problem]:
        """Check that the log can have what `errors.log.*` asks for."""
        instead = "use errors.deadletterqueue.topic.name, and leave this setting out"
        if self.logs_errors and (self.is_decoded_by_source or self.can_reject_keys):
            yield Problem(
                "errors.log.enable",
                "skipped records are logged for value.format=json and csv, without value.registry, "
                f"key.format=json and key.format=avro: {instead}",
            )
        if self.tolerates_errors and self._is_true("errors.log.include.messages"):
            yield Problem(
                "errors.log.include.messages",
                f"the log of a Spark sink has no contents of records: {instead}",
            )

    def _check_offsets(self) -> Iterable[Problem]:
        """Check `starting.offsets` by the rules of the data source, with its error messages."""
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
        if self.value_schema and self.is_parsed_by_spark and not self.infers_columns:
            yield from check_columns("value.schema", self.value_schema)
        if self.key_schema and self.key_format == "json":
            yield from check_columns("key.schema", self.key_schema)
        if self.can_reject_keys and not self.key_schema:
            yield Problem("key.schema", f"key.format={self.key_format} needs it")
        if self.infers_columns and kind != "json":
            yield Problem("value.schema", "infer is for value.format=json")

    def _check_sink(self) -> Iterable[Problem]:
        needs = {**dict.fromkeys((*FILE_FORMATS, "delta"), "sink.path"), "topic": "sink.topic"}
        needed = [needs[self.sink_format]] if self.sink_format in needs else []
        if self.sink_format == "jdbc":
            needed = ["sink.table", "jdbc.url"]
        if self.sink_format == "iceberg":
            needed = ["sink.table", "sink.option.uri"]
            if "." not in (self.sink_table or "."):
                yield Problem("sink.table", "name the namespace too, as in shop.orders")
        elif "sink.catalog" in self.originals:
            yield Problem("sink.catalog", "it is for iceberg: leave it out")
        for name in needed:
            if not self.originals.get(name):
                yield Problem(name, f"sink.format={self.sink_format} needs it")
        if self.sink_format == "jdbc":
            yield from check_database(self, "sink.option.", is_written=True)
        yield from self._check_mode()
        if self.target_file_rows and self.sink_format not in FILE_FORMATS:
            yield Problem("target.file.rows", f"it is for {', '.join(FILE_FORMATS)}: leave it out")
        if self.auto_evolve and self.sink_format not in TABLE_FORMATS:
            yield Problem("auto.evolve", f"it is for {', '.join(TABLE_FORMATS)}: leave it out")
        if self.partition_by and self.sink_format not in (*FILE_FORMATS, "delta", "iceberg"):
            yield Problem("partition.by", f"{self.sink_format} has no partitions: leave it out")
        if self.output_mode != "append" and self.sink_format in FILE_FORMATS:
            yield Problem("output.mode", f"{self.sink_format} files can only be appended to")

    def _check_mode(self) -> Iterable[Problem]:
        if self.sink_mode == "upsert":
            if self.sink_format not in ("jdbc", "delta"):
                yield Problem("sink.mode", "only jdbc and delta can replace rows: use append")
            if not self.sink_keys:
                yield Problem("sink.keys", "sink.mode=upsert needs the columns of the key")
        if self.sink_mode == "overwrite":
            if self.sink_format not in TABLE_FORMATS:
                yield Problem(
                    "sink.mode", f"only {', '.join(TABLE_FORMATS)} can be overwritten: use append"
                )
            if self.output_mode != "complete":
                yield Problem(
                    "sink.mode",
                    "overwrite would keep only the rows of the last batch: it needs "
                    "output.mode=complete, where each batch has all rows",
                )
        if (self.sink_mode, self.output_mode) == ("append", "complete") and (
            self.sink_format in TABLE_FORMATS
        ):
            yield Problem(
                "sink.mode",
                "output.mode=complete has all rows in each batch: use overwrite, or upsert",
            )


def subscription(props: Mapping[str, str]) -> dict[str, str]:
    """Return `topics` or `topics.regex` as an option of the data source.

    A pattern of Kafka Connect has to match the whole name; one of Spark may match any part of it.
    ConfigError if neither or both are given.
    """
    topics, pattern = props.get("topics", "").strip(), props.get("topics.regex", "").strip()
    if bool(topics) == bool(pattern):
        raise ConfigError("give either topics or topics.regex", topics=topics, pattern=pattern)
    if topics:
        return {"subscribe": topics}
    found = _FRONT_FLAGS.match(pattern)
    flags = found.group() if found else ""
    return {"subscribePattern": rf"{flags}\A(?:{pattern.removeprefix(flags)})\Z"}
