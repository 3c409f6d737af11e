"""A real broker inside a test: no process to start, no port to choose, nothing left behind.

    async with EmbeddedBroker() as broker:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)

    with SyncEmbeddedBroker() as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)

    with MoldauContainer() as broker:  # in a container, with testcontainers installed
        producer = KafkaProducer(bootstrap_servers=broker.get_bootstrap_server())

    with Cluster(brokers=3) as cluster:  # processes of their own, which a test may kill
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)

    with Simulation(seed=1) as world:  # the same in one process, in virtual time
        cluster = SimulatedCluster(world, brokers=3)

For pytest there are the fixtures `moldau_broker` and `moldau_topic` (`moldau.testing.fixtures`).

It is the broker of production, found through the entry point group `moldau.embedded_brokers`: the
distribution moldau-broker must be installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.testing.embedded import (
    EmbeddedBroker,
    EmbeddedBrokerMisused,
    RunningBroker,
    StartBroker,
)
from moldau.testing.threaded import SyncEmbeddedBroker

if TYPE_CHECKING:
    from moldau.testing.cluster import Cluster
    from moldau.testing.cluster_directory import ClusterFailed
    from moldau.testing.container import ContainerFailed, MoldauContainer
    from moldau.testing.simulated_cluster import Program, SimulatedCluster, seeds

__all__ = [
    "Cluster", "ClusterFailed", "ContainerFailed", "EmbeddedBroker", "EmbeddedBrokerMisused",
    "MoldauContainer", "Program", "RunningBroker", "SimulatedCluster", "StartBroker",
    "SyncEmbeddedBroker", "seeds",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Import clusters and containers on first use: not every pytest run needs them."""
    if name in ("Cluster", "ClusterFailed"):
        from moldau.testing import cluster

        return getattr(cluster, name)
    if name in ("ContainerFailed", "MoldauContainer"):
        from moldau.testing import container

        return getattr(container, name)
    if name in ("Program", "SimulatedCluster", "seeds"):
        from moldau.testing import simulated_cluster

        return getattr(simulated_cluster, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
