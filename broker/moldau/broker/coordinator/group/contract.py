"""What the table of groups asks of a group of any kind, and what a group may ask of its table.

Life of a group: made by the table, for a request or for a record -> `on_...` and `replay_...` ->
dropped by the table when the record that stands for it is deleted (GroupMetadata for a classic
group, ConsumerGroupMetadata for a consumer group), or when the shard is unloaded.

Rules:
* `on_...` decides. It changes nothing that is in the log; it may change what is volatile (who waits
  in a join, deadlines, tickets). A KafkaError may be raised instead of returning an answer: the
  asker hears it, and nothing else happened. All other answers are in the outcome: one ticket is
  answered once, now or in a later outcome.
* `replay_...` takes what is in the log: while loading, and after each append of our own, before the
  next call. It never fails on what another version of Kafka wrote. What is volatile survives it
  for members that are still there.
* A group that was made for a request stays only if that request's outcome has records, and they
  were appended. So a group that parks its first member brings a record that founds it.
* `now_ms` is monotonic. Records hold wall time: `World.wall_ms(now_ms)`.
* `next_deadline_ms` may be earlier than needed, never later; the table asks after every call, but
  after heartbeats and commits only if `has_nearer_deadline`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from moldau.broker.coordinator.outcome import LogRecord, Outcome, Ticket
from moldau.ids import Uuid

if TYPE_CHECKING:
    from random import Random

    from moldau.broker.coordinator.group.counts import GroupCounts
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
    from moldau.protocol.messages.sync_group import SyncGroupRequest
    from moldau.protocol.schemas.consumer_group_log import ClassicProtocol
    from moldau.protocol.schemas.group_log import GroupMetadataValue


PartitionCheck: TypeAlias = "Callable[[str, Uuid, int], None]"
"""From a topic's name, its id (ZERO_UUID where the request had none) and a partition: raises the
KafkaError that the commit gets which has this partition."""


class GroupKind(Enum):
    """By the name that ListGroups and its filter use."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Caller(NamedTuple):
    """Who asks."""

    client_id: str
    client_host: str
    """As Kafka shows and stores it, with the slash: `/127.0.0.1`."""
    api_version: int
    listener: str


class Downgrade(NamedTuple):
    """What a classic group is told of the consumer group that it was: its record does not say it,
    so whoever reads the log does not know."""

    rebalances: bool
    """Whether it begins with a rebalance; not if a classic member only took the place of the last
    one of the new protocol."""
    offers: Mapping[str, Sequence[ClassicProtocol]]
    """By member id the assignors that it supports; the record has the chosen one."""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as assignors see it."""

    name: str
    topic_id: Uuid
    racks: tuple[tuple[str, ...], ...]
    """For each partition the rack of each replica that has one; as long as there are partitions."""

    @property
    def partition_count(self) -> int:
        return len(self.racks)


class Cluster(Protocol):
    """The topics of the cluster, as of the last committed metadata."""

    @property
    def version(self) -> int:
        """The offset after the last metadata record in it."""
        ...

    def by_name(self, name: str) -> TopicFacts | None: ...

    def by_id(self, topic_id: Uuid) -> TopicFacts | None: ...

    def names(self) -> Iterable[str]:
        """All topics, internal ones too."""
        ...


class World(Protocol):
    """What a group may ask. One for all groups of a shard."""

    @property
    def settings(self) -> Settings:
        """The broker's, as of now."""
        ...

    @property
    def cluster(self) -> Cluster: ...

    @property
    def random(self) -> Random:
        """For member ids: `new_uuid(random)` of moldau.ids."""
        ...

    @property
    def log(self) -> Logger: ...

    @property
    def counts(self) -> GroupCounts:
        """The node's."""
        ...

    def group_settings(self, group_id: str) -> ResourceSettings:
        """What the group sets over what the broker does; see `settings.group.bounded`."""
        ...

    def wall_ms(self, now_ms: int) -> int:
        """The wall clock's time of a `now_ms`, for records."""
        ...

    def has_offsets(self, group_id: str) -> bool:
        """Whether the group has committed offsets, or pending ones."""
        ...


class Group(Protocol):
    """What every kind of group has."""

    group_id: str

    @property
    def kind(self) -> GroupKind: ...

    @property
    def protocol_type(self) -> str:
        """Of ListGroups: "" where there is none."""
        ...

    @property
    def state_name(self) -> str:
        """As ListGroups shows it: "Empty", "Stable", "PreparingRebalance", "Assigning" ..."""
        ...

    @property
    def is_empty(self) -> bool:
        """Nobody is in it."""
        ...

    # Members of the classic protocol. A consumer group serves them while it migrates, and refuses
    # them otherwise as Kafka does.

    def on_join_group(
        self, message: JoinGroupRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> Outcome: ...

    def on_sync_group(self, message: SyncGroupRequest, ticket: Ticket, now_ms: int) -> Outcome: ...

    def on_heartbeat(self, message: HeartbeatRequest, ticket: Ticket, now_ms: int) -> Outcome: ...

    def on_leave_group(
        self, message: LeaveGroupRequest, ticket: Ticket, now_ms: int
    ) -> Outcome: ...

    # Offsets.

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, api_version: int, *, is_txn: bool
    ) -> PartitionCheck | None:
        """KafkaError when that member (in that generation, or with that member epoch) may not
        commit. `api_version` is that of OffsetCommit (of TxnOffsetCommit with `is_txn`). What is
        returned judges each partition by itself; None: all may be committed."""
        ...

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """KafkaError when OffsetFetch 9+ comes from who is no member, or with an old epoch."""
        ...

    def on_commit(self, member_id: str, now_ms: int) -> None:
        """A commit that `check_commit` let through: in a classic group a sign of life."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members read that topic, as far as one can tell: its offsets stay."""
        ...

    def offset_age_since_ms(self, committed_ms: int, topic: str) -> int | None:
        """Wall time from which the retention of an offset counts that was committed then; None:
        it does not expire now. (`is_subscribed_to` is asked as well.)"""
        ...

    def check_offset_delete(self) -> None:
        """KafkaError when OffsetDelete may not be done now: NON_EMPTY_GROUP in a classic group with
        members that is not of type `consumer`. (`is_subscribed_to` is asked as well.)"""
        ...

    def check_delete(self) -> None:
        """KafkaError (NON_EMPTY_GROUP ...) when the group may not be deleted."""
        ...

    def tombstones(self) -> tuple[LogRecord, ...]:
        """What deletes all records of the group (but offsets): none where it has none."""
        ...

    # Life.

    def on_loaded(self, now_ms: int) -> Outcome:
        """Its records have been read, and nothing else made it: members begin a new session. Not
        called on a group that was made for a request."""
        ...

    def on_unloaded(self) -> tuple[Ticket, ...]:
        """The shard goes elsewhere; gives back all who are parked, who hear NOT_COORDINATOR."""
        ...

    def on_topics_changed(self, topics: Collection[str], now_ms: int) -> Outcome:
        """Topics of these names were created, deleted or got partitions."""
        ...

    @property
    def has_nearer_deadline(self) -> bool:
        """Whether `next_deadline_ms` may be earlier than when it was last asked. Signs of life move
        deadlines on, so after nearly all of them it need not be asked."""
        ...

    def next_deadline_ms(self) -> int | None:
        """When `on_tick` is due."""
        ...

    def on_tick(self, now_ms: int) -> Outcome:
        """What is overdue: sessions, joins, rebalances. Called until `next_deadline_ms` has passed
        `now_ms`, so one call need not do everything."""
        ...


class ClassicGroup(Group, Protocol):
    """G2: `group/classic`. `ClassicGroup(group_id, world)` makes an empty one in generation 0
    without a protocol type, which is also the "simple" group that only has offsets."""

    def replay_group_metadata(self, value: GroupMetadataValue, now_ms: int) -> None:
        """The group as of that record: while loading, or after our own append. What is volatile
        of members that stay is kept."""
        ...

    def on_downgraded(self, downgrade: Downgrade, now_ms: int) -> Outcome:
        """Instead of `on_loaded`, when one outcome's records deleted a consumer group of this id
        and made this group of its members."""
        ...

    def describe(self) -> DescribedClassic: ...


class ConsumerGroup(Group, Protocol):
    """G3: `group/consumer`. `ConsumerGroup(group_id, world)` makes an empty one in epoch 0."""

    def on_consumer_group_heartbeat(
        self, message: ConsumerGroupHeartbeatRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> Outcome: ...

    def on_upgrade(
        self,
        classic: ClassicGroup,
        message: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        ticket: Ticket,
        now_ms: int,
    ) -> Outcome:
        """The first heartbeat that comes to a classic group. Called on a new and empty consumer
        group, which takes its place if the outcome's records begin with the tombstone of
        GroupMetadata. What waits in the classic group is answered by this outcome."""
        ...

    def describe(self) -> DescribedConsumer: ...

    @property
    def downgrade(self) -> Downgrade:
        """For the classic group that its last records make."""
        ...

    def replay(self, key: LogKey, value: LogValue | None) -> None:
        """One of its records, which the key's class tells; a tombstone without a value. The table
        drops the group after that of ConsumerGroupMetadata."""
        ...


class GroupMakers(Protocol):
    """Makes empty groups; the door for kinds to come."""

    def classic(self, group_id: str, world: World) -> ClassicGroup: ...

    def consumer(self, group_id: str, world: World) -> ConsumerGroup: ...
