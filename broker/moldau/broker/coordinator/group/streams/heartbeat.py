"""StreamsGroupHeartbeat: with this one request a member joins, stays, reports and leaves.

The steps, in the order in which Kafka writes their records:

1. Record the member's profile.
2. Record the topology, if the group has none.
3. Configure the topology, if it or its topics changed. A change of its readiness or of the settings
   for assignments moves the group to a new epoch, as a new member does.
4. Compute a new target, if the group epoch is ahead of it and no delay holds it back.
5. Take the member one step towards its target.

A heartbeat that changes nothing costs a few comparisons and no record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Final

from moldau.broker.coordinator.group.consumer.deadlines import Due
from moldau.broker.coordinator.group.consumer.member_state import MemberState
from moldau.broker.coordinator.group.consumer.reconciliation import Target
from moldau.broker.coordinator.group.streams import changelog_ends, internal_topics, records
from moldau.broker.coordinator.group.streams.configuration import (
    ConfiguredTopology,
    Obstacle,
    Status,
    configure,
)
from moldau.broker.coordinator.group.streams.departure import on_leave
from moldau.broker.coordinator.group.streams.endpoints import endpoints_of
from moldau.broker.coordinator.group.streams.member import Member
from moldau.broker.coordinator.group.streams.membership import (
    member_of_request,
    renewed_profile,
)
from moldau.broker.coordinator.group.streams.mixed_topologies import (
    Topologies,
    as_settings,
    with_topology,
)
from moldau.broker.coordinator.group.streams.role_changes import next_step_of_tasks
from moldau.broker.coordinator.group.streams.state import StreamsGroupState
from moldau.broker.coordinator.group.streams.target import (
    MemberTarget,
    TargetFacts,
    has_warmed_up,
    renewed_target,
)
from moldau.broker.coordinator.group.streams.tasks import (
    OwnedTasks,
    Role,
    SubtopologyRole,
    TaskId,
    Tasks,
    ids_of,
    of_role,
    tasks_of,
)
from moldau.broker.coordinator.group.streams.terms import Terms
from moldau.broker.coordinator.group.streams.topology import (
    Topology,
    topology_of,
    topology_record,
)
from moldau.broker.coordinator.outcome import Effect, LogRecord, Outcome, Ticket
from moldau.broker.decision.context import RequestContext
from moldau.broker.settings.group import bounded, streams_initial_rebalance_delay_ms
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages import streams_group_heartbeat as messages
from moldau.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

_JOINING_EPOCH: Final = 0
_WAITING_MS_MIN: Final = 100
_WAITING_MS_A_MEMBER: Final = 5
"""How often members are to ask that wait for tasks of others, which no member runs meanwhile: 200
times a second at most in a group."""
_WARMUPS_SINCE: Final = 1
"""The first version whose clients report the offsets of tasks, and give a topology's graph."""


class _Everything:
    """Contains every key: a member of a streams group takes all tasks that it gets."""

    def __contains__(self, key: object) -> bool:
        return True


_EVERYTHING: Final = _Everything()


@dataclass(slots=True)
class _Step:
    """What one heartbeat has led to so far."""

    context: RequestContext
    now_ms: int
    records: list[LogRecord] = field(default_factory=list)
    obstacles: list[Obstacle] = field(default_factory=list)
    effects: tuple[Effect, ...] = ()
    is_bumped: bool = False


def on_heartbeat(
    state: StreamsGroupState,
    message: StreamsGroupHeartbeatRequest,
    context: RequestContext,
    ticket: Ticket,
    now_ms: int,
) -> Outcome:
    """Handle a heartbeat that has passed `validation`."""
    if message.member_epoch < 0:
        return on_leave(state, message, ticket)
    step = _Step(context, now_ms)
    reported = _reported(message)
    before = member_of_request(state, message, reported, step.records)
    member = before
    profile = renewed_profile(before.profile, message, context)
    if profile is not before.profile:
        member = replace(before, profile=profile)
    is_new = before.member_id not in state.members and not step.records
    if is_new or member.profile != before.profile:
        step.is_bumped = True
        step.records.append(
            records.member_profile(state.group_id, member.member_id, member.profile)
        )
    topologies = _topologies(state, message, member, step)
    configured = _configured(state, topologies.current, member, message, step)
    _note_positions(state, message, member, step)
    epoch = _next_epoch(state, member, topologies, configured, step)
    to = TargetFacts(epoch, topologies, configured, now_ms)
    if step.is_bumped and not state.members:
        _await_more_members(state, now_ms)
    target = renewed_target(state, member, to, step.records)
    step.effects += changelog_ends.begin(state, configured, member.member_id, target.tasks, now_ms)
    moved = _reconciled(state, member, target, reported, topologies, step)
    state.volatile.deadlines.set(Due.SESSION, member.member_id, now_ms + state.terms.session_ms)
    if message.shutdown_application:
        state.volatile.shutdown_by = member.member_id
    if configured.obstacle is not None:
        step.obstacles.append(_explained(state, configured, step))
    if target.delay is not None:
        step.obstacles.insert(0, target.delay)
    has_moved = moved.progress.assigned != before.progress.assigned
    is_told = has_moved or message.member_epoch == _JOINING_EPOCH
    response = _response(state, message, moved, topologies, step)
    if is_told:
        _add_tasks(response, moved.progress.assigned)
    is_elsewhere = moved.profile.endpoint != before.profile.endpoint
    if is_elsewhere or (is_told and moved.profile.endpoint is not None):
        state.volatile.endpoint_epoch += 1
    _add_endpoints(state, message, moved, topologies.current, response)
    return Outcome(tuple(step.records), ((ticket, response),), step.effects)


def _reported(message: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """Return the tasks that the member reports as owned, None if it reports nothing."""
    if message.active_tasks is None:
        return None
    return tasks_of(
        {
            Role.ACTIVE: message.active_tasks,
            Role.STANDBY: message.standby_tasks or (),
            Role.WARMUP: message.warmup_tasks or (),
        }
    )


def _note_positions(
    state: StreamsGroupState,
    message: StreamsGroupHeartbeatRequest,
    member: Member,
    step: _Step,
) -> None:
    """Note how far the member's copies of tasks are. A warm-up that is near enough leads to the
    next target."""
    positions = state.volatile.positions
    if message.member_epoch == _JOINING_EPOCH:
        positions.forget(member.member_id)
    if message.task_offsets is not None or message.task_end_offsets is not None:
        positions.on_report(member.member_id, message.task_offsets, message.task_end_offsets)
    step.is_bumped |= has_warmed_up(state, member.member_id, step.now_ms)


# The topology.


def _topologies(
    state: StreamsGroupState, message: StreamsGroupHeartbeatRequest, member: Member, step: _Step
) -> Topologies:
    """Return the topologies of the group. The first member brings one, and each that has a higher
    epoch replaces it. A member with an older one may join, and is told so."""
    known = state.topology
    if message.topology is None:
        if known is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the group has no topology")
        found = Topologies(known, state.older)
    else:
        given = topology_of(message.topology)
        if known is None:
            found = Topologies(given, {})
        else:
            replaced = state.static.get(member.profile.instance_id or "", member.member_id)
            epochs = {
                each.profile.topology_epoch
                for each in state.members.values()
                if each.member_id not in (member.member_id, replaced)
            }
            found = with_topology(known, state.older, epochs, given)
        if found.current is given:
            record = topology_record(message.topology)
            step.records.append(records.topology(state.group_id, record))
            step.is_bumped = True
        step.is_bumped |= found.older != state.older
    if member.profile.topology_epoch < found.current.epoch:
        text = (
            f"The member's topology epoch {member.profile.topology_epoch} is behind the group's "
            f"topology epoch {found.current.epoch}."
        )
        step.obstacles.append(Obstacle(Status.STALE_TOPOLOGY, text))
    return found


def _configured(
    state: StreamsGroupState,
    topology: Topology,
    member: Member,
    message: StreamsGroupHeartbeatRequest,
    step: _Step,
) -> ConfiguredTopology:
    """Return the topology with the topics of the cluster. It is kept until one of them changes."""
    volatile, cluster = state.volatile, state.services.cluster
    configured = volatile.configured
    if configured is None or topology is not state.topology:
        configured = configure(topology, cluster)
        if topology is state.topology:  # else it is not in the log yet
            volatile.configured = configured
    if state.has_metadata_expired():
        names = topology.topic_names()
        if volatile.hashes.of(names, cluster) != state.metadata_hash:
            step.is_bumped = True
    if configured.is_ready:
        _check_tasks(configured, member, message)
        validated = topology.epoch
    else:
        validated = -1
    step.is_bumped |= validated != state.validated_epoch
    step.is_bumped |= state.terms.assignment != state.configs
    return configured


def _check_tasks(
    configured: ConfiguredTopology, member: Member, message: StreamsGroupHeartbeatRequest
) -> None:
    """Raise INVALID_REQUEST if the member reports tasks that the topology does not have. Tasks that
    the member got are valid: topics may have been made anew with fewer partitions since."""
    got = {
        (key.subtopology_id, partition)
        for owned in (member.progress.assigned, member.progress.revoking)
        for key, partitions in owned.items()
        for partition in partitions
    }
    given = (message.active_tasks, message.standby_tasks, message.warmup_tasks)
    for each in (task for tasks in given for task in tasks or ()):
        subtopology_id = each.subtopology_id
        count = configured.task_counts.get(subtopology_id, 0)
        for partition in each.partitions:
            if not 0 <= partition < count and (subtopology_id, partition) not in got:
                text = f"Task {subtopology_id}_{partition} does not exist in the topology."
                raise KafkaError(ErrorCode.INVALID_REQUEST, text)


def _next_epoch(
    state: StreamsGroupState,
    member: Member,
    topologies: Topologies,
    configured: ConfiguredTopology,
    step: _Step,
) -> int:
    """Return the group epoch, and add its record if it grows."""
    epoch = state.epoch
    if step.is_bumped:
        epoch += 1
        names = topologies.current.topic_names()
        metadata_hash = state.volatile.hashes.of(names, state.services.cluster)
        validated = topologies.current.epoch if configured.is_ready else -1
        epochs = {each.profile.topology_epoch for each in state.members.values()}
        older = topologies.of_members({member.profile.topology_epoch, *epochs}).older
        configs = {**state.terms.assignment, **as_settings(older)}
        step.records.append(
            records.group_epoch(state.group_id, epoch, metadata_hash, validated, configs)
        )
    state.volatile.checked_epoch = epoch
    return epoch


def _await_more_members(state: StreamsGroupState, now_ms: int) -> None:
    settings = state.services.group_settings(state.group_id)
    delay_ms = bounded(settings, streams_initial_rebalance_delay_ms)
    if delay_ms > 0 and state.volatile.first_target_ms is None:
        state.volatile.first_target_ms = now_ms + delay_ms


# The step towards the target.


def _reconciled(
    state: StreamsGroupState,
    member: Member,
    target: MemberTarget,
    reported: Tasks | None,
    topologies: Topologies,
    step: _Step,
) -> Member:
    """Return the member after its next step, and record the step if there is one."""
    if member.progress.is_reconciled_to(target.epoch):
        return member
    if member.profile.is_leaving and not _is_awaited(state, member, target):
        return member

    def is_free(key: SubtopologyRole, partition: int) -> bool:
        task = TaskId(key.subtopology_id, partition)
        return state.is_free(member, key.role, task, topologies)

    wanted = Target(target.epoch, target.tasks, _EVERYTHING, is_free)
    progress = next_step_of_tasks(member.progress, wanted, reported)
    if progress == member.progress:
        return member
    step.records.append(records.member_progress(state.group_id, member.member_id, progress))
    deadlines = state.volatile.deadlines
    if progress.state is MemberState.UNREVOKED_PARTITIONS:
        at_ms = step.now_ms + member.profile.rebalance_timeout_ms
        deadlines.set(Due.REBALANCE, member.member_id, at_ms)
    else:
        deadlines.cancel(Due.REBALANCE, member.member_id)
    return replace(member, progress=progress)


def _is_awaited(state: StreamsGroupState, member: Member, target: MemberTarget) -> bool:
    """Whether the next owners of the tasks that a leaving member is to give up have come to the
    target, and ask for the tasks. Until then it runs them: they would stand still for the time of a
    heartbeat. It does not wait forever, and leaves then."""
    if member.progress.state is not MemberState.STABLE:
        return True
    if state.target_epoch < target.epoch:
        return False  # it is not in the log yet
    given_up = ids_of(member.progress.assigned, Role.ACTIVE)
    given_up -= ids_of(target.tasks, Role.ACTIVE)
    return not any(
        each.epoch < target.epoch
        and each.member_id != member.member_id
        and not given_up.isdisjoint(ids_of(state.target.get(each.member_id, {}), Role.ACTIVE))
        for each in state.members.values()
    )


# The response.


def _response(
    state: StreamsGroupState,
    message: StreamsGroupHeartbeatRequest,
    moved: Member,
    topologies: Topologies,
    step: _Step,
) -> StreamsGroupHeartbeatResponse:
    """Return the response without tasks. Version 0 has no part in warm-ups."""
    terms, is_new_version = state.terms, step.context.version >= _WARMUPS_SINCE
    if is_new_version:
        _add_missing_tags(moved, terms, step)
    response = StreamsGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=moved.member_id,
        member_epoch=moved.epoch,
        heartbeat_interval_ms=_interval_ms(state, moved),
        task_offset_interval_ms=terms.task_offset_interval_ms if is_new_version else 0,
        acceptable_recovery_lag=terms.acceptable_lag,
        status=_statuses(state, step),
        endpoint_information_epoch=0,
    )
    epoch = topologies.current.epoch
    if is_new_version and epoch == moved.profile.topology_epoch and message.member_epoch != 0:
        response.topology_description_required = state.volatile.graph.asks(epoch, step.now_ms)
    return response


def _interval_ms(state: StreamsGroupState, member: Member) -> int:
    """Return when the member is to send its next heartbeat: soon if it waits for tasks, or for
    others to take its own over."""
    is_waiting = member.progress.state is MemberState.UNRELEASED_PARTITIONS
    if not is_waiting and not member.profile.is_leaving:
        return state.terms.interval_ms
    soon_ms = max(_WAITING_MS_MIN, _WAITING_MS_A_MEMBER * len(state.members))
    return min(state.terms.interval_ms, soon_ms)


def _add_missing_tags(member: Member, terms: Terms, step: _Step) -> None:
    given = dict(member.profile.client_tags)
    missing = [each for each in terms.spread_tags if each not in given]
    if missing:
        text = f"The member has no client tags {', '.join(missing)}."
        step.obstacles.append(Obstacle(Status.MISSING_CLIENT_TAGS, text))


def _add_tasks(response: StreamsGroupHeartbeatResponse, assigned: OwnedTasks) -> None:
    response.active_tasks = _task_ids(of_role(assigned, Role.ACTIVE))
    response.standby_tasks = _task_ids(of_role(assigned, Role.STANDBY))
    response.warmup_tasks = _task_ids(of_role(assigned, Role.WARMUP))


def _task_ids(tasks: Mapping[str, list[int]]) -> list[messages.TaskIds]:
    return [messages.TaskIds(subtopology_id=each, partitions=tasks[each]) for each in tasks]


def _add_endpoints(
    state: StreamsGroupState,
    message: StreamsGroupHeartbeatRequest,
    moved: Member,
    topology: Topology,
    response: StreamsGroupHeartbeatResponse,
) -> None:
    epoch = state.volatile.endpoint_epoch
    if message.endpoint_information_epoch != epoch:
        replaced = state.static.get(moved.profile.instance_id or "")
        others = {each: state.members[each] for each in state.members if each != replaced}
        members = {**others, moved.member_id: moved}.values()
        response.partitions_by_user_endpoint = endpoints_of(
            members, topology, state.services.cluster
        )
    response.endpoint_information_epoch = epoch


def _explained(state: StreamsGroupState, configured: ConfiguredTopology, step: _Step) -> Obstacle:
    """Return the obstacle, with what is known of the creation of missing internal topics."""
    obstacle = configured.obstacle
    assert obstacle is not None
    if obstacle.status is not Status.MISSING_INTERNAL_TOPICS:
        return obstacle
    detail, effects = internal_topics.begin(state, configured, step.context, step.now_ms)
    step.effects += effects
    return replace(obstacle, detail=obstacle.detail + detail)


def _statuses(state: StreamsGroupState, step: _Step) -> list[messages.Status]:
    obstacles = list(step.obstacles)
    if state.volatile.shutdown_by is not None:
        text = (
            f"Streams group member {state.volatile.shutdown_by} encountered a fatal error and "
            "requested a shutdown for the entire application."
        )
        obstacles.append(Obstacle(Status.SHUTDOWN_APPLICATION, text))
    return [
        messages.Status(status_code=each.status.value, status_detail=each.detail)
        for each in obstacles
    ]
