"""Convert a classic group to a consumer group, when the first member of the new protocol joins.

The classic members keep their partitions: their last assignment is both what they own and their
target, and the epoch is the generation. They continue with JoinGroup and SyncGroup, each until it
is restarted with the new protocol. The broker assigns partitions to all of them.

Only a group of consumers can be converted, and only if its assignor stores no user data with the
members (it would be lost).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol, cast

from moldau.broker.coordinator.group.classic.records import tombstone
from moldau.broker.coordinator.group.consumer.embedded_protocol import (
    PROTOCOL_TYPE,
    assignment_of,
    subscription_of,
)
from moldau.broker.coordinator.group.consumer.member import Member, Profile
from moldau.broker.coordinator.group.consumer.partitions import Partitions, in_epoch
from moldau.broker.coordinator.group.consumer.reconciliation import Progress
from moldau.broker.coordinator.group.consumer.records import (
    group_epoch,
    member_profile,
    member_progress,
    target_epoch,
    target_of_member,
)
from moldau.broker.coordinator.group.consumer.state import FIRST_EPOCH, ConsumerGroupState
from moldau.broker.coordinator.group.contract import ClassicGroup, GroupServices
from moldau.broker.coordinator.outcome import Answer, LogRecord
from moldau.broker.settings.coordinator import (
    group_consumer_max_size,
    group_consumer_migration_policy,
)
from moldau.errors import MalformedMessage
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.schemas.consumer_group_log import ClassicMemberMetadata, ClassicProtocol

_ALLOWING: Final = ("UPGRADE", "BIDIRECTIONAL")


class _Offer(Protocol):
    """An assignor that a classic member supports."""

    @property
    def name(self) -> str: ...
    @property
    def metadata(self) -> bytes: ...


class _Member(Protocol):
    """The fields of a classic member that are read here."""

    @property
    def member_id(self) -> str: ...
    @property
    def instance_id(self) -> str | None: ...
    @property
    def client_id(self) -> str: ...
    @property
    def client_host(self) -> str: ...
    @property
    def rebalance_timeout_ms(self) -> int: ...
    @property
    def session_timeout_ms(self) -> int: ...
    @property
    def protocols(self) -> Sequence[_Offer]: ...
    @property
    def assignment(self) -> bytes: ...


class _Classic(Protocol):
    """The parts of a classic group that are used here."""

    @property
    def protocol_name(self) -> str | None: ...
    @property
    def generation_id(self) -> int: ...
    @property
    def members(self) -> Mapping[str, _Member]: ...
    def on_upgraded(self) -> tuple[Answer, ...]: ...


def check_upgrade(group: ClassicGroup, services: GroupServices) -> None:
    """Raise GROUP_ID_NOT_FOUND if the group cannot be converted."""
    classic = cast(_Classic, group)
    if services.settings[group_consumer_migration_policy].upper() not in _ALLOWING:
        raise _refused(group, "group.consumer.migration.policy does not allow it")
    if group.protocol_type != PROTOCOL_TYPE:
        raise _refused(group, "its members are no consumers")
    if len(classic.members) > services.settings[group_consumer_max_size]:
        raise _refused(group, "it has more members than group.consumer.max.size")


def upgrade_records(group: ClassicGroup, services: GroupServices) -> tuple[LogRecord, ...]:
    """Return the records that convert the group. Raise GROUP_ID_NOT_FOUND if the bytes of its
    members cannot be read."""
    classic = cast(_Classic, group)
    # A group whose first join still waits is in generation 0, but member epoch 0 means that a
    # member joins.
    group_id, generation = group.group_id, max(classic.generation_id, FIRST_EPOCH)
    try:
        members = [
            _converted(each, classic.protocol_name, generation, services)
            for _, each in sorted(classic.members.items())
        ]
    except MalformedMessage as malformed:
        raise _refused(group, "a member's bytes are malformed") from malformed
    except _HasUserData:
        raise _refused(group, "its assignor keeps data of its own with the members") from None
    scratch = ConsumerGroupState(group_id, services)
    names = {name for member, _ in members for name in member.profile.topic_names}
    metadata_hash = scratch.volatile.hashes.of(names, services.cluster)
    return (
        tombstone(group_id),
        *(member_profile(group_id, each.member_id, each.profile) for each, _ in members),
        group_epoch(group_id, generation, metadata_hash),
        *(target_of_member(group_id, each.member_id, target) for each, target in members),
        target_epoch(group_id, generation, 0),
        *(member_progress(group_id, each.member_id, each.progress) for each, _ in members),
    )


def answers_of_waiting(group: ClassicGroup) -> tuple[Answer, ...]:
    """Return the answers for the waiting joins and syncs of the classic group: join again."""
    return cast(_Classic, group).on_upgraded()


class _HasUserData(Exception):
    """The assignment carries data that only its assignor understands."""


def _converted(
    member: _Member, protocol: str | None, generation: int, services: GroupServices
) -> tuple[Member, Partitions]:
    subscription = subscription_of(_metadata(member.protocols, protocol))
    target, has_user_data = assignment_of(member.assignment, services.cluster)
    if has_user_data:
        raise _HasUserData
    offers = [ClassicProtocol(name=each.name, metadata=each.metadata) for each in member.protocols]
    profile = Profile(
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms, supported_protocols=offers
        ),
    )
    progress = Progress(
        epoch=generation, previous_epoch=generation, assigned=in_epoch(target, generation)
    )
    return Member(member.member_id, profile, progress), target


def _metadata(offers: Iterable[_Offer], protocol: str | None) -> bytes:
    """Return the metadata for the generation's assignor; before the first generation, for the
    member's first assignor."""
    offers = list(offers)
    for each in offers:
        if each.name == protocol:
            return each.metadata
    if not offers:
        raise MalformedMessage("a member without a protocol")
    return offers[0].metadata


def _refused(group: ClassicGroup, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"the group is a classic one and cannot become a consumer group: {why}",
        group=group.group_id,
    )
