"""Members that leave, or that are silent or slow for too long."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from moldau.broker.coordinator.group.consumer.deadlines import Due
from moldau.broker.coordinator.group.consumer.member_state import MemberState
from moldau.broker.coordinator.group.streams import records
from moldau.broker.coordinator.group.streams.configuration import configure
from moldau.broker.coordinator.group.streams.member import Member
from moldau.broker.coordinator.group.streams.state import StreamsGroupState
from moldau.broker.coordinator.group.streams.target import new_target
from moldau.broker.coordinator.outcome import NOTHING, LogRecord, Outcome, Ticket
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

RETRY_MS: Final = 500
"""The delay before the next attempt if a removal could not be written."""


def on_leave(
    state: StreamsGroupState, message: StreamsGroupHeartbeatRequest, ticket: Ticket
) -> Outcome:
    """Remove a member. It may ask for the end of the whole application."""
    member = state.member(message.member_id)
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
    return Outcome(records_without(state, (member,)), ((ticket, response),))


def records_without(state: StreamsGroupState, gone: Collection[Member]) -> tuple[LogRecord, ...]:
    """Return the records that remove these members from the group, with one new group epoch."""
    found: list[LogRecord] = []
    for member in gone:
        found += records.member_deleted(state.group_id, member.member_id)
    found.append(
        records.group_epoch(
            state.group_id,
            state.epoch + 1,
            state.metadata_hash,
            state.validated_epoch,
            state.configs,
        )
    )
    return tuple(found)


def on_overdue(state: StreamsGroupState, now_ms: int) -> Outcome:
    """Remove all members with an overdue deadline, together."""
    gone: dict[str, Member] = {}
    for what, member_id in state.volatile.deadlines.take_due(now_ms):
        member = state.members.get(member_id)
        if member is not None and _counts(what, member):
            gone[member_id] = member
            state.services.log.info(
                "member removed", group=state.group_id, member=member_id, overdue=what.value
            )
    if not gone:
        return NOTHING

    def again(_: KafkaError, failed_ms: int) -> Outcome:
        for member_id in gone:
            state.volatile.deadlines.set(Due.SESSION, member_id, failed_ms + RETRY_MS)
        return NOTHING

    return Outcome(records_without(state, tuple(gone.values())), on_failure=again)


def _counts(what: Due, member: Member) -> bool:
    """Whether the deadline still applies. One for giving up tasks does not if they are given up."""
    still_owes = member.progress.state is MemberState.UNREVOKED_PARTITIONS
    return what is not Due.REBALANCE or still_owes


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
    new_target(state, state.members, state.epoch, configured, now_ms, found)
    return Outcome(tuple(found))
