"""Reads back the offsets that groups have committed.

Version 8 (KIP-709) asks for several groups at once; before it the one group stands at the top.
"""

from __future__ import annotations

from moldau.ids import ZERO_UUID
from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bool, GroupId, Int16, Int32, Int64, String, TopicName, Uuid


class OffsetFetchRequestTopic(Struct):
    """One topic and its partitions, up to version 7."""

    name: TopicName
    partition_indexes: list[Int32]


class OffsetFetchRequestTopics(Struct):
    """One topic and its partitions, inside a group."""

    # KIP-516: from version 10 on the topic goes by its id
    name: TopicName = field(until=9, default="", ignorable=True)
    topic_id: Uuid = field(since=10, default=ZERO_UUID, ignorable=True)
    partition_indexes: list[Int32]


class OffsetFetchRequestGroup(Struct):
    """One group, and what to read of it; null topics mean everything."""

    group_id: GroupId
    # KIP-848: a consumer proves that it still is a member
    member_id: String | None = field(since=9, default=None, ignorable=True)
    member_epoch: Int32 = field(since=9, default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None


class OffsetFetchRequest(Request, key=9, versions="1-10", flexible="6+", listeners=("broker",)):
    """Asks a coordinator for committed offsets, of given partitions or of all (null)."""

    group_id: GroupId = field(until=7, default="")
    topics: list[OffsetFetchRequestTopic] | None = field(
        until=7, default_factory=list, nullable_since=2
    )
    groups: list[OffsetFetchRequestGroup] = field(since=8, default_factory=list)
    # KIP-447: wait for pending transactions instead of answering an old offset
    require_stable: Bool = field(since=7, default=False)


class OffsetFetchResponsePartition(Struct):
    """The committed offset of one partition, up to version 7."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field(since=5, default=-1, ignorable=True)
    metadata: String | None
    error_code: Int16


class OffsetFetchResponseTopic(Struct):
    """One topic of the answer, up to version 7."""

    name: TopicName
    partitions: list[OffsetFetchResponsePartition]


class OffsetFetchResponsePartitions(Struct):
    """The committed offset of one partition, inside a group."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field(default=-1, ignorable=True)
    metadata: String | None
    error_code: Int16


class OffsetFetchResponseTopics(Struct):
    """One topic of the answer, inside a group."""

    # KIP-516: from version 10 on the topic goes by its id
    name: TopicName = field(until=9, default="", ignorable=True)
    topic_id: Uuid = field(since=10, default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions]


class OffsetFetchResponseGroup(Struct):
    """The committed offsets of one group, or why they cannot be read."""

    group_id: GroupId
    topics: list[OffsetFetchResponseTopics]
    error_code: Int16 = field(default=0)


class OffsetFetchResponse(Response, key=9, versions="1-10", flexible="6+"):
    """The committed offsets; -1 where nothing is committed."""

    throttle_time_ms: Int32 = field(since=3, default=0, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field(until=7, default_factory=list)
    error_code: Int16 = field(since=2, until=7, default=0, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field(since=8, default_factory=list)
