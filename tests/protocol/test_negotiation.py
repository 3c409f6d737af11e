"""Which version two peers agree on."""

from __future__ import annotations

import pytest

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.api_versions import ApiVersion
from moldau.protocol.messages.fetch import FetchRequest
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.protocol.negotiation import (
    PeerVersions,
    advertised_versions,
    highest_common,
    supported_versions,
)
from moldau.protocol.versions import NO_VERSIONS, Versions


def peer(**ranges: tuple[int, int]) -> PeerVersions:
    return PeerVersions(
        ApiVersion(api_key=int(key.removeprefix("api_")), min_version=first, max_version=last)
        for key, (first, last) in ranges.items()
    )


@pytest.mark.parametrize(
    ("theirs", "version"), [((0, 5), 5), ((4, 30), 18), ((4, 4), 4), ((18, 20), 18)]
)
def test_the_highest_common_version_is_taken(theirs: tuple[int, int], version: int) -> None:
    assert peer(api_1=theirs).version(FetchRequest) == version


def test_a_caller_may_stay_below_a_version() -> None:
    assert peer(api_1=(0, 18)).version(FetchRequest, at_most=11) == 11


@pytest.mark.parametrize("theirs", [(0, 3), (19, 30)])
def test_no_common_version_names_both_ranges(theirs: tuple[int, int]) -> None:
    with pytest.raises(KafkaError) as raised:
        peer(api_1=theirs).version(FetchRequest)
    assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert raised.value.context == {
        "request": "FetchRequest",
        "ours": "4-18",
        "theirs": f"{theirs[0]}-{theirs[1]}",
    }


def test_an_api_that_the_peer_does_not_have() -> None:
    with pytest.raises(KafkaError, match="theirs='none'"):
        peer(api_1=(0, 18)).version(MetadataRequest)


def test_unstable_versions_are_used_on_demand_only() -> None:
    theirs = peer(api_22=(0, 6))
    assert theirs.version(InitProducerIdRequest) == 5
    assert theirs.version(InitProducerIdRequest, unstable=True) == 6


def test_what_a_listener_can_serve() -> None:
    broker, controller = supported_versions("broker"), supported_versions("controller")
    assert broker[0] == Versions(3, 13)
    assert 0 not in controller
    assert controller[1] == Versions(4, 18)
    assert broker[22] == Versions(0, 5)
    assert supported_versions("broker", unstable=True)[22] == Versions(0, 6)


def test_produce_is_advertised_from_version_0_where_clients_look() -> None:
    advertised, served = advertised_versions("broker"), supported_versions("broker")
    assert advertised[0] == Versions(0, 13)
    assert served[0] == Versions(3, 13)
    assert {key for key in served if served[key] != advertised[key]} == {0}
    assert list(advertised) == list(served)
    assert advertised_versions("controller") == supported_versions("controller")
    assert advertised_versions("broker", unstable=True)[22] == Versions(0, 6)


def test_common_versions_of_empty_ranges() -> None:
    assert highest_common(Versions(0, 3), Versions(2, 9)) == 2 + 1
    with pytest.raises(KafkaError):
        highest_common(Versions(0, 3), NO_VERSIONS)
