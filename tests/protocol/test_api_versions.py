"""What a listener tells everybody who asks for versions."""

from __future__ import annotations

import pytest

from moldau.errors.codes import ErrorCode
from moldau.protocol.api_versions import FinalizedFeatures, Welcome
from moldau.protocol.connection import ClientConnection, Problem, ServerConnection
from moldau.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from moldau.protocol.negotiation import advertised_versions, supported_versions
from moldau.protocol.versions import Versions

BROKER = Welcome(
    advertised_versions("broker"),
    {"metadata.version": Versions(7, 30), "kraft.version": Versions(0, 1)},
)
AGREED = FinalizedFeatures(epoch=17, levels={"metadata.version": 30, "kraft.version": 0, "a.b": 2})
VERSIONS = range(5)


def ask(name: str = "moldau", version: str = "1.0") -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=name, client_software_version=version)


def told(welcome: Welcome, version: int, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """What a client reads when it asks in that version, over both ends of a connection."""
    client, server = ClientConnection("c"), ServerConnection(supported_versions("broker"))
    (sent,) = client.send(request, version)
    arrival = server.receive(sent[4:])
    assert arrival.problem is None
    decoded = arrival.decode()
    assert isinstance(decoded, ApiVersionsRequest)
    answer = welcome.answer(decoded, arrival.version, AGREED, throttle_time_ms=9)
    response = client.receive(b"".join(server.answer(arrival, answer))[4:]).response
    assert isinstance(response, ApiVersionsResponse)
    return response


@pytest.mark.parametrize("version", VERSIONS)
def test_every_api_is_told_with_its_range(version: int) -> None:
    response = told(BROKER, version, ask())
    assert response.error_code == ErrorCode.NONE
    assert response.throttle_time_ms == (9 if version else 0)
    ranges = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
    assert ranges[0] == (0, 13)
    assert ranges[1] == (4, 18)
    assert len(ranges) == len(response.api_keys) == len(supported_versions("broker"))


def test_produce_below_what_is_served_is_unsupported_though_it_is_advertised() -> None:
    server = ServerConnection(supported_versions("broker"))
    arrival = server.receive(b"\0\0\0\2\0\0\0\1\xff\xff")
    assert arrival.problem is Problem.UNSUPPORTED_VERSION


@pytest.mark.parametrize("version", VERSIONS)
def test_a_feature_that_may_be_at_level_0_is_told_from_version_4_on(version: int) -> None:
    features = told(BROKER, version, ask()).supported_features
    kraft = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
    metadata = SupportedFeatureKey(name="metadata.version", min_version=7, max_version=30)
    assert features == {3: [metadata], 4: [kraft, metadata]}.get(version, [])


def test_features_at_level_0_are_not_finalized() -> None:
    response = told(BROKER, 3, ask())
    assert response.finalized_features_epoch == 17
    assert response.finalized_features == [
        FinalizedFeatureKey(name="a.b", max_version_level=2, min_version_level=2),
        FinalizedFeatureKey(name="metadata.version", max_version_level=30, min_version_level=30),
    ]


def test_nothing_is_finalized_before_the_metadata_is_known() -> None:
    response = BROKER.answer(ask(), 4)
    assert (response.finalized_features_epoch, response.finalized_features) == (-1, [])


GOOD = ["a", "9", "apache-kafka-java", "4.3.1", "a.-.b", "A" * 30_000]
BAD = ["", "-a", "a-", ".", "a b", "a_b", "a\n", "\u00e9", "a/1", "-" * 30_000, "a" * 30_000 + "-"]


@pytest.mark.parametrize("word", GOOD, ids=range(len(GOOD)))
@pytest.mark.parametrize("version", VERSIONS)
def test_honest_names_of_software_are_taken(word: str, version: int) -> None:
    for request in (ask(name=word), ask(version=word)):
        assert told(BROKER, version, request).error_code == ErrorCode.NONE


@pytest.mark.parametrize("word", BAD, ids=range(len(BAD)))
@pytest.mark.parametrize("version", VERSIONS)
def test_other_names_of_software_are_an_invalid_request(word: str, version: int) -> None:
    for request in (ask(name=word), ask(version=word)):
        response = told(BROKER, version, request)
        if version < 3:
            assert response.error_code == ErrorCode.NONE
        else:
            assert response.error_code == ErrorCode.INVALID_REQUEST
            assert response.throttle_time_ms == 9
            assert not response.api_keys
            assert not response.supported_features
            assert response.finalized_features_epoch == -1


def test_a_refused_version_is_told_the_same_range_as_an_answered_one() -> None:
    server = ServerConnection(supported_versions("broker"))
    arrival = server.receive(b"\0\x12\0\x63\0\0\0\7\xff\xff\0")
    refusal = b"".join(server.answer_unsupported_api_versions(arrival))
    (own,) = ApiVersionsResponse.decode(refusal[8:], 0).api_keys
    assert own in told(BROKER, 4, ask()).api_keys
    assert own == ApiVersion(api_key=18, min_version=0, max_version=5)


def test_a_controller_has_no_produce() -> None:
    keys = [
        each.api_key
        for each in Welcome(advertised_versions("controller")).answer(ask(), 4).api_keys
    ]
    assert 0 not in keys
    assert keys == sorted(keys)
