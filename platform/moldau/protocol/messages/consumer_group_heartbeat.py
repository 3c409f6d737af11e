"""The one request of the consumer group protocol (KIP-848): join, stay, own, leave.

A field that is null (or -1) has not changed since the member last sent it. Member epoch 0 joins,
-1 leaves, -2 leaves as a static member that will be back.
"""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import GroupId, Int16, Int32, String, TopicName, Uuid


class TopicPartitions(Struct):
    """One topic, by id, and its partitions."""

    topic_id: Uuid
    partitions: list[Int32]


class ConsumerGroupHeartbeatRequest(
    Request, key=68, versions="0-1", flexible="0+", listeners=("broker",)
):
    """What a member wants and what it owns at present."""

    group_id: GroupId
    member_id: String
    member_epoch: Int32
    instance_id: String | None = field(default=None)
    rack_id: String | None = field(default=None)
    rebalance_timeout_ms: Int32 = field(default=-1)
    subscribed_topic_names: list[TopicName] | None = field(default=None)
    # KIP-848: evaluated by the coordinator, in RE2 syntax
    subscribed_topic_regex: String | None = field(since=1, default=None)
    server_assignor: String | None = field(default=None)
    topic_partitions: list[TopicPartitions] | None = field(default=None)


class Assignment(Struct):
    """All that the member shall own."""

    topic_partitions: list[TopicPartitions]


class ConsumerGroupHeartbeatResponse(Response, key=68, versions="0-1", flexible="0+"):
    """The member's epoch, and its new assignment when that changed."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    member_id: String | None = field(default=None)
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = field(default=None)
