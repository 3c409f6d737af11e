"""DescribeCluster: brokers by listener, fenced ones on request, and only brokers."""

from __future__ import annotations

import pytest

from moldau.broker.api.authorized_operations import ALL_OF_CLUSTER
from moldau.errors.codes import ErrorCode
from moldau.protocol.acl_operations import NOT_ASKED
from moldau.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from tests.broker.api.administered import Administered
from tests.broker.controller.cluster import CLUSTER_ID

VERSIONS = range(3)


def asking(*, operations: bool = False, fenced: bool = False) -> DescribeClusterRequest:
    return DescribeClusterRequest(
        include_cluster_authorized_operations=operations, include_fenced_brokers=fenced
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_the_cluster_is_told_in_every_version(version: int) -> None:
    response = Administered(1, 2).ask(asking(), DescribeClusterResponse, version)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    assert (response.cluster_id, response.controller_id) == (CLUSTER_ID, 1)
    assert [(each.broker_id, each.host, each.port) for each in response.brokers] == [
        (1, "here", 9092),
        (2, "h", 9092),
    ]
    assert response.cluster_authorized_operations == NOT_ASKED


@pytest.mark.parametrize("version", VERSIONS)
def test_operations_are_told_to_who_asks(version: int) -> None:
    response = Administered().ask(asking(operations=True), DescribeClusterResponse, version)
    assert response.cluster_authorized_operations == ALL_OF_CLUSTER


def test_fenced_brokers_are_told_to_who_asks() -> None:
    administered = Administered(1)
    administered.cluster.register(2)
    alive = administered.ask(asking(), DescribeClusterResponse)
    assert [each.broker_id for each in alive.brokers] == [1]
    both = administered.ask(asking(fenced=True), DescribeClusterResponse)
    assert [(each.broker_id, each.is_fenced) for each in both.brokers] == [(1, False), (2, True)]


def test_a_client_hears_only_of_brokers_with_its_listener() -> None:
    response = Administered(1, 2).ask(asking(), DescribeClusterResponse, via="INSIDE")
    assert [(each.broker_id, each.host) for each in response.brokers] == [(1, "inside")]


@pytest.mark.parametrize(("endpoint_type", "code"), [(2, 114), (0, 115), (3, 115), (-1, 115)])
def test_other_endpoints_than_brokers_are_not_here(endpoint_type: int, code: int) -> None:
    request = asking()
    request.endpoint_type = endpoint_type
    response = Administered().ask(request, DescribeClusterResponse)
    assert response.error_code == code
    assert (response.cluster_id, response.controller_id, response.brokers) == ("", -1, [])
