"""The settings of a source that streams files."""

from __future__ import annotations

FILES = {
    "connector.class": "SparkSourceConnector",
    "mode": "stream",
    "source.format": "json",
    "source.path": "/data/in",
    "source.schema": "id BIGINT",
    "topic": "orders",
    "checkpoint.location": "/data/checkpoints",
}
