"""What consumers tell each other inside JoinGroup and SyncGroup; the broker only passes it on.

An int16 version stands before the message. Never flexible: a new version appends fields, and a
reader that knows an older one leaves the rest unread.
"""

from __future__ import annotations

from moldau.protocol.declare import Data, Struct, field
from moldau.protocol.types import BytesView, Int32, String, TopicName


class TopicPartition(Struct):
    """One topic and its partitions."""

    topic: TopicName = field(map_key=True)
    partitions: list[Int32]


class ConsumerProtocolSubscription(Data, versions="0-3", flexible="none"):
    """A member's wishes, for the member that assigns."""

    topics: list[String]
    user_data: BytesView | None = field(default=None)
    # KIP-429: what the member still holds, for cooperative rebalancing
    owned_partitions: list[TopicPartition] = field(since=1, default_factory=list, ignorable=True)
    # KIP-792: tells stale ownership apart
    generation_id: Int32 = field(since=2, default=-1, ignorable=True)
    # KIP-881
    rack_id: String | None = field(since=3, default=None, ignorable=True)


class ConsumerProtocolAssignment(Data, versions="0-3", flexible="none"):
    """A member's share of the partitions."""

    assigned_partitions: list[TopicPartition]
    user_data: BytesView | None = field(default=None)
