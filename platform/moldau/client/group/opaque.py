"""A member of a classic group of any protocol type: what it tells and gets are bytes to it. No IO.

    OUT ------> JOINING ----> SYNCING ----> STABLE        follower
     ^             |             ^             |
     |             +-> ASSIGNING +             |          leader: its user makes the assignments
     +-- LEAVING <-+---------------------------+
                   ^---------------------------+          rebalance, rejoin, membership lost

The shell does what `ready` says: one request to the coordinator, or one call of the user's
`Protocols`. A call and a request may be under way at the same time: heartbeats go on while the user
works. A join waits for the calls before it: `on_revoked` (or `on_lost`), then `metadata`.

Invariants:
- After `on_assigned` the user hears `on_revoked` before the member joins again or leaves, and
  `on_lost`, at most once, when the membership is gone: the coordinator no longer knows the member,
  or did not answer for a session. Then comes another `on_assigned`, or the end.
- Calls never overlap, and each begins after those before it have ended.
- An error that a retry does not heal, and an exception from a call, end the membership: the member
  leaves, so that the group goes on, and `error` has the cause.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, cast

from moldau.client.group.classic_requests import heartbeat, join, leave, sync
from moldau.client.group.member import NOBODY, Ask, Identity, Terms
from moldau.client.group.protocols import Assigned
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.protocol.messages.leave_group import LeaveGroupResponse
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from random import Random

NO_GENERATION: Final = -1
_LOST_MEMBERSHIP: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
_HINTS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "no protocol is common to all members of the group, or "
    "the group is of another protocol type",
    ErrorCode.INVALID_SESSION_TIMEOUT: "session.timeout.ms is outside of what the broker allows, "
    "see group.min.session.timeout.ms and group.max.session.timeout.ms there",
    ErrorCode.FENCED_INSTANCE_ID: "another member has joined with this group.instance.id: give "
    "each its own",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has as many members as group.max.size allows",
}


class State(Enum):
    """Where the member is; see above."""

    OUT = "out"
    JOINING = "joining"
    ASSIGNING = "assigning"
    SYNCING = "syncing"
    STABLE = "stable"
    LEAVING = "leaving"


TRANSITIONS: Final[Mapping[State, frozenset[State]]] = {
    State.OUT: frozenset((State.JOINING,)),
    State.JOINING: frozenset((State.ASSIGNING, State.SYNCING, State.LEAVING, State.OUT)),
    State.ASSIGNING: frozenset((State.SYNCING, State.JOINING, State.LEAVING, State.OUT)),
    State.SYNCING: frozenset((State.STABLE, State.JOINING, State.LEAVING, State.OUT)),
    State.STABLE: frozenset((State.JOINING, State.LEAVING, State.OUT)),
    State.LEAVING: frozenset((State.OUT,)),
}


class Step(Enum):
    """A method of `Protocols`."""

    METADATA = "metadata"
    ASSIGN = "assign"
    ASSIGNED = "on_assigned"
    REVOKED = "on_revoked"
    LOST = "on_lost"


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the user's `Protocols`, with its arguments."""

    step: Step
    arguments: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class Ready:
    """What the shell must do: begin `call` and say `on_called` when it has ended; or send `ask` and
    say `on_answer`; or come again at `wake`, or when something has happened."""

    call: Call | None = None
    ask: Ask | None = None
    wake: float | None = None


class OpaqueMember:
    """One member. Its user decides about every byte that it tells and gives."""

    def __init__(self, terms: Terms, protocol_type: str, random: Random) -> None:
        """`terms.poll_interval_s` is how long the group waits for a member to join again."""
        self.terms = terms
        self.protocol_type = protocol_type
        self.state = State.OUT
        self.member_id = ""
        self.generation = NO_GENERATION
        self.leader_id = ""
        self.error: BaseException | None = None
        """Why the member is out, and stays out until `begin`."""
        self._random = random
        self._asked: Ask | None = None
        self._calls: deque[Call] = deque()
        self._running: Call | None = None
        self._metadata: dict[str, bytes] | None = None
        """What the next join tells; None until the user has said it."""
        self._protocol = ""
        self._shares: dict[str, bytes] = {}
        self._has_share = False
        """Whether the user was given a share that was not lost."""
        self._is_told_of_end = False
        """Whether the user has heard since that it may go."""
        self._again: str | None = None
        """Why to join again as soon as the present generation has begun."""
        self._reason = ""
        self._last_heartbeat = 0.0
        self._last_heard = 0.0
        self._failures = 0
        self._not_before = 0.0

    @property
    def identity(self) -> Identity:
        """As which the member commits; `NOBODY` while it has no generation."""
        if self.generation == NO_GENERATION:
            return NOBODY
        return Identity(self.member_id, self.generation, self.terms.instance_id)

    @property
    def is_leader(self) -> bool:
        """Whether it makes the assignments of the present generation."""
        return bool(self.member_id) and self.leader_id == self.member_id

    @property
    def is_idle(self) -> bool:
        """Whether it is out of its group, and nothing is left to be called."""
        return self.state is State.OUT and not self._calls and self._running is None

    def _go(self, state: State) -> None:
        assert state is self.state or state in TRANSITIONS[self.state], (self.state, state)
        self.state = state

    # What the user wants

    def begin(self, reason: str = "") -> None:
        """Joins, also after an error."""
        if self.state is State.OUT:
            self.error = None
            self._reason = reason
            self._prepare()
            self._go(State.JOINING)

    def rejoin(self, reason: str) -> None:
        """Has all members join again; after an error joins anew."""
        if self.state is State.OUT:
            self.begin(reason)
        elif self.state is State.STABLE:
            self._join_again(reason)
        elif self.state is not State.LEAVING and not self._is_to_be_asked:
            self._again = reason  # the group may have this member's metadata already

    @property
    def _is_to_be_asked(self) -> bool:
        return any(each.step is Step.METADATA for each in self._calls)

    def leave(self, reason: str) -> None:
        """Has the user give up its share, then leaves, unless it is static (`Terms`)."""
        if self.state in (State.OUT, State.LEAVING):
            return
        self._reason = reason
        self._again = None
        self._give_up()

    def _give_up(self) -> None:
        self._drop(Step.METADATA, Step.ASSIGN)
        self._tell_of_end()
        tells = self.terms.leaves_when_closed
        if (self.terms.instance_id is None if tells is None else tells) and self.member_id:
            self._go(State.LEAVING)
        else:
            self._forget_membership()
            self._go(State.OUT)

    # What the shell does

    def ready(self, now: float) -> Ready:
        """What is to be done now."""
        if self._running is None and self._calls:
            self._running = self._calls.popleft()
            return Ready(call=self._running)
        if self._asked is not None or self.state is State.OUT:
            return Ready()
        if self._is_unheard(now):
            self._lose("nothing was heard of the coordinator for session.timeout.ms")
            return self.ready(now)
        if now < self._not_before:
            return Ready(wake=self._not_before)
        ask = self._next_ask(now)
        if ask is not None:
            self._asked = ask
            return Ready(ask=ask)
        return Ready(wake=None if self.generation == NO_GENERATION else self._next_heartbeat())

    def _next_heartbeat(self) -> float:
        return self._last_heartbeat + self.terms.heartbeat_interval_s

    def _is_unheard(self, now: float) -> bool:
        """Whether the coordinator has given the member up for certain."""
        is_member = self.generation != NO_GENERATION and self.state is not State.LEAVING
        return is_member and now >= self._last_heard + self.terms.session_timeout_s

    def _next_ask(self, now: float) -> Ask | None:
        is_free = self._running is None  # and there are no more calls: see `ready`
        if self.state is State.LEAVING and is_free:
            return leave(self.terms, self.member_id, self._reason)
        if self.state is State.SYNCING:
            named = Identity(self.member_id, self.generation, self.terms.instance_id)
            return sync(self.terms, named, self._protocol, self._shares, self.protocol_type)
        if self.state is State.JOINING and is_free and self._metadata is not None:
            told, reason = self._metadata, self._reason
            return join(self.terms, self.member_id, told, reason, self.protocol_type)
        if self.generation == NO_GENERATION or now < self._next_heartbeat():
            return None
        self._last_heartbeat = now
        return heartbeat(self.terms, self.identity)

    # What the user's protocols answer

    def on_called(self, call: Call, answer: object) -> None:
        """A call that `ready` gave out has returned this, which `checked` has let through."""
        assert call is self._running, "no such call is under way"
        self._running = None
        if call.step is Step.METADATA and self.state is State.JOINING:
            self._on_metadata(answer)
        elif call.step is Step.ASSIGN and self.state is State.ASSIGNING:
            self._shares = cast("dict[str, bytes]", answer)
            self._go(State.SYNCING)

    def on_call_failed(self, call: Call, error: BaseException) -> None:
        """It has raised that: the member leaves. What its own end still tells the user is told."""
        assert call is self._running, "no such call is under way"
        self._running = None
        self.fail(error)

    def _on_metadata(self, answer: object) -> None:
        if not self._calls:  # else another METADATA follows: the membership was lost meanwhile
            self._metadata = cast("dict[str, bytes]", answer)

    # What the coordinator answers

    def on_answer(self, answer: Response | KafkaError, now: float) -> None:
        """To the request that `ready` gave out; also when it could not be sent."""
        assert self._asked is not None, "nothing was asked"
        asked, self._asked = self._asked, None
        if isinstance(answer, Response):
            self._last_heard = now
        if asked.response is LeaveGroupResponse:
            self._forget_membership()
            self._go(State.OUT)
        elif self.state is State.LEAVING:
            if isinstance(answer, JoinGroupResponse) and answer.member_id:
                self.member_id = answer.member_id
        elif self.state is State.OUT or not self._is_current(asked.request):
            pass
        elif isinstance(answer, KafkaError):
            self._put_off(now) if answer.retriable else self.fail(self._in_words(answer))
        elif isinstance(answer, JoinGroupResponse):
            self._on_join(answer, now)
        elif isinstance(answer, SyncGroupResponse):
            self._on_sync(answer, now)
        else:
            assert isinstance(answer, HeartbeatResponse)
            self._on_heartbeat(answer, now)

    def _is_current(self, request: Request) -> bool:
        if isinstance(request, JoinGroupRequest):
            return self.state is State.JOINING and request.member_id == self.member_id
        if isinstance(request, SyncGroupRequest) and self.state is not State.SYNCING:
            return False
        assert isinstance(request, SyncGroupRequest | HeartbeatRequest)
        known = (request.member_id, request.generation_id)
        return known == (self.member_id, self.generation)

    def _on_join(self, answer: JoinGroupResponse, now: float) -> None:
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif code in _LOST_MEMBERSHIP:
            self._lose("the coordinator does not know the member")
        elif code:
            self._refused(code, now)
        else:
            self._joined(answer, now)

    def _joined(self, answer: JoinGroupResponse, now: float) -> None:
        self._worked()
        self._reason = ""
        self._last_heartbeat = now
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self.leader_id = answer.leader
        self._protocol = answer.protocol_name or ""
        self._metadata = None
        self._shares = {}
        if self.is_leader and not answer.skip_assignment:
            told = {each.member_id: bytes(each.metadata) for each in answer.members}
            self._calls.append(Call(Step.ASSIGN, (self._protocol, self.leader_id, told)))
            self._go(State.ASSIGNING)
        else:
            self._go(State.SYNCING)

    def _on_sync(self, answer: SyncGroupResponse, now: float) -> None:
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._join_again("the group rebalances")
        elif code in _LOST_MEMBERSHIP:
            self._lose("the coordinator took the member for dead")
        elif code:
            self._refused(code, now)
        else:
            self._synced(bytes(answer.assignment), now)

    def _synced(self, assignment: bytes, now: float) -> None:
        self._worked()
        self._last_heartbeat = now
        self._go(State.STABLE)
        told = Assigned(self.generation, self.member_id, self.leader_id, self._protocol, assignment)
        self._calls.append(Call(Step.ASSIGNED, (told,)))
        self._has_share, self._is_told_of_end = True, False
        if self._again is not None:
            self._join_again(self._again)

    def _on_heartbeat(self, answer: HeartbeatResponse, now: float) -> None:
        code = ErrorCode(answer.error_code)
        if code in _LOST_MEMBERSHIP:
            self._lose("the coordinator took the member for dead")
            return
        if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._worked()
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._join_again("the group rebalances")
        elif code:
            self._refused(code, now)

    def on_commit_refused(self, identity: Identity, code: ErrorCode) -> None:
        """A commit was told that the member is none any more."""
        if identity == self.identity and self.state is State.STABLE and code in _LOST_MEMBERSHIP:
            self._lose("the coordinator took the member for dead")

    # Ends and new beginnings

    def _join_again(self, reason: str) -> None:
        if self.state is State.JOINING:
            return
        self._reason, self._again = reason, None
        self._drop(Step.METADATA, Step.ASSIGN)
        self._tell_of_end()
        self._prepare()
        self._go(State.JOINING)

    def _prepare(self) -> None:
        self._metadata = None
        self._calls.append(Call(Step.METADATA))

    def _tell_of_end(self) -> None:
        if self._has_share and not self._is_told_of_end:
            self._is_told_of_end = True
            self._calls.append(Call(Step.REVOKED))

    def _lose(self, reason: str) -> None:
        """The membership is gone: joins as a new member once the user knows."""
        self._forget_membership()
        self._tell_of_loss()
        self._reason = reason
        self._prepare()
        self._go(State.JOINING)

    def _tell_of_loss(self) -> None:
        """Instead of `on_revoked`, if that has not begun."""
        self._drop(Step.METADATA, Step.ASSIGN, Step.REVOKED)
        if self._has_share:
            self._has_share = False
            self._calls.append(Call(Step.LOST))

    def _drop(self, *steps: Step) -> None:
        """Calls that have not begun, and would be wrong now."""
        self._calls = deque(each for each in self._calls if each.step not in steps)

    def fail(self, error: BaseException) -> None:
        """Ends the membership: what the group has given is given back, if it is still there."""
        self.error = self.error or error
        if self.state in (State.OUT, State.LEAVING):
            return
        self._reason = f"the member has failed: {error}"[:255]
        if isinstance(error, KafkaError):
            self._forget_membership()
            self._tell_of_loss()
            self._go(State.OUT)
        else:
            self._give_up()

    def _forget_membership(self) -> None:
        self.member_id = self.leader_id = ""
        self.generation = NO_GENERATION
        self._metadata = None
        self._shares = {}
        self._again = None

    def _refused(self, code: ErrorCode, now: float) -> None:
        error = KafkaError(code)
        if not error.retriable:
            self.fail(self._in_words(error))
            return
        self._put_off(now)
        if self.state is State.SYNCING:
            self._join_again("the coordinator has moved")

    def _put_off(self, now: float) -> None:
        self._failures += 1
        self._not_before = now + self.terms.backoff.wait_s(self._failures, self._random)

    def _worked(self) -> None:
        self._failures = 0
        self._not_before = 0.0

    def _in_words(self, error: KafkaError) -> KafkaError:
        facts: dict[str, object] = {**error.context, "group": self.terms.group_id}
        facts["protocol_type"] = self.protocol_type
        if self.terms.instance_id is not None:
            facts["instance"] = self.terms.instance_id
        return KafkaError(error.code, _HINTS.get(error.code, error.reason), **facts)


def checked(step: Step, answer: object) -> object:
    """What a call has returned, for `on_called`; TypeError or ValueError if it must not be that."""
    if step is Step.METADATA:
        return _checked_metadata(cast("Iterable[tuple[object, object]]", answer))
    if step is Step.ASSIGN:
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
