"""Where the rows of a query go.

Files and topics are sinks of Spark's own kind. Delta tables and databases get whole batches with
their numbers, and refuse one that they have already: the number is part of the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from moldau.connectors.spark.base_config import FILES, SparkConfig
from moldau.connectors.spark.batches import is_repeated
from moldau.connectors.spark.config import SparkSinkConfig
from moldau.connectors.spark.records import Layout
from moldau.errors import ConfigError

WriteBatch = Callable[[Any, int], None]


@dataclass(frozen=True, slots=True)
class Place:
    """A query's name and checkpoint. Invariant: `is_fresh` only if the checkpoint has no batch."""

    query: str
    checkpoint: str
    is_fresh: bool = False


def start_sink(rows: Any, config: SparkSinkConfig, place: Place, clients: Mapping[str, str]) -> Any:
    """Starts the query that writes these rows; the StreamingQuery."""
    kind = config.sink_format
    if kind == "topic":
        rows = Layout(keys=config.sink_keys).records(rows)
    writer = rows.writeStream.queryName(place.query).option("checkpointLocation", place.checkpoint)
    writer = triggered(writer, config).outputMode(config.output_mode)
    if kind == "delta":
        return writer.foreachBatch(_delta_batch(config, place)).start()
    if kind == "iceberg":
        from moldau.connectors.spark.iceberg import iceberg_batch

        return writer.foreachBatch(
            iceberg_batch(config, place.query, is_fresh=place.is_fresh)
        ).start()
    if kind == "jdbc":
        from moldau.connectors.spark.database import database_batch

        return writer.foreachBatch(
            database_batch(config, place.query, is_fresh=place.is_fresh)
        ).start()
    writer = writer.format("moldau" if kind == "topic" else kind)
    writer = writer.options(**config.with_prefix("sink.option."))
    if kind == "topic":
        writer = writer.options(**_client_options(config, clients)).option(
            "topic", config.sink_topic
        )
    columns = [name for name, _ in config.partition_columns()]
    if columns and kind in FILES:
        writer = writer.partitionBy(*columns)
    if kind in FILES:
        writer = writer.option("path", config.sink_path)
    return writer.start()


def start_dead_letters(
    rows: Any, config: SparkSinkConfig, place: Place, clients: Mapping[str, str]
) -> Any:
    """Starts the query that writes records that cannot be read to the dead letter topic."""
    writer = rows.writeStream.queryName(place.query).option("checkpointLocation", place.checkpoint)
    writer = triggered(writer, config).format("moldau")
    options = _client_options(config, clients)
    return writer.options(**options).option("topic", config.dead_letter_topic).start()


def triggered(writer: Any, config: SparkConfig) -> Any:
    """With the trigger of the config."""
    if config.is_finite:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=f"{config.interval_ms} milliseconds")


def _client_options(config: SparkSinkConfig, clients: Mapping[str, str]) -> dict[str, str]:
    own = {"group.id", "isolation.level"}
    named = {**clients, **config.with_prefix("kafka.")}
    return {f"kafka.{name}": text for name, text in named.items() if name not in own}


def _delta_batch(config: SparkSinkConfig, place: Place) -> WriteBatch:
    """Appends or merges a batch into a Delta table, with the query's name and the batch's number
    in the same commit."""
    try:
        delta = import_module("deltalake")
    except ImportError as error:
        raise ConfigError(
            "sink.format=delta needs deltalake: pip install 'moldau-connectors[delta]'",
            missing="deltalake",
        ) from error
    path = config.sink_path
    options = config.with_prefix("sink.option.") or None
    columns = [name for name, _ in config.partition_columns()] or None

    def write(batch: Any, number: int) -> None:
        exists = delta.DeltaTable.is_deltatable(path, storage_options=options)
        table = delta.DeltaTable(path, storage_options=options) if exists else None
        if table is not None:
            last = table.transaction_version(place.query)
            if is_repeated(last, number, is_fresh=place.is_fresh):
                return
        data = batch.toArrow()
        if config.sink_mode == "upsert":
            data = last_of_keys(data, config.sink_keys)
        commit = delta.CommitProperties(app_transactions=[delta.Transaction(place.query, number)])
        if table is None or config.sink_mode == "append":
            delta.write_deltalake(
                path if table is None else table,
                data,
                mode="append",
                partition_by=columns,
                storage_options=options,
                commit_properties=commit,
            )
            return
        same = " AND ".join(f"target.`{each}` = source.`{each}`" for each in config.sink_keys)
        merge = table.merge(
            data,
            predicate=same,
            source_alias="source",
            target_alias="target",
            commit_properties=commit,
        )
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    return write


def last_of_keys(data: Any, keys: Sequence[str]) -> Any:
    """The last row of each key, in the order of the rows. A merge refuses two rows of one key."""
    missing = [each for each in keys if each not in data.column_names]
    if missing:
        raise ConfigError(
            "sink.keys names columns that the rows do not have", columns=", ".join(missing)
        )
    arrow = import_module("pyarrow")
    place = "place"
    while place in data.column_names:
        place += "_"
    numbered = data.append_column(place, arrow.array(range(len(data)), arrow.int64()))
    last = numbered.group_by(list(keys)).aggregate([(place, "max")])[f"{place}_max"]
    return data.take(last.combine_chunks().sort())
