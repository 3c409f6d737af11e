"""Global tables on Spark: tasks look up what the topic held when their batch began.

The stages run on a real broker, without Java: see `tests.streams.spark.batches`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from moldau.client.sync import Producer
from moldau.streams import Streams
from moldau.streams.spark.global_tables import HeldTable, WholeTopic
from moldau.streams.spark.limits import explain_spark, refusals
from moldau.streams.spark.reading import worker_consumer
from moldau.testing import SyncEmbeddedBroker
from tests.spark import streams_apps as apps
from tests.spark.topics import make_topic
from tests.streams.spark.batches import Batches


def test_an_app_with_a_global_table_gives_what_the_embedded_engine_gives(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    servers, names = moldau_broker.bootstrap_servers, (f"{moldau_topic}-e", f"{moldau_topic}-s")
    embedded, on_spark = (apps.with_cities(name) for name in names)
    for app in (embedded, on_spark):
        apps.make_topics(servers, app)
    for first in (0, 60, 120):  # a driver each; rows change and are deleted between them
        for name in names:
            apps.write(servers, name, first, 60)
        apps.embedded(servers, embedded, tmp_path / "state")
        with closing(Batches(on_spark.plan(), servers, tmp_path, Random(first))) as batches:
            batches.settle()

    found, expected = (
        apps.in_order(apps.outs_of(servers, app), app.name) for app in (on_spark, embedded)
    )
    assert sum(map(len, expected.values())) == 2 * 180
    lines = [out[0] for where, outs in expected.items() if where[0] == "-joined" for out in outs]
    assert len({line.rpartition(b" in ")[2] for line in lines}) > 10
    assert found == expected


def test_explain_says_where_a_global_table_is_and_refuses_one_for_queries_alone() -> None:
    app = apps.with_cities("app")
    assert "holds app-cities whole in each Python process" in explain_spark(app.plan())
    assert refusals(app.plan()) == {}

    app.global_table("names", str, key=str)
    assert list(refusals(app.plan())) == ["names"]


@pytest.fixture
def consumer(moldau_broker: SyncEmbeddedBroker) -> Iterator[dict[str, str]]:
    settings = {"bootstrap.servers": moldau_broker.bootstrap_servers}
    yield settings
    worker_consumer(settings).close()


def test_a_table_reads_what_is_new_and_begins_again_when_records_are_gone(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, consumer: dict[str, str]
) -> None:
    make_topic(moldau_broker, moldau_topic, 1)
    app = Streams(moldau_topic)
    app.global_table(moldau_topic, int, key=str, on_error="skip")
    (table,) = app.plan().global_tables
    held = HeldTable(table, 1_000_000)
    rows: list[tuple[str, bytes | None]] = [
        ("a", b"1"), ("b", b"no number"), ("a", None), ("c", b"3"), ("d", b"4"),
    ]  # fmt: skip
    with Producer(consumer) as producer:
        for key, value in rows:
            producer.send(moldau_topic, value, key=key.encode())

    def read(first: int, end: int) -> tuple[list[str], int]:
        skipped = held.read(consumer, WholeTopic("", (first,), (end,)))
        return [key for key in "abcd" if held.store.get(key) is not None], len(skipped)

    assert read(0, 2) == (["a"], 1)
    assert read(0, 4) == (["c"], 0)
    assert read(0, 4) == (["c"], 0)
    assert read(4, 4) == (["c"], 0)
    assert read(4, 5) == (["c", "d"], 0)
    assert read(6, 6) == ([], 0)
