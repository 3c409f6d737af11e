"""The bytes that consumers exchange inside JoinGroup and SyncGroup. No IO.

The broker passes these bytes on without reading them, so clients must agree on them: Java's
ConsumerProtocol, with its version before the message. A newer version only appends fields, so an
unknown version is read as the newest known one.

Invariants: damaged bytes raise MalformedMessage, never anything else. Topics and owned partitions
are written in order, so that the same subscription always has the same bytes (a broker rebalances a
group when a member's bytes change).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from moldau.client.group.assignors import Share, Subscription
from moldau.client.group.assignors.order import text_order
from moldau.errors import MalformedMessage
from moldau.link.metadata import TopicPartition
from moldau.protocol.schemas.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from moldau.protocol.schemas.consumer_protocol import TopicPartition as TopicPartitions

PROTOCOL_TYPE: Final = "consumer"
_NEWEST: Final = 3
_VERSION_BYTES: Final = 2


def encode_subscription(subscription: Subscription) -> bytes:
    """Return a member's bytes for JoinGroup."""
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics, key=text_order),
        user_data=subscription.user_data,
        owned_partitions=_by_topic(sorted(subscription.owned)),
        generation_id=subscription.generation,
        rack_id=subscription.rack,
    )
    return _NEWEST.to_bytes(_VERSION_BYTES, "big") + message.encode(_NEWEST)


def decode_subscription(data: bytes, instance_id: str | None = None) -> Subscription:
    """Return a member's subscription, with the instance id that the coordinator reports.

    Some clients (kafkajs) write a newer version number with only the fields of version 0: accepted.
    """
    version = _version(data)
    message, end = ConsumerProtocolSubscription.decode_from(data, _VERSION_BYTES, 0)
    if end < len(data):
        message, _ = ConsumerProtocolSubscription.decode_from(data, _VERSION_BYTES, version)
    told = Subscription(
        topics=tuple(message.topics),
        user_data=None if message.user_data is None else bytes(message.user_data),
        owned=tuple(_flat(message.owned_partitions)),
        generation=max(-1, message.generation_id),
        rack=message.rack_id or None,
    )
    return told if instance_id is None else replace(told, instance_id=instance_id)


def encode_assignment(
    partitions: Iterable[TopicPartition], user_data: bytes | None = None
) -> bytes:
    """Return the bytes of a member's share."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=_by_topic(partitions), user_data=user_data
    )
    return _NEWEST.to_bytes(_VERSION_BYTES, "big") + message.encode(_NEWEST)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """Return a member's partitions; none if the leader sent no bytes at all."""
    return decode_share(data)


def decode_share(data: bytes) -> Share:
    """Return a member's partitions, with the user data of the leader's assignor."""
    if not data:
        return Share()
    message, _ = ConsumerProtocolAssignment.decode_from(data, _VERSION_BYTES, _version(data))
    user_data = None if message.user_data is None else bytes(message.user_data)
    return Share(_flat(message.assigned_partitions), user_data)


def _version(data: bytes) -> int:
    if len(data) < _VERSION_BYTES:
        raise MalformedMessage("a consumer's bytes are too short for a version", size=len(data))
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    if version < 0:
        raise MalformedMessage("a consumer's bytes have a negative version", version=version)
    return min(version, _NEWEST)


def _by_topic(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    by_topic: dict[str, list[int]] = {}
    for where in partitions:
        by_topic.setdefault(where.topic, []).append(where.partition)
    return [TopicPartitions(topic=topic, partitions=found) for topic, found in by_topic.items()]


def _flat(topics: Iterable[TopicPartitions]) -> list[TopicPartition]:
    return [
        TopicPartition(each.topic, partition) for each in topics for partition in each.partitions
    ]
