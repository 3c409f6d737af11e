"""Start the queries that write the rows of a sink and its dead letters.

Spark itself writes files. The data source writes topics, in transactions that also have the number
of the batch (`moldau.spark.transactions`). Tables and databases get whole batches with their
numbers, and leave out a batch that they have: its number is part of the same transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zlib import crc32

from moldau.client.settings.rows import OF_CONSUMERS_ALONE
from moldau.connectors.spark.base_config import FILE_FORMATS, SparkConfig
from moldau.connectors.spark.batches import QueryCheckpoint
from moldau.connectors.spark.config import SparkSinkConfig
from moldau.connectors.spark.records import RecordLayout


def start_sink_query(
    rows: Any, config: SparkSinkConfig, checkpoint: QueryCheckpoint, clients: Mapping[str, str]
) -> Any:
    """Start the query that writes these rows to the sink. Return its StreamingQuery."""
    kind = config.sink_format
    if kind == "topic":
        rows = RecordLayout(key_columns=config.sink_keys).to_records(rows)
        if config.output_mode == "update":
            return _start_updates(rows, config, checkpoint, clients)
    writer = _query_writer(rows, config, checkpoint).outputMode(config.output_mode)
    if kind == "delta":
        from moldau.connectors.spark.lake_tables import delta_writer

        return writer.foreachBatch(delta_writer(config, checkpoint)).start()
    if kind == "iceberg":
        from moldau.connectors.spark.lake_tables import iceberg_writer

        return writer.foreachBatch(iceberg_writer(config, checkpoint)).start()
    if kind == "jdbc":
        from moldau.connectors.spark.database import database_writer

        return writer.foreachBatch(database_writer(config, checkpoint)).start()
    writer = writer.format("moldau" if kind == "topic" else kind)
    writer = writer.options(**config.with_prefix("sink.option."))
    if kind == "topic":
        writer = writer.options(**_producer_options(config, clients)).option(
            "topic", config.sink_topic
        )
    columns = [name for name, _ in config.partition_columns()]
    if columns and kind in FILE_FORMATS:
        writer = writer.partitionBy(*columns)
    if kind in FILE_FORMATS:
        writer = writer.option("path", config.sink_path)
    if config.target_file_rows is not None:
        writer = writer.option("maxRecordsPerFile", config.target_file_rows)
    return writer.start()


def _start_updates(
    records: Any, config: SparkSinkConfig, checkpoint: QueryCheckpoint, clients: Mapping[str, str]
) -> Any:
    """Start the query that writes the changed rows of each batch to the topic. Spark has no output
    mode `update` for a data source in Python, so each batch is written as a batch."""
    options = {**_producer_options(config, clients), "topic": config.sink_topic}
    if config.exactly_once == "auto":
        # Another Connect cluster may have a connector of this name, with another checkpoint.
        place = f"{crc32(checkpoint.address.encode()):08x}"
        options["exactlyOnceName"] = f"{checkpoint.query_name}-{place}"

    def write(batch: Any, number: int) -> None:
        writer = batch.write.format("moldau").options(**options).mode("append")
        if config.exactly_once == "auto":
            writer = writer.option("exactlyOnceBatch", number)
        writer.save()

    writer = _query_writer(records, config, checkpoint).outputMode("update")
    return writer.foreachBatch(write).start()


def start_dead_letter_query(
    records: Any, config: SparkSinkConfig, checkpoint: QueryCheckpoint, clients: Mapping[str, str]
) -> Any:
    """Start the query that writes these records to the dead letter topic. Return its
    StreamingQuery."""
    writer = _query_writer(records, config, checkpoint).format("moldau")
    options = _producer_options(config, clients)
    return writer.options(**options).option("topic", config.dead_letter_topic).start()


def _query_writer(rows: Any, config: SparkSinkConfig, checkpoint: QueryCheckpoint) -> Any:
    writer = rows.writeStream.queryName(checkpoint.query_name)
    return set_trigger(writer.option("checkpointLocation", checkpoint.address), config)


def set_trigger(writer: Any, config: SparkConfig) -> Any:
    """Return the DataStreamWriter with the trigger of the config."""
    if config.is_available_now:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=f"{config.trigger_interval_ms} milliseconds")


def _producer_options(config: SparkSinkConfig, clients: Mapping[str, str]) -> dict[str, str]:
    """Return the options with which the data source writes the records of a sink: the client
    settings without those of a consumer, and whether to write in transactions."""
    settings = {**clients, **config.with_prefix("kafka.")}
    own = {
        f"kafka.{name}": text for name, text in settings.items() if name not in OF_CONSUMERS_ALONE
    }
    return {**own, **config.write_options}
