"""Find the member that joins: a new one, a known one, or a static one that comes back.

`group.members` has the rules about members that all kinds of groups share.
"""

from __future__ import annotations

from dataclasses import replace

from moldau.broker.coordinator.group.consumer.member import Member
from moldau.broker.coordinator.group.consumer.records import (
    member_deleted,
    member_profile,
    member_progress,
    target_of_member,
)
from moldau.broker.coordinator.group.consumer.state import ConsumerGroupState
from moldau.broker.coordinator.group.members import check_released
from moldau.broker.coordinator.outcome import LogRecord


def dynamic_member(state: ConsumerGroupState, member_id: str, *, joins: bool) -> Member:
    """Return the member of this id. An unknown id that joins becomes a new member."""
    if joins and member_id not in state.members:
        return Member(member_id)
    return state.member(member_id)


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
    if neither_classic:
        check_released(before, instance_id)
    progress = replace(before.progress, epoch=0, previous_epoch=0)
    member = Member(member_id, before.profile, progress)
    target = state.target_of(before)
    if before.member_id != member_id:
        records += member_deleted(state.group_id, before.member_id)
    records.append(member_profile(state.group_id, member_id, member.profile))
    records.append(target_of_member(state.group_id, member_id, target))
    records.append(member_progress(state.group_id, member_id, progress))
    return member
