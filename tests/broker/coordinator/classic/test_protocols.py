"""Votes for an assignor, and the topics that subscriptions name."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from moldau.broker.coordinator.group.classic.member import Member, MemberProtocol
from moldau.broker.coordinator.group.classic.protocols import (
    in_java_order,
    select_protocol,
    subscribed_topics,
)
from moldau.protocol.schemas.consumer_protocol import (
    ConsumerProtocolSubscription,
    TopicPartition,
)


def member(*names: str, metadata: bytes = b"") -> Member:
    """One that offers these, the best first."""
    return Member(
        member_id="m",
        instance_id=None,
        client_id="c",
        client_host="/h",
        session_timeout_ms=1,
        rebalance_timeout_ms=1,
        protocols=tuple(MemberProtocol(name, metadata) for name in names),
    )


@pytest.mark.parametrize(
    ("offers", "selected"),
    [
        ([["range"]], "range"),
        ([["range", "sticky"], ["sticky"]], "sticky"),
        ([["range", "sticky"], ["sticky", "range"], ["sticky", "range"]], "sticky"),
        # a vote counts for the first that all know, whatever else the member would rather have
        ([["x", "range", "sticky"], ["sticky", "range"], ["range", "sticky"]], "range"),
        # equals: the first in Java's hash table
        ([["range", "sticky"], ["sticky", "range"]], "sticky"),
        ([["range", "roundrobin"], ["roundrobin", "range"]], "range"),
        ([["range"], ["sticky"]], None),
        # a name that is offered twice is known once
        ([["range", "range"], ["range"]], "range"),
    ],
)
def test_the_most_votes_win(offers: Sequence[Sequence[str]], selected: str | None) -> None:
    assert select_protocol([member(*each) for each in offers]) == selected


@pytest.mark.parametrize(
    ("names", "listed"),
    [
        # as java.util.HashMap (17) listed its keys
        (["roundrobin", "range"], ["range", "roundrobin"]),
        (
            ["range", "roundrobin", "sticky", "cooperative-sticky"],
            ["sticky", "range", "roundrobin", "cooperative-sticky"],
        ),
        (["sessioned", "compatible", "default"], ["compatible", "default", "sessioned"]),
        (["BB", "Aa", "range"], ["BB", "Aa", "range"]),
        (["Aa", "BB", "range"], ["Aa", "BB", "range"]),
        (
            [f"p{number}" for number in range(1, 16)],
            [f"p{number}" for number in (*range(1, 11), 12, 11, 14, 13, 15)],
        ),
    ],
)
def test_java_order(names: list[str], listed: list[str]) -> None:
    assert in_java_order(names) == listed


def subscription(version: int, *topics: str) -> bytes:
    """As a consumer of that version encodes it."""
    owned = [TopicPartition(topic="t", partitions=[1])] if version else []
    message = ConsumerProtocolSubscription(topics=list(topics), owned_partitions=owned)
    return version.to_bytes(2, "big") + bytes(message.encode(version))


@pytest.mark.parametrize("version", range(4))
def test_all_versions_of_a_subscription_are_read(version: int) -> None:
    members = [
        member("range", metadata=subscription(version, "a", "b")),
        member("range", metadata=subscription(version, "c")),
    ]
    assert subscribed_topics("consumer", "range", members) == frozenset("abc")


@pytest.mark.parametrize("metadata", [b"", b"\x00", b"\x00\x00\x00\x00\x00\x01\x00\x05a"])
def test_what_cannot_be_read_is_not_guessed(metadata: bytes) -> None:
    assert subscribed_topics("consumer", "range", [member("range", metadata=metadata)]) is None


def test_only_consumers_have_topics_and_only_in_a_generation() -> None:
    one = [member("range", metadata=subscription(0, "a"))]
    assert subscribed_topics("connect", "range", one) is None
    assert subscribed_topics("", None, []) is None
    assert subscribed_topics("consumer", None, one) is None
    assert subscribed_topics("consumer", None, []) == frozenset()
