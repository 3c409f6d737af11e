"""The bytes that classic consumers put into JoinGroup and get from SyncGroup.

Normally the broker forwards these bytes without reading them. But it assigns partitions to the
classic members of a consumer group, so it reads and writes these bytes for them, in the version
that the member uses.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from moldau.broker.coordinator.group.consumer.partitions import Partitions
from moldau.broker.coordinator.group.contract import Cluster
from moldau.errors import MalformedMessage
from moldau.protocol.schemas.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from moldau.protocol.schemas.versioned import decode_as_known, encode_versioned

PROTOCOL_TYPE: Final = "consumer"

_VERSION: Final = struct.Struct(">h")
_NEWEST: Final = ConsumerProtocolAssignment.spec.versions.last


def subscription_of(metadata: bytes) -> ConsumerProtocolSubscription:
    """Decode a member's subscription. Raise MalformedMessage if the bytes are invalid."""
    return decode_as_known(ConsumerProtocolSubscription, metadata)


def assignment_of(data: bytes, cluster: Cluster) -> tuple[Partitions, bool]:
    """Decode a member's assignment (empty if it never had one), without deleted topics. The flag is
    true if the assignment has user data, which only its assignor could preserve."""
    if not data:
        return {}, False
    assignment = decode_as_known(ConsumerProtocolAssignment, data)
    return by_id(assignment.assigned_partitions, cluster), bool(assignment.user_data)


def assignment_bytes(partitions: Partitions, metadata: bytes, cluster: Cluster) -> bytes:
    """Encode a member's assignment, in the version of its subscription `metadata`."""
    named = []
    for topic_id in sorted(partitions):
        topic = cluster.by_id(topic_id)
        if topic is not None:
            named.append(TopicPartition(topic=topic.name, partitions=sorted(partitions[topic_id])))
    if len(metadata) < _VERSION.size:
        raise MalformedMessage("a subscription without its version", size=len(metadata))
    version = min(max(_VERSION.unpack_from(metadata)[0], 0), _NEWEST)
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=named), version)


def by_id(topics: Iterable[TopicPartition], cluster: Cluster) -> Partitions:
    """Convert partitions by topic name to partitions of the topics that have these names now."""
    found = {}
    for each in topics:
        topic = cluster.by_name(each.topic)
        if topic is not None and each.partitions:
            found[topic.topic_id] = frozenset(each.partitions)
    return found
