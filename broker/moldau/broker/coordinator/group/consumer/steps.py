"""The three steps of every request of a member that stays: record what it wants, renew the target
if the group moved on, and take the member one step towards it.

The new protocol's heartbeat and the classic JoinGroup differ in how they name the member and in how
they answer; what happens to the group between is this, in the order in which Kafka writes records.
"""

from __future__ import annotations

from dataclasses import replace

from moldau.broker.coordinator.group.consumer.deadlines import Due
from moldau.broker.coordinator.group.consumer.member import Member
from moldau.broker.coordinator.group.consumer.member_state import MemberState
from moldau.broker.coordinator.group.consumer.partitions import Partitions
from moldau.broker.coordinator.group.consumer.reconciliation import Target, next_step
from moldau.broker.coordinator.group.consumer.records import member_progress
from moldau.broker.coordinator.group.consumer.state import State
from moldau.broker.coordinator.group.consumer.subscription import (
    Change,
    apply_profile,
    renewed_epoch,
)
from moldau.broker.coordinator.group.consumer.target import Subscribed, renewed_target
from moldau.broker.coordinator.outcome import LogRecord


def advance(
    state: State,
    before: Member,
    after: Member,
    reported: Partitions | None,
    now_ms: int,
    records: list[LogRecord],
) -> Member:
    """The member as it is after the request. `before` is as the group counts it, `after` has the
    new profile; `reported` is what it says it owns."""
    if after is before and _is_at_rest(state, after):
        return after
    change = apply_profile(state, before, after, now_ms, records)
    if after.speaks_classic:
        change = Change(change.has_changed, change.has_changed)
    epoch = renewed_epoch(state, before, after, records, must_bump=change.bumps_epoch)
    to = renewed_target(state, before, after, epoch, now_ms, records)
    subscribed = Subscribed(state, after.profile)
    target = Target(to.epoch, to.partitions, subscribed, state.is_free, change.has_changed)
    return _reconcile(state, after, target, reported, now_ms, records)


def _is_at_rest(state: State, member: Member) -> bool:
    """Whether none of the three steps has anything to do, as with nearly all heartbeats."""
    return (
        member.progress.is_reconciled_to(state.target_epoch)
        and state.target_epoch >= state.epoch
        and not state.regexes
        and not state.has_metadata_expired()
    )


def _reconcile(
    state: State,
    member: Member,
    target: Target,
    reported: Partitions | None,
    now_ms: int,
    records: list[LogRecord],
) -> Member:
    """One step of the member towards its target, recorded if it is one."""
    if not target.has_subscription_changed and member.progress.is_reconciled_to(target.epoch):
        return member
    progress = next_step(member.progress, target, reported)
    if progress == member.progress:
        return member
    records.append(member_progress(state.group_id, member.member_id, progress))
    deadlines = state.volatile.deadlines
    if not member.speaks_classic:
        # A classic member has deadlines for its join and its sync instead.
        if progress.state is MemberState.UNREVOKED_PARTITIONS:
            at_ms = now_ms + member.profile.rebalance_timeout_ms
            deadlines.set(Due.REBALANCE, member.member_id, at_ms)
        else:
            deadlines.cancel(Due.REBALANCE, member.member_id)
    return replace(member, progress=progress)
