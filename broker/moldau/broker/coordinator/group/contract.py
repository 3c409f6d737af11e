"""The interface between the table of groups and a group of any kind, in both directions.

Life of a group: the table creates it, for a request or for a record -> `on_...` and `replay_...` ->
the table drops it when the record that stands for it is deleted (GroupMetadata for a classic group,
ConsumerGroupMetadata for a consumer group), or when the shard is unloaded.

Rules:
* `on_...` decides. It does not change the state that the log holds. It may change volatile state
  (the members that wait in a join, deadlines, tickets). It may raise a KafkaError instead of
  returning an outcome: the caller is answered with it, and nothing else has changed. All other
  answers are in the outcome: one ticket is answered once, now or in a later outcome.
* `replay_...` applies a record of the log: while loading, and after each append of our own, before
  the next call. It never fails on a record that another version of Kafka wrote. The volatile state
  of members that are still there is kept.
* A group that was created for a request stays only if the outcome of that request has records and
  they were appended. So a group that parks its first member returns a record that founds the group.
* `now_ms` is monotonic. Records hold wall time: `GroupServices.wall_ms(now_ms)`.
* `next_deadline_ms` may be earlier than needed, never later. The table reads it after every call,
  but after heartbeats and commits only if `has_nearer_deadline`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, TypeAlias

from moldau.broker.coordinator.outcome import LogRecord, Outcome, Ticket
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid

if TYPE_CHECKING:
    from random import Random

    from moldau.broker.coordinator.group.counts import GroupCounts
    from moldau.broker.decision.context import RequestContext
    from moldau.broker.settings import ResourceSettings
    from moldau.config import Settings
    from moldau.logging import Logger
    from moldau.protocol.declare import LogKey, LogValue
    from moldau.protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumer
    from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from moldau.protocol.messages.describe_groups import DescribedGroup as DescribedClassic
    from moldau.protocol.messages.heartbeat import HeartbeatRequest
    from moldau.protocol.messages.join_group import JoinGroupRequest
    from moldau.protocol.messages.leave_group import LeaveGroupRequest
    from moldau.protocol.messages.share_group_describe import DescribedGroup as DescribedShares
    from moldau.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
    from moldau.protocol.messages.streams_group_describe import DescribedGroup as DescribedStreams
    from moldau.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
    from moldau.protocol.messages.streams_group_topology_description_update import (
        StreamsGroupTopologyDescriptionUpdateRequest,
        TopologyDescription,
    )
    from moldau.protocol.messages.sync_group import SyncGroupRequest
    from moldau.protocol.schemas.consumer_group_log import ClassicProtocol
    from moldau.protocol.schemas.group_log import GroupMetadataValue


PartitionCheck: TypeAlias = "Callable[[str, Uuid, int], None]"
"""Checks one partition of a commit: the topic's name, its id (ZERO_UUID if the request had none)
and the partition. Raises the KafkaError that rejects the whole commit."""


class GroupKind(Enum):
    """The kinds of groups, with the names that ListGroups and its filter use."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class Downgrade(NamedTuple):
    """Information that a classic group gets from the consumer group that it was converted from. It
    is not in the records, so a coordinator that reads the log does not have it."""

    rebalances: bool
    """Whether the classic group begins with a rebalance. It does not if a classic member only
    replaced the last member of the new protocol."""
    offers: Mapping[str, Sequence[ClassicProtocol]]
    """The assignors that each member supports, by member id.
    The record holds only the chosen one."""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic, with the facts that assignors need."""

    name: str
    topic_id: Uuid
    racks: tuple[tuple[str, ...], ...]
    """The racks of each partition's replicas that have one. The length is the partition count."""

    @property
    def partition_count(self) -> int:
        return len(self.racks)


class Cluster(Protocol):
    """The topics of the cluster, from the last committed metadata."""

    @property
    def version(self) -> int:
        """The offset after the last metadata record that is included."""
        ...

    def by_name(self, name: str) -> TopicFacts | None: ...

    def by_id(self, topic_id: Uuid) -> TopicFacts | None: ...

    def names(self) -> Iterable[str]:
        """Return the names of all topics, including internal ones."""
        ...


class GroupServices(Protocol):
    """The node's services that a group may use. All groups of a shard share one."""

    @property
    def settings(self) -> Settings:
        """The broker's current settings."""
        ...

    @property
    def cluster(self) -> Cluster: ...

    @property
    def random(self) -> Random:
        """Randomness for member ids: `new_uuid(random)` of moldau.ids."""
        ...

    @property
    def log(self) -> Logger: ...

    @property
    def counts(self) -> GroupCounts:
        """The node's counters of offsets and rebalances."""
        ...

    def group_settings(self, group_id: str) -> ResourceSettings:
        """Return the group's own settings on top of the broker's; see `settings.group.bounded`."""
        ...

    def wall_ms(self, now_ms: int) -> int:
        """Convert a `now_ms` to wall clock time, for records."""
        ...

    def has_offsets(self, group_id: str) -> bool:
        """Whether the group has committed offsets or pending ones."""
        ...

    def describable(self, context: RequestContext, topics: Collection[str]) -> Collection[str]:
        """Return those of the topics that the client of a request may describe."""
        ...

    def creatable(self, context: RequestContext, topics: Collection[str]) -> Collection[str]:
        """Return those of the topics that the client of a request may create."""
        ...


class Group(Protocol):
    """The interface of every kind of group."""

    group_id: str
    expires: ClassVar[bool]
    """Whether a group without members is deleted when it has no offsets left."""

    kind: ClassVar[GroupKind]

    @property
    def protocol_type(self) -> str:
        """The protocol type in ListGroups; "" if there is none."""
        ...

    @property
    def state_name(self) -> str:
        """The state in ListGroups: "Empty", "Stable", "PreparingRebalance", "Assigning" ..."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        ...

    # Offsets.

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, api_version: int, *, is_txn: bool
    ) -> PartitionCheck | None:
        """Raise KafkaError if this member (in this generation, or with this member epoch) may not
        commit. `api_version` is the version of OffsetCommit (of TxnOffsetCommit with `is_txn`). The
        returned check must then pass for each partition; None means all partitions may be
        committed."""
        ...

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise KafkaError if an OffsetFetch 9+ comes from a client that is not a member, or has an
        old epoch."""
        ...

    def on_commit(self, member_id: str, now_ms: int) -> None:
        """Note a commit that passed `check_commit`. It proves that a classic member is alive."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members read this topic, as far as the group can know. The offsets of such a
        topic are kept."""
        ...

    def offset_age_since_ms(self, committed_ms: int, topic: str) -> int | None:
        """Return the wall time from which the retention of an offset committed at `committed_ms`
        counts; None if it does not expire now. (The table also calls `is_subscribed_to`.)"""
        ...

    def check_offset_delete(self) -> None:
        """Raise KafkaError if OffsetDelete is not allowed now: NON_EMPTY_GROUP in a classic group
        with members that is not of type `consumer`. (The table also calls `is_subscribed_to`.)"""
        ...

    def check_delete(self) -> None:
        """Raise KafkaError (NON_EMPTY_GROUP ...) if the group may not be deleted."""
        ...

    def tombstones(self) -> tuple[LogRecord, ...]:
        """Return the tombstones that delete all records of the group except offsets; none if it has
        no records."""
        ...

    # Life.

    def on_loaded(self, now_ms: int) -> Outcome:
        """Begin a new session for each member, after the records of the group were read. Not called
        for a group that was created for a request."""
        ...

    def on_unloaded(self) -> tuple[Ticket, ...]:
        """Return the tickets of all parked requests, because the shard moves to another broker.
        They are answered with NOT_COORDINATOR."""
        ...

    def on_topics_changed(self, topics: Collection[str], now_ms: int) -> Outcome:
        """React to topics of these names that were created or deleted, or that got partitions."""
        ...

    @property
    def has_nearer_deadline(self) -> bool:
        """Whether `next_deadline_ms` may be earlier than its last result. Heartbeats and commits
        nearly always move deadlines to later times, so the table need not read them again."""
        ...

    def next_deadline_ms(self) -> int | None:
        """Return the time at which `on_tick` is due, or None."""
        ...

    def on_tick(self, now_ms: int) -> Outcome:
        """Handle overdue deadlines: sessions, joins, rebalances. The table calls it until
        `next_deadline_ms` is later than `now_ms`, so one call need not handle all."""
        ...


class ClassicMembers(Group, Protocol):
    """A group that may have classic members: a classic group, and a consumer group while it
    migrates. Groups of other kinds have none (`Groups.on_join_group` and its neighbours)."""

    def on_join_group(
        self, message: JoinGroupRequest, context: RequestContext, ticket: Ticket, now_ms: int
    ) -> Outcome: ...

    def on_sync_group(self, message: SyncGroupRequest, ticket: Ticket, now_ms: int) -> Outcome: ...

    def on_heartbeat(self, message: HeartbeatRequest, ticket: Ticket, now_ms: int) -> Outcome: ...

    def on_leave_group(
        self, message: LeaveGroupRequest, ticket: Ticket, now_ms: int
    ) -> Outcome: ...


class ClassicGroup(ClassicMembers, Protocol):
    """A group with the classic protocol: `group/classic`. `ClassicGroup(group_id, services)`
    creates an empty one in generation 0 without a protocol type. This is also the "simple" group
    that only has offsets."""

    def replay_group_metadata(self, value: GroupMetadataValue, now_ms: int) -> None:
        """Replace the group's state by the record's, while loading or after an append of our own.
        The volatile state of members that stay is kept."""
        ...

    def on_downgraded(self, downgrade: Downgrade, now_ms: int) -> Outcome:
        """Begin the sessions of members from a consumer group. Called instead of `on_loaded` when
        the records of one outcome deleted a consumer group with this id and created this group."""
        ...

    def describe(self) -> DescribedClassic: ...


class RecordedGroup(Group, Protocol):
    """A group with a record for itself, and records for its members. The rules that most kinds
    share have their bodies here: a kind overrides those that differ."""

    @property
    def downgrade(self) -> Downgrade | None:
        """Information for the classic group that the last records of this group create. None if
        only an empty group of this kind makes room for a classic one."""
        return None

    def on_commit(self, member_id: str, now_ms: int) -> None:
        """Do nothing: only heartbeats keep a member alive."""
        return

    def offset_age_since_ms(self, committed_ms: int, topic: str) -> int | None:
        """Return the time of the commit: the age of an offset counts from it. (Offsets of topics
        that members read do not expire.)"""
        return committed_ms

    def check_offset_delete(self) -> None:
        """Allow the deletion: offsets of topics that no member reads may be deleted."""
        return

    def check_delete(self) -> None:
        if not self.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def on_unloaded(self) -> tuple[Ticket, ...]:
        """Return no tickets: requests of these groups are never parked."""
        return ()

    def replay(self, key: LogKey, value: LogValue | None) -> None:
        """Apply one record of the group. The class of the key says which record it is; without a
        value it is a tombstone. The table drops the group after the tombstone of its own record."""
        ...


class ShareGroup(RecordedGroup, Protocol):
    """A share group: its members read partitions together (`group/share`).
    `ShareGroup(group_id, services)` creates an empty one with its first epoch."""

    def on_share_group_heartbeat(
        self,
        message: ShareGroupHeartbeatRequest,
        context: RequestContext,
        ticket: Ticket,
        now_ms: int,
    ) -> Outcome: ...

    def describe(self) -> DescribedShares: ...


class StreamsGroup(RecordedGroup, Protocol):
    """A streams group: its members run the tasks of an application (`group/streams`).
    `StreamsGroup(group_id, services)` creates an empty one with its first epoch."""

    def on_streams_group_heartbeat(
        self,
        message: StreamsGroupHeartbeatRequest,
        context: RequestContext,
        ticket: Ticket,
        now_ms: int,
    ) -> Outcome: ...

    def on_topology_description(
        self, message: StreamsGroupTopologyDescriptionUpdateRequest, ticket: Ticket
    ) -> Outcome: ...

    def describe(self) -> DescribedStreams: ...

    def graph(self) -> TopologyDescription | None: ...


class ConsumerGroup(RecordedGroup, ClassicMembers, Protocol):
    """A group with the consumer protocol: `group/consumer`. `ConsumerGroup(group_id, services)`
    creates an empty one with its first epoch."""

    def on_consumer_group_heartbeat(
        self,
        message: ConsumerGroupHeartbeatRequest,
        context: RequestContext,
        ticket: Ticket,
        now_ms: int,
    ) -> Outcome: ...

    def on_upgrade(
        self,
        classic: ClassicGroup,
        message: ConsumerGroupHeartbeatRequest,
        context: RequestContext,
        ticket: Ticket,
        now_ms: int,
    ) -> Outcome:
        """Decide about the first heartbeat that reaches a classic group. Called on a new and empty
        consumer group. This group replaces the classic one if the records of the outcome begin with
        the tombstone of GroupMetadata. The outcome also answers the requests that wait in the
        classic group."""
        ...

    def describe(self) -> DescribedConsumer: ...
