"""The sink `topic` with changed rows: one record a key, and a batch that runs again once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moldau.connectors.spark.batches import QueryCheckpoint
from moldau.connectors.spark.config import SparkSinkConfig
from moldau.connectors.spark.sinks import start_sink_query
from moldau.testing import SyncEmbeddedBroker
from tests.connect.committed import committed
from tests.connectors.spark.orders_lake import ORDERS_LAKE
from tests.spark.topics import make_topic, numbers, send, stream

pytestmark = pytest.mark.real

pa = pytest.importorskip("pyarrow")

from moldau.connectors.spark.lake_tables import last_row_per_key  # noqa: E402
from moldau.errors import ConfigError  # noqa: E402


def test_the_changed_rows_of_a_batch_that_runs_again_are_written_once(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    counts = f"{moldau_topic}-counts"
    for topic in (moldau_topic, counts):
        make_topic(moldau_broker, topic)
    given = {name: text for name, text in ORDERS_LAKE.items() if name != "sink.path"}
    more = {"sink.format": "topic", "sink.topic": counts, "output.mode": "update"}
    config = SparkSinkConfig.of({**given, **more, "trigger": "available-now"})
    clients = {"bootstrap.servers": moldau_broker.bootstrap_servers}
    values = stream(spark, moldau_broker, moldau_topic, startingOffsets="earliest").load()
    rows = values.groupBy(values.value.cast("string").alias("id")).count()

    def run() -> list[str]:
        checkpoint = QueryCheckpoint(moldau_topic, str(tmp_path / "rows"))
        assert start_sink_query(rows, config, checkpoint, clients).awaitTermination(300)
        return sorted(committed(moldau_broker.bootstrap_servers, counts))

    send(moldau_broker, moldau_topic, numbers(3) * 2)
    first = [f'{{"id":"{each}","count":2}}' for each in range(3)]
    assert run() == first
    # The batch is written, but the driver died before it had noted that.
    for name in ("0", ".0.crc"):
        (tmp_path / "rows" / "commits" / name).unlink(missing_ok=True)
    assert run() == first
    send(moldau_broker, moldau_topic, numbers(1))
    assert run() == sorted([*first, '{"id":"0","count":3}'])


def test_the_last_row_of_each_key_is_left_in_the_order_of_the_rows() -> None:
    rows = [("a", 1, 1), ("b", 1, 2), ("a", 1, 3), ("a", 2, 4), ("b", 1, 5)]
    columns = zip(*rows, strict=True)
    data = pa.table(dict(zip(("key", "part", "place"), map(list, columns), strict=True)))

    found = last_row_per_key(data, ["key", "part"])

    assert found.to_pylist() == [
        {"key": "a", "part": 1, "place": 3},
        {"key": "a", "part": 2, "place": 4},
        {"key": "b", "part": 1, "place": 5},
    ]
    assert found.schema == data.schema
    assert len(last_row_per_key(data.slice(0, 0), ["key"])) == 0


def test_a_key_that_the_rows_lack_is_named() -> None:
    with pytest.raises(ConfigError, match=r"sink\.keys.*id"):
        last_row_per_key(pa.table({"a": [1]}), ["id"])
