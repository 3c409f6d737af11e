"""`moldau top`: rates, lag, replicas behind and open transactions of a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from moldau.cli.application import run
from moldau.cli.command import Context, Exit
from moldau.cli.commands.top_report import (
    BrokerLook,
    GroupLook,
    Look,
    PartitionLook,
    Rate,
    TopicLook,
    TransactionLook,
    busiest,
    document,
    headline,
    rates,
    size,
    tables,
)
from moldau.client.sync import Producer
from moldau.plugins import installed_plugins
from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Shell, Terminal
from tests.peers.eventually import eventually
from tests.peers.kafka_broker import KafkaBroker
from tests.peers.kafka_broker import kafka_broker as kafka_broker


def look(at_s: float, *topics: TopicLook, silent: tuple[str, ...] = ()) -> Look:
    brokers = [
        BrokerLook(1, "one:9092", None, True, True, 2, 3, 0, 4096),
        BrokerLook(2, "two:9092", None, False, False, 0, 3, 3, None),
    ]
    groups = [GroupLook("ahead", "Stable", 1, 0), GroupLook("behind", "Empty", 0, 7)]
    under = [PartitionLook("orders", 0, None, (1, 2), (1,))]
    transactions = [
        TransactionLook("young", "Ongoing", 4, 1.0),
        TransactionLook("old", "Ongoing", 5, 99.4),
    ]
    return Look("id", at_s, brokers, topics, groups, under, transactions, silent)


def test_rates_are_those_of_offsets_and_sizes() -> None:
    before = look(10.0, TopicLook("a", 1, 100, 1000), TopicLook("b", 1, 5, None))
    now = look(12.0, TopicLook("a", 1, 300, 500), TopicLook("b", 1, 4, 7), TopicLook("c", 1, 9, 9))
    assert rates(now, before) == {"a": Rate(100.0, 0.0), "b": Rate(0.0, None), "c": Rate()}
    assert rates(now, None) == {"a": Rate(), "b": Rate(), "c": Rate()}
    assert [each.topic for each in busiest(now, rates(now, before), 2)] == ["a", "c"]


def test_a_report_has_what_is_wrong() -> None:
    now = look(1.0, TopicLook("orders", 2, 3, 2048), silent=("groups",))
    assert headline(now) == (
        "cluster id: 2 brokers (1 down), 1 topic, 2 partitions, 2 groups, 1 under-replicated, "
        "2 open transactions; no answer about groups"
    )
    shown = {header[0]: rows for header, rows in tables(now, None, 1)}
    assert shown == {
        "BROKER": [
            ("1*", "one:9092", "up", "2", "3", "4.0 KiB"),
            ("2", "two:9092", "down", "0", "3", "-"),
        ],
        "TOPIC": [("orders", "2", "-", "-", "2.0 KiB")],
        "GROUP": [("behind", "Empty", "0", "7")],
        "UNDER-REPLICATED": [("orders-0", "none", "1,2", "1")],
        "OPEN TRANSACTION": [("old", "Ongoing", "5", "99 s")],
    }
    assert [each["group"] for each in document(now, None)["groups"]] == ["behind", "ahead"]
    assert (size(1023), size(2.0**50 * 3), size(2.0**70)) == ("1023 B", "3.0 PiB", "1048576.0 PiB")


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with SyncEmbeddedBroker() as broker:
        yield Shell(broker.bootstrap_servers)


def whole(shell: Shell) -> dict[str, Any]:
    """A look at which everything answered: on a busy machine something may be late."""
    found: dict[str, Any] = {}

    def answers() -> bool:
        (line,) = shell.good("top", "--json", "--every", "1").out.splitlines()
        found.update(json.loads(line))
        return not found["silent"]

    eventually(answers)
    return found


def first_words(shell: Shell) -> set[str]:
    """The first word of each line of a report."""
    words = ("top", "--once", "--every", "1", "--internal", "--rows", "10000")
    text = shell.good(*words).out
    assert "\x1b" not in text
    return {line.split()[0] for line in text.splitlines() if line}


def check(shell: Shell, name: str) -> dict[str, Any]:
    """Records, a group behind and an open transaction of these names are shown, beside others."""
    busy, quiet, group = f"{name}-busy", f"{name}-quiet", f"{name}-readers"
    shell.good("topic", "create", busy, "-p", "2")
    shell.good("topic", "create", quiet)
    shell.good("produce", busy, source="a\nb\nc\n")
    assert shell("consume", busy, "--group", group).code == Exit.DONE
    shell.good("produce", busy, source="d\ne\n")
    bootstrap = shell.environment["MOLDAU_BOOTSTRAP"]
    with Producer(bootstrap_servers=bootstrap, transactional_id=name) as producer:
        producer.begin_transaction()
        producer.send(quiet, b"value").result()
        found = whole(shell)
        wanted = {busy, quiet, group, name, "__consumer_offsets"}
        eventually(lambda: wanted <= first_words(shell))
        producer.abort_transaction()
    topics = {each["topic"]: each for each in found["topics"]}
    assert (topics[busy]["end_offset"], topics[busy]["records_per_second"]) == (5, 0.0)
    assert topics[busy]["size_bytes"] > 0
    assert topics[quiet]["partitions"] == 1
    assert {each["group"]: each["lag"] for each in found["groups"]}[group] == 2
    (open_one,) = (each for each in found["transactions"] if each["transactional_id"] == name)
    assert open_one["open_seconds"] >= 0
    assert [each["controller"] for each in found["brokers"] if each["up"]].count(True) == 1
    return found


@pytest.mark.real
def test_a_cluster_is_shown(shell: Shell) -> None:
    found = check(shell, "here")
    assert [each["transactional_id"] for each in found["transactions"]] == ["here"]
    assert {each["topic"] for each in found["topics"]} == {"here-busy", "here-quiet"}
    assert found["under_replicated"] == []
    done = shell("top", "--once", "--times", "2")
    assert (done.code, "give one of them" in done.err) == (Exit.MISUSED, True)


def test_a_terminal_gets_a_screen_that_is_renewed(shell: Shell) -> None:
    out, err = Terminal(), Terminal()
    context = Context(out, err, shell.environment, installed_plugins)
    assert run(["top", "--every", "1", "--times", "2"], context) == Exit.DONE
    assert out.getvalue().count("\x1b[H\x1b[J" + "cluster ") == 2


@pytest.mark.real
def test_apache_kafka_is_shown_as_well(kafka_broker: KafkaBroker) -> None:
    check(Shell(kafka_broker.bootstrap_servers), "top-of-kafka")
