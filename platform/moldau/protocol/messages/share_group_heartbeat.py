"""Joins, keeps up and leaves a share group (KIP-932).

A field that is null has not changed since the member last sent it.
"""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import GroupId, Int16, Int32, String, TopicName, Uuid


class ShareGroupHeartbeatRequest(
    Request, key=76, versions="1", flexible="0+", listeners=("broker",)
):
    """What a member wants to read."""

    group_id: GroupId
    member_id: String
    member_epoch: Int32
    rack_id: String | None = field(default=None)
    subscribed_topic_names: list[TopicName] | None = field(default=None)


class TopicPartitions(Struct):
    """One topic, by id, and its partitions."""

    topic_id: Uuid
    partitions: list[Int32]


class Assignment(Struct):
    """All that the member shall read; other members may read it too."""

    topic_partitions: list[TopicPartitions]


class ShareGroupHeartbeatResponse(Response, key=76, versions="1", flexible="0+"):
    """The member's epoch, and its new assignment when that changed."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    member_id: String | None = field(default=None)
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = field(default=None)
    # Ours: 1 if the broker knows delays and reasons in acknowledgements.
    share_extensions: Int16 = field(tag=10000, default=0)
