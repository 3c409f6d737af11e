"""Readers of a stream without Spark, each as one process of Spark has it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from moldau.spark.options import parse_read
from tests.spark.topics import HasAddress


class Queries:
    """Readers of one topic, or of the topics that the options name."""

    def __init__(self, broker: HasAddress, topic: str) -> None:
        self.servers = broker.bootstrap_servers
        self.topic = topic
        self.made: list[Any] = []

    def __call__(self, **options: str) -> Any:
        from moldau.spark.reading import StreamReader

        given = {"kafka.bootstrap.servers": self.servers, **options}
        if not options.keys() & {"assign", "subscribePattern"}:
            given["subscribe"] = self.topic
        made = StreamReader(parse_read(given, is_stream=True), None)
        self.made.append(made)
        return made


@contextmanager
def open_queries(broker: HasAddress, topic: str) -> Iterator[Queries]:
    pytest.importorskip("pyspark")
    queries = Queries(broker, topic)
    try:
        yield queries
    finally:
        for each in queries.made:
            each.stop()


def next_end(reader: Any, start: dict[str, Any]) -> dict[str, Any]:
    """The end of the next batch, as Spark reads it from its checkpoint."""
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    found: dict[str, Any] = json.loads(json.dumps(end))
    return found


def planned(reader: Any, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[int, int, int]]:
    """Partition, start and end of each task of a batch."""
    ranges = [each.value for each in reader.partitions(start, end)]
    return [(each.where.partition, each.start, each.end) for each in ranges]
