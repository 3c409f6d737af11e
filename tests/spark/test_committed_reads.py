"""Reads with `kafka.isolation.level=read_committed`: what is aborted or open is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moldau.testing import SyncEmbeddedBroker
from tests.spark.topics import (
    make_topic,
    numbers,
    open_transaction,
    reader,
    send,
    send_aborted,
    send_committed,
    stream,
    values_of,
)

pytestmark = pytest.mark.real

COMMITTED = {"kafka.isolation.level": "read_committed"}


def test_a_batch_reads_what_is_committed_and_by_default_all(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    make_topic(moldau_broker, moldau_topic)
    send_committed(moldau_broker, moldau_topic, numbers(5))
    send_aborted(moldau_broker, moldau_topic, numbers(7, 100))
    send_aborted(moldau_broker, moldau_topic, numbers(3, 200), 1)
    with open_transaction(moldau_broker, moldau_topic, numbers(2, 300)) as producer:
        send(moldau_broker, moldau_topic, numbers(4, 5))

        def read(**options: str) -> list[int]:
            return values_of(reader(spark, moldau_broker, moldau_topic, **options).load())

        assert read(**COMMITTED) == [*range(5)]
        assert read(minPartitions="5", **COMMITTED) == [*range(5)]
        every = [*range(9), *range(100, 107), *range(200, 203), 300, 301]
        assert read() == every
        producer.commit_transaction()
        assert read(**COMMITTED) == [*range(9), 300, 301]


def test_a_stream_waits_for_an_open_transaction_and_passes_aborted_ones(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    make_topic(moldau_broker, moldau_topic)
    rows = stream(
        spark, moldau_broker, moldau_topic, startingOffsets="earliest", **COMMITTED
    ).load()

    def run() -> list[int]:
        writer = rows.writeStream.format("parquet").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert query.start(str(tmp_path / "rows")).awaitTermination(300)
        return values_of(spark.read.parquet(str(tmp_path / "rows")))

    send(moldau_broker, moldau_topic, numbers(5))
    with open_transaction(moldau_broker, moldau_topic, numbers(3, 100)) as producer:
        send(moldau_broker, moldau_topic, numbers(5, 5))
        assert run() == [*range(5)]
        producer.abort_transaction()
    assert run() == [*range(10)]
    send_aborted(moldau_broker, moldau_topic, numbers(6, 200), 1)
    assert run() == [*range(10)]
    send(moldau_broker, moldau_topic, numbers(1, 10), 1)
    assert run() == [*range(11)]
