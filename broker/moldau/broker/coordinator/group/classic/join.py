"""JoinGroup: a member joins, comes back, or changes its subscription.

* KIP-394: a dynamic member without an id receives one, and must join again with it (version 4 and
  newer). Until then the id is pending. The join phase waits for it, because the member is expected
  to join soon.
* KIP-345: a static member that comes back without its member id takes its place again with a new
  id, and a client with the old id is fenced. In a stable group no rebalance is needed if the
  assignor stays the same: the new id is recorded, and the member syncs to get its former
  assignment. If the member is the leader, the response tells it to skip the assignment (KIP-814,
  version 9 and newer). An older leader receives the old leader's id, so that it acts as a follower.
* A member that joins again with unchanged metadata is answered at once if there is nothing to do.
  This never applies to the leader of a stable group: it joins when topics have changed.

A ticket that waits in a join is answered when the generation begins. If the member joins again
before (its connection broke), the older ticket is answered with REBALANCE_IN_PROGRESS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.broker.coordinator.group.classic import answers
from moldau.broker.coordinator.group.classic.member import Member, MemberProtocol, protocols_of
from moldau.broker.coordinator.group.classic.protocols import select_protocol
from moldau.broker.coordinator.group.classic.rebalance import expel, rebalance_or_go_on
from moldau.broker.coordinator.group.classic.records import founding_metadata, group_metadata
from moldau.broker.coordinator.group.classic.states import ClassicGroupState
from moldau.broker.settings import coordinator
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.limits import MAX_STRING_BYTES

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.classic.membership import Membership
    from moldau.broker.coordinator.group.classic.step import GroupEvent
    from moldau.broker.coordinator.outcome import Ticket
    from moldau.broker.decision.context import RequestContext
    from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

NEW_MEMBER_TIMEOUT_MS: Final = 5 * 60 * 1000
"""How long a new member may wait in its first join. Its client may be gone, and a parked connection
does not show that."""

_REASON_LENGTH_MAX: Final = 255
_REBALANCE_TIMEOUT_SINCE: Final = 1
_MEMBER_ID_REQUIRED_SINCE: Final = 4
_SKIP_ASSIGNMENT_SINCE: Final = 9


class Join(NamedTuple):
    """A JoinGroup request with its context and ticket."""

    message: JoinGroupRequest
    context: RequestContext
    ticket: Ticket
    protocols: tuple[MemberProtocol, ...]

    @classmethod
    def of(cls, message: JoinGroupRequest, context: RequestContext, ticket: Ticket) -> Join:
        return cls(message, context, ticket, protocols_of(message))

    @property
    def rebalance_timeout_ms(self) -> int:
        """The rebalance timeout. Version 0 has one timeout for session and rebalance."""
        if self.context.version < _REBALANCE_TIMEOUT_SINCE:
            return self.message.session_timeout_ms
        return self.message.rebalance_timeout_ms


def on_join_group(group: Membership, step: GroupEvent, join: Join) -> None:
    """Handle a JoinGroup request. It is answered now or when the generation begins."""
    message = join.message
    names = [each.name for each in join.protocols]
    if not _accepts(group, step, message.member_id):
        # A current or pending member that joins too late, when the group is full, must leave.
        expel(group, step, message.member_id)
        _refuse(step, join, ErrorCode.GROUP_MAX_SIZE_REACHED, answers.NO_MEMBER_ID)
    elif not group.supports(message.protocol_type, names):
        _refuse(step, join, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message.member_id)
    elif not message.member_id:
        _join_newly(group, step, join)
    elif message.member_id in group.pending_joins:
        if message.group_instance_id is not None:
            # Only dynamic members are given ids in advance.
            _refuse(step, join, ErrorCode.UNKNOWN_SERVER_ERROR, answers.NO_MEMBER_ID)
        else:
            _add(group, step, join, message.member_id)
    else:
        _join_again(group, step, join)


def found(group: Membership, step: GroupEvent) -> None:
    """Append the group's first record with its first join. If the append is rejected, the group is
    empty again."""

    def on_refused(code: ErrorCode, step: GroupEvent) -> None:
        for member in group.members.values():
            step.answer(member.join_ticket, answers.refused_join(code))
        group.begin_anew()

    step.append(founding_metadata(group), lambda: None, on_refused)


def _accepts(group: Membership, step: GroupEvent, member_id: str) -> bool:
    """Whether `group.max.size` leaves room for the member. During a rebalance only members that
    have joined count, so the last ones are rejected. At other times a current member stays."""
    most = step.services.settings[coordinator.group_max_size]
    member = group.members.get(member_id)
    if group.state is ClassicGroupState.EMPTY:
        return True
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        return (member is not None and member.is_joining) or group.joining_count < most
    return member is not None or len(group.members) < most


def _join_newly(group: Membership, step: GroupEvent, join: Join) -> None:
    instance_id = join.message.group_instance_id
    prefix = join.context.client_id if instance_id is None else instance_id
    new_id = _new_member_id(step, prefix)
    if instance_id is not None:
        old_id = group.static_ids.get(instance_id)
        if old_id is not None:
            _come_back(group, step, join, group.members[old_id], new_id)
            return
    elif join.context.version >= _MEMBER_ID_REQUIRED_SINCE:
        group.pending_joins.add(new_id)
        group.deadlines.set(new_id, step.now_ms + join.message.session_timeout_ms)
        response = answers.refused_join(ErrorCode.MEMBER_ID_REQUIRED, new_id)
        step.answer(join.ticket, response, if_refused=answers.refused_join)
        return
    _add(group, step, join, new_id)


def _new_member_id(step: GroupEvent, prefix: str) -> str:
    """Return the prefix and a random UUID, in Java's format. Raise KafkaError if the id is too long
    for a response."""
    raw = bytearray(step.services.random.randbytes(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    name = "-".join((prefix, text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
    if len(name.encode()) > MAX_STRING_BYTES:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "too long a client id or GroupInstanceId")
    return name


def _add(group: Membership, step: GroupEvent, join: Join, member_id: str) -> None:
    """Add a new member, which waits for the next generation."""
    message, context = join.message, join.context
    member = Member(
        member_id=member_id,
        instance_id=message.group_instance_id,
        client_id=context.client_id,
        client_host=context.client_host,
        session_timeout_ms=message.session_timeout_ms,
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        protocols=join.protocols,
        is_new=True,
        join_ticket=join.ticket,
    )
    if group.initial_delay is not None:
        group.initial_delay.has_newcomer = True
    group.add(member, message.protocol_type)
    group.deadlines.set(member_id, step.now_ms + NEW_MEMBER_TIMEOUT_MS)
    rebalance_or_go_on(group, step, _reason(f"new member {member_id}", message))


def _join_again(group: Membership, step: GroupEvent, join: Join) -> None:
    """Handle a join that has the id of a current member."""
    message = join.message
    try:
        member = group.check_member(message.member_id, message.group_instance_id)
    except KafkaError as error:
        _refuse(step, join, error.code, message.member_id)
        return
    is_same = member.protocols == join.protocols
    is_leader = member.member_id == group.leader_id
    if group.state is ClassicGroupState.COMPLETING_REBALANCE and is_same:
        # The member may not have received the response to its join.
        told = group.members.values() if is_leader else ()
        step.answer(join.ticket, answers.joined(group, member.member_id, told))
    elif group.state is ClassicGroupState.STABLE and is_same and not is_leader:
        step.answer(join.ticket, answers.joined(group, member.member_id))
    else:
        _renew(group, step, join, member)
        rebalance_or_go_on(group, step, _reason(f"{member.member_id} joins again", message))


def _renew(group: Membership, step: GroupEvent, join: Join, member: Member) -> None:
    """Replace the member's protocols and timeouts, and park its ticket."""
    group.renew(member, join.protocols)
    member.session_timeout_ms = join.message.session_timeout_ms
    member.rebalance_timeout_ms = join.rebalance_timeout_ms
    _park(group, step, join, member)


def _park(group: Membership, step: GroupEvent, join: Join, member: Member) -> None:
    """Park the ticket of a joining member, and answer its older one. The group is in
    PreparingRebalance, or is about to enter it."""
    before = group.set_join_ticket(member, join.ticket)
    step.answer(before, answers.refused_join(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))


def _come_back(group: Membership, step: GroupEvent, join: Join, old: Member, new_id: str) -> None:
    """Replace a static member that lost its member id, most likely by a restart."""
    message = join.message
    new = old.reborn(new_id, join.protocols, message.session_timeout_ms, join.rebalance_timeout_ms)
    if (
        group.state is ClassicGroupState.STABLE
        and _selected_with(group, old, new) == group.protocol_name
    ):
        _record_come_back(group, step, join, old, new)
        return
    _fence(group, step, old)
    group.replace(old, new)
    group.set_join_ticket(new, join.ticket)
    group.restart_session(new, step.now_ms)
    # A rebalance is needed even while the leader assigns: it may be assigning to the old id right
    # now.
    reason = _reason(f"static member {new.instance_id} came back as {new_id}", message)
    rebalance_or_go_on(group, step, reason)


def _record_come_back(
    group: Membership, step: GroupEvent, join: Join, old: Member, new: Member
) -> None:
    """Replace the old id by the new one without a rebalance, once the record is in the log."""
    members = _members_with(group, old, new)
    was_leader_id = group.leader_id
    is_leader = was_leader_id == old.member_id
    leader_id = new.member_id if is_leader else was_leader_id

    def on_replayed() -> None:
        group.replace(old, new)
        group.restart_session(new, step.now_ms)
        group.recount_topics()

    record = group_metadata(group, members=members, leader_id=leader_id)
    step.append(record, on_replayed, lambda code, step: None)
    if join.context.version >= _SKIP_ASSIGNMENT_SINCE:
        response = answers.joined(group, new.member_id, members if is_leader else ())
        response.leader = leader_id or answers.NO_LEADER
        response.skip_assignment = is_leader
    else:
        response = answers.joined(group, new.member_id)

    def if_refused(code: ErrorCode) -> JoinGroupResponse:
        refused = answers.joined(group, answers.NO_MEMBER_ID)
        refused.error_code = code
        return refused

    step.answer(join.ticket, response, if_refused=if_refused)


def _members_with(group: Membership, old: Member, new: Member) -> list[Member]:
    return [new if each is old else each for each in group.members.values()]


def _selected_with(group: Membership, old: Member, new: Member) -> str | None:
    """Return the assignor that the members would select if `new` replaced `old`."""
    return select_protocol(_members_with(group, old, new))


def _fence(group: Membership, step: GroupEvent, old: Member) -> None:
    """Answer the old id's waiting requests with FENCED_INSTANCE_ID: they are a duplicate's."""
    code = ErrorCode.FENCED_INSTANCE_ID
    step.answer(group.set_join_ticket(old, None), answers.refused_join(code, old.member_id))
    step.answer(old.take_sync(), answers.refused_sync(code))


def _refuse(step: GroupEvent, join: Join, code: ErrorCode, member_id: str) -> None:
    step.answer(join.ticket, answers.refused_join(code, member_id))


def _reason(what: str, message: JoinGroupRequest) -> str:
    """Return the reason of a rebalance for the log, with the client's own reason (KIP-800)."""
    told = (message.reason or "not provided")[:_REASON_LENGTH_MAX]
    return f"{what}; client reason: {told}"
