"""`moldau.testing.Cluster` as a test of its user has it, and what its mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.client.sync import Admin, NewTopic, Producer
from moldau.testing import Cluster, ClusterFailed

pytestmark = pytest.mark.real


def test_a_cluster_says_who_leads_and_waits_for_replicas() -> None:
    with Cluster(brokers=3, settings={"num.partitions": 2}) as cluster:
        servers = cluster.bootstrap_servers
        with (
            Admin(bootstrap_servers=servers) as admin,
            Producer(bootstrap_servers=servers) as producer,
        ):
            admin.create_topic(NewTopic("orders"))
            producer.send_and_wait("orders", b"before")
            leader = cluster.leader_of("orders", 1)
            assert leader in cluster.broker_ids
            cluster.kill(leader)
            assert cluster.exit_code(leader) == -9
            others = {*cluster.broker_ids} - {leader}
            cluster.await_in_sync("orders", others, 1)
            assert cluster.leader_of("orders", 1) in others
            assert cluster.controller() in others
            with pytest.raises(ClusterFailed, match="orders-1 is not in sync"):
                cluster.await_in_sync("orders", index=1, within=0)
            cluster.start(leader)
            cluster.await_in_sync("orders", index=1)
            with pytest.raises(ClusterFailed, match="orders has no partition 2"):
                cluster.leader_of("orders", 2)
            with pytest.raises(ClusterFailed, match=f"node {leader} runs already"):
                cluster.start(leader)
            for misused in (cluster.kill, cluster.start, cluster.address_of, cluster.process_id):
                with pytest.raises(ClusterFailed, match="there is no node 9; there are 1, 2, 3"):
                    misused(9)


def test_a_cluster_that_is_not_open_says_so() -> None:
    cluster = Cluster(brokers=3)
    with pytest.raises(ClusterFailed, match="not open"):
        cluster.bootstrap_servers  # noqa: B018 (it raises)
    with pytest.raises(ClusterFailed, match="not open"):
        cluster.kill(1)
    with pytest.raises(ClusterFailed, match="no broker of the cluster runs"):
        cluster.leader_of("orders")


def test_a_node_that_does_not_start_says_why(tmp_path: Path) -> None:
    settings = {"num.partitions": 0}
    with pytest.raises(ClusterFailed, match="partitions must be 1 or more") as failed:
        Cluster(brokers=1, settings=settings).open()
    assert "name one with directory= to keep it" in str(failed.value)
    with pytest.raises(ClusterFailed, match="partitions must be 1 or more") as failed:
        Cluster(brokers=1, settings=settings, directory=str(tmp_path)).open()
    assert Path(failed.value.context["log"]).exists()
