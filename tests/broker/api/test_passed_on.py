"""UpdateFeatures, ElectLeaders, DescribeQuorum: passed on, and refused in each API's own form."""

from __future__ import annotations

import pytest

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from moldau.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from moldau.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tests.broker.api.administered import Administered
from tests.broker.controller.cluster import topic

GROUP = "group.version"
ALL_VERSIONS = range(3)


def updating(level: int, *, timeout_ms: int = 1000) -> UpdateFeaturesRequest:
    update = FeatureUpdateKey(feature=GROUP, max_version_level=level)
    return UpdateFeaturesRequest(feature_updates=[update], timeout_ms=timeout_ms)


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_features_are_the_controllers(version: int) -> None:
    administered = Administered()
    response = administered.ask(updating(1), UpdateFeaturesResponse, version)
    assert response.error_code == 0
    assert [each.feature for each in response.results] == ([GROUP] if version <= 1 else [])
    response = administered.ask(updating(9), UpdateFeaturesResponse, version)
    assert (response.error_code, response.results) == (95, [])


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_no_feature_moves_without_time(version: int) -> None:
    request = updating(1, timeout_ms=0)
    response = Administered().ask(request, UpdateFeaturesResponse, version)
    assert (response.error_code, response.results) == (ErrorCode.REQUEST_TIMED_OUT, [])


def electing(*partitions: int, timeout_ms: int = 1000) -> ElectLeadersRequest:
    return ElectLeadersRequest(
        topic_partitions=[TopicPartitions(topic="orders", partitions=list(partitions))],
        timeout_ms=timeout_ms,
    )


def codes(response: ElectLeadersResponse) -> list[tuple[str, list[tuple[int, int]]]]:
    return [
        (each.topic, [(one.partition_id, one.error_code) for one in each.partition_result])
        for each in response.replica_election_results
    ]


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_elections_are_the_controllers(version: int) -> None:
    administered = Administered(1)
    administered.cluster.create(topic("orders"))
    response = administered.ask(electing(0, 9), ElectLeadersResponse, version)
    assert codes(response) == [("orders", [(0, 84), (9, 3)])]
    assert response.error_code == 0


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_nobody_is_elected_without_time(version: int) -> None:
    response = Administered().ask(electing(0, 9, timeout_ms=0), ElectLeadersResponse, version)
    assert codes(response) == [("orders", [(0, 7), (9, 7)])]
    assert response.error_code == (7 if version >= 1 else 0)
    request = ElectLeadersRequest(topic_partitions=None, timeout_ms=0)
    assert Administered().ask(request, ElectLeadersResponse, version).replica_election_results == []


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_without_a_leader_nobody_can_describe_the_quorum(version: int) -> None:
    administered = Administered()
    administered.channel.refusals.append(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    request = DescribeQuorumRequest(topics=[])
    response = administered.ask(request, DescribeQuorumResponse, version)
    assert (response.error_code, response.topics) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, [])
