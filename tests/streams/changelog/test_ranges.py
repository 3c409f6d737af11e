"""A reader reads the ranges of a task, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from types import SimpleNamespace

import pytest

from moldau.client import TopicPartition
from moldau.client.sync import Admin, Producer
from moldau.executors.clients import CLIENTS
from moldau.ids import ZERO_UUID
from moldau.streams.changelog import ranges
from moldau.streams.changelog.ranges import BrokersAway, RangeReader, TopicMadeAgain, TopicRange
from moldau.streams.problems import StreamsError
from moldau.testing import SyncEmbeddedBroker
from tests.spark.topics import make_topic


@pytest.fixture
def consumer(moldau_broker: SyncEmbeddedBroker) -> Iterator[dict[str, str]]:
    """The settings of a consumer, which an executor keeps open."""
    settings = {
        "bootstrap.servers": moldau_broker.bootstrap_servers,
        "isolation.level": "read_committed",
    }
    yield settings
    CLIENTS.clear()


def read(
    consumer: dict[str, str], topic: str, start: int, end: int, *, topic_id: str = ""
) -> list[bytes | None]:
    wanted = TopicRange(topic, start, end, topic_id=topic_id)
    found: list[bytes | None] = []
    with closing(RangeReader(consumer, 0, (wanted,))) as reader:
        while reader.unread:
            for _, chunk in reader.poll([topic]):
                assert chunk.next_offset <= end
                found += chunk.values
    return found


def fill(broker: SyncEmbeddedBroker, topic: str, transactions: int) -> None:
    """Write two records a transaction, and a marker after them."""
    make_topic(broker, topic, 1)
    with Producer(
        bootstrap_servers=broker.bootstrap_servers, transactional_id=f"{topic}-id"
    ) as producer:
        for at in range(transactions):
            with producer.transaction():
                producer.send_many(topic, [f"{at}a".encode(), f"{at}b".encode()], partition=0)


def test_a_range_gives_its_records_and_ends_after_the_markers_of_transactions(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, consumer: dict[str, str]
) -> None:
    fill(moldau_broker, moldau_topic, 3)

    assert read(consumer, moldau_topic, 0, 4) == [b"0a", b"0b", b"1a"]
    assert read(consumer, moldau_topic, 4, 9) == [b"1b", b"2a", b"2b"]
    assert read(consumer, moldau_topic, 8, 9) == []
    assert read(consumer, moldau_topic, 1, 3) == [b"0b"]


def test_records_that_were_deleted_before_they_were_read_are_told_in_one_line(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, consumer: dict[str, str]
) -> None:
    fill(moldau_broker, moldau_topic, 3)
    with Admin(bootstrap_servers=moldau_broker.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition(moldau_topic, 0): 4})

    with pytest.raises(StreamsError, match="read up to offset 1, and the log begins at 4") as told:
        read(consumer, moldau_topic, 1, 9)
    assert "\n" not in str(told.value)


def test_a_wait_for_records_is_told_and_ends_after_the_time_out_of_the_settings(
    moldau_broker: SyncEmbeddedBroker,
    moldau_topic: str,
    consumer: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    make_topic(moldau_broker, moldau_topic, 1)
    monkeypatch.setattr("moldau.streams.changelog.ranges._REPORT_S", 0.1)
    waited = f"{moldau_topic}-0 at offset 0 of 5: no record in [0-9]+ s: check that the leader"

    with pytest.raises(BrokersAway, match=waited):
        read({**consumer, "default.api.timeout.ms": "1000"}, moldau_topic, 0, 5)
    assert re.search(f"{waited} of the partition runs; it goes on", caplog.text)


def test_the_time_in_which_records_run_is_no_wait_for_the_next_ones(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Pauses of `retry(...)` and async functions may take longer than the time-out."""
    now = SimpleNamespace(s=0.0)

    def poll(timeout_s: float, **_: object) -> list[object]:
        now.s += timeout_s
        return []

    consumer = SimpleNamespace(
        assignment=[],
        topic_ids=lambda wanted: dict.fromkeys(wanted, ZERO_UUID),
        assign=lambda _: None,
        resume=lambda _: None,
        position=lambda _: 0,
        poll_batches=poll,
        troubles=dict,
    )
    monkeypatch.setattr("moldau.executors.ranges.cached_client", lambda *_: consumer)
    monkeypatch.setattr(ranges, "RealClock", lambda: SimpleNamespace(monotonic=lambda: now.s))
    settings = {"default.api.timeout.ms": "10000"}
    reader = RangeReader(settings, 0, (TopicRange("t", 0, 5),))

    for _ in range(5):
        now.s += 60
        assert list(reader.poll(["t"])) == []
    assert not caplog.messages
    polls = (reader.poll(["t"]) for _ in range(100))
    with pytest.raises(BrokersAway, match="t-0 at offset 0 of 5: no record in 10 s"):
        list(chain.from_iterable(polls))
    assert "no record in 5 s" in caplog.text


def test_a_topic_that_was_made_again_is_told_by_its_name(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, consumer: dict[str, str]
) -> None:
    fill(moldau_broker, moldau_topic, 1)

    with pytest.raises(TopicMadeAgain, match=f"the topic {moldau_topic} was deleted and made"):
        read(consumer, moldau_topic, 0, 2, topic_id="of-another")
