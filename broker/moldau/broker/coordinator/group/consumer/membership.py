"""Find the member that sent a request, and check that its request is valid.

A member proves its identity by its epoch. Its previous epoch is valid as well, if the member owns
only partitions that are assigned to it: the response with the new epoch may have been lost. Any
other epoch means that the member was away too long: it must give up all partitions and join again.
"""

from __future__ import annotations

from dataclasses import replace

from moldau.broker.coordinator.group.consumer.member import Member
from moldau.broker.coordinator.group.consumer.partitions import Partitions, is_within
from moldau.broker.coordinator.group.consumer.reconciliation import STATIC_LEAVING_EPOCH
from moldau.broker.coordinator.group.consumer.records import (
    member_deleted,
    member_profile,
    member_progress,
    target_of_member,
)
from moldau.broker.coordinator.group.consumer.state import ConsumerGroupState
from moldau.broker.coordinator.outcome import LogRecord
from moldau.broker.settings.coordinator import group_consumer_max_size
from moldau.errors.codes import ErrorCode, KafkaError


def check_room(state: ConsumerGroupState, member_id: str) -> None:
    """Raise GROUP_MAX_SIZE_REACHED for a new member if the group is full."""
    if member_id in state.members:
        return
    if len(state.members) >= state.services.settings[group_consumer_max_size]:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED, "the group is full", members=len(state.members)
        )


def dynamic_member(state: ConsumerGroupState, member_id: str, *, joins: bool) -> Member:
    """Return the member of this id. An unknown id that joins becomes a new member."""
    if joins and member_id not in state.members:
        return Member(member_id)
    return state.member(member_id)


def known_static_member(state: ConsumerGroupState, member_id: str, instance_id: str) -> Member:
    """Return the member with this instance id. Raise KafkaError if it is unknown or has another
    member id."""
    member = state.static_member(instance_id)
    if member is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID, "no member has that InstanceId", instance=instance_id
        )
    check_instance(member, member_id)
    return member


def check_instance(member: Member, member_id: str) -> None:
    """Raise FENCED_INSTANCE_ID if another member has taken over the instance id."""
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            "another member has taken over the InstanceId",
            instance=member.profile.instance_id,
            member=member_id,
        )


def joining_static_member(
    state: ConsumerGroupState,
    member_id: str,
    instance_id: str,
    records: list[LogRecord],
    *,
    by_classic: bool,
) -> Member:
    """Return a new member, or the static member of this instance id with its new member id.

    A member of the new protocol must have left (epoch -2) before another takes its place: a
    misconfigured second client must not replace a member that still sends heartbeats. If either of
    the two is classic, the new one replaces the old one, as in classic groups.
    """
    before = state.static_member(instance_id)
    if before is None:
        return dynamic_member(state, member_id, joins=True)
    neither_classic = not by_classic and not before.speaks_classic
    if neither_classic and before.epoch != STATIC_LEAVING_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            "a member with that InstanceId is in the group",
            instance=instance_id,
            member=before.member_id,
        )
    progress = replace(before.progress, epoch=0, previous_epoch=0)
    member = Member(member_id, before.profile, progress)
    target = state.target_of(before)
    if before.member_id != member_id:
        records += member_deleted(state.group_id, before.member_id)
    records.append(member_profile(state.group_id, member_id, member.profile))
    records.append(target_of_member(state.group_id, member_id, target))
    records.append(member_progress(state.group_id, member_id, progress))
    return member


def check_epoch(member: Member, epoch: int, owned: Partitions | None) -> None:
    """Raise FENCED_MEMBER_EPOCH unless the epoch is valid: it is the member's, or its previous one
    if the response with the new epoch may have been lost. Epoch 0 is always valid: the member
    joins, perhaps again."""
    known = member.progress
    if epoch in (0, known.epoch):
        return
    answer_was_lost = (
        epoch == known.previous_epoch and epoch < known.epoch and owned is not None
    ) and is_within(owned, known.assigned)
    if not answer_was_lost:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "that is not the member's epoch: it must give up all partitions and join again",
            member_epoch=epoch,
            known=known.epoch,
        )
