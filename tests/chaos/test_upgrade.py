"""What the older version wrote and ran goes on with this one.

Three nodes go to this version and back, one at a time, under load. Producers of several libraries
and an exactly-once copy run all the time. Features are raised when all nodes have the new version,
and lowered before the first goes back. A whole installation on one machine, with its files of
settings, registry, connectors and a Streams app, is stopped and started again as this version.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path

import pytest

from moldau.broker.controller.levels import METADATA_VERSION, changes_records_between
from moldau.client.sync import (
    Admin,
    Consumer,
    Downgrade,
    NewTopic,
    Producer,
    TopicPartition,
    Transaction,
)
from moldau.testing import Cluster
from moldau.testing.anomalies import find_anomalies
from tests.chaos.cluster import (
    MODULES,
    NODES,
    PARTITIONS,
    TOPIC,
    Load,
    Result,
    await_more,
    copies,
    judge,
)
from tests.chaos.installation import LINES, Installation
from tests.chaos.older import Older
from tests.peers.eventually import eventually

pytestmark = [pytest.mark.real, pytest.mark.deep]

COPIED = "copied"
PATIENCE_S = 120.0
RATE = 60.0
RAISED = ("share.version", "streams.version")
"""Features that a cluster begins without, or with, by its age."""


class Copier:
    """Copies every record of the load once: offsets and records are one transaction."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="copier")
        self.failure: BaseException | None = None
        self.count = 0

    def _run(self) -> None:
        try:
            self._copy()
        except BaseException as error:
            self.failure = error

    def _copy(self) -> None:
        with (
            Consumer(
                bootstrap_servers=self._servers,
                group_id="copier",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                isolation_level="read_committed",
            ) as consumer,
            Producer(bootstrap_servers=self._servers, transactional_id="copier") as producer,
        ):
            consumer.subscribe(TOPIC)

            def copy(_: Transaction) -> int:
                count = 0
                for part in consumer.poll(0.5):
                    for record in part.records:
                        producer.send(COPIED, record.value)
                        count += 1
                return count

            while not self._ending.is_set():
                self.count += producer.run_transaction(copy, consumer)

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def await_more(self) -> None:
        """Something more is committed."""
        before = self.count

        def has_more() -> bool:
            self.check()
            return self.count > before

        eventually(has_more, within_s=PATIENCE_S)

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._ending.set()
            self._thread.join()


def test_a_cluster_goes_to_this_version_and_back_under_load(tmp_path: Path) -> None:
    older = Older(tmp_path)
    older.check()
    cluster = Cluster(brokers=len(NODES), directory=str(tmp_path / "cluster"))
    loads: list[Load] = []
    try:
        with older.in_new_processes():
            cluster.open()
        servers = cluster.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            levels = lower(admin)
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3), NewTopic(COPIED, PARTITIONS, 3)])
        loads += [
            Load(library, servers, tmp_path, RATE)
            for library, module in MODULES.items()
            if find_spec(module) is not None
        ]
        await_more(loads)
        copier = Copier(servers)
        with copier.running():
            copier.await_more()
            roll(cluster, loads, copier, nullcontext)
            raise_and_lower(cluster, levels, lambda: settle(cluster, loads, copier))
            roll(cluster, loads, copier, older.in_new_processes)
            for load in loads:
                load.end()
            compare(servers, loads, copier)
        copier.check()
        with Admin(bootstrap_servers=servers) as admin:
            assert admin.describe_features() == levels
        for number in NODES:
            cluster.stop(number)
        found = [each for index in range(PARTITIONS) for each in copies(cluster, index)]
        assert not find_anomalies(found), "replicas are equal"
    finally:
        for load in loads:
            load.abandon()
        cluster.close()


def test_an_installation_goes_on_with_the_files_of_the_older_version(tmp_path: Path) -> None:
    older = Older(tmp_path)
    older.check()
    shop = Installation(tmp_path / "shop")

    with older.in_new_processes():
        shop.run("storage", "format", "--config", "server.properties")
        with shop.running():
            schema = shop.schema_id()
            shop.create_connectors()
            shop.append_lines(0, 300)
            eventually(lambda: sum(shop.counts().values()) >= 300, within_s=PATIENCE_S)
            eventually(lambda: len(shop.copied()) >= 300, within_s=PATIENCE_S)
            configs = [shop.connector(each) for each in ("reader", "writer")]
            shop.run("config", "set", "topic", LINES, "retention.ms=86400000", "-b", shop.servers)
            shop.run("quota", "set", "--user", "ann", "producer_byte_rate=1000", "-b", shop.servers)

    with shop.running():
        assert shop.schema_id() == schema
        assert [shop.connector(each) for each in ("reader", "writer")] == configs
        shop.append_lines(300, 300)
        eventually(lambda: sum(shop.counts().values()) >= 600, within_s=PATIENCE_S)
        eventually(lambda: len(shop.copied()) >= 600, within_s=PATIENCE_S)
        assert "86400000" in shop.run("config", "describe", "topic", LINES, "-b", shop.servers)
        assert "1000" in shop.run("quota", "list", "-b", shop.servers)

    numbers = [int(line.split()[1]) for line in shop.copied()]
    assert sorted(numbers) == [*range(600)], "every line came through both connectors once"


def lower(admin: Admin) -> dict[str, int]:
    """Lower the features that are off at first in an older cluster, and return all levels."""
    known = admin.supported_features()
    off = {name: 0 for name in RAISED if known.get(name, (1, 0))[0] == 0}
    admin.update_features(off, downgrade=Downgrade.SAFE)
    eventually(
        lambda: not {*off} & {n for n, level in admin.describe_features().items() if level},
        within_s=PATIENCE_S,
    )
    return admin.describe_features()


def roll(
    cluster: Cluster,
    loads: list[Load],
    copier: Copier,
    version: Callable[[], AbstractContextManager[None]],
) -> None:
    """Stop each node and start it as the other version; all of them take part again."""
    for number in NODES:
        cluster.stop(number)
        with version():
            cluster.start(number)
        settle(cluster, loads, copier)


def settle(cluster: Cluster, loads: list[Load], copier: Copier) -> None:
    """All replicas are in sync, and the load goes on."""
    for topic in (TOPIC, COPIED):
        for index in range(PARTITIONS):
            cluster.await_in_sync(topic, NODES, index, within=PATIENCE_S)
    await_more(loads)
    copier.await_more()


def raise_and_lower(cluster: Cluster, levels: dict[str, int], settled: Callable[[], None]) -> None:
    """Raise every feature to what all nodes know, as far as there is a way back, and lower each
    again."""
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        known = [admin.supported_features(each) for each in NODES]
        most = {name: min(each[name][1] for each in known) for name in known[0]}
        most[METADATA_VERSION] = reversible(levels[METADATA_VERSION], most[METADATA_VERSION])
        raised = {
            name: most[name]
            for name in (METADATA_VERSION, *RAISED)
            if most.get(name, 0) > levels.get(name, 0)
        }
        assert raised, "there is a feature to raise"
        admin.update_features(raised)
        eventually(lambda: raised.items() <= admin.describe_features().items(), within_s=PATIENCE_S)
        settled()
        before = {name: levels.get(name, 0) for name in raised}
        admin.update_features(before, downgrade=Downgrade.SAFE)
        eventually(lambda: admin.describe_features() == levels, within_s=PATIENCE_S)


def reversible(level: int, most: int) -> int:
    """The highest metadata.version from which a downgrade to `level` loses nothing."""
    return max(each for each in range(level, most + 1) if not changes_records_between(level, each))


def compare(servers: str, loads: list[Load], copier: Copier) -> None:
    """Nothing acknowledged is lost or doubled, and the copy has each record once."""
    result = Result()
    for index in range(PARTITIONS):
        judge(servers, loads, index, result)
    assert not result.anomalies, "\n".join(map(str, result.anomalies[:20]))
    assert all(count > 50 for count in result.acknowledged.values()), result.acknowledged

    def is_copied() -> bool:
        copier.check()
        return copier.count >= result.records

    eventually(is_copied, within_s=PATIENCE_S)
    assert copier.count == result.records
    copied = Counter(values(servers, COPIED, result.records))
    assert len(copied) == result.records
    assert set(copied.values()) == {1}


def values(servers: str, topic: str, count: int) -> list[bytes]:
    """The committed records of a topic, at least so many, to the end."""
    found: list[bytes] = []
    with Consumer(
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        where = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        consumer.assign(where)
        ends = consumer.end_offsets(where)
        while any((consumer.position(each) or 0) < ends[each] for each in where):
            found += [bytes(r.value or b"") for part in consumer.poll(1.0) for r in part.records]
    assert len(found) >= count
    return found
