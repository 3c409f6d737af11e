"""The state of one share group: the fold of its records.

Invariant: only `replay` changes durable state. Nothing in a record can make it fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import field, replace
from typing import Any, Final, cast

from moldau.broker.coordinator.group.consumer.deadlines import Deadlines
from moldau.broker.coordinator.group.consumer.metadata_hash import MetadataHashes
from moldau.broker.coordinator.group.consumer.partitions import (
    NO_PARTITIONS,
    Partitions,
    partitions_of,
)
from moldau.broker.coordinator.group.contract import GroupServices
from moldau.broker.coordinator.group.members import member_of
from moldau.broker.coordinator.group.share.member import Member, Profile
from moldau.deferred import dataclass
from moldau.ids import Uuid
from moldau.protocol.declare import LogKey, LogValue
from moldau.protocol.schemas import share_group_log as log

FIRST_EPOCH: Final = 1
"""The epoch of a group without records, and of its empty target. Its first member makes it 2."""
NO_TARGET_EPOCH: Final = -1


@dataclass(slots=True)
class Volatile:
    """State that is not in the log. The next coordinator of the group begins with new state."""

    deadlines: Deadlines = field(default_factory=Deadlines)
    hashes: MetadataHashes = field(default_factory=MetadataHashes)
    is_checked: bool = False
    """Whether the group's topics were compared with the metadata since it last changed."""
    asked_ms: dict[Uuid, int] = field(default_factory=dict)
    """When the states of a topic's partitions were last asked for."""


@dataclass(slots=True)
class ShareGroupState:
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
    initializing: Partitions = field(default_factory=lambda: NO_PARTITIONS)
    initialized: Partitions = field(default_factory=lambda: NO_PARTITIONS)
    deleting: frozenset[Uuid] = frozenset()
    topic_names: dict[Uuid, str] = field(default_factory=dict)
    """The names that the topics of these three had."""
    names: Counter[str] = field(default_factory=Counter)
    """How many members subscribe to each topic."""

    def member(self, member_id: str) -> Member:
        """Return the member with this id. Raise UNKNOWN_MEMBER_ID if there is none."""
        return member_of(self.members, self.group_id, member_id)

    def subscribed(self, gone: Iterable[Member] = (), come: Member | None = None) -> frozenset[str]:
        """Return the topics of all members, as if `gone` had left and `come` had joined."""
        left = {each.member_id for each in gone}
        found: set[str] = set()
        for member_id, member in self.members.items():
            if member_id not in left and (come is None or member_id != come.member_id):
                found |= member.profile.topic_names
        if come is not None:
            found |= come.profile.topic_names
        return frozenset(found)

    # Records.

    def replay(self, key: LogKey, value: LogValue | None) -> None:
        """Apply one record."""
        given = cast("Any", value)
        match key:
            case log.ShareGroupMetadataKey():
                if given is not None:
                    self.epoch, self.metadata_hash = given.epoch, given.metadata_hash
            case log.ShareGroupMemberMetadataKey():
                self._replay_profile(key.member_id, given)
            case log.ShareGroupTargetAssignmentMetadataKey():
                self.target_epoch = NO_TARGET_EPOCH if given is None else given.assignment_epoch
                self.target_timestamp_ms = 0 if given is None else given.assignment_timestamp
            case log.ShareGroupTargetAssignmentMemberKey():
                if given is None:
                    self.target.pop(key.member_id, None)
                else:
                    self.target[key.member_id] = partitions_of(given.topic_partitions)
            case log.ShareGroupCurrentMemberAssignmentKey():
                self._replay_assignment(key.member_id, given)
            case log.ShareGroupStatePartitionMetadataKey():
                self._replay_state_partitions(given)
            case other:
                raise AssertionError(f"{type(other).__name__} is no record of a share group")

    def _replay_profile(
        self, member_id: str, value: log.ShareGroupMemberMetadataValue | None
    ) -> None:
        before = self.members.get(member_id)
        if before is not None:
            self.names.subtract(before.profile.topic_names)
        if value is None:
            self.members.pop(member_id, None)
            self.volatile.deadlines.forget(member_id)
        else:
            names = frozenset(value.subscribed_topic_names)
            profile = Profile(value.rack_id, value.client_id, value.client_host, names)
            known = before or Member(member_id)
            self.members[member_id] = replace(known, profile=profile)
            self.names.update(names)
        self.names = +self.names

    def _replay_assignment(
        self, member_id: str, value: log.ShareGroupCurrentMemberAssignmentValue | None
    ) -> None:
        known = self.members.get(member_id)
        if value is not None:
            self.members[member_id] = replace(
                known or Member(member_id),
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                assigned=partitions_of(value.assigned_partitions),
            )
        elif known is not None:
            self.members[member_id] = replace(known, assigned=NO_PARTITIONS)

    def _replay_state_partitions(
        self, value: log.ShareGroupStatePartitionMetadataValue | None
    ) -> None:
        if value is None:
            self.initializing = self.initialized = NO_PARTITIONS
            self.deleting, self.topic_names = frozenset(), {}
            return
        self.initializing = partitions_of(value.initializing_topics)
        self.initialized = partitions_of(value.initialized_topics)
        self.deleting = frozenset(each.topic_id for each in value.deleting_topics)
        infos = (*value.initializing_topics, *value.initialized_topics)
        self.topic_names = {each.topic_id: each.topic_name for each in infos}
        self.topic_names.update((each.topic_id, each.topic_name) for each in value.deleting_topics)
