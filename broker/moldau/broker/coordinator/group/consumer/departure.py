"""Members that leave: for ever, for a while (static members), or because they are silent too long.

When the last member of the new protocol leaves and classic members stay, the group becomes a
classic one again, if `group.consumer.migration.policy` allows it (see `downgrade`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import partial

from moldau.broker.coordinator.group.consumer.downgrade import downgraded, may_downgrade, remember
from moldau.broker.coordinator.group.consumer.member import Member
from moldau.broker.coordinator.group.consumer.reconciliation import STATIC_LEAVING_EPOCH
from moldau.broker.coordinator.group.consumer.records import (
    group_epoch,
    member_deleted,
    member_progress,
    regex_deleted,
    target_epoch,
)
from moldau.broker.coordinator.group.consumer.state import ConsumerGroupState
from moldau.broker.coordinator.group.members import (
    absent,
    known_static_member,
    remove_overdue,
    still_counts,
)
from moldau.broker.coordinator.outcome import LogRecord, Outcome, Ticket
from moldau.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def on_leave(
    state: ConsumerGroupState, message: ConsumerGroupHeartbeatRequest, ticket: Ticket
) -> Outcome:
    """Remove a member (epoch -1), or mark a static member as absent (epoch -2). An absent member is
    expected back before its session ends. Its partitions stay assigned to it meanwhile."""
    if message.instance_id is None:
        member = state.member(message.member_id)
    else:
        member = known_static_member(state, message.member_id, message.instance_id)
    response = ConsumerGroupHeartbeatResponse(
        error_code=0,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        heartbeat_interval_ms=0,
    )
    if message.instance_id is None or message.member_epoch != STATIC_LEAVING_EPOCH:
        return Outcome(records_without(state, (member,)), ((ticket, response),))
    record = member_progress(state.group_id, member.member_id, absent(member.progress))
    return Outcome((record,), ((ticket, response),))


def records_without(state: ConsumerGroupState, gone: Collection[Member]) -> tuple[LogRecord, ...]:
    """Return the records that remove these members from the group, with one new group epoch."""
    if not gone:
        return ()
    if may_downgrade(state, gone):
        ids = {each.member_id for each in gone}
        stay = [each for each in state.members.values() if each.member_id not in ids]
        remember(state, stay, rebalances=True)
        return downgraded(state, stay)
    records: list[LogRecord] = []
    for member in gone:
        records += member_deleted(state.group_id, member.member_id)
    leaving = Counter(each.profile.topic_regex for each in gone if each.profile.topic_regex)
    for regex in sorted(leaving):
        if state.regexes[regex] == leaving[regex]:
            records.append(regex_deleted(state.group_id, regex))
    metadata_hash = state.volatile.hashes.of(state.topic_names(gone), state.services.cluster)
    records.append(group_epoch(state.group_id, state.epoch + 1, metadata_hash))
    if len(gone) == len(state.members):  # nothing is to be assigned
        records.append(target_epoch(state.group_id, state.epoch + 1, 0))
    return tuple(records)


def on_overdue(state: ConsumerGroupState, now_ms: int) -> Outcome:
    """Remove all members with an overdue deadline, together."""
    return remove_overdue(
        state,
        state.volatile.deadlines,
        now_ms,
        lambda what, member: still_counts(what, member.progress),
        partial(records_without, state),
    )
