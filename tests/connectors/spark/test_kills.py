"""kill -9 of a runner in mid-batch: the lake holds the topic exactly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moldau.testing import SyncEmbeddedBroker
from tests.connectors.spark.runners import (
    SMALL,
    ids_in,
    need_spark,
    orders,
    orders_lake,
    running,
)
from tests.spark.topics import make_topic, send

pytestmark = pytest.mark.real

KILLS = 2
ROWS = 2_200


@pytest.fixture(autouse=True)
def _spark() -> None:
    need_spark()


def _parquet(folder: Path) -> list[int]:
    return ids_in(folder / "orders") if (folder / "orders" / "_spark_metadata").exists() else []


def _delta(folder: Path) -> list[int]:
    delta = pytest.importorskip("deltalake")
    found: list[int] = (
        delta.DeltaTable(str(folder / "orders")).to_pyarrow_table().column("id").to_pylist()
    )
    return sorted(found)


@pytest.mark.parametrize(
    ("kind", "read"), [("parquet", _parquet), ("delta", _delta)], ids=["parquet", "delta"]
)
def test_kills_lose_nothing_and_repeat_nothing(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path, kind: str, read: object
) -> None:
    assert callable(read)
    make_topic(moldau_broker, moldau_topic, 2)
    send(moldau_broker, moldau_topic, orders(ROWS))
    send(moldau_broker, moldau_topic, orders(ROWS, ROWS), partition=1)
    more = {"sink.format": kind, "max.offsets.per.trigger": "400", **SMALL}
    config = orders_lake(moldau_topic, tmp_path, **more)

    for kill in range(KILLS):
        with running(moldau_broker, moldau_topic, config) as events:
            for _ in range(2 + kill):
                events.until("progress")
            events.process.kill()
    with running(moldau_broker, moldau_topic, config) as events:
        events.until("finished")

    assert read(tmp_path) == list(range(2 * ROWS)), json.dumps(events.all)[:500]
