"""kill -9 of an exactly-once mirror in the middle of its work: the copy equals the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.client.sync import Admin, Producer
from moldau.testing import SyncEmbeddedBroker
from tests.connect.committed import read
from tests.connect.processes import wait_until
from tests.mirror.running import copied, create, mirrored, mirroring

pytestmark = [pytest.mark.real, pytest.mark.deep]

COUNT = 30_000


def write(bootstrap: str, transaction: int, *, aborts: bool) -> None:
    """A transaction of records; those of an aborted one are not to be copied."""
    values = [b"%d %d" % (transaction, n) for n in range(COUNT // 6)]
    with (
        Producer(bootstrap_servers=bootstrap, transactional_id="shop") as producer,
        producer.transaction() as opened,
    ):
        producer.send_many("orders", values, keys=values)
        if aborts:
            opened.abort()


def test_a_killed_exactly_once_mirror_copies_each_record_once(tmp_path: Path) -> None:
    with SyncEmbeddedBroker() as first, SyncEmbeddedBroker() as second:
        source, target = first.bootstrap_servers, second.bootstrap_servers
        create(source, "orders", 3)
        for transaction in range(3):
            write(source, transaction, aborts=transaction == 2)
        words = ["--from", source, "--to", target, "--topics", "orders", "--exactly-once",
                 "--set", "source.consumer.fetch.max.bytes=20000",
                 "--set", "source.consumer.max.partition.fetch.bytes=20000"]  # fmt: skip

        with mirroring(tmp_path, *words):
            wait_until(lambda: begun(target, "source.orders"), "some records are copied")
            for transaction in range(3, 7):  # it is killed while it copies these
                write(source, transaction, aborts=transaction == 5)
        write(source, 7, aborts=False)
        there = read(target, "source.orders")
        done = mirrored(tmp_path, *words, "--once")

        assert done.returncode == 0, done.stderr
        assert there, "it was killed before it had copied anything"
        assert sorted(map(copied, read(target, "source.orders")), key=repr) == sorted(
            map(copied, read(source, "orders")), key=repr
        )


def begun(bootstrap: str, topic: str) -> bool:
    return has_topic(bootstrap, topic) and bool(read(bootstrap, topic))


def has_topic(bootstrap: str, topic: str) -> bool:
    with Admin(bootstrap_servers=bootstrap) as admin:
        return any(each.name == topic for each in admin.list_topics())
