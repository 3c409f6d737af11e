"""Liveness of members: heartbeats, sessions that end, members that leave.

A session ends after the member has been silent for its session timeout. A member that waits for a
response is not silent, unless it is new: it does not know its member id yet, so it cannot leave,
and `NEW_MEMBER_TIMEOUT_MS` limits its wait. If a session ends while its member waits, it has no
effect, and a new session starts when the wait ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.broker.coordinator.group.classic.rebalance import (
    end_joins,
    end_joins_if_all_are_there,
    expel,
    rebalance_or_go_on,
)
from moldau.broker.coordinator.group.classic.states import ClassicGroupState
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.heartbeat import HeartbeatResponse
from moldau.protocol.messages.leave_group import (
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.classic.membership import Membership
    from moldau.broker.coordinator.group.classic.step import GroupEvent
    from moldau.broker.coordinator.outcome import Ticket
    from moldau.protocol.messages.heartbeat import HeartbeatRequest
    from moldau.protocol.messages.leave_group import LeaveGroupRequest


def on_heartbeat(group: Membership, message: HeartbeatRequest, now_ms: int) -> HeartbeatResponse:
    """Handle a heartbeat. The response says whether to join again. A heartbeat only restarts the
    session, so it needs no `Step`."""
    member = group.check_member(message.member_id, message.group_instance_id)
    if message.generation_id != group.generation_id:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    group.restart_session(member, now_ms)
    is_preparing = group.state is ClassicGroupState.PREPARING_REBALANCE
    code = ErrorCode.REBALANCE_IN_PROGRESS if is_preparing else ErrorCode.NONE
    return HeartbeatResponse(error_code=code)


def on_session_end(group: Membership, step: GroupEvent, member_id: str) -> None:
    """Remove a member, or an id that was handed out and never joined, after the session timeout."""
    member = group.members.get(member_id)
    if member is not None and member.keeps_its_session:
        return
    step.services.log.info("member is silent", group=group.group_id, member=member_id)
    was_member = member is not None
    expel(group, step, member_id)
    if was_member and group.state in (
        ClassicGroupState.STABLE,
        ClassicGroupState.COMPLETING_REBALANCE,
    ):
        rebalance_or_go_on(group, step, f"session of {member_id} has ended")
    elif group.state is ClassicGroupState.PREPARING_REBALANCE and group.have_all_joined:
        end_joins(group, step)


def on_leave_group(
    group: Membership, step: GroupEvent, message: LeaveGroupRequest, ticket: Ticket
) -> None:
    """Remove members that leave, or static members that an admin removes by their instance ids. The
    API handler translates requests and responses of versions below 3, with one member."""
    results = [_left(group, step, each) for each in message.members]
    count = sum(each.error_code == 0 for each in results)
    if count and group.state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
        rebalance_or_go_on(group, step, f"{count} members left")
    elif count:
        end_joins_if_all_are_there(group, step)
    step.answer(
        ticket,
        LeaveGroupResponse(error_code=0, members=results),
        if_refused=lambda code: LeaveGroupResponse(error_code=code),
    )


def _left(group: Membership, step: GroupEvent, identity: MemberIdentity) -> MemberResponse:
    code = ErrorCode.NONE
    try:
        expel(group, step, _leaving_id(group, identity))
    except KafkaError as error:
        code = error.code
    return MemberResponse(
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        error_code=code,
    )


def _leaving_id(group: Membership, identity: MemberIdentity) -> str:
    """Return the id of the leaving member. Raise KafkaError if it does not exist."""
    if identity.member_id in group.pending_joins:
        return identity.member_id
    if identity.member_id:
        group.check_member(identity.member_id, identity.group_instance_id)
        return identity.member_id
    member_id = group.static_ids.get(identity.group_instance_id or "")
    if member_id is None or identity.group_instance_id is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member_id
