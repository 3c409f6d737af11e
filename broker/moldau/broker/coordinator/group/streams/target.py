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
    STICKY,
    MemberSpec,
    Work,
)
from moldau.broker.coordinator.group.streams.configuration import (
    ConfiguredTopology,
    Obstacle,
    Status,
)
from moldau.broker.coordinator.group.streams.member import Member
from moldau.broker.coordinator.group.streams.state import NO_TASKS, StreamsGroupState
from moldau.broker.coordinator.group.streams.tasks import Role, Tasks, ids_of
from moldau.broker.coordinator.outcome import LogRecord
from moldau.broker.settings.group import (
    bounded,
    streams_assignment_interval_ms,
    streams_num_standby_replicas,
)

_STANDBYS: Final = "num.standby.replicas"
_FIRST_DELAY: Final = "Assignment delayed due to the configured initial rebalance delay."
_INTERVAL: Final = "Assignment delayed due to the configured assignment interval."


class MemberTarget(NamedTuple):
    """The target of one member."""

    epoch: int
    tasks: Tasks
    delay: Obstacle | None = None
    """The reason why it is not the one of the group epoch."""


def assignment_configs(state: StreamsGroupState) -> dict[str, str]:
    """Return the settings that the assignment depends on, with the names that record 17 has."""
    settings = state.services.group_settings(state.group_id)
    return {_STANDBYS: str(bounded(settings, streams_num_standby_replicas))}


def renewed_target(
    state: StreamsGroupState,
    member: Member,
    epoch: int,
    configured: ConfiguredTopology,
    now_ms: int,
    found: list[LogRecord],
) -> MemberTarget:
    """Return the member's target: of this epoch if it can be computed now, else the current one.

    `member` sent the request and has its state after it (it need not be in the group yet).
    """
    known = state.target.get(member.member_id, NO_TASKS)
    if state.volatile.first_target_ms is not None:
        delay = Obstacle(Status.ASSIGNMENT_DELAYED, _FIRST_DELAY)
        return MemberTarget(state.target_epoch, NO_TASKS, delay)
    if state.target_epoch >= epoch:
        return MemberTarget(state.target_epoch, known)
    if not _is_time(state, now_ms):
        delay = Obstacle(Status.ASSIGNMENT_DELAYED, _INTERVAL)
        return MemberTarget(state.target_epoch, known, delay)
    members = {**state.members, member.member_id: member}
    assigned = new_target(state, members, epoch, configured, now_ms, found)
    return MemberTarget(epoch, assigned[member.member_id])


def new_target(
    state: StreamsGroupState,
    members: Mapping[str, Member],
    epoch: int,
    configured: ConfiguredTopology,
    now_ms: int,
    found: list[LogRecord],
) -> dict[str, Tasks]:
    """Compute the target of all members, and add its records."""
    assigned: dict[str, Tasks] = dict.fromkeys(members, NO_TASKS)
    if configured.is_ready:
        specs = {each: _spec(state, members[each]) for each in members}
        standbys = int(assignment_configs(state)[_STANDBYS])
        work = Work(configured.task_counts, configured.stateful, standbys)
        assigned = ASSIGNORS[STICKY](specs, work)
    for member_id in sorted(assigned):
        if assigned[member_id] != state.target.get(member_id):
            found.append(records.target_of_member(state.group_id, member_id, assigned[member_id]))
    found.append(records.target_epoch(state.group_id, epoch, state.services.wall_ms(now_ms)))
    return assigned


def _spec(state: StreamsGroupState, member: Member) -> MemberSpec:
    had = state.target.get(member.member_id, NO_TASKS)
    copies = ids_of(had, Role.STANDBY) | ids_of(had, Role.WARMUP)
    return MemberSpec(member.process_id, ids_of(had, Role.ACTIVE), copies)


def _is_time(state: StreamsGroupState, now_ms: int) -> bool:
    """Whether the last target is old enough. Its timestamp is wall time, because it survives the
    broker. A timestamp in the future, from before the clock was set back, is ignored."""
    settings = state.services.group_settings(state.group_id)
    interval_ms = bounded(settings, streams_assignment_interval_ms)
    if state.target_timestamp_ms == 0 or interval_ms == 0:
        return True
    return not 0 <= state.services.wall_ms(now_ms) - state.target_timestamp_ms < interval_ms
