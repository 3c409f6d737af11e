"""The driver that has started last owns the app: what others still run is fenced.

The stages run on a real broker, without Java: see `tests.streams.spark.batches`.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from moldau.client import TransactionError
from moldau.client.sync import Admin, Producer
from moldau.streams import Streams
from moldau.streams.problems import StreamsError, TopologyError
from moldau.streams.spark.delivery import transactional_id_of
from moldau.testing import SyncEmbeddedBroker
from tests.spark import streams_apps as apps
from tests.streams.spark.batches import Batches


class Cluster:
    """An app without stores, with two partitions, and its drivers."""

    def __init__(self, servers: str, name: str, folder: Path) -> None:
        self.servers = servers
        self.app = Streams(name)
        lines = self.app.stream(f"{name}-lines", str, key=str)
        lines.map_values(str.upper).to(f"{name}-out")
        self.folder = folder
        self._running: list[Batches] = []
        apps.make_topics(servers, self.app)

    def driver(self, checkpoint: str, given: Streams | None = None) -> Batches:
        plan, folder = (given or self.app).plan(), self.folder / checkpoint
        started = Batches(plan, self.servers, folder, Random(1), (1_000_000,))
        self._running.append(started)
        return started

    def stop(self) -> None:
        """Stop all drivers."""
        while self._running:
            self._running.pop().close()

    def write(self, value: str, *partitions: int) -> None:
        with Producer(bootstrap_servers=self.servers) as producer:
            for partition in partitions:
                topic = f"{self.app.name}-lines"
                producer.send(topic, value.encode(), key=b"k", partition=partition)

    def values(self) -> Counter[bytes | None]:
        return Counter(each.value for each in apps.outs_of(self.servers, self.app))


@pytest.fixture
def cluster(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> Iterator[Cluster]:
    found = Cluster(moldau_broker.bootstrap_servers, moldau_topic, tmp_path)
    yield found
    found.stop()


def test_a_copy_of_a_checkpoint_and_the_one_that_was_copied_write_each_record_once(
    cluster: Cluster,
) -> None:
    cluster.write("one", 0, 1)
    cluster.driver("original").settle()
    cluster.stop()
    shutil.copytree(cluster.folder / "original", cluster.folder / "copy")
    original = cluster.driver("original")
    cluster.write("two", 0)
    original.settle()
    copy = cluster.driver("copy")
    cluster.write("three", 1)
    copy.settle()

    with pytest.raises(StreamsError, match="another driver, or a move, runs this app since 20"):
        original.settle()
    cluster.write("four", 0, 1)
    copy.settle()
    assert cluster.values() == Counter({b"ONE": 2, b"TWO": 1, b"THREE": 1, b"FOUR": 2})


def test_an_old_copy_of_a_checkpoint_is_refused_and_the_driver_that_runs_goes_on(
    cluster: Cluster,
) -> None:
    cluster.write("one", 0, 1)
    cluster.driver("original").settle()
    cluster.stop()
    shutil.copytree(cluster.folder / "original", cluster.folder / "copy")
    original = cluster.driver("original")
    for value in ("two", "three"):  # a batch each
        cluster.write(value, 1)
        original.settle()

    with pytest.raises(StreamsError, match="this checkpoint is an old copy: give the newest"):
        cluster.driver("copy")
    cluster.write("four", 0, 1)
    original.settle()
    assert cluster.values() == Counter({b"ONE": 2, b"TWO": 1, b"THREE": 1, b"FOUR": 2})


def test_a_driver_of_an_older_checkpoint_ends_before_its_next_batch(cluster: Cluster) -> None:
    older = cluster.driver("older")
    older.settle()
    cluster.driver("newer")
    cluster.write("one", 0)

    with pytest.raises(StreamsError, match="another driver runs this app since 20"):
        older.settle()
    assert not cluster.values()


def test_what_a_lost_driver_has_in_flight_cannot_commit_once_another_has_started(
    cluster: Cluster,
) -> None:
    cluster.write("one", 0, 1)
    cluster.driver("one").settle()
    cluster.stop()
    own = transactional_id_of(cluster.app.name, 0, 1)
    with Producer(bootstrap_servers=cluster.servers, transactional_id=own) as lost:
        lost.begin_transaction()
        lost.send(f"{cluster.app.name}-out", b"lost", partition=1)
        lost.flush()
        cluster.driver("one")  # nothing is there to read
        with pytest.raises(TransactionError):
            lost.commit_transaction()
    assert cluster.values() == Counter({b"ONE": 2})


def test_new_partitions_of_a_source_are_read_from_their_beginnings_without_stores(
    cluster: Cluster,
) -> None:
    running, topic = cluster.driver("one"), f"{cluster.app.name}-lines"
    cluster.write("one", 0)
    running.settle()
    with Admin(bootstrap_servers=cluster.servers) as admin:
        admin.create_partitions(topic, 3)
    cluster.write("two", 2)
    running.inputs._look_at_s = float("-inf")  # it looks now and then
    with pytest.raises(StreamsError, match=f"the topic {topic} has 2 partitions no more, but 3"):
        running.settle()

    for value in ("three", "four"):
        cluster.stop()
        cluster.driver("one").settle()
        cluster.write(value, 0, 2)
    cluster.stop()
    cluster.driver("one").settle()
    assert cluster.values() == Counter({b"ONE": 1, b"TWO": 1, b"THREE": 2, b"FOUR": 2})


def test_new_partitions_of_a_source_are_refused_where_stores_have_the_keys_of_partitions(
    cluster: Cluster,
) -> None:
    name = cluster.app.name
    counted = Streams(name)
    lines = counted.stream(f"{name}-lines", str, key=str)
    lines.group_by_key().count(name="counts").changes().to(f"{name}-out")
    cluster.write("one", 0)
    cluster.driver("one", counted).settle()
    cluster.stop()
    with Admin(bootstrap_servers=cluster.servers) as admin:
        admin.create_partitions(f"{name}-lines", 3)

    with pytest.raises(TopologyError, match=f"{name}-lines had 2 partitions and has 3") as told:
        cluster.driver("one", counted)
    assert "counts" in str(told.value)
    assert "\n" not in str(told.value)
    cluster.driver("two", counted).settle()
