"""The core of a `GroupMember`: its user has a protocol of its own, in bytes. No IO.

`classic` handles the group. This module has the calls of the user's `Protocols`: the shell takes
one with `begin_call`, makes it, and calls `on_called`. A call and a request may be pending at the
same time: heartbeats continue while the user's code runs. A join waits for the calls before it:
`on_revoked` (or `on_lost`), then `metadata`.

Invariants:
- After `on_assigned` the user gets `on_revoked` before the member joins again or leaves, and
  `on_lost`, at most once, when the membership is gone: the coordinator no longer knows the member,
  or did not answer for a session. Then comes another `on_assigned`, or the end.
- Calls never overlap, and each begins after those before it have ended.
- An error that a retry does not heal, and an exception from a call, end the membership: the member
  leaves, so that the group can continue, and `error` has the cause.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final, cast

from moldau.client.group.classic import NO_GENERATION, ClassicMember, ClassicMemberState
from moldau.client.group.member import NOBODY, Identity, MemberSettings, Ready, in_words
from moldau.client.group.protocols import GenerationAssignment
from moldau.deferred import dataclass
from moldau.errors import BadData, MoldauError, without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Response
from moldau.protocol.messages.join_group import JoinGroupResponse

if TYPE_CHECKING:
    from random import Random

_HINTS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "no protocol is common to all members of the group, or "
    "the group is of another protocol type",
    ErrorCode.INVALID_SESSION_TIMEOUT: "session.timeout.ms is outside of what the broker allows, "
    "see group.min.session.timeout.ms and group.max.session.timeout.ms there",
    ErrorCode.FENCED_INSTANCE_ID: "another member has joined with this group.instance.id: give "
    "each its own",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has as many members as group.max.size allows",
}


class AssignorMethod(Enum):
    """A method of `Protocols`."""

    METADATA = "metadata"
    ASSIGN = "assign"
    ASSIGNED = "on_assigned"
    REVOKED = "on_revoked"
    LOST = "on_lost"


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the user's `Protocols`, with its arguments."""

    step: AssignorMethod
    arguments: tuple[object, ...] = ()


class OpaqueMember:
    """One member. Its user decides about all bytes sent to the group and got from it."""

    def __init__(self, terms: MemberSettings, protocol_type: str, random: Random) -> None:
        """`terms.poll_interval_s` is how long the group waits for a member to join again."""
        self.terms = terms
        self.protocol_type = protocol_type
        self.notices: list[MoldauError] = []
        """What the shell must log, and then remove."""
        self.error: BaseException | None = None
        """Why the member is out of its group, until `begin`."""
        self._group = ClassicMember(self, random)
        self._calls: deque[Call] = deque()
        self._running: Call | None = None
        self._metadata: dict[str, bytes] | None = None
        """The metadata of the next join; None until the user has returned it."""
        self._has_share = False
        """Whether the user has a share that was not lost."""
        self._is_told_of_end = False
        """Whether `on_revoked` was called, or is to be, for the present share."""
        self._again: str | None = None
        """Why to join again as soon as the present generation has begun."""

    @property
    def identity(self) -> Identity:
        """The identity for commits; `NOBODY` while it has no generation."""
        return NOBODY if self._group.generation == NO_GENERATION else self._group.identity

    @property
    def is_leader(self) -> bool:
        """Whether it makes the assignments of the current generation."""
        return self._group.is_leader

    @property
    def is_out(self) -> bool:
        """Whether it is out of its group, and no call is left."""
        return self._group.state is ClassicMemberState.OUT and self._is_free

    @property
    def _is_free(self) -> bool:
        return self._running is None and not self._calls

    # Calls of the user

    def begin(self, reason: str = "") -> None:
        """Join, also after an error."""
        if self._group.state is ClassicMemberState.OUT:
            self.error = None
            self._prepare()
            self._group.begin(reason)

    def rejoin(self, reason: str) -> None:
        """Make all members join again; after an error start a new membership."""
        if self._group.state is ClassicMemberState.OUT:
            self.begin(reason)
        elif self._group.state is ClassicMemberState.STABLE:
            self._group.join_again(reason)
        elif self._group.state is not ClassicMemberState.LEAVING and not self._is_to_be_asked:
            self._again = reason  # the group may have this member's metadata already

    @property
    def _is_to_be_asked(self) -> bool:
        return any(each.step is AssignorMethod.METADATA for each in self._calls)

    def leave(self, reason: str) -> None:
        """Let the user give up its share, then leave, unless the member is static (`Terms`)."""
        if self._group.state not in (ClassicMemberState.OUT, ClassicMemberState.LEAVING):
            self._again = None
            self._drop(AssignorMethod.METADATA, AssignorMethod.ASSIGN)
            self._report_end()
            self._group.depart(reason)

    def fail(self, error: BaseException) -> None:
        """End the membership with an error, and leave."""
        self.error = self.error or without_frames(error)
        self.leave(f"the member has failed: {error}"[:255])

    # Called by the shell

    def begin_call(self) -> Call | None:
        """Return the call to make now; one at a time."""
        if self._running is not None or not self._calls:
            return None
        self._running = self._calls.popleft()
        return self._running

    def on_called(self, call: Call, answer: object) -> None:
        """Apply the result of a call, which `checked` has accepted."""
        assert call is self._running, "no such call is under way"
        self._running = None
        if call.step is AssignorMethod.METADATA and self._group.state is ClassicMemberState.JOINING:
            if not self._calls:  # else another METADATA follows: the membership was lost meanwhile
                self._metadata = cast("dict[str, bytes]", answer)
        elif call.step is AssignorMethod.ASSIGN:
            self._group.share_out(cast("dict[str, bytes]", answer))

    def on_call_failed(self, call: Call, error: BaseException) -> None:
        """End the membership because a call has raised. The calls for that end are still made."""
        assert call is self._running, "no such call is under way"
        self._running = None
        self.fail(error)

    def ready(self, now: float) -> Ready:
        """Return what to do now, apart from the calls."""
        if not self._group.is_waiting and self._group.is_unheard(now):
            self._group.lose("nothing was heard of the coordinator for session.timeout.ms")
        return self._group.ready(now)

    def on_answer(self, answer: Response | KafkaError, now: float) -> None:
        """Apply the response to the request from `ready`, or the error if it could not be sent."""
        self._group.on_answer(answer, now)

    def on_commit_refused(self, identity: Identity, code: ErrorCode) -> None:
        """Handle a rejected commit: its code may mean that the membership is lost."""
        self._group.on_commit_refused(identity, code)

    # Called by the group (`ClassicProtocol`)

    def offer(self) -> dict[str, bytes] | None:
        """Return the user's metadata for the next join; None until all calls have ended."""
        return self._metadata if self._is_free else None

    def may_leave(self) -> bool:
        """Whether the user has given up its share."""
        return self._is_free

    def on_joined(self, answer: JoinGroupResponse, *, has_missed: bool) -> bool:
        """Queue a call of `assign` at the leader, unless the group still has its assignments.
        Return whether there is one."""
        self._metadata = None
        if not self._group.is_leader or answer.skip_assignment:
            return False
        told = {each.member_id: bytes(each.metadata) for each in answer.members}
        arguments = (self._group.protocol_name, self._group.leader_id, told)
        self._calls.append(Call(AssignorMethod.ASSIGN, arguments))
        return True

    def on_share(self, assignment: bytes, now: float) -> None:
        """Queue a call of `on_assigned` with the share."""
        group = self._group
        told = GenerationAssignment(
            group.generation, group.member_id, group.leader_id, group.protocol_name, assignment
        )
        self._calls.append(Call(AssignorMethod.ASSIGNED, (told,)))
        self._has_share, self._is_told_of_end = True, False
        if self._again is not None:
            group.join_again(self._again)

    def on_rebalance(self) -> None:
        """Queue a call of `on_revoked`, then one of `metadata` for the next join."""
        self._drop(AssignorMethod.METADATA, AssignorMethod.ASSIGN)
        self._report_end()
        self._prepare()

    def on_lost(self, error: KafkaError | BadData | None) -> None:
        """Queue a call of `on_lost`, then one of `metadata` to join again, or keep the error."""
        self._drop(AssignorMethod.METADATA, AssignorMethod.ASSIGN, AssignorMethod.REVOKED)
        if self._has_share:
            self._has_share = False
            self._calls.append(Call(AssignorMethod.LOST))
        if error is None:
            self._prepare()
        else:
            if isinstance(error, KafkaError):
                instance = self.terms.instance_id
                facts = {} if instance is None else {"instance": instance}
                facts["protocol_type"] = self.protocol_type
                error = in_words(error, self.terms, _HINTS, **facts)
            self.error = self.error or without_frames(error)

    # Calls

    def _prepare(self) -> None:
        self._metadata = self._again = None
        self._calls.append(Call(AssignorMethod.METADATA))

    def _report_end(self) -> None:
        if self._has_share and not self._is_told_of_end:
            self._is_told_of_end = True
            self._calls.append(Call(AssignorMethod.REVOKED))

    def _drop(self, *steps: AssignorMethod) -> None:
        """Remove calls that have not begun and would be wrong now."""
        self._calls = deque(each for each in self._calls if each.step not in steps)


def checked(step: AssignorMethod, answer: object) -> object:
    """Return the checked result of a call. Raise TypeError or ValueError if it is wrong."""
    if step is AssignorMethod.METADATA:
        return _checked_metadata(cast("Iterable[tuple[object, object]]", answer))
    if step is AssignorMethod.ASSIGN:
        return _checked_shares(cast("Mapping[object, object]", answer))
    return None


def _checked_metadata(metadata: Iterable[tuple[object, object]]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name, data in metadata:
        if not isinstance(name, str) or not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"metadata() gives pairs of (protocol, bytes), not {(name, data)!r}")
        if name in found:
            raise ValueError(f"metadata() names the protocol {name!r} twice")
        found[name] = bytes(data)
    if not found:
        raise ValueError("metadata() names no protocol: a member speaks at least one")
    return found


def _checked_shares(shares: Mapping[object, object]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for member, share in shares.items():
        if not isinstance(member, str) or not isinstance(share, bytes | bytearray | memoryview):
            raise TypeError(f"assign() gives bytes by member id, not {share!r} for {member!r}")
        found[member] = bytes(share)
    return found
