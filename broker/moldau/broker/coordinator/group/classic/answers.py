"""The responses of a classic group, built from its state.

A missing protocol name is None here in all versions, because a parked ticket does not hold its
version. The API handler replaces it by an empty string below version 7 of JoinGroup.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from moldau.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from moldau.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.classic.member import Member
    from moldau.broker.coordinator.group.classic.membership import Membership
    from moldau.errors.codes import ErrorCode

NO_LEADER: Final = ""
NO_MEMBER_ID: Final = ""


def joined(group: Membership, member_id: str, members: Iterable[Member] = ()) -> JoinGroupResponse:
    """Build the response that the member is in the current generation. Only the leader's lists
    `members`."""
    return JoinGroupResponse(
        error_code=0,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or NO_LEADER,
        member_id=member_id,
        members=[_joined_member(each, group.protocol_name) for each in members],
    )


def refused_join(code: ErrorCode, member_id: str = NO_MEMBER_ID) -> JoinGroupResponse:
    """Build the rejection of a join. `member_id` is the id to use in the next attempt."""
    return JoinGroupResponse(
        error_code=code, protocol_name=None, leader=NO_LEADER, member_id=member_id, members=[]
    )


def assigned(group: Membership, assignment: bytes) -> SyncGroupResponse:
    """Build the response with a member's assignment."""
    return SyncGroupResponse(
        error_code=0,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=assignment,
    )


def refused_sync(code: ErrorCode) -> SyncGroupResponse:
    """Build the rejection of a sync, without an assignment."""
    return SyncGroupResponse(error_code=code, assignment=b"")


def _joined_member(member: Member, protocol_name: str | None) -> JoinGroupResponseMember:
    return JoinGroupResponseMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        metadata=member.metadata(protocol_name),
    )
