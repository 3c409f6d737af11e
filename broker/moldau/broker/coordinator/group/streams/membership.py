"""The member that sent a heartbeat: a new one, a known one, or a static one that comes back."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from moldau.broker.coordinator.group.members import (
    check_epoch,
    check_released,
    check_room,
    known_static_member,
)
from moldau.broker.coordinator.group.streams import records
from moldau.broker.coordinator.group.streams.member import Member, Profile
from moldau.broker.coordinator.group.streams.state import NO_TASKS, StreamsGroupState
from moldau.broker.coordinator.group.streams.tasks import Tasks
from moldau.broker.coordinator.outcome import LogRecord
from moldau.broker.decision.context import RequestContext
from moldau.broker.settings.streams import group_streams_max_size
from moldau.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

_JOINING_EPOCH: Final = 0


def member_of_request(
    state: StreamsGroupState,
    message: StreamsGroupHeartbeatRequest,
    reported: Tasks | None,
    found: list[LogRecord],
) -> Member:
    """Return the member that sent the heartbeat. Its epoch must be the known one or, because the
    answer may have been lost, the one before. The records of a static member that comes back with
    another member id are added."""
    member_id, instance_id = message.member_id, message.instance_id
    if message.member_epoch == _JOINING_EPOCH:
        before = state.static_member(instance_id)
        if instance_id is not None and before is not None:
            return _returned(state, before, member_id, instance_id, found)
        check_room(state.members, member_id, state.services.settings[group_streams_max_size])
        return state.members.get(member_id) or Member(member_id)
    if instance_id is not None:
        member = known_static_member(state, member_id, instance_id)
    else:
        member = state.member(member_id)
    check_epoch(member.progress, message.member_epoch, reported)
    return member


def _returned(
    state: StreamsGroupState,
    before: Member,
    member_id: str,
    instance_id: str,
    found: list[LogRecord],
) -> Member:
    """Return a static member that joins again. It keeps its tasks, with whatever member id."""
    if before.member_id == member_id:
        return before
    check_released(before, instance_id)
    progress = replace(before.progress, epoch=0, previous_epoch=0)
    group_id, tasks = state.group_id, state.target.get(before.member_id, NO_TASKS)
    found += records.member_deleted(group_id, before.member_id)
    found.append(records.member_profile(group_id, member_id, before.profile))
    found.append(records.target_of_member(group_id, member_id, tasks))
    found.append(records.member_progress(group_id, member_id, progress))
    return Member(member_id, before.profile, progress)


def renewed_profile(
    known: Profile, message: StreamsGroupHeartbeatRequest, context: RequestContext
) -> Profile:
    """Return the profile after the request; the same object if the request has nothing new. Null
    and -1 in a field of the request mean no change, but a member that joins without an endpoint has
    none."""
    endpoint, tags = message.user_endpoint, message.client_tags
    timeout_ms, topology = message.rebalance_timeout_ms, message.topology
    if (
        message.process_id is None
        and topology is None  # a member that joins brings one
        and endpoint is None
        and tags is None
        and timeout_ms == -1
        and message.rack_id is None
        and message.instance_id in (None, known.instance_id)
        and context.client_id == known.client_id
        and context.client_host == known.client_host
    ):
        return known
    place = None if message.member_epoch == _JOINING_EPOCH else known.endpoint
    return Profile(
        instance_id=known.instance_id if message.instance_id is None else message.instance_id,
        rack_id=known.rack_id if message.rack_id is None else message.rack_id,
        client_id=context.client_id,
        client_host=context.client_host,
        rebalance_timeout_ms=known.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topology_epoch=known.topology_epoch if topology is None else topology.epoch,
        process_id=known.process_id if message.process_id is None else message.process_id,
        endpoint=place if endpoint is None else (endpoint.host, endpoint.port),
        client_tags=known.client_tags
        if tags is None
        else tuple(sorted((each.key, each.value) for each in tags)),
    )
