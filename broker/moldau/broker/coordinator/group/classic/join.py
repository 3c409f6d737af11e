"""JoinGroup: a member comes in, comes back, or says that it wants something else.

* KIP-394: a dynamic member that has no id yet is given one and told to join with it (version 4 and
  newer). Until it does its id is pending, and holds up the join phase: it is about to come.
* KIP-345: a static member that comes back without its member id takes its place again under a new
  id, and who holds the old one is fenced. In a stable group, if the assignor stays the same, that
  needs no rebalance: the new id is recorded, and the member syncs for the assignment it had. If it
  is the leader it is told to assign nothing (KIP-814, version 9 and newer; older leaders are given
  the old leader's id, so that they take themselves for followers).
* A member that joins again with what it said before is answered at once while there is nothing to
  do; the leader never in a stable group: it joins when topics have changed.

A ticket that waits in a join is answered when the generation begins; when the member joins again
before (its connection broke) the older ticket hears REBALANCE_IN_PROGRESS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.broker.coordinator.group.classic import answers
from moldau.broker.coordinator.group.classic.member import Member, MemberProtocol, protocols_of
from moldau.broker.coordinator.group.classic.protocols import select_protocol
from moldau.broker.coordinator.group.classic.rebalance import expel, rebalance_or_go_on
from moldau.broker.coordinator.group.classic.records import founding_metadata, group_metadata
from moldau.broker.coordinator.group.classic.states import State
from moldau.broker.settings import coordinator
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.limits import MAX_STRING_BYTES

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.classic.membership import Membership
    from moldau.broker.coordinator.group.classic.step import Step
    from moldau.broker.coordinator.group.contract import Caller
    from moldau.broker.coordinator.outcome import Ticket
    from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

NEW_MEMBER_TIMEOUT_MS: Final = 5 * 60 * 1000
"""For how long a new member may wait in its first join: its client may be gone, and a parked
connection does not tell."""

_REASON_LENGTH_MAX: Final = 255
_REBALANCE_TIMEOUT_SINCE: Final = 1
_MEMBER_ID_REQUIRED_SINCE: Final = 4
_SKIP_ASSIGNMENT_SINCE: Final = 9


class Join(NamedTuple):
    """A JoinGroup request with who sent it."""

    message: JoinGroupRequest
    caller: Caller
    ticket: Ticket
    protocols: tuple[MemberProtocol, ...]

    @classmethod
    def of(cls, message: JoinGroupRequest, caller: Caller, ticket: Ticket) -> Join:
        return cls(message, caller, ticket, protocols_of(message))

    @property
    def rebalance_timeout_ms(self) -> int:
        """Version 0 has one timeout for both."""
        if self.caller.api_version < _REBALANCE_TIMEOUT_SINCE:
            return self.message.session_timeout_ms
        return self.message.rebalance_timeout_ms


def on_join_group(group: Membership, step: Step, join: Join) -> None:
    """A member joins; whoever it is, it is answered now or when the generation begins."""
    message = join.message
    names = [each.name for each in join.protocols]
    if not _accepts(group, step, message.member_id):
        # if it was in, or about to be, it has come too late for the room that was left
        expel(group, step, message.member_id)
        _refuse(step, join, ErrorCode.GROUP_MAX_SIZE_REACHED, answers.NO_MEMBER_ID)
    elif not group.supports(message.protocol_type, names):
        _refuse(step, join, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message.member_id)
    elif not message.member_id:
        _join_newly(group, step, join)
    elif message.member_id in group.pending_joins:
        if message.group_instance_id is not None:
            # only dynamic members are given ids beforehand
            _refuse(step, join, ErrorCode.UNKNOWN_SERVER_ERROR, answers.NO_MEMBER_ID)
        else:
            _add(group, step, join, message.member_id)
    else:
        _join_again(group, step, join)


def found(group: Membership, step: Step) -> None:
    """The group enters the log with its first join; if it cannot, nobody is in it."""

    def on_refused(code: ErrorCode, step: Step) -> None:
        for member in group.members.values():
            step.answer(member.join_ticket, answers.refused_join(code))
        group.begin_anew()

    step.append(founding_metadata(group), lambda: None, on_refused)


def _accepts(group: Membership, step: Step, member_id: str) -> bool:
    """Whether `group.max.size` leaves room. While members join, those who have joined count, so
    that the last ones are turned away; after that who is in stays in."""
    most = step.world.settings[coordinator.group_max_size]
    member = group.members.get(member_id)
    if group.state is State.EMPTY:
        return True
    if group.state is State.PREPARING_REBALANCE:
        return (member is not None and member.is_joining) or group.joining_count < most
    return member is not None or len(group.members) < most


def _join_newly(group: Membership, step: Step, join: Join) -> None:
    instance_id = join.message.group_instance_id
    prefix = join.caller.client_id if instance_id is None else instance_id
    new_id = _new_member_id(step, prefix)
    if instance_id is not None:
        old_id = group.static_ids.get(instance_id)
        if old_id is not None:
            _come_back(group, step, join, group.members[old_id], new_id)
            return
    elif join.caller.api_version >= _MEMBER_ID_REQUIRED_SINCE:
        group.pending_joins.add(new_id)
        group.deadlines.set(new_id, step.now_ms + join.message.session_timeout_ms)
        response = answers.refused_join(ErrorCode.MEMBER_ID_REQUIRED, new_id)
        step.answer(join.ticket, response, if_refused=answers.refused_join)
        return
    _add(group, step, join, new_id)


def _new_member_id(step: Step, prefix: str) -> str:
    """The prefix and a random UUID, as Java writes it. KafkaError when no answer can hold that."""
    raw = bytearray(step.world.random.randbytes(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    name = "-".join((prefix, text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
    if len(name.encode()) > MAX_STRING_BYTES:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "too long a client id or GroupInstanceId")
    return name


def _add(group: Membership, step: Step, join: Join, member_id: str) -> None:
    """A member that was not there comes in and waits for the next generation."""
    message, caller = join.message, join.caller
    member = Member(
        member_id=member_id,
        instance_id=message.group_instance_id,
        client_id=caller.client_id,
        client_host=caller.client_host,
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


def _join_again(group: Membership, step: Step, join: Join) -> None:
    """A member that is in the group joins, under the id it was given."""
    message = join.message
    try:
        member = group.check_member(message.member_id, message.group_instance_id)
    except KafkaError as error:
        _refuse(step, join, error.code, message.member_id)
        return
    is_same = member.protocols == join.protocols
    is_leader = member.member_id == group.leader_id
    if group.state is State.COMPLETING_REBALANCE and is_same:
        # it may not have got the answer to its join
        told = group.members.values() if is_leader else ()
        step.answer(join.ticket, answers.joined(group, member.member_id, told))
    elif group.state is State.STABLE and is_same and not is_leader:
        step.answer(join.ticket, answers.joined(group, member.member_id))
    else:
        _renew(group, step, join, member)
        rebalance_or_go_on(group, step, _reason(f"{member.member_id} joins again", message))


def _renew(group: Membership, step: Step, join: Join, member: Member) -> None:
    """The member says anew what it wants, and waits."""
    group.renew(member, join.protocols)
    member.session_timeout_ms = join.message.session_timeout_ms
    member.rebalance_timeout_ms = join.rebalance_timeout_ms
    _park(group, step, join, member)


def _park(group: Membership, step: Step, join: Join, member: Member) -> None:
    """The ticket of a member that joins; the group is about to be, or is, PreparingRebalance."""
    before = group.set_join_ticket(member, join.ticket)
    step.answer(before, answers.refused_join(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))


def _come_back(group: Membership, step: Step, join: Join, old: Member, new_id: str) -> None:
    """A static member has lost its member id, most likely by a restart."""
    message = join.message
    new = old.reborn(new_id, join.protocols, message.session_timeout_ms, join.rebalance_timeout_ms)
    if group.state is State.STABLE and _selected_with(group, old, new) == group.protocol_name:
        _record_come_back(group, step, join, old, new)
        return
    _fence(group, step, old)
    group.replace(old, new)
    group.set_join_ticket(new, join.ticket)
    group.restart_session(new, step.now_ms)
    # Also while the leader assigns: it may be assigning to the old id at this moment.
    reason = _reason(f"static member {new.instance_id} came back as {new_id}", message)
    rebalance_or_go_on(group, step, reason)


def _record_come_back(group: Membership, step: Step, join: Join, old: Member, new: Member) -> None:
    """No rebalance: the new id takes the old one's place when the log has it."""
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
    if join.caller.api_version >= _SKIP_ASSIGNMENT_SINCE:
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
    """The assignor that the members would agree on if `new` stood in for `old`."""
    return select_protocol(_members_with(group, old, new))


def _fence(group: Membership, step: Step, old: Member) -> None:
    """Whoever still waits under the old id is a duplicate."""
    code = ErrorCode.FENCED_INSTANCE_ID
    step.answer(group.set_join_ticket(old, None), answers.refused_join(code, old.member_id))
    step.answer(old.take_sync(), answers.refused_sync(code))


def _refuse(step: Step, join: Join, code: ErrorCode, member_id: str) -> None:
    step.answer(join.ticket, answers.refused_join(code, member_id))


def _reason(what: str, message: JoinGroupRequest) -> str:
    """For the log, with the client's own reason (KIP-800)."""
    told = (message.reason or "not provided")[:_REASON_LENGTH_MAX]
    return f"{what}; client reason: {told}"
