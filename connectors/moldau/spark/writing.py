"""Write rows as records.

The columns are those of Spark's own Kafka sink: `value` (required), `key`, `topic`, `partition` and
`headers`. As there, other columns are ignored, and the option `topic` is for all rows and wins over
the column.

The column `timestamp` is an addition: the option `includeTimestamp` makes it the records' time. By
default that is true, but false for rows with a column `timestampType`: they are as they were read
from a topic, and Spark's own sink gives such records a new time.

Invariants:
* A task ends only when all its records are acknowledged.
* A stream writes each row once: each task commits a transaction (`moldau.spark.transactions`). With
  `exactlyOnce=false`, and in a batch without a name and number, a task that Spark runs twice writes
  its records twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from moldau.client.settings.producer import batch_size, grown_bytes
from moldau.client.sync import Deliveries, Producer
from moldau.deferred import dataclass
from moldau.errors import ConfigError
from moldau.executors.clients import CLIENTS, cached_client
from moldau.spark.options import Options, client_settings, parse_flag, refuse
from moldau.spark.tracebacks import hides_frames
from moldau.spark.transactions import committed_once, current_task

_TYPES: Final = {
    "value": ("binary", "string"), "key": ("binary", "string"), "topic": ("string",),
    "partition": ("int",), "timestamp": ("timestamp",),
    "headers": ("array<struct<key:string,value:binary>>",),
}  # fmt: skip
_REFUSED: Final = {
    "key.serializer": "keys are written as they are: cast them to STRING or BINARY",
    "value.serializer": "values are written as they are: cast them to STRING or BINARY",
    "transactional.id": "each task has its own: use the option exactlyOnce",
}
_NAME_AND_NUMBER: Final = (
    "exactlyOnceName, a name that no other query and no other write of this one has, and "
    "exactlyOnceBatch, the number that foreachBatch gives"
)
_UNACKNOWLEDGED_MAX: Final = 64
"""The most Arrow batches of a task that wait for acknowledgements at a time."""


@dataclass(frozen=True)
class WriteOptions:
    """The parsed options and the columns of a write."""

    settings: Mapping[str, str]
    topic: str | None
    columns: tuple[str, ...]
    is_exactly_once: bool = False
    name: str | None = None
    batch: int | None = None
    """The name and the number of a batch that is written once; a stream has its own."""


@dataclass
class WrittenRecords(WriterCommitMessage):  # type: ignore[misc]
    """How many records one task wrote: none if an earlier attempt has committed them."""

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
    topic = None if topic is None else topic.strip()
    once = _once(given, is_stream=is_stream)
    _check_settings(settings, is_exactly_once=once[0])
    return WriteOptions(_with_large_batches(settings), topic, tuple(columns), *once)


def _once(given: Options, *, is_stream: bool) -> tuple[bool, str | None, int | None]:
    """Return whether each row is written once, and the name and number of the batch."""
    name, number = given.get("exactlyoncename"), given.get("exactlyoncebatch")
    is_named = name is not None or number is not None
    is_wanted = parse_flag(given, "exactlyonce", default=is_stream or is_named)
    if not is_named:
        if is_wanted and not is_stream:
            refuse("exactlyOnce", "true", f"a batch also needs {_NAME_AND_NUMBER}")
        return is_wanted, None, None
    if is_stream:
        refuse("exactlyOnceName", name or "", "it is for foreachBatch: leave it out")
    if not is_wanted:
        refuse("exactlyOnce", "false", "leave it out, or exactlyOnceName and exactlyOnceBatch")
    if name is None or not name.strip():
        refuse("exactlyOnceName", name or "", f"a batch needs {_NAME_AND_NUMBER}")
    if number is None or not (number.isascii() and number.isdigit()):
        refuse("exactlyOnceBatch", number or "", f"a batch needs {_NAME_AND_NUMBER}")
    return True, name.strip(), int(number)


def _check_settings(settings: Mapping[str, str], *, is_exactly_once: bool) -> None:
    """Raise ConfigError for a wrong setting before any task runs."""
    Producer(settings)
    if not is_exactly_once:
        return
    try:
        Producer({**settings, "transactional.id": "checked"})
    except ConfigError as error:
        raise ConfigError(
            f"each row is written once, in transactions: {error}. Correct this, or set "
            "exactlyOnce=false (connector: exactly.once=off)"
        ) from None


def _with_large_batches(settings: dict[str, str]) -> dict[str, str]:
    """Let each batch become as large as those that wait may become by these settings.

    A task has many rows at once, and its last ones leave after `linger.ms`."""
    known = Producer(settings).settings
    large_bytes = grown_bytes(known)
    if known.is_given(batch_size) or large_bytes <= known[batch_size]:
        return settings
    return {**settings, batch_size.name: str(large_bytes)}


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


def _write(options: WriteOptions, batches: Iterator[Any]) -> WrittenRecords:
    """Write the rows of one task in an executor, and wait until all are acknowledged."""
    CLIENTS.drop_idle()
    parts = (part for batch in batches for part in _by_topic(options, batch) if part[1].num_rows)
    if not options.is_exactly_once:
        return _send(cached_client(Producer, options.settings), parts)
    first = next(parts, None)
    if first is None:
        return WrittenRecords(0)
    rest = chain([first], parts)
    with committed_once(
        options.settings, current_task(options.name, options.batch), first[0]
    ) as attempt:
        if attempt.producer is None:  # Spark expects that its rows are read
            attempt.rows = sum(table.num_rows for _, table in rest)
            return WrittenRecords(0)
        written = _send(attempt.producer, rest)
        attempt.rows = written.records
        return written


def _send(producer: Producer[Any, Any], parts: Iterable[tuple[str, Any]]) -> WrittenRecords:
    sent: list[Deliveries] = []
    count = 0
    for topic, table in parts:
        sent.append(producer.send_many(topic, table))
        count += table.num_rows
        while len(sent) > _UNACKNOWLEDGED_MAX:
            sent.pop(0).result()
    for each in sent:
        each.result()
    return WrittenRecords(count)


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

    def write(self, iterator: Iterator[Any]) -> WrittenRecords:
        return _write(self.options, iterator)


@hides_frames("write")
class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes a stream: `df.writeStream.format("moldau")`."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[Any]) -> WrittenRecords:
        return _write(self.options, iterator)
