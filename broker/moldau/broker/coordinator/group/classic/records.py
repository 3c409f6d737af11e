"""Convert a classic group to its record of `__consumer_offsets`, and back.

Version 3, as Kafka 4.3.1 writes it. The record holds the assignor of the generation and each
member's subscription for it. The other protocols of a member are known again after it joins again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from moldau.broker.coordinator.group.classic.member import Member, MemberProtocol
from moldau.broker.coordinator.outcome import LogRecord
from moldau.protocol.schemas.group_log import GroupMetadataKey, GroupMetadataValue, MemberMetadata

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.classic.membership import Membership

_VERSION: Final = 3
_UNKNOWN: Final = -1


def group_metadata(
    group: Membership,
    *,
    members: Iterable[Member] | None = None,
    leader_id: str | None = None,
    assignment: Callable[[Member], bytes] = lambda member: member.assignment,
) -> LogRecord:
    """Return the record of the group in its current state, or with other members (and then their
    leader), or with other assignments."""
    if members is None:
        members, leader_id = group.members.values(), group.leader_id
    return recorded(
        group.group_id,
        GroupMetadataValue(
            protocol_type=group.protocol_type,
            generation=group.generation_id,
            protocol=group.protocol_name,
            leader=leader_id,
            current_state_timestamp=_or_unknown(group.state_since_ms),
            members=[
                member_metadata(each, group.protocol_name, assignment(each)) for each in members
            ],
        ),
    )


def founding_metadata(group: Membership) -> LogRecord:
    """Return the record of a group that has had no generation."""
    return recorded(
        group.group_id,
        GroupMetadataValue(
            protocol_type="",
            generation=0,
            protocol=None,
            leader=None,
            current_state_timestamp=_or_unknown(group.state_since_ms),
            members=[],
        ),
    )


def tombstone(group_id: str) -> LogRecord:
    """Return the tombstone of the group."""
    return LogRecord(GroupMetadataKey(group=group_id))


def loaded_members(value: GroupMetadataValue) -> list[Member]:
    """Return the members in the record."""
    return [
        Member(
            member_id=each.member_id,
            instance_id=each.group_instance_id,
            client_id=each.client_id,
            client_host=each.client_host,
            session_timeout_ms=each.session_timeout,
            # Version 0 had one timeout for session and rebalance.
            rebalance_timeout_ms=(
                each.session_timeout
                if each.rebalance_timeout == _UNKNOWN
                else each.rebalance_timeout
            ),
            protocols=(MemberProtocol(value.protocol or "", each.subscription),),
            assignment=each.assignment,
        )
        for each in value.members
    ]


def recorded(group_id: str, value: GroupMetadataValue) -> LogRecord:
    """Return the record of the group with this value."""
    return LogRecord(GroupMetadataKey(group=group_id), value, _VERSION)


def member_metadata(member: Member, protocol_name: str | None, assignment: bytes) -> MemberMetadata:
    """Convert a member to its form in the group's record."""
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol_name),
        assignment=assignment,
    )


def _or_unknown(wall_ms: int | None) -> int:
    return _UNKNOWN if wall_ms is None else wall_ms
