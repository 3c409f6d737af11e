"""The jobs of a runner: a sink's queries, a source's query, or a source's scheduled reads.

A runner starts a job, polls it again and again, and stops it. It may start the job again after
that.

`value.schema=infer` takes the columns of JSON values from the first records of the topics. The
columns are stored beside the checkpoint, so that a restart has the same ones. Fields that appear
later are not seen until the offsets are reset.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from importlib import import_module
from typing import Any, Final, Protocol

from moldau.client.settings.rows import OF_CONSUMERS_ALONE
from moldau.connectors.spark.avro_values import AvroValues
from moldau.connectors.spark.base_config import SparkConfig
from moldau.connectors.spark.batches import QueryCheckpoint, prepare_file_sink
from moldau.connectors.spark.checkpoint.folder import CheckpointFolder
from moldau.connectors.spark.checkpoint.starting_offsets import with_all_partitions
from moldau.connectors.spark.config import SparkSinkConfig
from moldau.connectors.spark.messages import SINK, Message, SendMessage
from moldau.connectors.spark.query import Rows, StreamingQueries
from moldau.connectors.spark.read_schedule import ReadSchedule
from moldau.connectors.spark.records import RecordLayout
from moldau.connectors.spark.sinks import set_trigger, start_dead_letter_query, start_sink_query
from moldau.connectors.spark.source_config import SparkSourceConfig
from moldau.connectors.spark.source_rows import SourceRows, apply_transforms
from moldau.errors import ConfigError
from moldau.spark.reach import Unavailable

SAMPLE_RECORDS: Final = 1_000


class Job(Protocol):
    """The work of a runner. One thread makes all calls."""

    def start(self, session: Any) -> Message:
        """Start the job from its checkpoint. Return the fields of the message `started`."""

    def stop(self) -> None:
        """Stop the job after the batch at hand, or at once if that work is repeated anyway."""

    def poll(self) -> None:
        """Send the messages for new progress. Raise the error that ended the job."""


def create_job(start_message: Message, folder: CheckpointFolder, send: SendMessage) -> Job:
    """Create the job that the message `start` of the task asks for."""
    config = parse_config(start_message)
    if isinstance(config, SparkSinkConfig):
        return SinkJob(start_message, config, folder, send)
    assert isinstance(config, SparkSourceConfig)
    if config.is_stream:
        return StreamJob(start_message, config, folder, send)
    return ReadJob(start_message, config, send)


def parse_config(start_message: Message) -> SparkConfig:
    """Return the config in the message `start`, as the config of a sink or of a source."""
    if start_message.get("kind", SINK) == SINK:
        return SparkSinkConfig.of(start_message["config"])
    return SparkSourceConfig.of(start_message["config"])


class SinkJob:
    """The queries of a sink: one for the rows, and one for dead letters if they have a topic."""

    def __init__(
        self,
        start_message: Message,
        config: SparkSinkConfig,
        folder: CheckpointFolder,
        send: SendMessage,
    ) -> None:
        self._name: str = start_message["name"]
        self._clients: dict[str, str] = start_message.get("clients", {})
        self._group: str | None = start_message.get("group")
        self._config = config
        self._folder = folder
        self._queries = StreamingQueries(send)

    def start(self, session: Any) -> Message:
        clients, config = self._clients, self._config_with_columns(session)
        generations = self._folder.generations
        generation = generations.current()
        checkpoint = generations.path(generation)
        rows = Rows(session, config, self._name)
        if generation.starting:
            generation = with_all_partitions(generations, generation, config, clients)
        records = rows.records(clients, generation, self._group)
        transformed = rows.transform(rows.valid_rows(records))
        query = generations.query_name(generation)
        prepare_file_sink(transformed, config, self._folder, generation)
        is_fresh = generations.is_fresh(generation)
        target = QueryCheckpoint(query, f"{checkpoint}/rows", is_fresh=is_fresh)
        started = [start_sink_query(transformed, config, target, clients)]
        self._queries.watch(*started)
        if config.dead_letter_topic:
            dead_letters = rows.dead_letters(clients, generation)
            target = QueryCheckpoint(f"{query}-dlq", f"{checkpoint}/dlq")
            started.append(start_dead_letter_query(dead_letters, config, target, clients))
            self._queries.watch(*started)
        return {"query": query, "guarantee": config.guarantee, "checkpoint": checkpoint}

    def _config_with_columns(self, session: Any) -> SparkSinkConfig:
        """Return the config with the inferred columns. They are inferred once a generation."""
        config = self._config
        if not config.infers_columns:
            return config
        columns = self._folder.generations.inferred_columns()
        if columns is None:
            rows = Rows(session, config, self._name)
            columns = infer_columns(rows.sample(self._clients, SAMPLE_RECORDS))
            self._folder.generations.store_inferred_columns(columns)
        return config.model_copy(update={"value_schema": columns})

    def stop(self) -> None:
        self._queries.stop()

    def poll(self) -> None:
        self._queries.poll()


class StreamJob:
    """The query of a source that Spark reads as a stream. It writes records."""

    def __init__(
        self,
        start_message: Message,
        config: SparkSourceConfig,
        folder: CheckpointFolder,
        send: SendMessage,
    ) -> None:
        self._options = writer_options(start_message, config)
        self._config = config
        self._folder = folder
        self._queries = StreamingQueries(send)

    def start(self, session: Any) -> Message:
        generations = self._folder.generations
        generation = generations.current()
        checkpoint = generations.path(generation)
        rows = SourceRows(session, self._config).stream()
        rows = apply_transforms(session, self._config, rows)
        records = record_layout(self._config).to_records(rows)
        query = generations.query_name(generation)
        writer = records.writeStream.queryName(query).format("moldau").options(**self._options)
        writer = writer.option("checkpointLocation", f"{checkpoint}/rows")
        self._queries.watch(set_trigger(writer, self._config).start())
        return {
            "query": query,
            "guarantee": self._config.guarantee,
            "checkpoint": checkpoint,
            "generation": generation.number,
        }

    def stop(self) -> None:
        self._queries.stop()

    def poll(self) -> None:
        self._queries.poll()


class ReadJob:
    """The scheduled reads of a source with `mode` `bulk` or `incremental`."""

    def __init__(
        self, start_message: Message, config: SparkSourceConfig, send: SendMessage
    ) -> None:
        self._name: str = start_message["name"]
        self._config = config
        layout, options = record_layout(config), writer_options(start_message, config)
        self._schedule = ReadSchedule(self._name, config, layout, options, send)
        self._schedule.offset = start_message.get("offset")

    def start(self, session: Any) -> Message:
        self._schedule.start(session)
        return {"query": self._name, "guarantee": self._config.guarantee}

    def stop(self) -> None:
        self._schedule.stop()

    def poll(self) -> None:
        self._schedule.poll()


def record_layout(config: SparkSourceConfig) -> RecordLayout:
    """Return the layout of a source's records by its config."""
    avro = None
    if config.value_format == "avro":
        registry, checks_rules = config.value_registry, config.contract_rules == "refuse"
        avro = AvroValues(config.topic, config.value_schema, registry, checks_rules)
    keys, timestamp = config.key_columns, config.timestamp_column
    return RecordLayout(config.value_format, keys, timestamp, config.header_columns, avro)


def writer_options(start_message: Message, config: SparkSourceConfig) -> dict[str, str]:
    """Return the options with which the data source writes a source's records."""
    settings = {**start_message.get("clients", {}), **config.with_prefix("kafka.")}
    own = {
        f"kafka.{name}": text for name, text in settings.items() if name not in OF_CONSUMERS_ALONE
    }
    return {**own, **config.write_options, "topic": config.topic}


def infer_columns(values: Iterable[bytes | None]) -> str:
    """Return the columns of the values as DDL. Values that are no JSON objects are left out.

    ConfigError if no value is a JSON object, or if a field has types that contradict each other.
    """
    arrow, reading = import_module("pyarrow"), import_module("pyarrow.json")
    lines = [json.dumps(each) for each in map(_parse_object, values) if each]
    if not lines:
        raise Unavailable(
            "value.schema=infer found no JSON object in the topics: send some records first, or "
            "give the columns, as in id BIGINT, at TIMESTAMP"
        )
    data = "\n".join(lines).encode()
    try:
        found = reading.read_json(
            io.BytesIO(data), read_options=reading.ReadOptions(block_size=len(data) + 1)
        )
    except arrow.ArrowInvalid as error:
        raise ConfigError(
            "value.schema=infer: the records do not agree in a field: give the columns, as in "
            "id BIGINT, at TIMESTAMP",
            cause=str(error).splitlines()[0],
        ) from error
    return ", ".join(f"`{each.name}` {_ddl_type(arrow.types, each.type)}" for each in found.schema)


def _parse_object(value: bytes | None) -> dict[str, Any] | None:
    try:
        found = None if value is None else json.loads(value)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _ddl_type(types: Any, kind: Any) -> str:
    if types.is_struct(kind):
        fields = (f"`{each.name}`: {_ddl_type(types, each.type)}" for each in kind)
        return f"STRUCT<{', '.join(fields)}>"
    if types.is_list(kind):
        return f"ARRAY<{_ddl_type(types, kind.value_type)}>"
    if types.is_boolean(kind):
        return "BOOLEAN"
    if types.is_integer(kind):
        return "BIGINT"
    if types.is_floating(kind):
        return "DOUBLE"
    return "TIMESTAMP" if types.is_timestamp(kind) else "STRING"
