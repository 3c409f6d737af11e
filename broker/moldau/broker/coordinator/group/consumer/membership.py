"""Which member a request is from, and whether that member may speak.

A member proves itself by its epoch. The epoch before the last one is good as well, if the member
owns nothing but what it was given: the answer with the new epoch may have been lost on the way. Any
other epoch means that the member was away for too long: it must give up everything and join again.
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
from moldau.broker.coordinator.group.consumer.state import State
from moldau.broker.coordinator.outcome import LogRecord
from moldau.broker.settings.coordinator import group_consumer_max_size
from moldau.errors.codes import ErrorCode, KafkaError


def check_room(state: State, member_id: str) -> None:
    """GROUP_MAX_SIZE_REACHED for who would be one too many."""
    if member_id in state.members:
        return
    if len(state.members) >= state.world.settings[group_consumer_max_size]:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED, "the group is full", members=len(state.members)
        )


def dynamic_member(state: State, member_id: str, *, joins: bool) -> Member:
    """The member of that id; who joins and is unknown is a new one."""
    if joins and member_id not in state.members:
        return Member(member_id)
    return state.member(member_id)


def known_static_member(state: State, member_id: str, instance_id: str) -> Member:
    """Who has that instance id, if it is who asks."""
    member = state.static_member(instance_id)
    if member is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID, "nobody has that InstanceId", instance=instance_id
        )
    check_instance(member, member_id)
    return member


def check_instance(member: Member, member_id: str) -> None:
    """FENCED_INSTANCE_ID when another member took the instance id over."""
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            "another member has taken over the InstanceId",
            instance=member.profile.instance_id,
            member=member_id,
        )


def joining_static_member(
    state: State, member_id: str, instance_id: str, records: list[LogRecord], *, by_classic: bool
) -> Member:
    """A new member, or the one that had the instance id, under its new id.

    A member of the new protocol must have left (epoch -2) before another takes its place; whoever
    still sends heartbeats cannot be thrown out by a misconfigured twin. Where either is classic,
    the newcomer wins, as in classic groups."""
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
    """FENCED_MEMBER_EPOCH unless the epoch is the member's, or the one before and nothing else
    speaks against it. Epoch 0 is always good: it joins, also again."""
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
