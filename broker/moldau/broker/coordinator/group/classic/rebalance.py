"""A rebalance, from the first change to the next generation.

Every change of the members or their subscriptions ends here. `rebalance` starts the join phase
(PreparingRebalance). The phase ends when all members have joined or the time is up. The first
rebalance of an empty group is different, because its members come one by one (a deployment). It
waits for `group.initial.rebalance.delay.ms`, and again as long as new members come, but no longer
than the rebalance timeout.

Dynamic members that did not join are removed. Static members stay, because they are expected back,
until their session or the sync phase ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.broker.coordinator.group.classic import answers
from moldau.broker.coordinator.group.classic.membership import InitialDelay, Membership, Timer
from moldau.broker.coordinator.group.classic.records import group_metadata
from moldau.broker.coordinator.group.classic.states import TRANSITIONS, ClassicGroupState
from moldau.broker.settings import coordinator
from moldau.errors.codes import ErrorCode

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.classic.step import GroupEvent


def rebalance_or_go_on(group: Membership, step: GroupEvent, reason: str) -> None:
    """React to a change: begin a rebalance, or end the join phase if all members have joined."""
    if ClassicGroupState.PREPARING_REBALANCE in TRANSITIONS[group.state]:
        rebalance(group, step, reason)
    else:
        end_joins_if_all_are_there(group, step)


def rebalance(group: Membership, step: GroupEvent, reason: str) -> None:
    """Begin a rebalance: all members must join again."""
    if group.state is ClassicGroupState.COMPLETING_REBALANCE:
        for member in group.members.values():
            member.assignment = b""
        refuse_syncs(group, step, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_syncs.clear()
    group.deadlines.cancel(Timer.SYNC)
    is_first = group.state is ClassicGroupState.EMPTY
    group.enter(ClassicGroupState.PREPARING_REBALANCE, step.wall_ms)
    step.services.log.info(
        "rebalances", group=group.group_id, generation=group.generation_id, reason=reason
    )
    if is_first:
        _delay_the_first(group, step)
    elif group.have_all_joined:
        end_joins(group, step)
    else:
        group.deadlines.set(Timer.JOIN, step.now_ms + group.rebalance_timeout_ms)


def _delay_the_first(group: Membership, step: GroupEvent) -> None:
    delay_ms = step.services.settings[coordinator.group_initial_rebalance_delay_ms]
    left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
    group.initial_delay = InitialDelay(delay_ms, left_ms)
    group.deadlines.set(Timer.JOIN, step.now_ms + delay_ms)


def end_joins_if_all_are_there(group: Membership, step: GroupEvent) -> None:
    """End the join phase if all members have joined. The first rebalance after Empty ends only with
    its delay, because more members may come."""
    if (
        group.state is ClassicGroupState.PREPARING_REBALANCE
        and group.initial_delay is None
        and group.have_all_joined
    ):
        end_joins(group, step)


def on_join_deadline(group: Membership, step: GroupEvent) -> None:
    """End the join phase when its time is up. A first rebalance continues if new members have come
    since its last deadline. (With no time left the next deadline is immediate, and then no member
    has come.)"""
    delay = group.initial_delay
    if delay is None or not delay.has_newcomer:
        end_joins(group, step)
        return
    limit_ms = step.services.settings[coordinator.group_initial_rebalance_delay_ms]
    next_ms = min(limit_ms, delay.left_ms)
    group.initial_delay = InitialDelay(next_ms, max(delay.left_ms - delay.delay_ms, 0))
    group.deadlines.set(Timer.JOIN, step.now_ms + next_ms)


def end_joins(group: Membership, step: GroupEvent) -> None:
    """Begin the next generation with the members that have joined. It is Empty if none are left."""
    assert group.state is ClassicGroupState.PREPARING_REBALANCE
    late = [each for each in group.members.values() if not (each.is_joining or each.is_static)]
    for member in late:
        group.remove(member.member_id)
    if group.members and not group.elect_joined_leader():
        # Only static members are left and none of them has come back: their sessions decide.
        patience_ms = max(group.rebalance_timeout_ms, 1)
        group.initial_delay = None
        group.deadlines.set(Timer.JOIN, step.now_ms + patience_ms)
        return
    group.deadlines.cancel(Timer.JOIN)
    group.initial_delay = None
    group.begin_generation(step.wall_ms)
    step.services.log.info(
        "new generation",
        group=group.group_id,
        generation=group.generation_id,
        members=len(group.members),
        late=len(late),
    )
    if group.members:
        _answer_joins(group, step)
    else:
        _append_empty(group, step)


def _answer_joins(group: Membership, step: GroupEvent) -> None:
    for member in group.members.values():
        if member.is_joining:
            told = group.members.values() if member.member_id == group.leader_id else ()
            response = answers.joined(group, member.member_id, told)
            step.answer(group.set_join_ticket(member, None), response)
        group.restart_session(member, step.now_ms)
        member.is_new = False
        group.pending_syncs.add(member.member_id)
    group.deadlines.set(Timer.SYNC, step.now_ms + group.rebalance_timeout_ms)


def _append_empty(group: Membership, step: GroupEvent) -> None:
    """Append the empty group, best effort. If a failover loses a generation without members, the
    previous members are back, and their sessions then end again."""

    def on_refused(code: ErrorCode, step: GroupEvent) -> None:
        step.services.log.warn("empty group not recorded", group=group.group_id, error=code.name)

    step.append(group_metadata(group), lambda: None, on_refused)


def on_sync_deadline(group: Membership, step: GroupEvent) -> None:
    """Remove members that did not request their assignment, and rebalance the others. Do nothing if
    all have requested it."""
    missing = [each for each in group.members if each in group.pending_syncs]
    if missing:
        for member_id in missing:
            expel(group, step, member_id)
        rebalance(group, step, f"{len(missing)} members did not ask for their assignment")


def refuse_syncs(group: Membership, step: GroupEvent, code: ErrorCode) -> None:
    """Answer all members that wait for an assignment with this error. Restart their sessions,
    because a waiting member sends no heartbeats."""
    for member in group.members.values():
        ticket = member.take_sync()
        if ticket is not None:
            step.answer(ticket, answers.refused_sync(code))
            group.restart_session(member, step.now_ms)


def expel(group: Membership, step: GroupEvent, member_id: str) -> None:
    """Remove a member and answer its waiting requests with UNKNOWN_MEMBER_ID. If it is still alive,
    it joins as a new member."""
    member = group.members.get(member_id)
    if member is not None:
        code = ErrorCode.UNKNOWN_MEMBER_ID
        step.answer(group.set_join_ticket(member, None), answers.refused_join(code))
        step.answer(member.take_sync(), answers.refused_sync(code))
    group.remove(member_id)
