"""Forgets committed offsets of a group for topics that it no longer reads.

Never flexible.
"""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import GroupId, Int16, Int32, TopicName


class OffsetDeleteRequestPartition(Struct):
    """One partition."""

    partition_index: Int32


class OffsetDeleteRequestTopic(Struct):
    """One topic and its partitions."""

    name: TopicName = field(map_key=True)
    partitions: list[OffsetDeleteRequestPartition]


class OffsetDeleteRequest(Request, key=47, versions="0", flexible="none", listeners=("broker",)):
    """The group and the partitions to forget."""

    group_id: GroupId
    topics: list[OffsetDeleteRequestTopic]


class OffsetDeleteResponsePartition(Struct):
    """The outcome for one partition."""

    partition_index: Int32 = field(map_key=True)
    error_code: Int16


class OffsetDeleteResponseTopic(Struct):
    """One topic of the answer and its partitions."""

    name: TopicName = field(map_key=True)
    partitions: list[OffsetDeleteResponsePartition]


class OffsetDeleteResponse(Response, key=47, versions="0", flexible="none"):
    """An error code for each partition."""

    error_code: Int16
    throttle_time_ms: Int32 = field(default=0, ignorable=True)
    topics: list[OffsetDeleteResponseTopic]
