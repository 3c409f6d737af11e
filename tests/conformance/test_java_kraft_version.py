"""kafka-features writes the voters of the settings into the log of a quorum of ours (KIP-853)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.client.sync import Admin
from moldau.ids import format_uuid
from moldau.testing.cluster import Cluster
from tests.cli.shell import Shell
from tests.peers.apache_kafka import ApacheKafka, fetch_or_skip
from tests.peers.eventually import eventually
from tests.peers.kafka_broker import run_tool

pytestmark = pytest.mark.real

FEATURES = "org.apache.kafka.tools.FeatureCommand"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"


@pytest.fixture(scope="module")
def kafka() -> ApacheKafka:
    return fetch_or_skip()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(brokers=3, directory=str(tmp_path)) as opened:
        yield opened


def directory_of(cluster: Cluster, node_id: int) -> str:
    meta = (Path(cluster.data_of(node_id)) / "meta.properties").read_text()
    found = re.search(r"directory.id=(\S+)", meta)
    assert found is not None
    return found[1]


def test_kafka_features_raises_kraft_version_of_static_voters(
    kafka: ApacheKafka, cluster: Cluster, tmp_path: Path
) -> None:
    at = ("--bootstrap-server", cluster.bootstrap_servers)
    shell = Shell(cluster.bootstrap_servers)

    def voters() -> dict[int, str]:
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            found = admin.describe_quorum().voters
        return {each.node_id: format_uuid(each.directory_id) for each in found}

    known = {each: directory_of(cluster, each) for each in (1, 2, 3)}
    eventually(  # the leader hears of each voter within a second or two
        lambda: shell("cluster", "features", "--upgrade", "kraft.version=1", "--dry-run").code == 0
    )

    told = run_tool(kafka, FEATURES, *at, "upgrade", "--release-version", "4.4")

    assert "kraft.version was upgraded to 1." in told
    controller = ("--bootstrap-controller", f"localhost:{cluster.ports[3]}")
    for listener in (at, controller):
        described = run_tool(kafka, FEATURES, *listener, "describe")
        level = r"Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)\s"
        assert dict(re.findall(level, described))["kraft.version"] == "1"
    assert voters() == known
    removed = run_tool(
        kafka,
        *(QUORUM, *at, "remove-controller", "--controller-id", "3"),
        *("--controller-directory-id", known[3]),
    )
    assert "Removed" in removed
    eventually(lambda: set(voters()) == {1, 2})
    for number in (1, 2, 3):  # their settings still name the three
        cluster.stop(number)
        cluster.start(number)
    assert set(voters()) == {1, 2}
    settings = tmp_path / "3.properties"
    settings.write_text(
        "process.roles=broker,controller\n"
        "node.id=3\n"
        f"controller.quorum.bootstrap.servers={cluster.bootstrap_servers}\n"
        f"listeners=PLAINTEXT://{cluster.address_of(3)},"
        f"CONTROLLER://localhost:{cluster.ports[5]}\n"
        "controller.listener.names=CONTROLLER\n"
        f"log.dirs={cluster.data_of(3)}\n"
    )
    added = run_tool(kafka, QUORUM, *at, "--command-config", str(settings), "add-controller")
    assert "Added controller 3" in added
    assert voters() == known
    assert shell("cluster", "features", "--downgrade", "kraft.version=0").code == 1
