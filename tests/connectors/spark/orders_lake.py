"""The settings of a sink that writes orders into a lake."""

from __future__ import annotations

from moldau.connectors.spark.config import SparkSinkConfig

ORDERS_LAKE = {
    "connector.class": "SparkSinkConnector",
    "topics": "orders",
    "value.format": "json",
    "value.schema": "id BIGINT, amount DOUBLE, at TIMESTAMP",
    "sink.format": "parquet",
    "sink.path": "/data/orders",
    "trigger": "available-now",
    "checkpoint.location": "/data/checkpoints",
}


def config(**more: str) -> SparkSinkConfig:
    return SparkSinkConfig.of({**ORDERS_LAKE, **more})
