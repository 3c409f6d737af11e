"""The requests of a classic member. No IO."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.client.group.member import Ask, Identity, MemberSettings
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from moldau.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from moldau.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)


def join(
    terms: MemberSettings,
    member_id: str,
    protocol_type: str,
    protocols: Mapping[str, bytes],
    reason: str,
) -> Ask:
    """Return a request to join, or join again; answered when all members have joined, or the
    rebalance takes too long."""
    request = JoinGroupRequest(
        group_id=terms.group_id,
        session_timeout_ms=round(terms.session_timeout_s * 1000),
        rebalance_timeout_ms=round(terms.poll_interval_s * 1000),
        member_id=member_id,
        group_instance_id=terms.instance_id,
        protocol_type=protocol_type,
        protocols=[
            JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols.items()
        ],
        reason=reason or None,
    )
    return Ask(request, JoinGroupResponse, terms.rebalance_answer_s)


def sync(
    terms: MemberSettings,
    member: Identity,
    protocol_type: str,
    protocol: str,
    shares: Mapping[str, bytes],
) -> Ask:
    """Return a request for the member's share; the leader's has the shares of all."""
    request = SyncGroupRequest(
        group_id=terms.group_id,
        generation_id=member.epoch,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        protocol_type=protocol_type,
        protocol_name=protocol,
        assignments=[
            SyncGroupRequestAssignment(member_id=name, assignment=data)
            for name, data in shares.items()
        ],
    )
    return Ask(request, SyncGroupResponse, terms.rebalance_answer_s)


def heartbeat(terms: MemberSettings, member: Identity) -> Ask:
    """Return a heartbeat."""
    request = HeartbeatRequest(
        group_id=terms.group_id,
        generation_id=member.epoch,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
    )
    return Ask(request, HeartbeatResponse)


def leave(terms: MemberSettings, member_id: str, reason: str) -> Ask:
    """Return a request to leave the group."""
    request = LeaveGroupRequest(
        group_id=terms.group_id,
        members=[
            MemberIdentity(
                member_id=member_id, group_instance_id=terms.instance_id, reason=reason or None
            )
        ],
    )
    return Ask(request, LeaveGroupResponse)


def describe(terms: MemberSettings) -> Ask:
    """Return a request for the partitions of each member."""
    return Ask(DescribeGroupsRequest(groups=[terms.group_id]), DescribeGroupsResponse)
