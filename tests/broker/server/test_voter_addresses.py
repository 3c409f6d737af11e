"""The addresses of voters that have two controllers' listeners, as in a change to TLS."""

from __future__ import annotations

import pytest

from moldau.broker.controller.brokers import Controller, Endpoint
from moldau.broker.controller.image import Image
from moldau.broker.raft.voters import Voter
from moldau.broker.server.voter_addresses import BOOTSTRAP_FROM, VoterAddresses
from moldau.ids import ZERO_UUID

PLAIN, SECURE = "CONTROLLER", "CONTROLLER_SSL"
BOTH = ((PLAIN, "b1", 1), (SECURE, "b1", 2))


def addresses(listener: str, *voters: Voter, image: Image | None = None) -> VoterAddresses:
    known = image or Image()
    return VoterAddresses(listener, ({}, [("boot", 9)]), lambda: voters, lambda: known)


@pytest.mark.parametrize("endpoints", [BOTH, BOTH[::-1]], ids=["plain first", "secure first"])
def test_a_node_connects_to_the_listener_of_its_own_settings(
    endpoints: tuple[tuple[str, str, int], ...],
) -> None:
    voter = Voter(1, endpoints=endpoints)
    assert addresses(PLAIN, voter).all() == {1: ("b1", 1), BOOTSTRAP_FROM: ("boot", 9)}
    assert addresses(SECURE, voter).all()[1] == ("b1", 2)
    assert addresses("OTHER", voter).all()[1] == endpoints[0][1:]


def test_another_node_is_told_the_address_at_its_own_listener() -> None:
    found = addresses(PLAIN, Voter(1, endpoints=BOTH))
    assert found.at(1, PLAIN) == ("b1", 1)
    assert found.at(1, SECURE) == ("b1", 2)
    assert found.at(1, "OTHER") is None
    assert found.at(2, SECURE) is None


def test_voters_of_the_settings_are_known_by_their_registration() -> None:
    image = Image()
    ends = tuple(Endpoint(*each, 0) for each in BOTH)
    image.brokers.controllers[1] = Controller(1, ZERO_UUID, ends, {})
    found = VoterAddresses(PLAIN, ({1: ("b1", 1)}, ()), lambda: (Voter(1),), lambda: image)
    assert found.at(1, PLAIN) == ("b1", 1)
    assert found.at(1, SECURE) == ("b1", 2)


def test_a_response_does_not_replace_the_address_of_the_settings_or_the_log() -> None:
    found = VoterAddresses(
        PLAIN, ({1: ("b1", 1)}, ()), lambda: (Voter(2, endpoints=BOTH),), lambda: Image()
    )
    assert [found.hear(each, "elsewhere", 7) for each in (1, 2, 3, 3, -1)] == [
        *(True, True, True),
        *(False, False),
    ]
    assert found.all() == {1: ("b1", 1), 2: ("b1", 1), 3: ("elsewhere", 7)}
