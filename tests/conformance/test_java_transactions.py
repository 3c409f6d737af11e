"""Java's transactional producer on three nodes: transactions follow each other at once, with
several requests in flight, and aborts follow commits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.testing import Cluster
from tests.cli.shell import Shell
from tests.peers.apache_kafka import ApacheKafka, fetch_or_skip

pytestmark = [pytest.mark.real, pytest.mark.deep]

PROGRAM = Path(__file__).with_name("PipelinedTransactions.java")
PARTITIONS = 2
TRANSACTIONS = 150
ROUNDS = 40
RECORDS = 12


@pytest.fixture(scope="module")
def kafka() -> ApacheKafka:
    return fetch_or_skip()


@pytest.fixture(scope="module")
def cluster(kafka: ApacheKafka) -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


def read(shell: Shell, topic: str) -> list[str]:
    """The committed values, sorted."""
    return sorted(shell.good("consume", topic, "--committed").out.splitlines())


def written(prefix: str, count: int) -> list[str]:
    return sorted(
        f"{prefix}{number}-{index}" for number in range(count) for index in range(RECORDS)
    )


@pytest.mark.parametrize(
    ("topic", "count", "aborts"), [("commits", TRANSACTIONS, False), ("aborts", ROUNDS, True)]
)
def test_each_transaction_ends_as_its_producer_asks(
    kafka: ApacheKafka, cluster: Cluster, topic: str, count: int, aborts: bool
) -> None:
    shell = Shell(cluster.bootstrap_servers)
    shell.good("topic", "create", topic, "--partitions", str(PARTITIONS), "--replicas", "3")
    line = (
        f"{cluster.bootstrap_servers} {topic} {PARTITIONS} {count} {RECORDS} {str(aborts).lower()}"
    )

    (answer,) = kafka.run_source(PROGRAM, [line])

    assert answer == f"{count} {count if aborts else 0} none"
    assert read(shell, topic) == written("c", count)
