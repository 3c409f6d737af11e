"""Kafka's own tools with `--bootstrap-controller`, at controllers of ours and of Kafka (KIP-919).

They ask a controller's listener for the controllers first, then the one that leads the quorum.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import pytest

from moldau.protocol.connection import ClientConnection
from moldau.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from moldau.testing import Cluster
from tests.cli.shell import Shell
from tests.peers.apache_kafka import ApacheKafka, fetch_or_skip
from tests.peers.eventually import eventually
from tests.peers.kafka_broker import KafkaBroker, run_tool
from tests.peers.kafka_broker import kafka_broker as kafka_broker

pytestmark = [pytest.mark.real, pytest.mark.deep]

CLUSTER = "org.apache.kafka.tools.ClusterTool"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
CONFIGS = "org.apache.kafka.tools.ConfigCommand"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"


@pytest.fixture(scope="module")
def kafka() -> ApacheKafka:
    return fetch_or_skip()


@pytest.fixture(scope="module")
def cluster(kafka: ApacheKafka) -> Iterator[Cluster]:
    with Cluster(brokers=1, controllers=3) as cluster:
        yield cluster


def endpoints(kafka: ApacheKafka, servers: str) -> list[list[str]]:
    told = run_tool(kafka, CLUSTER, "list-endpoints", "--bootstrap-controller", servers)
    head, *rows = told.splitlines()
    assert head.split()[:4] == ["ID", "HOST", "PORT", "RACK"]
    return [row.split() for row in rows]


def test_endpoints_are_listed_by_each_controller(kafka: ApacheKafka, cluster: Cluster) -> None:
    expected = [
        [str(each), *cluster.address_of(each).split(":"), "null", "controller"]
        for each in cluster.controller_ids
    ]
    for each in cluster.controller_ids:
        assert endpoints(kafka, cluster.address_of(each)) == expected
    told = run_tool(kafka, CLUSTER, "cluster-id", "--bootstrap-controller", cluster.address_of(101))
    shell = Shell(cluster.bootstrap_servers)
    assert shell.good("cluster", "describe", "--json").json["id"] in told


def test_the_quorum_is_described_by_the_leader_after_another(
    kafka: ApacheKafka, cluster: Cluster
) -> None:
    shell = Shell(cluster.bootstrap_servers)
    servers = ",".join(map(cluster.address_of, cluster.controller_ids))

    def leader() -> int:
        found: int = shell.good("quorum", "status", "--json").json["leader"]
        told = run_tool(kafka, QUORUM, "--bootstrap-controller", servers, "describe", "--status")
        assert re.search(r"LeaderId:\s+(\d+)", told)[1] == str(found)  # type: ignore[index]
        return found

    first = leader()
    cluster.kill(first)
    try:
        eventually(lambda: shell.good("quorum", "status", "--json").json["leader"] != first)
        assert leader() != first
        told = run_tool(
            kafka, QUORUM, "--bootstrap-controller", servers, "describe", "--replication"
        )
        rows = [row.split() for row in told.splitlines()[1:]]
        assert {row[0]: row[-1] for row in rows if row[-1] != "Observer"} == {
            str(each): "Leader" if each != first and str(each) == rows[0][0] else "Follower"
            for each in cluster.controller_ids
        }
    finally:
        cluster.start(first)


def test_controllers_describe_settings_and_list_reassignments(
    kafka: ApacheKafka, cluster: Cluster
) -> None:
    servers = cluster.address_of(cluster.controller_ids[0])
    at = ("--bootstrap-controller", servers)
    told = run_tool(kafka, REASSIGN, *at, "--list")
    assert "No partition reassignments found." in told
    controller = str(cluster.controller_ids[0])
    told = run_tool(
        kafka, CONFIGS, *at, "--describe", "--all", "--entity-type", "brokers",
        "--entity-name", controller,
    )  # fmt: skip
    assert f"node.id={controller} " in told
    changing = ("--alter", "--entity-type", "brokers", "--entity-default")
    told = run_tool(kafka, CONFIGS, *at, *changing, "--add-config", "log.retention.ms=77000")
    assert "Completed updating default config for brokers" in told
    told = run_tool(
        kafka, CONFIGS, *at, "--describe", "--entity-type", "brokers", "--entity-default"
    )
    assert "log.retention.ms=77000" in told


@pytest.mark.parametrize(("endpoint_type", "version"), [(1, 0), (1, 1), (1, 2), (2, 1), (3, 2)])
def test_codes_are_those_of_kafka(
    kafka_broker: KafkaBroker, cluster: Cluster, endpoint_type: int, version: int
) -> None:
    ours = facts(int(cluster.address_of(101).split(":")[1]), endpoint_type, version)
    assert ours == facts(kafka_broker.controller_port, endpoint_type, version)


def facts(port: int, endpoint_type: int, version: int) -> tuple[object, ...]:
    """What does not depend on the cluster: codes, types, and whether there is a controller."""
    connection = ClientConnection("tester")
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=True, endpoint_type=endpoint_type
    )
    with socket.create_connection(("localhost", port), timeout=30) as stream:
        stream.sendall(b"".join(map(bytes, connection.send(request, version))))
        with stream.makefile("rb") as reader:
            frame = reader.read(int.from_bytes(reader.read(4), "big"))
    told = connection.receive(memoryview(frame)).response
    assert isinstance(told, DescribeClusterResponse)
    return (
        told.error_code,
        told.endpoint_type,
        told.controller_id in {each.broker_id for each in told.brokers},
        bool(told.cluster_id),
        {(each.rack, each.is_fenced) for each in told.brokers},
        told.cluster_authorized_operations,
        told.throttle_time_ms,
    )
