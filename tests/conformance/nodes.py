"""A fixture that runs a suite on one node, and in the deep suite on three nodes too.

    from tests.conformance.nodes import nodes as nodes

    def test_x(nodes: Nodes) -> None:
        create_topic(nodes.bootstrap_servers, replicas=nodes.node_count)

On three nodes leaders, coordinators and controller are apart: a broker asks another one before a
transaction begins, and markers, elections and offsets take their time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from moldau.testing import Cluster, SyncEmbeddedBroker
from tests.conformance.quick_brokers import QUICK


class Nodes(NamedTuple):
    """A cluster, and how many nodes it has."""

    bootstrap_servers: str
    node_count: int


@pytest.fixture(
    scope="module", params=[1, pytest.param(3, marks=pytest.mark.deep)], ids=["one", "three"]
)
def nodes(request: pytest.FixtureRequest) -> Iterator[Nodes]:
    """One embedded broker, or the processes of three."""
    if request.param == 1:
        with SyncEmbeddedBroker() as broker:
            yield Nodes(broker.bootstrap_servers, 1)
        return
    with Cluster(brokers=request.param) as cluster:
        yield Nodes(cluster.bootstrap_servers, request.param)


@pytest.fixture(scope="module")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes whose groups come to rest soon."""
    folder = tmp_path_factory.mktemp("three-nodes")
    with Cluster(brokers=3, directory=str(folder), settings=QUICK) as cluster:
        yield cluster
