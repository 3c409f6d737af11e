"""Java's transactional producer on three nodes: transactions follow each other at once, with
several requests in flight, and aborts follow commits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.testing import Cluster
from tests.cli.shell import Shell
from tests.peers.apache_kafka import ApacheKafka, fetch_or_skip
from tests.peers.kafka_broker import run_tool

pytestmark = [pytest.mark.real, pytest.mark.deep]

PROGRAM = Path(__file__).with_name("PipelinedTransactions.java")
PARTITIONS = 2
TRANSACTIONS = 150
ROUNDS = 40
RECORDS = 12
PERF_RECORDS = 3_000


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


def test_the_perf_tool_ends_many_short_transactions(kafka: ApacheKafka, cluster: Cluster) -> None:
    shell = Shell(cluster.bootstrap_servers)
    shell.good("topic", "create", "perf", "--partitions", str(PARTITIONS), "--replicas", "3")

    said = run_tool(
        kafka,
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", "perf", "--num-records", str(PERF_RECORDS), "--record-size", "20"),
        *("--throughput", "2000", "--transactional-id", "perf", "--transaction-duration-ms", "20"),
        *("--producer-props", f"bootstrap.servers={cluster.bootstrap_servers}"),
    )

    assert f"{PERF_RECORDS} records sent" in said
    assert len(read(shell, "perf")) == PERF_RECORDS
