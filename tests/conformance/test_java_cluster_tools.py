"""Kafka's own tools for a cluster of several nodes, against three real ones of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.testing import Cluster
from tests.cli.operated import partitions_of
from tests.cli.shell import Shell
from tests.peers.apache_kafka import ApacheKafka, fetch_or_skip
from tests.peers.eventually import eventually
from tests.peers.kafka_broker import run_tool

pytestmark = pytest.mark.real

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECT = "org.apache.kafka.tools.LeaderElectionCommand"


class Tools:
    """Each runs in a JVM of its own."""

    def __init__(self, kafka: ApacheKafka, cluster: Cluster) -> None:
        self.kafka = kafka
        self.cluster = cluster
        self.shell = Shell(cluster.bootstrap_servers)

    def __call__(self, main: str, *arguments: str, by: str = "server") -> str:
        """Run a tool. `by` is what it asks: a broker (`server`), or a `controller`."""
        servers = self.cluster.bootstrap_servers
        if by == "controller":
            servers = f"localhost:{self.cluster.ports[self.cluster.brokers]}"
        return run_tool(self.kafka, main, f"--bootstrap-{by}", servers, *arguments)

    def partitions(self, topic: str) -> list[tuple[int, list[int]]]:
        """The leader and the replicas of each."""
        return [(each["leader"], each["replicas"]) for each in partitions_of(self.shell, topic)]


@pytest.fixture(scope="module")
def tool() -> Iterator[Tools]:
    kafka = fetch_or_skip()
    with Cluster(brokers=3) as cluster:
        yield Tools(kafka, cluster)


def test_kafka_reassign_partitions(tool: Tools, tmp_path: Path) -> None:
    tool.shell.good("topic", "create", "moving", "--partitions", "2", "--replicas", "1")
    tool.partitions("moving")
    wanted, plan = tmp_path / "topics.json", tmp_path / "plan.json"
    wanted.write_text(json.dumps({"version": 1, "topics": [{"topic": "moving"}]}))
    told = tool(
        *(REASSIGN, "--generate", "--broker-list", "2,3"),
        *("--topics-to-move-json-file", str(wanted)),
    )
    assert "Proposed partition reassignment configuration" in told
    rows = [
        {"topic": "moving", "partition": number, "replicas": [3, 2], "log_dirs": ["any", "any"]}
        for number in (0, 1)
    ]
    plan.write_text(json.dumps({"version": 1, "partitions": rows}))
    of_plan = ("--reassignment-json-file", str(plan))
    told = tool(REASSIGN, *of_plan, "--execute", "--throttle", "50000000")
    assert "Successfully started partition reassignments for moving-0,moving-1" in told
    eventually(lambda: [each[1] for each in tool.partitions("moving")] == [[3, 2], [3, 2]])
    told = tool(REASSIGN, *of_plan, "--verify")
    assert told.count("is completed.") == 2
    assert "Clearing topic-level throttles on topic moving" in told
    assert "No partition reassignments found." in tool(REASSIGN, "--list")


@pytest.mark.parametrize("by", ["server", "controller"])
def test_kafka_reassign_partitions_cancels(tool: Tools, tmp_path: Path, by: str) -> None:
    topic = f"stuck-by-{by}"
    tool.shell.good("topic", "create", topic, "--partitions", "1", "--replicas", "1")
    ((leader, _),) = tool.partitions(topic)
    # A fetch takes 1 MiB at most, and the next one waits for 11 s of the throttle.
    tool.shell.good("produce", topic, source=("x" * 100_000 + "\n") * 120)
    plan = tmp_path / "plan.json"
    row = {"topic": topic, "partition": 0, "replicas": [leader % 3 + 1]}
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    of_plan = ("--reassignment-json-file", str(plan))
    tool(REASSIGN, *of_plan, "--execute", "--throttle", "1")
    listed = tool(REASSIGN, "--list", by=by)
    assert f"{topic}-0: replicas: {leader % 3 + 1},{leader}. adding: {leader % 3 + 1}" in listed
    assert f"Successfully cancelled partition reassignment for: {topic}-0" in tool(
        REASSIGN, *of_plan, "--cancel", by=by
    )
    eventually(lambda: tool.partitions(topic) == [(leader, [leader])])


def test_kafka_leader_election(tool: Tools) -> None:
    tool.shell.good("topic", "create", "led", "--partitions", "3", "--replicas", "3")
    tool.partitions("led")
    tool.cluster.stop(2)
    tool.cluster.start(2)
    away = next(n for n, (_, replicas) in enumerate(tool.partitions("led")) if replicas[0] == 2)
    eventually(lambda: len(_in_sync(tool, away)) == 3)
    of_it = ("--topic", "led", "--partition", str(away))
    told = tool(ELECT, "--election-type", "preferred", *of_it)
    assert f"Successfully completed leader election (PREFERRED) for partitions led-{away}" in told
    told = tool(ELECT, "--election-type", "preferred", *of_it)
    assert "Valid replica already elected" in told


def _in_sync(tool: Tools, number: int) -> list[int]:
    in_sync: list[int] = partitions_of(tool.shell, "led")[number]["isr"]
    return in_sync
