"""The state of one consumer group: the fold of its records, and what follows from them.

Invariants:
- Only `replay_...` changes durable state. The same records give the same state, live or read from
  the log. Nothing in a record can make replay fail: a compacted log shows states that never
  existed, but only for a while.
- A partition has one owner (`owners`): the member that owns it or has yet to revoke it. If a
  compacted log shows two, the later record counts.
- No member epoch and no target epoch is above the group epoch.

The indices (subscriptions by topic, owners, static members, ...) are updated with each change. So
only a request that computes a new target assignment walks over all members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import field, replace
from enum import Enum
from typing import Final

from moldau.broker.coordinator.group.consumer.deadlines import Deadlines
from moldau.broker.coordinator.group.consumer.member import Member, Profile
from moldau.broker.coordinator.group.consumer.member_state import MemberState
from moldau.broker.coordinator.group.consumer.metadata_hash import MetadataHashes
from moldau.broker.coordinator.group.consumer.partitions import (
    NO_PARTITIONS,
    Owned,
    Partitions,
    owned_of,
    partitions_of,
)
from moldau.broker.coordinator.group.consumer.reconciliation import LEAVING_EPOCH, Progress
from moldau.broker.coordinator.group.consumer.regex import RegexSearch, ResolvedRegex
from moldau.broker.coordinator.group.contract import Downgrade, GroupServices
from moldau.broker.coordinator.group.members import member_of
from moldau.broker.settings import ResourceSettings
from moldau.deferred import dataclass
from moldau.ids import Uuid
from moldau.protocol.schemas.consumer_group_log import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)

FIRST_EPOCH: Final = 1
"""The epoch of a group without records, and of its empty target. Its first member makes it 2."""

NO_TARGET_EPOCH: Final = -1
"""The epoch of a target assignment that was deleted."""

_UNKNOWN_DOWNGRADE: Final = Downgrade(rebalances=True, offers={})
"""Used for a group whose records became those of a classic group. The previous coordinator may not
have finished the rebalance."""


class GroupState(Enum):
    """The states of a group, with the names that ListGroups and ConsumerGroupDescribe show."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"  # the target's epoch is older than the group's
    RECONCILING = "Reconciling"  # a member has not reached its target
    STABLE = "Stable"


@dataclass(slots=True)
class Volatile:
    """State that is not in the log. The next coordinator of the group begins with new state."""

    deadlines: Deadlines = field(default_factory=Deadlines)
    hashes: MetadataHashes = field(default_factory=MetadataHashes)

    checked_epoch: int | None = None
    """The group epoch in which its topics were last compared with the metadata. None means that
    they must be compared. A value above the current epoch does not count: that epoch was never
    reached."""

    topics_version: int = 0
    """The version of the metadata in which topics last appeared or disappeared."""

    downgrade: Downgrade = _UNKNOWN_DOWNGRADE
    """Information for the classic group that replaces this one."""

    search: RegexSearch | None = None
    search_due_ms: int = 0

    terms: tuple[ResourceSettings, int, int] | None = None
    """The settings of the group, with the session timeout and heartbeat interval from them."""


@dataclass(slots=True)
class ConsumerGroupState:
    """The durable and volatile state of one group."""

    group_id: str
    services: GroupServices
    volatile: Volatile = field(default_factory=Volatile)

    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    target_epoch: int = FIRST_EPOCH
    target_timestamp_ms: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    target: dict[str, Partitions] = field(default_factory=dict)
    resolved: dict[str, ResolvedRegex] = field(default_factory=dict)
    has_partition_metadata: bool = False
    """Whether record 4 of Kafka before 4.1 is in the log. It is deleted with the next change."""

    # Derived from the members.
    static: dict[str, str] = field(default_factory=dict)
    owners: dict[Uuid, dict[int, str]] = field(default_factory=dict)
    names: Counter[str] = field(default_factory=Counter)
    regexes: Counter[str] = field(default_factory=Counter)
    assignors: Counter[str] = field(default_factory=Counter)
    classic_protocols: Counter[str] = field(default_factory=Counter)
    classic_count: int = 0

    # Questions

    def member(self, member_id: str) -> Member:
        """Return the member with this id. Raise UNKNOWN_MEMBER_ID if there is none."""
        return member_of(self.members, self.group_id, member_id)

    def static_member(self, instance_id: str | None) -> Member | None:
        """Return the member that has this instance id now, or None."""
        if instance_id is None:
            return None
        member_id = self.static.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def is_free(self, topic_id: Uuid, partition: int) -> bool:
        """Whether no member owns the partition or has yet to revoke it."""
        return partition not in self.owners.get(topic_id, ())

    def target_of(self, member: Member) -> Partitions:
        """Return the target assignment of the member. A static member that came back has the target
        of its previous member id."""
        previous = self.static.get(member.profile.instance_id or "", member.member_id)
        return self.target.get(previous, NO_PARTITIONS)

    @property
    def name(self) -> GroupState:
        """The group's state."""
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.target_epoch:
            return GroupState.ASSIGNING
        reached = all(
            member.progress.is_reconciled_to(self.target_epoch) for member in self.members.values()
        )
        return GroupState.STABLE if reached else GroupState.RECONCILING

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether any member subscribes to the topic, by name or by a regular expression."""
        return topic in self.names or any(topic in each.topics for each in self.resolved.values())

    def topic_names(self, gone: Iterable[Member] = (), come: Member | None = None) -> set[str]:
        """Return the topics that the group subscribes to, as if the members `gone` had left and
        `come` had joined."""
        names, regexes = self.names, self.regexes
        if gone or come is not None:
            names, regexes = names.copy(), regexes.copy()
            for member in gone:
                _count_subscription(member.profile, names, regexes, -1)
            if come is not None:
                _count_subscription(come.profile, names, regexes, 1)
        wanted = {name for name, wishes in names.items() if wishes > 0}
        for regex, resolved in self.resolved.items():
            if regexes[regex] > 0:
                wanted |= resolved.topics
        return wanted

    def has_metadata_expired(self) -> bool:
        """Whether the group's topics must be compared with the metadata."""
        checked = self.volatile.checked_epoch
        return checked is None or self.epoch < checked

    # Records

    def replay_metadata(self, value: ConsumerGroupMetadataValue | None) -> None:
        """Apply record 3. For a tombstone, the table drops the group."""
        if value is not None:
            self.epoch = value.epoch
            self.metadata_hash = value.metadata_hash

    def replay_partition_metadata(self, value: ConsumerGroupPartitionMetadataValue | None) -> None:
        """Apply record 4, of Kafka before 4.1."""
        self.has_partition_metadata = value is not None

    def replay_member_metadata(
        self, member_id: str, value: ConsumerGroupMemberMetadataValue | None
    ) -> None:
        """Apply record 5: a member's metadata."""
        if value is None:
            self._remove(member_id)
            return
        profile = Profile(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
            topic_regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )
        self._put(replace(self._member_or_new(member_id), profile=profile))

    def replay_target_assignment_metadata(
        self, value: ConsumerGroupTargetAssignmentMetadataValue | None
    ) -> None:
        """Apply record 6: the epoch of the target assignment."""
        self.target_epoch = NO_TARGET_EPOCH if value is None else value.assignment_epoch
        self.target_timestamp_ms = 0 if value is None else value.assignment_timestamp

    def replay_target_assignment_member(
        self, member_id: str, value: ConsumerGroupTargetAssignmentMemberValue | None
    ) -> None:
        """Apply record 7: the target assignment of a member."""
        if value is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = partitions_of(value.topic_partitions)

    def replay_current_member_assignment(
        self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> None:
        """Apply record 8: a member's current assignment."""
        if value is not None:
            progress = Progress(
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                state=MemberState.of_number(value.state),
                assigned=owned_of(value.assigned_partitions, value.member_epoch),
                revoking=owned_of(value.partitions_pending_revocation, value.member_epoch),
            )
            self._put(replace(self._member_or_new(member_id), progress=progress))
        elif member_id in self.members:
            gone: Progress[Uuid] = Progress(epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH)
            self._put(replace(self.members[member_id], progress=gone))

    def replay_regular_expression(
        self, regex: str, value: ConsumerGroupRegularExpressionValue | None
    ) -> None:
        """Apply record 16: a resolved regular expression."""
        if value is None:
            self.resolved.pop(regex, None)
        else:
            topics = frozenset(value.topics)
            self.resolved[regex] = ResolvedRegex(topics, value.version, value.timestamp)

    # Indices

    def _member_or_new(self, member_id: str) -> Member:
        return self.members.get(member_id) or Member(member_id)

    def _put(self, member: Member) -> None:
        before = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if before is None or before.profile is not member.profile:
            if before is not None:
                self._count(before.profile, -1)
            self._count(member.profile, 1)
            if member.profile.instance_id is not None:
                self.static[member.profile.instance_id] = member.member_id
        if before is None or before.progress is not member.progress:
            if before is not None:
                self._disown(before)
            for topic_id, partitions in _all_owned(member.progress):
                of_topic = self.owners.setdefault(topic_id, {})
                of_topic.update(dict.fromkeys(partitions, member.member_id))

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self.volatile.deadlines.forget(member_id)
        self._count(member.profile, -1)
        self._disown(member)
        instance_id = member.profile.instance_id
        if instance_id is not None and self.static.get(instance_id) == member_id:
            del self.static[instance_id]

    def _disown(self, member: Member) -> None:
        for topic_id, partitions in _all_owned(member.progress):
            of_topic = self.owners.get(topic_id)
            if of_topic is None:
                continue
            for partition in partitions:
                if of_topic.get(partition) == member.member_id:
                    del of_topic[partition]
            if not of_topic:
                del self.owners[topic_id]

    def _count(self, profile: Profile, by: int) -> None:
        _count_subscription(profile, self.names, self.regexes, by)
        if profile.server_assignor is not None:
            add(self.assignors, (profile.server_assignor,), by)
        if profile.classic is not None:
            self.classic_count += by
            names = [protocol.name for protocol in profile.classic.supported_protocols]
            add(self.classic_protocols, names, by)


def add(counts: Counter[str], keys: Collection[str], by: int) -> None:
    """Add `by` to the count of each key. A key whose count falls to 0 is removed."""
    for key in keys:
        number = counts[key] + by
        if number > 0:
            counts[key] = number
        else:
            del counts[key]


def _count_subscription(
    profile: Profile, names: Counter[str], regexes: Counter[str], by: int
) -> None:
    add(names, profile.topic_names, by)
    if profile.topic_regex:
        add(regexes, (profile.topic_regex,), by)


def _all_owned(progress: Progress[Uuid]) -> Iterator[tuple[Uuid, Iterable[int]]]:
    owned: Owned
    for owned in (progress.assigned, progress.revoking):
        yield from owned.items()
