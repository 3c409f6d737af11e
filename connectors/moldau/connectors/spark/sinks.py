"""Where the rows of a query go.

Files and topics are sinks of Spark's own kind. Delta tables and databases get whole batches with
their numbers, and refuse one that they have already: the number is part of the same transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.connectors.spark.base_config import FILES, SparkConfig
from moldau.connectors.spark.batches import Place
from moldau.connectors.spark.config import SparkSinkConfig
from moldau.connectors.spark.records import Layout


def start_sink(rows: Any, config: SparkSinkConfig, place: Place, clients: Mapping[str, str]) -> Any:
    """Starts the query that writes these rows; the StreamingQuery."""
    kind = config.sink_format
    if kind == "topic":
        rows = Layout(keys=config.sink_keys).records(rows)
    writer = rows.writeStream.queryName(place.query).option("checkpointLocation", place.checkpoint)
    writer = triggered(writer, config).outputMode(config.output_mode)
    if kind == "delta":
        from moldau.connectors.spark.delta import delta_batch

        return writer.foreachBatch(delta_batch(config, place)).start()
    if kind == "iceberg":
        from moldau.connectors.spark.iceberg import iceberg_batch

        return writer.foreachBatch(iceberg_batch(config, place)).start()
    if kind == "jdbc":
        from moldau.connectors.spark.database import database_batch

        return writer.foreachBatch(database_batch(config, place)).start()
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
    if config.target_file_rows is not None:
        writer = writer.option("maxRecordsPerFile", config.target_file_rows)
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
