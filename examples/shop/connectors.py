"""The two connectors of the shop, as one would post them to Connect."""

from __future__ import annotations

from pathlib import Path

from examples.shop.topology import SALES

SOURCE, SINK = "shop-database", "shop-lake"
_JSON = "org.apache.kafka.connect.json.JsonConverter"


def source(address: str) -> dict[str, str]:
    """Tables to topics: new rows, by their ids."""
    return {
        "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
        "tasks.max": "1",
        "connection.url": address,
        "table.whitelist": "customers,orders",
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "topic.prefix": "shop-",
        "poll.interval.ms": "500",
        "value.converter": _JSON,
        "value.converter.schemas.enable": "false",
    }


def sink(lake: Path, checkpoints: Path) -> dict[str, str]:
    """Sales to Parquet, by Spark."""
    return {
        "connector.class": "SparkSinkConnector",
        "topics": SALES,
        "value.format": "json",
        "value.schema": "id BIGINT, customer STRING, country STRING, cents BIGINT, at BIGINT",
        "transforms.sql": "SELECT id, customer, country, cents, timestamp_millis(at) AS at, "
        "_partition, _offset FROM source",
        "sink.format": "parquet",
        "sink.path": str(lake),
        "trigger": "processing 1 second",
        "checkpoint.location": str(checkpoints),
        "spark.master": "local[2]",
        # A small Java that starts fast: this is for a laptop, and for minutes.
        "spark.conf.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.conf.driver.bindAddress": "127.0.0.1",
        "spark.conf.driver.host": "127.0.0.1",
    }
