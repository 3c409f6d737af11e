"""The first batch of a query: Spark asks for its start again and again until it is committed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from moldau.client.sync import Producer
from moldau.testing import SyncEmbeddedBroker
from tests.connect.processes import wait_until
from tests.spark.queries import Queries, next_end, open_queries, planned
from tests.spark.topics import HasAddress, make_topic, numbers, send, stream

pytestmark = pytest.mark.real


@contextmanager
def writing(broker: HasAddress, topic: str) -> Iterator[None]:
    """Write records one after the other until the block ends."""
    over = threading.Event()

    def write() -> None:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            while not over.is_set():
                producer.send(topic, b"live").result(30)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Batches:
    """The offsets that a query gave to `foreachBatch`, by batch. A repeated batch must be equal."""

    def __init__(self, rows: Any, checkpoint: Path) -> None:
        self.rows = rows
        self.checkpoint = checkpoint
        self.offsets: dict[int, list[int]] = {}

    def keep(self, rows: Any, batch: int) -> None:
        found = sorted(row.offset for row in rows.select("offset").collect())
        assert self.offsets.setdefault(batch, found) == found

    def fail(self, rows: Any, batch: int) -> None:
        self.keep(rows, batch)
        raise RuntimeError("Boom")

    def start(self, write: Callable[[Any, int], None], **trigger: Any) -> Any:
        query = self.rows.writeStream.foreachBatch(write)
        if trigger:
            query = query.trigger(**trigger)
        return query.option("checkpointLocation", str(self.checkpoint)).start()

    def run_until(self, count: int) -> None:
        """Run the query until it has had this many batches, and stop it."""
        query = self.start(self.keep)
        try:
            wait_until(
                lambda: len(self.offsets) >= count or not query.isActive, f"{count} batches", 60
            )
            assert query.exception() is None
        finally:
            query.stop()

    def all(self) -> list[int]:
        return [*chain.from_iterable(self.offsets[batch] for batch in sorted(self.offsets))]


def test_a_query_with_default_options_reads_a_topic_that_is_being_written(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    """The first batch fails; a new query repeats it with the same records and continues."""
    make_topic(moldau_broker, moldau_topic, 1)
    send(moldau_broker, moldau_topic, numbers(100))
    batches = Batches(stream(spark, moldau_broker, moldau_topic).load(), tmp_path)
    with writing(moldau_broker, moldau_topic):
        with pytest.raises(Exception, match="Boom"):
            batches.start(batches.fail).awaitTermination(60)
        assert list(batches.offsets) == [0]
        batches.run_until(3)
        batches.run_until(6)

    found = batches.all()
    assert found[0] >= 100
    assert found == [*range(found[0], found[0] + len(found))]


def test_runs_of_what_is_there_read_a_topic_that_is_being_written(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    make_topic(moldau_broker, moldau_topic, 1)
    send(moldau_broker, moldau_topic, numbers(100))
    batches = Batches(stream(spark, moldau_broker, moldau_topic).load(), tmp_path)
    with writing(moldau_broker, moldau_topic):
        for _ in range(2):
            assert batches.start(batches.keep, availableNow=True).awaitTermination(60)

    found = batches.all()
    assert found[0] >= 100
    assert found == [*range(found[0], found[0] + len(found))]


@pytest.fixture
def query(moldau_broker: SyncEmbeddedBroker, moldau_topic: str) -> Iterator[Queries]:
    """Queries of a topic with 10 records."""
    make_topic(moldau_broker, moldau_topic, 1)
    send(moldau_broker, moldau_topic, numbers(10))
    with open_queries(moldau_broker, moldau_topic) as queries:
        yield queries


def test_the_start_of_a_query_does_not_move(
    query: Queries, moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    reader = query()
    begun = reader.initialOffset()
    send(moldau_broker, moldau_topic, numbers(5))

    assert reader.initialOffset() == begun


def test_a_first_batch_that_is_repeated_after_a_restart_has_the_same_start(
    query: Queries, moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    first = query()
    begun = first.initialOffset()
    send(moldau_broker, moldau_topic, numbers(20))
    end = next_end(first, begun)
    assert planned(first, first.initialOffset(), end) == [(0, 10, 30)]
    send(moldau_broker, moldau_topic, numbers(5))

    again = query()

    assert planned(again, again.initialOffset(), end) == [(0, 10, 30)]
    last = next_end(again, end)
    assert planned(again, end, last) == [(0, 30, 35)]
    assert "$start" not in last


@pytest.mark.parametrize("writer", ["this version", "an earlier version"])
def test_an_empty_first_batch_is_repeated_after_a_restart(
    query: Queries, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, writer: str
) -> None:
    first = query()
    end = next_end(first, first.initialOffset())
    if writer == "an earlier version":
        del end["$start"]
    send(moldau_broker, moldau_topic, numbers(5))

    again = query()

    assert planned(again, again.initialOffset(), end) == []
    assert planned(again, end, next_end(again, end)) == [(0, 10, 15)]


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_run_of_what_is_there_does_not_end_before_it_starts(
    query: Queries, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, fails: str
) -> None:
    reader = query(failOnDataLoss=fails)
    reader.prepareForTriggerAvailableNow()
    send(moldau_broker, moldau_topic, numbers(5))
    begun = reader.initialOffset()
    end = next_end(reader, begun)

    assert planned(reader, begun, end) == []
    assert end[moldau_topic] == {"0": 15}
