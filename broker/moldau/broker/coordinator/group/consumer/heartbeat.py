"""ConsumerGroupHeartbeat: with this one request a member joins, stays, reports and leaves.

A heartbeat that changes nothing, as nearly all are, costs a few comparisons and no record.
"""

from __future__ import annotations

from dataclasses import replace

from moldau.broker.coordinator.group.consumer.deadlines import Due
from moldau.broker.coordinator.group.consumer.departure import on_leave
from moldau.broker.coordinator.group.consumer.member import Member, Profile
from moldau.broker.coordinator.group.consumer.membership import (
    dynamic_member,
    joining_static_member,
)
from moldau.broker.coordinator.group.consumer.partitions import Owned, Partitions, partitions_of
from moldau.broker.coordinator.group.consumer.state import ConsumerGroupState
from moldau.broker.coordinator.group.consumer.steps import advance
from moldau.broker.coordinator.group.consumer.subscription import MemberRequest
from moldau.broker.coordinator.group.members import check_epoch, check_room, known_static_member
from moldau.broker.coordinator.outcome import LogRecord, Outcome, Ticket
from moldau.broker.decision.context import RequestContext
from moldau.broker.settings.coordinator import group_consumer_max_size
from moldau.broker.settings.group import (
    bounded,
    consumer_heartbeat_interval_ms,
    consumer_session_timeout_ms,
)
from moldau.ids import format_uuid, new_uuid
from moldau.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)


def on_heartbeat(
    state: ConsumerGroupState,
    message: ConsumerGroupHeartbeatRequest,
    context: RequestContext,
    ticket: Ticket,
    now_ms: int,
) -> Outcome:
    """Handle a heartbeat that has passed `validation`."""
    if message.member_epoch < 0:
        return on_leave(state, message, ticket)
    records: list[LogRecord] = []
    response = stay(state, message, context, now_ms, records)
    return Outcome(tuple(records), ((ticket, response),))


def stay(
    state: ConsumerGroupState,
    message: ConsumerGroupHeartbeatRequest,
    context: RequestContext,
    now_ms: int,
    records: list[LogRecord],
) -> ConsumerGroupHeartbeatResponse:
    """Handle a member that joins or stays. Add the records to `records` and return the response."""
    limit = state.services.settings[group_consumer_max_size]
    check_room(state.members, message.member_id, limit)
    reported = None if message.topic_partitions is None else partitions_of(message.topic_partitions)
    before = _member(state, message, reported, records)
    after = _with_profile(before, _renewed(before.profile, message, context))
    member = advance(state, before, after, reported, MemberRequest(context, now_ms), records)
    session_ms, interval_ms = _terms(state)
    state.volatile.deadlines.set(Due.SESSION, member.member_id, now_ms + session_ms)
    has_moved = member is not before and before.progress.assigned != member.progress.assigned
    tells = has_moved or _is_full(message)
    return ConsumerGroupHeartbeatResponse(
        error_code=0,
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=_assignment(member.progress.assigned) if tells else None,
    )


def _terms(state: ConsumerGroupState) -> tuple[int, int]:
    """Return the session timeout and the heartbeat interval. Computed only when the settings have
    changed."""
    settings = state.services.group_settings(state.group_id)
    known = state.volatile.terms
    if known is None or known[0] is not settings:
        session_ms = bounded(settings, consumer_session_timeout_ms)
        interval_ms = bounded(settings, consumer_heartbeat_interval_ms)
        known = state.volatile.terms = settings, session_ms, interval_ms
    return known[1], known[2]


def _member(
    state: ConsumerGroupState,
    message: ConsumerGroupHeartbeatRequest,
    reported: Partitions | None,
    records: list[LogRecord],
) -> Member:
    joins = message.member_epoch == 0
    member_id, instance_id = message.member_id, message.instance_id
    if not member_id:
        member_id = format_uuid(new_uuid(state.services.random))
    if instance_id is not None and joins:
        return joining_static_member(state, member_id, instance_id, records, by_classic=False)
    if instance_id is not None:
        member = known_static_member(state, member_id, instance_id)
    else:
        member = dynamic_member(state, member_id, joins=joins)
    check_epoch(member.progress, message.member_epoch, reported)
    return member


def _renewed(
    known: Profile, message: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> Profile:
    """Return the profile after the request. Null and -1 in a field of the request mean no
    change."""
    names = message.subscribed_topic_names
    regex = message.subscribed_topic_regex
    timeout_ms = message.rebalance_timeout_ms
    if (
        names is None
        and regex is None
        and timeout_ms == -1
        and message.rack_id is None
        and message.server_assignor is None
        and message.instance_id in (None, known.instance_id)
        and context.client_id == known.client_id
        and context.client_host == known.client_host
        and known.classic is None
    ):
        return known
    return Profile(
        instance_id=known.instance_id if message.instance_id is None else message.instance_id,
        rack_id=known.rack_id if message.rack_id is None else message.rack_id,
        client_id=context.client_id,
        client_host=context.client_host,
        topic_names=known.topic_names if names is None else frozenset(names),
        topic_regex=known.topic_regex if regex is None else regex,
        rebalance_timeout_ms=known.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=message.server_assignor or known.server_assignor,
        classic=None,
    )


def _with_profile(member: Member, profile: Profile) -> Member:
    if profile is member.profile or profile == member.profile:
        return member
    return replace(member, profile=profile)


def _is_full(message: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the request has all fields, as after a join and after any error. Then the response
    includes the assignment."""
    return message.member_epoch == 0 or (
        message.rebalance_timeout_ms != -1
        and not (message.subscribed_topic_names is None and message.subscribed_topic_regex is None)
        and message.topic_partitions is not None
    )


def _assignment(assigned: Owned) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(assigned[topic_id]))
            for topic_id in sorted(assigned)
        ]
    )
