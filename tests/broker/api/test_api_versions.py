"""ApiVersions: exactly what has a handler, and the features of the code and of the cluster."""

from __future__ import annotations

import pytest

from moldau.broker.api import telemetry
from moldau.broker.api.service import served_versions
from moldau.protocol.messages import OWN, request_class
from moldau.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.broker.api.administered import Administered

PRODUCE = 0


def asking(name: str = "test") -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=name, client_software_version="1")


@pytest.mark.parametrize("version", range(6))
def test_what_has_a_handler_is_told_with_its_stable_versions(version: int) -> None:
    response = Administered().ask(asking(), ApiVersionsResponse, version)
    assert response.error_code == 0
    told = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
    assert list(told) == sorted(served_versions().keys() - telemetry.KEYS - OWN.keys())
    for key, (first, last) in told.items():
        stable = request_class(key).spec.stable_versions
        assert last == stable.last
        assert first == (0 if key == PRODUCE else stable.first)


def test_features_are_told_as_supported_and_as_finalized() -> None:
    administered = Administered()
    administered.node.metadata_offset = 151
    response = administered.ask(asking(), ApiVersionsResponse, 4)
    supported = {
        each.name: (each.min_version, each.max_version) for each in response.supported_features
    }
    assert supported == {
        "eligible.leader.replicas.version": (0, 1),
        "group.version": (0, 1),
        "kraft.version": (0, 1),
        "metadata.version": (7, 33),
        "share.version": (0, 2),
        "streams.version": (0, 1),
        "transaction.version": (0, 2),
    }
    finalized = {each.name: each.max_version_level for each in response.finalized_features}
    assert finalized == {
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "metadata.version": 33,
        "share.version": 2,
        "streams.version": 1,
        "transaction.version": 2,
    }
    assert response.finalized_features_epoch == 150, "the offset of the last record"


def test_the_quorums_own_level_is_told_when_it_has_one() -> None:
    administered = Administered()
    administered.node.kraft_version = lambda: 1
    response = administered.ask(asking(), ApiVersionsResponse)
    finalized = {each.name: each.max_version_level for each in response.finalized_features}
    assert finalized["kraft.version"] == 1


def test_ranges_that_begin_at_0_are_told_from_version_4_on() -> None:
    response = Administered().ask(asking(), ApiVersionsResponse, 3)
    assert [each.name for each in response.supported_features] == ["metadata.version"]


@pytest.mark.parametrize(("version", "code"), [(2, 0), (3, 42), (4, 42), (5, 42)])
def test_software_needs_a_proper_name(version: int, code: int) -> None:
    response = Administered().ask(asking("b ad"), ApiVersionsResponse, version)
    assert response.error_code == code
    assert bool(response.api_keys) == (code == 0)


@pytest.mark.parametrize(
    ("cluster", "node", "version", "code"),
    [
        (None, -1, 5, 0),
        ("own", 0, 5, 0),
        ("own", 1, 5, 129),
        ("own", -2, 5, 129),
        ("another", 0, 5, 129),
        ("", 0, 5, 129),
        ("another", -1, 5, 42),
        (None, 0, 5, 42),
        ("another", 0, 4, 0),
    ],
)
def test_a_client_that_means_another_broker_is_sent_back(
    cluster: str | None, node: int, version: int, code: int
) -> None:
    """`own` and 0 stand for the ids of the broker."""
    administered = Administered()
    request = asking()
    request.cluster_id = administered.node.cluster_id if cluster == "own" else cluster
    request.node_id = node if node < 0 else administered.node.node_id + node
    response = administered.ask(request, ApiVersionsResponse, version)
    assert response.error_code == code
    assert bool(response.api_keys) == (code == 0)
