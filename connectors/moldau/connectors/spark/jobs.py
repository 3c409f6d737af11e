"""What a runner does with its session: a sink's queries, a source's query, a source's reads.

A job begins, is looked at again and again, and halts; it may begin again after that.
"""

from __future__ import annotations

from typing import Any, Protocol

from moldau.connectors.spark.avro_values import AvroValues
from moldau.connectors.spark.base_config import SparkConfig
from moldau.connectors.spark.batches import Place, prepare_files
from moldau.connectors.spark.checkpoints import CheckpointFolder
from moldau.connectors.spark.config import SparkSinkConfig
from moldau.connectors.spark.inference import SAMPLE, inferred
from moldau.connectors.spark.messages import SINK, Message
from moldau.connectors.spark.origins import Origin, transformed
from moldau.connectors.spark.queries import Queries, Tell
from moldau.connectors.spark.query import Rows
from moldau.connectors.spark.reads import Reads
from moldau.connectors.spark.records import Layout
from moldau.connectors.spark.sinks import start_dead_letters, start_sink, triggered
from moldau.connectors.spark.source_config import SparkSourceConfig


class Job(Protocol):
    """One thread makes all calls."""

    def begin(self, session: Any) -> Message:
        """Starts it from its checkpoint; facts for `started`."""
        ...

    def halt(self) -> None:
        """Ends the batch at hand, or gives it up where it would be repeated anyway."""
        ...

    def look(self) -> None:
        """Tells what is new; raises what has ended it."""
        ...


def job_of(start: Message, folder: CheckpointFolder, tell: Tell) -> Job:
    """The job for the task's first message."""
    config = config_of(start)
    if isinstance(config, SparkSinkConfig):
        return SinkJob(start, config, folder, tell)
    assert isinstance(config, SparkSourceConfig)
    if config.is_stream:
        return StreamJob(start, config, folder, tell)
    return ReadsJob(start, config, tell)


def config_of(start: Message) -> SparkConfig:
    """The settings, of the kind of the connector."""
    if start.get("kind", SINK) == SINK:
        return SparkSinkConfig.of(start["config"])
    return SparkSourceConfig.of(start["config"])


class SinkJob:
    """Topics to somewhere: one query, and one for the dead letters."""

    def __init__(
        self, start: Message, config: SparkSinkConfig, folder: CheckpointFolder, tell: Tell
    ) -> None:
        self._name: str = start["name"]
        self._clients: dict[str, str] = start.get("clients", {})
        self._group: str | None = start.get("group")
        self._config = config
        self._folder = folder
        self._queries = Queries(tell)

    def begin(self, session: Any) -> Message:
        clients, config = self._clients, self._with_columns(session)
        generation = self._folder.read()
        checkpoint = self._folder.path(generation)
        rows = Rows(session, config, self._name)
        records = rows.records(clients, generation, self._group)
        made = rows.transformed(rows.good(records))
        query = self._folder.query(generation)
        prepare_files(session, config, self._folder, generation)
        place = Place(query, f"{checkpoint}/rows", is_fresh=self._folder.is_fresh(generation))
        started = [start_sink(made, config, place, clients)]
        self._queries.watch(*started)
        if config.dead_letter_topic:
            letters = rows.letters(clients, generation)
            started.append(
                start_dead_letters(
                    letters, config, Place(f"{query}-dlq", f"{checkpoint}/dlq"), clients
                )
            )
            self._queries.watch(*started)
        return {"query": query, "guarantee": config.guarantee, "checkpoint": checkpoint}

    def _with_columns(self, session: Any) -> SparkSinkConfig:
        """The config, with the columns that were inferred once for this generation."""
        config = self._config
        if not config.infers:
            return config
        columns = self._folder.columns()
        if columns is None:
            sample = Rows(session, config, self._name).sample(self._clients, SAMPLE)
            columns = inferred(sample)
            self._folder.keep_columns(columns)
        return config.model_copy(update={"value_schema": columns})

    def halt(self) -> None:
        self._queries.halt()

    def look(self) -> None:
        self._queries.look()


class StreamJob:
    """A source that Spark follows: one query that writes records."""

    def __init__(
        self, start: Message, config: SparkSourceConfig, folder: CheckpointFolder, tell: Tell
    ) -> None:
        self._options = written_to(start, config)
        self._config = config
        self._folder = folder
        self._queries = Queries(tell)

    def begin(self, session: Any) -> Message:
        generation = self._folder.read()
        checkpoint = self._folder.path(generation)
        rows = transformed(session, self._config, Origin(session, self._config).stream())
        records = layout_of(self._config).records(rows)
        query = self._folder.query(generation)
        writer = records.writeStream.queryName(query).format("moldau").options(**self._options)
        writer = writer.option("checkpointLocation", f"{checkpoint}/rows")
        self._queries.watch(triggered(writer, self._config).start())
        return {
            "query": query,
            "guarantee": self._config.guarantee,
            "checkpoint": checkpoint,
            "generation": generation.number,
        }

    def halt(self) -> None:
        self._queries.halt()

    def look(self) -> None:
        self._queries.look()


class ReadsJob:
    """A source that is read from time to time."""

    def __init__(self, start: Message, config: SparkSourceConfig, tell: Tell) -> None:
        self._name: str = start["name"]
        self._config = config
        self._reads = Reads(self._name, config, layout_of(config), written_to(start, config), tell)
        self._reads.offset = start.get("offset")

    def begin(self, session: Any) -> Message:
        self._reads.begin(session)
        return {"query": self._name, "guarantee": self._config.guarantee}

    def halt(self) -> None:
        self._reads.halt()

    def look(self) -> None:
        self._reads.look()


def layout_of(config: SparkSourceConfig) -> Layout:
    """Which columns go where."""
    avro = None
    if config.value_format == "avro":
        avro = AvroValues(config.topic, config.value_schema, config.value_registry)
    keys, timestamp = config.key_columns, config.timestamp_column
    return Layout(config.value_format, keys, timestamp, config.header_columns, avro)


def written_to(start: Message, config: SparkSourceConfig) -> dict[str, str]:
    """The options of the data source for writing."""
    named = {**start.get("clients", {}), **config.with_prefix("kafka.")}
    return {**{f"kafka.{name}": text for name, text in named.items()}, "topic": config.topic}
