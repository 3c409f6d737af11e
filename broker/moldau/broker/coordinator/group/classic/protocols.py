"""Select the assignor of a generation, and read the topics of its members.

Each member votes for the first of its protocols that all members support; the most votes win. Among
equals Kafka takes the first one in a Java hash table. This code does the same: members of both
kinds of broker must see the same choice in a rolling upgrade of assignors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

from moldau.broker.coordinator.group.classic.member import Member
from moldau.errors import MalformedMessage
from moldau.protocol.schemas.consumer_protocol import ConsumerProtocolSubscription
from moldau.records import java_string_hash

CONSUMER: Final = "consumer"
"""The protocol type of consumers, the only one whose metadata the broker can read."""

_VERSION_BYTES: Final = 2
_TABLE_SIZE_MIN: Final = 16


def select_protocol(members: Collection[Member]) -> str | None:
    """Return the assignor for these members; None if they have none in common."""
    known = Counter(name for member in members for name in member.protocol_names)
    candidates = {name for name, count in known.items() if count == len(members)}
    votes = Counter(name for member in members if (name := member.vote(candidates)) is not None)
    if not votes:
        return None
    most = max(votes.values())
    return next(name for name in in_java_order(votes) if votes[name] == most)


def in_java_order(names: Iterable[str]) -> list[str]:
    """Return the names in the iteration order of a `java.util.HashMap`, to which they were added in
    this order."""
    names = list(names)
    size = _TABLE_SIZE_MIN
    while len(names) * 4 > size * 3:
        size *= 2
    return sorted(names, key=lambda name: _spread(java_string_hash(name)) & (size - 1))


def subscribed_topics(
    protocol_type: str, protocol_name: str | None, members: Collection[Member]
) -> frozenset[str] | None:
    """Return the topics that members read. None if they are unknown: the members are not consumers,
    there is no generation yet, or a subscription does not follow the schema."""
    if protocol_type != CONSUMER:
        return None
    if not members:
        return frozenset()
    if protocol_name is None:
        return None
    # A set, because members of one application mostly send the same bytes.
    subscriptions = {member.metadata(protocol_name) for member in members}
    try:
        return frozenset(topic for each in subscriptions for topic in _topics(each))
    except MalformedMessage:
        return None


def _topics(subscription: bytes) -> list[str]:
    """Return the topics of a subscription. All versions begin like version 0, so newer clients are
    understood."""
    if len(subscription) < _VERSION_BYTES:
        raise MalformedMessage("a subscription without its version", size=len(subscription))
    found, _end = ConsumerProtocolSubscription.decode_from(subscription, _VERSION_BYTES, 0)
    return found.topics


def _spread(hashed: int) -> int:
    unsigned = hashed & 0xFFFFFFFF
    return unsigned ^ unsigned >> 16
