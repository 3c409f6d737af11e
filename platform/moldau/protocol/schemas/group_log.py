"""The records of `__consumer_offsets` that every group has had: offsets and classic groups.

A key is its int16 type and then the message in version 0; a value is its int16 version and then
the message; a missing value deletes. Newer kinds of groups have modules of their own.
"""

from __future__ import annotations

from moldau.ids import ZERO_UUID
from moldau.protocol.declare import LogKey, LogValue, Struct, field
from moldau.protocol.types import Bytes, Int32, Int64, String, Uuid


class LegacyOffsetCommitKey(LogKey, type=0, versions="0", flexible="none"):
    """A committed offset, in the oldest form; read, never written."""

    group: String
    topic: String
    partition: Int32


class LegacyOffsetCommitValue(LogValue, type=0, versions="0", flexible="none"):
    """The offset under a LegacyOffsetCommitKey."""

    offset: Int64
    metadata: String
    commit_timestamp: Int64


class OffsetCommitKey(LogKey, type=1, versions="0", flexible="none"):
    """A committed offset: which group, which partition."""

    group: String
    topic: String
    partition: Int32


class OffsetCommitValue(LogValue, type=1, versions="0-4", flexible="4+"):
    """The committed offset and what the consumer noted with it."""

    offset: Int64
    # KIP-320
    leader_epoch: Int32 = field(since=3, default=-1, ignorable=True)
    metadata: String
    commit_timestamp: Int64
    # retention of a single commit; only version 1 had it
    expire_timestamp: Int64 = field(since=1, until=1, default=-1, ignorable=True)
    # KIP-848: zero where the committer did not know it
    topic_id: Uuid = field(since=4, tag=0, default=ZERO_UUID, ignorable=True)


class GroupMetadataKey(LogKey, type=2, versions="0", flexible="none"):
    """A classic group."""

    group: String


class MemberMetadata(Struct):
    """A member with its subscription and assignment, as raw bytes."""

    member_id: String
    # KIP-345: static membership
    group_instance_id: String | None = field(since=3, default=None, ignorable=True)
    client_id: String
    client_host: String
    rebalance_timeout: Int32 = field(since=1, default=-1, ignorable=True)
    session_timeout: Int32
    subscription: Bytes
    assignment: Bytes


class GroupMetadataValue(LogValue, type=2, versions="0-4", flexible="4+"):
    """The present generation of a classic group and its members."""

    protocol_type: String
    generation: Int32
    protocol: String | None
    leader: String | None
    current_state_timestamp: Int64 = field(since=2, default=-1, ignorable=True)
    members: list[MemberMetadata]
