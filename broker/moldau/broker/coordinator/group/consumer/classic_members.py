"""Classic members inside a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

Such a member gets its assignment from the broker, through the requests that it knows:

- JoinGroup takes it one step towards its target. The subscription in it lists the partitions that
  the member still owns.
- The generation is the member epoch.
- SyncGroup returns the partitions.
- Heartbeat returns REBALANCE_IN_PROGRESS when another step is due.

No member waits for another one: each request is answered at once.

Invariant: a member that must join again does so within its rebalance timeout, and a member that
joined syncs within it. Otherwise it is removed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from moldau.broker.coordinator.group.consumer.deadlines import Due
from moldau.broker.coordinator.group.consumer.departure import records_without
from moldau.broker.coordinator.group.consumer.downgrade import (
    classic_record,
    may_downgrade,
    remember,
    tombstones,
)
from moldau.broker.coordinator.group.consumer.embedded_protocol import (
    PROTOCOL_TYPE,
    assignment_bytes,
    by_id,
    subscription_of,
)
from moldau.broker.coordinator.group.consumer.member import Member, Profile
from moldau.broker.coordinator.group.consumer.member_state import MemberState
from moldau.broker.coordinator.group.consumer.membership import (
    dynamic_member,
    joining_static_member,
)
from moldau.broker.coordinator.group.consumer.partitions import NO_PARTITIONS, without_epochs
from moldau.broker.coordinator.group.consumer.state import ConsumerGroupState
from moldau.broker.coordinator.group.consumer.steps import advance
from moldau.broker.coordinator.group.consumer.subscription import (
    MemberRequest,
    apply_profile,
    renewed_epoch,
)
from moldau.broker.coordinator.group.members import (
    check_instance,
    check_room,
    known_static_member,
)
from moldau.broker.coordinator.outcome import LogRecord, Outcome, Ticket, answered
from moldau.broker.decision.context import RequestContext
from moldau.broker.settings.coordinator import (
    group_consumer_max_size,
    group_consumer_migration_policy,
)
from moldau.errors import MalformedMessage
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import format_uuid, new_uuid
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from moldau.protocol.schemas.consumer_group_log import ClassicMemberMetadata, ClassicProtocol
from moldau.protocol.schemas.consumer_protocol import ConsumerProtocolSubscription

_MEMBER_ID_REQUIRED_SINCE: Final = 4


def on_join_group(
    state: ConsumerGroupState,
    message: JoinGroupRequest,
    context: RequestContext,
    ticket: Ticket,
    now_ms: int,
) -> Outcome:
    """Take a classic member one step further towards its target. A rejection has an empty member
    id, as in Kafka."""
    try:
        return _join(state, message, context, ticket, now_ms)
    except KafkaError as refused:
        return answered(ticket, _refusal(refused.code, ""))


def _join(
    state: ConsumerGroupState,
    message: JoinGroupRequest,
    context: RequestContext,
    ticket: Ticket,
    now_ms: int,
) -> Outcome:
    if state.services.settings[group_consumer_migration_policy].upper() == "DISABLED":
        raise _inconsistent("group.consumer.migration.policy keeps classic members out")
    is_unknown = not message.member_id
    member_id = message.member_id or format_uuid(new_uuid(state.services.random))
    check_room(state.members, member_id, state.services.settings[group_consumer_max_size])
    _check_protocols(state, message)
    instance_id = message.group_instance_id
    if is_unknown and instance_id is None and context.version >= _MEMBER_ID_REQUIRED_SINCE:
        return answered(ticket, _refusal(ErrorCode.MEMBER_ID_REQUIRED, member_id))
    try:
        subscription = subscription_of(message.protocols[0].metadata)
    except MalformedMessage as malformed:
        raise _inconsistent("the subscription does not follow the schema") from malformed
    records: list[LogRecord] = []
    if instance_id is None:
        before = dynamic_member(state, member_id, joins=True)
    elif is_unknown:
        before = joining_static_member(state, member_id, instance_id, records, by_classic=True)
    else:
        before = known_static_member(state, member_id, instance_id)
    after = replace(before, profile=_renewed(before.profile, message, subscription, context))
    request = MemberRequest(context, now_ms)
    replaced = state.static_member(instance_id)
    if (
        replaced is not None
        and not replaced.speaks_classic
        and may_downgrade(state, (replaced,), come=1)
    ):
        return _downgrade(state, before, after, ticket, request, records)
    reported = by_id(subscription.owned_partitions, state.services.cluster)
    member = advance(state, before, after, reported, request, records)
    deadlines = state.volatile.deadlines
    deadlines.cancel(Due.JOIN, member_id)
    deadlines.set(Due.SESSION, member_id, now_ms + message.session_timeout_ms)
    deadlines.set(Due.SYNC, member_id, now_ms + member.profile.rebalance_timeout_ms)
    return Outcome(tuple(records), ((ticket, _joined(member, member.epoch)),))


def on_sync_group(
    state: ConsumerGroupState, message: SyncGroupRequest, ticket: Ticket, now_ms: int
) -> Outcome:
    """Answer with the assignment that the member's last JoinGroup produced."""
    member = _classic_member(state, message.member_id, message.group_instance_id)
    _check_generation(member, message.generation_id)
    offered = member.classic_protocols[0]
    if message.protocol_type not in (None, PROTOCOL_TYPE):
        raise _inconsistent("the group is one of consumers")
    if message.protocol_name not in (None, offered.name):
        raise _inconsistent("JoinGroup answered with another protocol")
    moved_on = state.target_epoch > member.epoch
    if moved_on and member.progress.state is not MemberState.UNREVOKED_PARTITIONS:
        _must_join(state, member, now_ms)
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    state.volatile.deadlines.cancel(Due.SYNC, member.member_id)
    _begin_session(state, member, now_ms)
    partitions = without_epochs(member.progress.assigned)
    response = SyncGroupResponse(
        error_code=0,
        protocol_type=message.protocol_type,
        protocol_name=message.protocol_name,
        assignment=assignment_bytes(partitions, offered.metadata, state.services.cluster),
    )
    return answered(ticket, response)


def on_heartbeat(
    state: ConsumerGroupState, message: HeartbeatRequest, ticket: Ticket, now_ms: int
) -> Outcome:
    """Restart the member's session. The response says when it must join again."""
    member = _classic_member(state, message.member_id, message.group_instance_id)
    _check_generation(member, message.generation_id)
    _begin_session(state, member, now_ms)
    error = ErrorCode.NONE
    if _has_a_step_to_make(state, member):
        error = ErrorCode.REBALANCE_IN_PROGRESS
        _must_join(state, member, now_ms)
    return answered(ticket, HeartbeatResponse(error_code=error))


def on_leave_group(
    state: ConsumerGroupState, message: LeaveGroupRequest, ticket: Ticket
) -> Outcome:
    """Remove members, of either protocol, that leave or that an administrator removes."""
    gone: dict[str, Member] = {}
    answered_members = []
    for identity in message.members:
        code = ErrorCode.NONE
        try:
            member = _leaving(state, identity)
            gone[member.member_id] = member
        except KafkaError as refused:
            code = refused.code
        answered_members.append(
            MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=code,
            )
        )
    response = LeaveGroupResponse(error_code=0, members=answered_members)
    return Outcome(records_without(state, tuple(gone.values())), ((ticket, response),))


def begin_sessions(state: ConsumerGroupState, now_ms: int, session_ms: int) -> None:
    """Start a full session for every member, because the time of its last request is unknown."""
    for member in state.members.values():
        classic = member.profile.classic
        own_ms = session_ms if classic is None else classic.session_timeout_ms
        state.volatile.deadlines.set(Due.SESSION, member.member_id, now_ms + own_ms)
        is_revoking = member.progress.state is MemberState.UNREVOKED_PARTITIONS
        if is_revoking and not member.speaks_classic:
            at_ms = now_ms + member.profile.rebalance_timeout_ms
            state.volatile.deadlines.set(Due.REBALANCE, member.member_id, at_ms)


def _downgrade(
    state: ConsumerGroupState,
    before: Member,
    after: Member,
    ticket: Ticket,
    request: MemberRequest,
    records: list[LogRecord],
) -> Outcome:
    """Turn the group into a classic one when a classic member replaces the last member of the new
    protocol. The response has the generation of the classic group. That group rebalances if there
    is anything new to assign."""
    replaced = state.static_member(after.profile.instance_id)
    assert replaced is not None
    change = apply_profile(state, before, after, request, records)
    state.volatile.search = None
    epoch = renewed_epoch(state, before, after, records, must_bump=change.has_changed)
    others = [each for each in state.members.values() if each is not replaced]
    remember(state, [*others, after], rebalances=state.target_epoch < epoch)
    ids = [after.member_id, *(each.member_id for each in others)]
    records += tombstones(state, ids)
    stay = [(each, state.target_of(each)) for each in others]
    stay.append((after, state.target.get(replaced.member_id, NO_PARTITIONS)))
    records.append(classic_record(state, stay))
    return Outcome(tuple(records), ((ticket, _joined(after, state.epoch)),))


def _renewed(
    known: Profile,
    message: JoinGroupRequest,
    subscription: ConsumerProtocolSubscription,
    context: RequestContext,
) -> Profile:
    # Version 0 has one timeout for session and rebalance.
    timeout_ms = message.rebalance_timeout_ms
    if timeout_ms == -1:
        timeout_ms = message.session_timeout_ms
    offers = [ClassicProtocol(name=each.name, metadata=each.metadata) for each in message.protocols]
    return Profile(
        instance_id=message.group_instance_id or known.instance_id,
        rack_id=subscription.rack_id or known.rack_id,
        client_id=context.client_id,
        client_host=context.client_host,
        topic_names=frozenset(subscription.topics),
        topic_regex="",
        rebalance_timeout_ms=timeout_ms,
        server_assignor=known.server_assignor,
        classic=ClassicMemberMetadata(
            session_timeout_ms=message.session_timeout_ms, supported_protocols=offers
        ),
    )


def _check_protocols(state: ConsumerGroupState, message: JoinGroupRequest) -> None:
    """Require an assignor that all classic members share, so that a downgrade stays possible."""
    names = [each.name for each in message.protocols]
    shares = not state.members or any(
        state.classic_protocols[name] == state.classic_count for name in names
    )
    if message.protocol_type != PROTOCOL_TYPE or not names or not shares:
        raise _inconsistent("the member shares no assignor with the classic members of the group")


def _classic_member(state: ConsumerGroupState, member_id: str, instance_id: str | None) -> Member:
    if instance_id is None:
        member = state.member(member_id)
    else:
        member = known_static_member(state, member_id, instance_id)
    if not member.speaks_classic:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID, "the member speaks the new protocol", member=member_id
        )
    return member


def _leaving(state: ConsumerGroupState, identity: MemberIdentity) -> Member:
    """Return the leaving member. An administrator may name a static member by instance id alone."""
    instance_id = identity.group_instance_id
    if instance_id is None:
        return state.member(identity.member_id)
    member = state.static_member(instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if identity.member_id:
        check_instance(member, identity.member_id, instance_id)
    return member


def _check_generation(member: Member, generation_id: int) -> None:
    if member.epoch != generation_id:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)


def _has_a_step_to_make(state: ConsumerGroupState, member: Member) -> bool:
    """Whether the member must join again: the target is new, it has partitions to revoke, or all
    the partitions that it waits for are free."""
    progress = member.progress
    if progress.epoch < state.target_epoch or progress.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    return progress.state is MemberState.UNRELEASED_PARTITIONS and all(
        partition in progress.assigned.get(topic_id, ()) or state.is_free(topic_id, partition)
        for topic_id, partitions in state.target_of(member).items()
        for partition in partitions
    )


def _must_join(state: ConsumerGroupState, member: Member, now_ms: int) -> None:
    deadlines = state.volatile.deadlines
    if not deadlines.has(Due.JOIN, member.member_id):
        at_ms = now_ms + member.profile.rebalance_timeout_ms
        deadlines.set(Due.JOIN, member.member_id, at_ms)


def _begin_session(state: ConsumerGroupState, member: Member, now_ms: int) -> None:
    classic = member.profile.classic
    assert classic is not None
    at_ms = now_ms + classic.session_timeout_ms
    state.volatile.deadlines.set(Due.SESSION, member.member_id, at_ms)


def _joined(member: Member, generation_id: int) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=0,
        generation_id=generation_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=member.classic_protocols[0].name,
        leader="",
        member_id=member.member_id,
        members=[],
    )


def _refusal(code: ErrorCode, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=code, protocol_name=None, leader="", member_id=member_id, members=[]
    )


def _inconsistent(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, reason)
