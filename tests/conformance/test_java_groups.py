"""Kafka's own consumer and its tool for groups, against our broker, over both protocols."""

from __future__ import annotations

from typing import Any, Final

import pytest

from moldau.testing import Cluster
from tests.conformance.filled import COUNT, TOPIC, fill
from tests.peers.apache_kafka import ApacheKafka, fetch_or_skip
from tests.peers.kafka_broker import run_tool

pytestmark = pytest.mark.real

CONSUMER: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUPS: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.fixture(scope="module")
def kafka() -> ApacheKafka:
    return fetch_or_skip()


class Java:
    """Each call is a JVM of its own."""

    def __init__(self, kafka: ApacheKafka, bootstrap: str) -> None:
        self.kafka = kafka
        self.bootstrap = bootstrap

    def groups(self, *arguments: str) -> list[list[str]]:
        """The rows that the tool prints, as words."""
        said = run_tool(self.kafka, GROUPS, "--bootstrap-server", self.bootstrap, *arguments)
        return [line.split() for line in said.splitlines() if line.strip()]

    def consume(self, group: str, protocol: str, count: int) -> list[str]:
        """A member that reads so many values from the beginning, commits and leaves."""
        said = run_tool(
            self.kafka,
            CONSUMER,
            *("--bootstrap-server", self.bootstrap, "--topic", TOPIC, "--group", group),
            *("--from-beginning", "--max-messages", str(count), "--timeout-ms", "60000"),
            *("--command-property", f"group.protocol={protocol}"),
        )
        return said.split()


@pytest.mark.parametrize("node_count", [1, 3])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_of_java(kafka: ApacheKafka, protocol: str, node_count: int) -> None:
    with Cluster(node_count, settings={"group.initial.rebalance.delay.ms": "0"}) as ours:
        fill(ours.bootstrap_servers)
        java = Java(kafka, ours.bootstrap_servers)
        told = java.consume("readers", protocol, COUNT)
        assert sorted(told, key=int) == [str(at) for at in range(COUNT)]

        assert java.groups("--list") == [["readers"]]
        (_, state) = java.groups("--describe", "--group", "readers", "--state")[-2:]
        assert state[0] == "readers"
        assert "Empty" in state
        lags = _lags(java)
        assert lags == {"0": (COUNT // 2, 0), "1": (COUNT // 2, 0)}

        back = ("--group", "readers", "--topic", TOPIC, "--reset-offsets", "--to-offset", "5")
        java.groups(*back, "--execute")
        assert _lags(java) == {"0": (5, COUNT // 2 - 5), "1": (5, COUNT // 2 - 5)}

        rows = java.groups("--delete-offsets", "--group", "readers", "--topic", f"{TOPIC}:0")
        assert [TOPIC, "0", "Successful"] in rows
        assert _lags(java) == {"1": (5, COUNT // 2 - 5)}

        java.groups("--delete", "--group", "readers")
        assert java.groups("--list") == []


def _lags(java: Java) -> dict[str, tuple[int, int]]:
    """Of each partition that has an offset: it, and what is left to read."""
    head, *rows = [
        row for row in java.groups("--describe", "--group", "readers", "--offsets") if len(row) > 6
    ]
    at: dict[str, Any] = {name: head.index(name) for name in ("PARTITION", "CURRENT-OFFSET", "LAG")}
    return {
        row[at["PARTITION"]]: (int(row[at["CURRENT-OFFSET"]]), int(row[at["LAG"]]))
        for row in rows
        if row[at["CURRENT-OFFSET"]] != "-"
    }
