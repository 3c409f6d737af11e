"""SyncGroup: the leader sends the assignment, and all other members wait for it.

The assignment is in the log before any member receives it, so a generation in which members work
survives a failover. A member that syncs later, in a stable group, gets its assignment at once. If
the log rejects the record, all waiting members are answered with the error, and the group
rebalances.

A waiting ticket is answered when the assignment is in the log, or when an event ends the
generation. If its member syncs again before (its connection broke), the older ticket is answered
with REBALANCE_IN_PROGRESS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.broker.coordinator.group.classic import answers
from moldau.broker.coordinator.group.classic.rebalance import rebalance
from moldau.broker.coordinator.group.classic.records import group_metadata
from moldau.broker.coordinator.group.classic.states import ClassicGroupState
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.classic.membership import Membership
    from moldau.broker.coordinator.group.classic.step import GroupEvent
    from moldau.broker.coordinator.outcome import Ticket
    from moldau.protocol.messages.sync_group import SyncGroupRequest


def on_sync_group(
    group: Membership, step: GroupEvent, message: SyncGroupRequest, ticket: Ticket
) -> None:
    """Handle a member's sync. Raise KafkaError if the member is not in this generation."""
    member = group.check_member(message.member_id, message.group_instance_id)
    if message.generation_id != group.generation_id:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    if _differs(message.protocol_type, group.protocol_type) or _differs(
        message.protocol_name, group.protocol_name
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_syncs.discard(member.member_id)
    if group.state is ClassicGroupState.STABLE:
        step.answer(ticket, answers.assigned(group, member.assignment))
        return
    step.answer(member.take_sync(), answers.refused_sync(ErrorCode.REBALANCE_IN_PROGRESS))
    member.sync_ticket = ticket
    if member.member_id == group.leader_id:
        given = {each.member_id: each.assignment for each in message.assignments}
        _assign(group, step, given)


def _differs(told: str | None, known: str | None) -> bool:
    return told is not None and known is not None and told != known


def _assign(group: Membership, step: GroupEvent, given: dict[str, bytes]) -> None:
    """Append the leader's assignment. Members that it leaves out get an empty assignment."""
    waiting = [
        (member, ticket)
        for member in group.members.values()
        if (ticket := member.take_sync()) is not None
    ]

    def on_replayed() -> None:
        for member in group.members.values():
            member.assignment = given.get(member.member_id, b"")
        restart_sessions(step)
        group.enter(ClassicGroupState.STABLE, step.wall_ms)
        step.services.counts.classic_rebalances.value += 1

    def on_refused(code: ErrorCode, step: GroupEvent) -> None:
        restart_sessions(step)
        rebalance(group, step, f"{code.name} when the assignment was recorded")

    def restart_sessions(step: GroupEvent) -> None:
        for member, _ticket in waiting:
            group.restart_session(member, step.now_ms)

    record = group_metadata(group, assignment=lambda member: given.get(member.member_id, b""))
    step.append(record, on_replayed, on_refused)
    for member, ticket in waiting:
        share = answers.assigned(group, given.get(member.member_id, b""))
        step.answer(ticket, share, if_refused=answers.refused_sync)
