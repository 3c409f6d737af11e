"""`moldau txn` against Apache Kafka and moldau: transactions that are open, and that hang."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from moldau.cli.commands.cluster_connection import OpenClient, opened
from moldau.client import Admin, Resource, ResourceType
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.records import Producer
from tests.cli.groups import Cluster
from tests.cli.groups import cluster as cluster
from tests.cli.groups import shell as shell
from tests.cli.open_transactions import begin, produce
from tests.cli.shell import Shell
from tests.conformance.broker import moldau as moldau
from tests.peers.eventually import eventually
from tests.peers.kafka_broker import kafka_broker as kafka_broker

VERIFIES = "transaction.partition.verification.enable"


@contextmanager
def client(cluster: Cluster) -> Iterator[OpenClient[Admin]]:
    with opened(
        lambda runtime: Admin(bootstrap_servers=cluster.bootstrap_servers, runtime=runtime)
    ) as admin:
        yield admin


def hang(admin: OpenClient[Admin], topic: str) -> None:
    """Write a transaction in partition 1 that no coordinator knows, as a late request did before
    brokers asked the coordinator. Kafka's broker hears of the changed setting a moment later."""
    everywhere = Resource(ResourceType.BROKER, "")

    async def is_written(client: Admin) -> bool:
        try:
            await produce(client, "nobody", topic, 1, Producer(987_654, 3, 0, True))
        except KafkaError as error:
            if error.code is not ErrorCode.INVALID_PRODUCER_ID_MAPPING:
                raise
            return False
        return True

    admin.run(lambda client: client.alter_configs(everywhere, set_to={VERIFIES: "false"}))
    try:
        eventually(lambda: admin.run(is_written))
    finally:
        admin.run(lambda client: client.alter_configs(everywhere, unset=[VERIFIES]))


@pytest.mark.real
def test_a_transaction_that_hangs_is_found_and_ended(cluster: Cluster, shell: Shell) -> None:
    topic, name = "txn-hangs", "app-that-is-slow"
    shell.good("topic", "create", topic, "--partitions", "2")
    eventually(lambda: shell("topic", "describe", topic).code == 0)
    with client(cluster) as admin:
        admin.run(lambda each: begin(each, name, topic))
        hang(admin, topic)
        shell.good("produce", topic, "--partition", "1", source="a\nb\n")

        listed = shell.good("txn", "list", "--state", "ongoing", "--json").json
        assert name in [each["transactional_id"] for each in listed]
        assert [each for each in shell.good("txn", "list").rows if each[0] == name]
        blocking = shell.good("txn", "list", "--blocking", topic, "--json").json
        assert [
            (each["partition"], each["transactional_id"], each["is_known_to_coordinator"])
            for each in blocking
        ] == [(1, None, False), (0, name, True)]
        assert [each["offsets_behind"] for each in blocking] == [3, 1]
        (described,) = shell.good("txn", "describe", name, "--json").json
        assert described["state"] == "Ongoing"
        assert described["partitions"] == [{"topic": topic, "partition": 0}]
        assert f"  {topic}:0\n" in shell.good("txn", "describe", name).out

        (found,) = shell.good("txn", "hanging", topic, "--json").json
        assert (found["partition"], found["producer_id"], found["start_offset"]) == (1, 987_654, 0)
        assert "unknown to its coordinator" in shell.good("txn", "hanging", topic).out
        assert shell.good("txn", "hanging", topic, "--older-than", "7200", "--json").json == []

        where = ("--topic", topic, "--start-offset", "0")
        refused = shell("txn", "abort", *where, "--partition", "0")
        assert (refused.code, refused.out) == (2, "")
        assert f"moldau txn abort {name}" in refused.err
        nothing = shell("txn", "abort", "--topic", topic, "--partition", "1", "--start-offset", "1")
        assert nothing.code == 2
        assert "no transaction is open" in nothing.err
        shell.good("txn", "abort", *where, "--partition", "1")
        assert shell.good("txn", "hanging", topic, "--json").json == []

        shell.good("txn", "abort", name)
        eventually(lambda: shell.good("txn", "list", "--blocking", topic, "--json").json == [])
        (described,) = shell.good("txn", "describe", name, "--json").json
        assert (described["state"], described["partitions"]) == ("Empty", [])
    committed = shell.good("offsets", topic, "--committed", "--json").json
    assert committed == shell.good("offsets", topic, "--json").json


@pytest.mark.real
def test_what_does_not_exist_is_named(shell: Shell) -> None:
    for action in ("describe", "abort"):
        unknown = shell("txn", action, "never-seen")
        assert unknown.code == 1
        assert "TRANSACTIONAL_ID_NOT_FOUND" in unknown.out + unknown.err
    for words in (
        ("list", "--state", "asleep"),
        ("list", "topic"),
        ("list", "--blocking", "--state", "Ongoing"),
        ("abort",),
        ("abort", "app", "--partition", "1"),
    ):
        refused = shell("txn", *words)
        assert (refused.code, refused.out) == (2, ""), refused
    assert "no state of a transaction: " in shell("txn", "list", "--state", "asleep").err
