"""The three steps of every request of a member that stays:

1. Record its profile.
2. Renew the target assignment if the group epoch has grown.
3. Take the member one step towards its target.

The heartbeat of the new protocol and the classic JoinGroup name the member differently and have
different responses. The change of the group in between is the same, and this module does it, in the
order in which Kafka writes records.
"""

from __future__ import annotations

from dataclasses import replace

from moldau.broker.coordinator.group.consumer.deadlines import Due
from moldau.broker.coordinator.group.consumer.member import Member
from moldau.broker.coordinator.group.consumer.member_state import MemberState
from moldau.broker.coordinator.group.consumer.partitions import Partitions
from moldau.broker.coordinator.group.consumer.reconciliation import Target, next_step
from moldau.broker.coordinator.group.consumer.records import member_progress
from moldau.broker.coordinator.group.consumer.state import ConsumerGroupState
from moldau.broker.coordinator.group.consumer.subscription import (
    Change,
    MemberRequest,
    apply_profile,
    renewed_epoch,
)
from moldau.broker.coordinator.group.consumer.target import SubscribedTopicIds, renewed_target
from moldau.broker.coordinator.outcome import LogRecord
from moldau.ids import Uuid


def advance(
    state: ConsumerGroupState,
    before: Member,
    after: Member,
    reported: Partitions | None,
    request: MemberRequest,
    records: list[LogRecord],
) -> Member:
    """Do the three steps and return the member after the request. `before` is the member in the
    group's counts, `after` has the new profile; `reported` holds the partitions that the member
    reports as owned."""
    if after is before and _is_at_rest(state, after):
        return after
    change = apply_profile(state, before, after, request, records)
    if after.speaks_classic:
        change = Change(change.has_changed, change.has_changed)
    epoch = renewed_epoch(state, before, after, records, must_bump=change.bumps_epoch)
    to = renewed_target(state, before, after, epoch, request.now_ms, records)
    subscribed = SubscribedTopicIds(state, after.profile)
    target = Target(to.epoch, to.partitions, subscribed, state.is_free, change.has_changed)
    return _reconcile(state, after, target, reported, request.now_ms, records)


def _is_at_rest(state: ConsumerGroupState, member: Member) -> bool:
    """Whether none of the three steps has anything to do, as in nearly all heartbeats."""
    return (
        member.progress.is_reconciled_to(state.target_epoch)
        and state.target_epoch >= state.epoch
        and not state.regexes
        and not state.has_metadata_expired()
    )


def _reconcile(
    state: ConsumerGroupState,
    member: Member,
    target: Target[Uuid],
    reported: Partitions | None,
    now_ms: int,
    records: list[LogRecord],
) -> Member:
    """Take the member one step towards its target, and record the step if there is one."""
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
