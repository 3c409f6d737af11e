"""Members that leave, or that are silent or slow for too long."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from moldau.broker.coordinator.group.consumer.reconciliation import STATIC_LEAVING_EPOCH
from moldau.broker.coordinator.group.members import (
    absent,
    known_static_member,
    remove_overdue,
    still_counts,
)
from moldau.broker.coordinator.group.streams import records
from moldau.broker.coordinator.group.streams.configuration import configure
from moldau.broker.coordinator.group.streams.member import Member
from moldau.broker.coordinator.group.streams.mixed_topologies import Topologies, as_settings
from moldau.broker.coordinator.group.streams.state import StreamsGroupState
from moldau.broker.coordinator.group.streams.target import TargetFacts, new_target
from moldau.broker.coordinator.outcome import NOTHING, LogRecord, Outcome, Ticket
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)


def on_leave(
    state: StreamsGroupState, message: StreamsGroupHeartbeatRequest, ticket: Ticket
) -> Outcome:
    """Remove a member (epoch -1), or mark a static member as absent (epoch -2): its tasks stay its
    own until its session ends. A member may ask for the end of the whole application."""
    instance_id = message.instance_id
    if instance_id is None:
        member = state.member(message.member_id)
    else:
        member = known_static_member(state, message.member_id, instance_id)
    if message.shutdown_application:
        state.volatile.shutdown_by = member.member_id
    response = StreamsGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        heartbeat_interval_ms=0,
        task_offset_interval_ms=0,
        status=[],
        endpoint_information_epoch=0,
    )
    found: tuple[LogRecord, ...]
    if instance_id is not None and message.member_epoch == STATIC_LEAVING_EPOCH:
        away = absent(member.progress)
        found = (records.member_progress(state.group_id, member.member_id, away),)
    else:
        found = records_without(state, (member,))
    return Outcome(found, ((ticket, response),))


def records_without(state: StreamsGroupState, gone: Collection[Member]) -> tuple[LogRecord, ...]:
    """Return the records that remove these members from the group, with one new group epoch."""
    found: list[LogRecord] = []
    for member in gone:
        found += records.member_deleted(state.group_id, member.member_id)
    ids = {each.member_id for each in gone}
    stay = [each for each in state.members.values() if each.member_id not in ids]
    left = {each.profile.topology_epoch for each in stay}
    older = {epoch: each for epoch, each in state.older.items() if epoch in left}
    found.append(
        records.group_epoch(
            state.group_id,
            state.epoch + 1,
            state.metadata_hash,
            state.validated_epoch,
            {**state.configs, **as_settings(older)},
        )
    )
    if not stay:  # nothing is to be assigned
        at_ms = state.target_timestamp_ms
        found.append(records.target_epoch(state.group_id, state.epoch + 1, at_ms))
    return tuple(found)


def on_overdue(state: StreamsGroupState, now_ms: int) -> Outcome:
    """Remove all members with an overdue deadline, together."""
    return remove_overdue(
        state,
        state.volatile.deadlines,
        now_ms,
        lambda what, member: still_counts(what, member.progress),
        partial(records_without, state),
    )


def on_first_target_due(state: StreamsGroupState, now_ms: int) -> Outcome:
    """Compute the first target after the wait for more members. If the topology turns out to be
    invalid, members get the error with their next heartbeats."""
    state.volatile.first_target_ms = None
    if not state.members or state.topology is None or state.target_epoch >= state.epoch:
        return NOTHING
    found: list[LogRecord] = []
    try:
        configured = configure(state.topology, state.services.cluster)
    except KafkaError:
        return NOTHING
    topologies = Topologies(state.topology, state.older)
    to = TargetFacts(state.epoch, topologies, configured, now_ms)
    if to.must_wait:
        return NOTHING
    new_target(state, state.members, to, found)
    return Outcome(tuple(found))
