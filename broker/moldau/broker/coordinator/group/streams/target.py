"""The target assignment: the tasks that each member should own, as of one group epoch.

It is computed by the first heartbeat that finds the group epoch ahead of the target epoch, with
two delays: the first target of an empty group waits for more members
(`streams.initial.rebalance.delay.ms`), and two targets are at least
`streams.assignment.interval.ms` apart. A status reports the delay to members.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from moldau.broker.coordinator.group.streams import records
from moldau.broker.coordinator.group.streams.assignors import (
    ASSIGNORS,
    MemberSpec,
    Work,
)
from moldau.broker.coordinator.group.streams.configuration import (
    ConfiguredTopology,
    Obstacle,
    Status,
)
from moldau.broker.coordinator.group.streams.member import Member
from moldau.broker.coordinator.group.streams.mixed_topologies import Topologies
from moldau.broker.coordinator.group.streams.state import NO_TASKS, StreamsGroupState
from moldau.broker.coordinator.group.streams.tasks import Role, Tasks, ids_of
from moldau.broker.coordinator.outcome import LogRecord
from moldau.broker.settings.group import bounded, streams_assignment_interval_ms

_FIRST_DELAY: Final = "Assignment delayed due to the configured initial rebalance delay."
_INTERVAL: Final = "Assignment delayed due to the configured assignment interval."


class MemberTarget(NamedTuple):
    """The target of one member."""

    epoch: int
    tasks: Tasks
    delay: Obstacle | None = None
    """The reason why it is not the one of the group epoch."""


class TargetFacts(NamedTuple):
    """What a new target is computed for."""

    epoch: int
    """The group epoch."""
    topologies: Topologies
    configured: ConfiguredTopology
    now_ms: int

    @property
    def must_wait(self) -> bool:
        """Whether members of an older topology go on as they do, because topics of the new one are
        missing."""
        return bool(self.topologies.older) and not self.configured.is_ready


def renewed_target(
    state: StreamsGroupState, member: Member, to: TargetFacts, found: list[LogRecord]
) -> MemberTarget:
    """Return the member's target: of the group epoch if it can be computed now, else the current
    one.

    `member` sent the request and has its state after it (it need not be in the group yet).
    """
    replaced = state.static.get(member.profile.instance_id or "", member.member_id)
    known = state.target.get(replaced, NO_TASKS)
    if state.volatile.first_target_ms is not None:
        delay = Obstacle(Status.ASSIGNMENT_DELAYED, _FIRST_DELAY)
        return MemberTarget(state.target_epoch, NO_TASKS, delay)
    if state.target_epoch >= to.epoch:
        return MemberTarget(state.target_epoch, known)
    if to.must_wait:
        return MemberTarget(state.target_epoch, known)
    if not _is_time(state, to.now_ms):
        delay = Obstacle(Status.ASSIGNMENT_DELAYED, _INTERVAL)
        return MemberTarget(state.target_epoch, known, delay)
    members = {each: state.members[each] for each in state.members if each != replaced}
    assigned = new_target(state, {**members, member.member_id: member}, to, found)
    return MemberTarget(to.epoch, assigned[member.member_id])


def new_target(
    state: StreamsGroupState,
    members: Mapping[str, Member],
    to: TargetFacts,
    found: list[LogRecord],
) -> dict[str, Tasks]:
    """Compute the target of all members, and add its records."""
    assigned: dict[str, Tasks] = dict.fromkeys(members, NO_TASKS)
    if to.configured.is_ready:
        specs = {each: _spec(state, members[each], to) for each in members}
        terms, positions = state.terms, state.volatile.positions
        work = Work(
            to.configured.task_counts,
            to.configured.stateful,
            terms.standby_count,
            terms.warmup_count,
            terms.acceptable_lag,
            terms.spread_tags,
            positions.longest_logs(to.now_ms),
        )
        assigned = ASSIGNORS[terms.assignor](specs, work)
    for member_id in sorted(assigned):
        if assigned[member_id] != state.target.get(member_id):
            found.append(records.target_of_member(state.group_id, member_id, assigned[member_id]))
    wall_ms = state.services.wall_ms(to.now_ms)
    found.append(records.target_epoch(state.group_id, to.epoch, wall_ms))
    return assigned


def _spec(state: StreamsGroupState, member: Member, to: TargetFacts) -> MemberSpec:
    profile = member.profile
    replaced = state.static.get(profile.instance_id or "", member.member_id)
    had = state.target.get(replaced, NO_TASKS)
    return MemberSpec(
        member.process_id,
        ids_of(had, Role.ACTIVE),
        ids_of(had, Role.STANDBY) | ids_of(had, Role.WARMUP),
        state.volatile.positions.lags_of(member.member_id, to.now_ms),
        to.topologies.runs(profile.topology_epoch),
        dict(profile.client_tags),
        state.volatile.positions.own_lags(member.member_id),
        profile.is_leaving,
    )


def has_warmed_up(state: StreamsGroupState, member_id: str, now_ms: int) -> bool:
    """Whether a task may move to a member that warms it up: its copy is near enough now, or it
    turns out that the member does not report that."""
    warming = ids_of(state.target.get(member_id, NO_TASKS), Role.WARMUP)
    if not warming or state.target_epoch < state.epoch:
        return False  # if the target is an old one, the next is due anyway
    positions, limit = state.volatile.positions, state.terms.acceptable_lag
    if not positions.reports(member_id, now_ms):
        return True
    lags = (positions.lag(member_id, task, now_ms) for task in warming)
    return any(lag is not None and lag <= limit for lag in lags)


def _is_time(state: StreamsGroupState, now_ms: int) -> bool:
    """Whether the last target is old enough. Its timestamp is wall time, because it survives the
    broker. A timestamp in the future, from before the clock was set back, is ignored."""
    settings = state.services.group_settings(state.group_id)
    interval_ms = bounded(settings, streams_assignment_interval_ms)
    if state.target_timestamp_ms == 0 or interval_ms == 0:
        return True
    return not 0 <= state.services.wall_ms(now_ms) - state.target_timestamp_ms < interval_ms
