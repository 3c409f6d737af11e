"""Global tables on Spark: tasks look up what the topic held when their batch began.

The stages run on a real broker, without Java: see `tests.streams.spark.batches`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from moldau.client import LATEST, NewTopic, TopicPartition
from moldau.client.sync import Admin, Producer
from moldau.executors.clients import CLIENTS
from moldau.streams import Streams
from moldau.streams.changelog.ranges import BrokersAway
from moldau.streams.engine.batches import Chunk
from moldau.streams.spark.global_tables import (
    RECORDS_GONE,
    HeldTable,
    Notice,
    Notices,
    WholeTopic,
)
from moldau.streams.spark.limits import explain_spark, refusals
from moldau.testing import SyncEmbeddedBroker
from tests.connect.processes import wait_until
from tests.spark import streams_apps as apps
from tests.spark.topics import make_topic
from tests.streams.spark.batches import Batches, Context, app_on


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
    CLIENTS.clear()


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

    def read(first: int, end: int) -> tuple[list[str], list[str]]:
        notices = held.read(consumer, WholeTopic("", (first,), (end,)))
        keys = [key for key in "abcd" if held.store.get(key) is not None]
        return keys, [each.what for each in notices]

    assert read(0, 2) == (["a"], ["skipped"])
    assert read(0, 4) == (["c"], [])
    assert read(0, 4) == (["c"], [])
    assert read(4, 4) == (["c"], [])
    assert read(4, 5) == (["c", "d"], [])
    assert read(6, 6) == ([], [RECORDS_GONE])


@pytest.mark.parametrize(
    ("then", "told"),
    [
        (WholeTopic("new", (0,), (0,)), "was deleted and made again"),
        (WholeTopic("old", (5,), (5,)), RECORDS_GONE),
    ],
)
def test_rows_of_a_first_read_that_was_cut_short_do_not_outlive_their_records(
    monkeypatch: pytest.MonkeyPatch, then: WholeTopic, told: str
) -> None:
    class Cut:
        """A reader of one record, of a log that has more."""

        unread = ("t",)

        def __init__(self, *_: object) -> None:
            self._parts = iter([[("t", Chunk([0], [0], [b"a"], [b"1"], 1))]])

        def poll(self, topics: object) -> list[tuple[str, Chunk]]:
            for parts in self._parts:
                return parts
            raise BrokersAway("no record")

        def close(self) -> None:
            pass

    monkeypatch.setattr("moldau.streams.spark.global_tables.RangeReader", Cut)
    app = Streams("app")
    app.global_table("t", int, key=str)
    (table,) = app.plan().global_tables
    held = HeldTable(table, 1_000_000)
    with pytest.raises(BrokersAway):
        held.read({}, WholeTopic("old", (0,), (5,)))
    assert held.store.get("a") is not None

    assert [each.what for each in held.read({}, then)] == [told]
    assert held.store.get("a") is None


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_global_table_that_changes_under_a_batch_is_read_again_and_the_user_is_told(
    moldau_broker: SyncEmbeddedBroker,
    moldau_topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    *,
    is_made_again: bool,
) -> None:
    servers, topic = moldau_broker.bootstrap_servers, f"{moldau_topic}-cities"
    app, context = apps.with_cities(moldau_topic), Context(tmp_path, Random(1))
    apps.make_topics(servers, app)
    apps.write(servers, app.name, 0, 40)

    def lose_cities() -> None:
        with Admin(bootstrap_servers=servers) as admin:
            if is_made_again:
                admin.delete_topic(topic)
                wait_until(lambda: topic not in _names(admin), "the topic is there")
                admin.create_topic(NewTopic(topic, apps.PARTITIONS, 1))
            else:
                wanted = [TopicPartition(topic, at) for at in range(apps.PARTITIONS)]
                ends = admin.list_offsets(dict.fromkeys(wanted, LATEST))
                admin.delete_records({where: each.offset for where, each in ends.items()})

    given = {"bootstrap.servers": servers}
    with app_on(context, app.plan(), tmp_path / "checkpoint", given) as running:
        context.before = lose_cities
        running.process_available()

    told = "deleted and made again" if is_made_again else RECORDS_GONE
    assert f"the topic {topic} of the global table" in caplog.text
    assert told in caplog.text
    joined = [each for each in apps.outs_of(servers, app) if each.topic.endswith("-joined")]
    assert len(joined) == 40
    assert {(each.value or b"").rpartition(b" in ")[2] for each in joined} == {b"None"}


def _names(admin: Admin) -> set[str]:
    return {each.name for each in admin.list_topics()}


def test_a_notice_is_told_once_whatever_process_meets_it() -> None:
    def notice(offset: int, what: str = "skipped", partition: int = 0) -> Notice:
        return Notice("names", "id", what, partition, offset, f"{what} {partition} {offset}")

    notices = Notices()
    assert notices.new([notice(7), notice(5), notice(7)]) == ["skipped 0 5", "skipped 0 7"]
    assert notices.new([notice(5), notice(8)]) == ["skipped 0 8"]
    assert notices.new([notice(5, "gone"), notice(1, partition=1)]) == ["gone 0 5", "skipped 1 1"]
