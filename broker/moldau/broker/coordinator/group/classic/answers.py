"""The answers that a classic group gives, filled in from its state.

A protocol name that is missing is None here, in all versions: who encodes for a version below 7 of
JoinGroup puts the empty text in its place, for a parked ticket does not say its version.
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
    """The member is in the present generation; only the leader is told which `members` are."""
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
    """The member does not come in, and what it should call itself next time."""
    return JoinGroupResponse(
        error_code=code, protocol_name=None, leader=NO_LEADER, member_id=member_id, members=[]
    )


def assigned(group: Membership, assignment: bytes) -> SyncGroupResponse:
    """A member's share."""
    return SyncGroupResponse(
        error_code=0,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=assignment,
    )


def refused_sync(code: ErrorCode) -> SyncGroupResponse:
    """No share this time."""
    return SyncGroupResponse(error_code=code, assignment=b"")


def _joined_member(member: Member, protocol_name: str | None) -> JoinGroupResponseMember:
    return JoinGroupResponseMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        metadata=member.metadata(protocol_name),
    )
