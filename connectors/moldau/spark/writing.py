"""Write rows as records.

The columns are those of Spark's own Kafka sink: `value` (required), `key`, `topic`, `partition` and
`headers`. As there, other columns are ignored, and the option `topic` is for all rows and wins over
the column.

The column `timestamp` is an addition: the option `includeTimestamp` makes it the records' time. By
default that is true, but false for rows with a column `timestampType`: they are as they were read
from a topic, and Spark's own sink gives such records a new time.

Invariant: A task ends only when all its records are acknowledged. A task that Spark runs twice
writes its records twice: delivery is at least once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from moldau.client.sync import Deliveries, Producer
from moldau.errors import ConfigError
from moldau.spark.options import Options, client_settings, parse_flag, refuse
from moldau.spark.tracebacks import hides_frames

_TYPES: Final = {
    "value": ("binary", "string"),
    "key": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
    "headers": ("array<struct<key:string,value:binary>>",),
}
_REFUSED: Final = {
    "key.serializer": "keys are written as they are: cast them to STRING or BINARY",
    "value.serializer": "values are written as they are: cast them to STRING or BINARY",
}
_UNACKNOWLEDGED_MAX: Final = 64
"""The most Arrow batches of a task that wait for acknowledgements at a time."""


@dataclass(frozen=True)
class WriteOptions:
    """The parsed options and the columns of a write."""

    settings: Mapping[str, str]
    topic: str | None
    columns: tuple[str, ...]


@dataclass
class Written(WriterCommitMessage):  # type: ignore[misc]
    """How many records one task wrote."""

    records: int


def parse_write(options: Options, schema: Any, *, overwrite: bool, is_stream: bool) -> WriteOptions:
    """Parse the options of a write. Raises ConfigError for a wrong option or column."""
    given = {name.lower(): value for name, value in options.items()}
    settings = client_settings(options)
    for name, instead in _REFUSED.items():
        if name in settings:
            refuse(f"kafka.{name}", settings[name], instead)
    if overwrite and not is_stream:
        raise ConfigError("a topic cannot be overwritten: use mode('append')")
    columns = _written_columns(given, schema)
    topic = given.get("topic")
    if topic is None and "topic" not in columns:
        raise ConfigError("name the topic: with the option topic, or in a column topic")
    if topic is not None and not topic.strip():
        refuse("topic", topic, "it is empty: name the topic")
    Producer(settings)  # raises ConfigError for a wrong setting before any task runs
    return WriteOptions(settings, None if topic is None else topic.strip(), tuple(columns))


def _written_columns(given: Options, schema: Any) -> dict[str, str]:
    """Return the columns that become parts of the records, and their types."""
    if "value" not in schema.names:
        raise ConfigError(
            "rows need the column value, and may have key, topic, partition, headers and "
            "timestamp: select those, for example with to_json(struct(*)) AS value",
            columns=", ".join(schema.names),
        )
    has_time = parse_flag(given, "includetimestamp", default="timestampType" not in schema.names)
    columns = {
        each.name: each.dataType.simpleString()
        for each in schema
        if each.name in _TYPES and (has_time or each.name != "timestamp")
    }
    for name, kind in columns.items():
        if kind not in _TYPES[name]:
            raise ConfigError(
                f"the column {name} must be {' or '.join(_TYPES[name])}: cast it", type=kind
            )
    return columns


def _write(options: WriteOptions, batches: Iterator[Any]) -> Written:
    """Write the rows of one task in an executor, and wait until all are acknowledged."""
    producer = Producer(options.settings).configuration.shared()
    sent: list[Deliveries] = []
    count = 0
    for batch in batches:
        for topic, table in _by_topic(options, batch):
            sent.append(producer.send_many(topic, table))
            count += table.num_rows
        while len(sent) > _UNACKNOWLEDGED_MAX:
            sent.pop(0).result()
    for each in sent:
        each.result()
    return Written(count)


def _by_topic(options: WriteOptions, batch: Any) -> Iterator[tuple[str, Any]]:
    """Yield the rows of each topic, in the order of the batch, without the column `topic`."""
    table = pa.Table.from_batches([batch]).select(options.columns)
    names = [name for name in options.columns if name != "topic"]
    if options.topic is not None:
        yield options.topic, table.select(names)
        return
    topics = table.column("topic")
    if topics.null_count:
        raise ConfigError(
            "a row has no topic: fill the column topic, or set the option topic",
            rows=topics.null_count,
        )
    for topic in pc.unique(topics).to_pylist():
        yield topic, table.filter(pc.equal(topics, topic)).select(names)


@hides_frames("write")
class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes a batch: `df.write.format("moldau")`."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[Any]) -> Written:
        return _write(self.options, iterator)


@hides_frames("write")
class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes a stream: `df.writeStream.format("moldau")`."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[Any]) -> Written:
        return _write(self.options, iterator)
