"""A member of a classic group of any protocol type: join, sync, heartbeat, leave. No IO.

    OUT ------> JOINING ----> SYNCING ----> STABLE        follower
     ^             |             ^             |
     |             +-> ASSIGNING +             |          leader: makes the assignments in between
     +-- LEAVING <-+---------------------------+
                   ^---------------------------+          rebalance, membership lost

What the members share is up to their protocol: a `ClassicProtocol` returns the metadata for a join,
makes the assignments, and follows them. One is for a consumer's partitions (`classic_consumer`),
the other for what the user of a `GroupMember` decides (`opaque`).

    event                             in state            leads to
    begin                             OUT                 JOINING
    JoinGroup answered: a follower    JOINING             SYNCING
    JoinGroup answered: the leader    JOINING             ASSIGNING
    share_out                         ASSIGNING           SYNCING
    SyncGroup answered                SYNCING             STABLE: the protocol follows its share
    the group rebalances, join_again  all but OUT, LEAVING  JOINING: the protocol gives up first
    UNKNOWN_MEMBER_ID,                all but OUT, LEAVING  JOINING as a new member: what the
    ILLEGAL_GENERATION, lose                              protocol had is lost
    an error that no retry heals      all but OUT, LEAVING  OUT: what it had is lost
    depart                            all but OUT, LEAVING  LEAVING, or OUT if no broker must know
    LeaveGroup answered, in any way   LEAVING             OUT

Invariants:
- At most one request is pending. The response to an outdated request is ignored.
- JOINING waits for the protocol's offer, and LEAVING until the protocol agrees. Until then the
  generation before stays alive: heartbeats continue.
- Only an answered request ends the backoff of failed ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from moldau.client.group.member import Ask, Identity, MemberSettings, Ready, Retries
from moldau.errors import BadData
from moldau.errors.codes import ErrorCode, KafkaError, error_from
from moldau.protocol.declare import Request, Response
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

if TYPE_CHECKING:
    from random import Random

NO_GENERATION: Final = -1
_LOST_MEMBERSHIP: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)


class ClassicMemberState(Enum):
    """The state of the member; see the module's text."""

    OUT = "out"
    JOINING = "joining"
    ASSIGNING = "assigning"
    SYNCING = "syncing"
    STABLE = "stable"
    LEAVING = "leaving"


TRANSITIONS: Final[Mapping[ClassicMemberState, frozenset[ClassicMemberState]]] = {
    ClassicMemberState.OUT: frozenset((ClassicMemberState.JOINING,)),
    ClassicMemberState.JOINING: frozenset(
        (
            ClassicMemberState.ASSIGNING,
            ClassicMemberState.SYNCING,
            ClassicMemberState.LEAVING,
            ClassicMemberState.OUT,
        )
    ),
    ClassicMemberState.ASSIGNING: frozenset(
        (
            ClassicMemberState.SYNCING,
            ClassicMemberState.JOINING,
            ClassicMemberState.LEAVING,
            ClassicMemberState.OUT,
        )
    ),
    ClassicMemberState.SYNCING: frozenset(
        (
            ClassicMemberState.STABLE,
            ClassicMemberState.JOINING,
            ClassicMemberState.LEAVING,
            ClassicMemberState.OUT,
        )
    ),
    ClassicMemberState.STABLE: frozenset(
        (ClassicMemberState.JOINING, ClassicMemberState.LEAVING, ClassicMemberState.OUT)
    ),
    ClassicMemberState.LEAVING: frozenset((ClassicMemberState.OUT,)),
}


class ClassicProtocol(Protocol):
    """What the members of a group share, and how. The member calls it."""

    terms: MemberSettings

    @property
    def protocol_type(self) -> str:
        """The group's type; members of different types cannot share a group."""

    def offer(self) -> Mapping[str, bytes] | None:
        """Return the supported protocols for the next join, best first, each with its bytes for the
        leader. None while something must be given up or found out before."""

    def on_joined(self, answer: JoinGroupResponse, *, has_missed: bool) -> bool:
        """Handle the start of a generation; with `has_missed` there were others without this
        member. Return whether it makes the assignments: then `share_out` follows. Raise an error
        that ends the membership."""

    def on_share(self, assignment: bytes, now: float) -> None:
        """Follow the member's share in this generation."""

    def on_rebalance(self) -> None:
        """Handle the end of the generation: the member is about to join the next one."""

    def on_lost(self, error: KafkaError | BadData | None) -> None:
        """Handle the loss of the membership: others may have the member's share already. It joins
        as a new member, unless `error`, which no retry heals, keeps it out."""

    def may_leave(self) -> bool:
        """Return whether nothing is left to be done as a member."""


class ClassicMember:
    """One member, as its group's coordinator knows it."""

    def __init__(self, protocol: ClassicProtocol, random: Random) -> None:
        self.state = ClassicMemberState.OUT
        self.member_id = ""
        self.generation = NO_GENERATION
        self.leader_id = ""
        self.protocol_name = ""
        """The protocol that all members of the present generation use."""
        self._protocol = protocol
        self._retries = Retries(protocol.terms.backoff, random)
        self._asked: Ask | None = None
        self._shares: Mapping[str, bytes] = {}
        self._reason = ""
        self._last_heartbeat = 0.0
        self._last_heard = 0.0
        self._is_in_doubt = False

    @property
    def identity(self) -> Identity:
        """The member's identity in the latest generation that it knows."""
        return Identity(self.member_id, self.generation, self._protocol.terms.instance_id)

    @property
    def is_leader(self) -> bool:
        """Whether it makes the assignments of the current generation."""
        return bool(self.member_id) and self.leader_id == self.member_id

    @property
    def is_rebalancing(self) -> bool:
        """Whether it is joining, and has no share of the new generation yet."""
        return self.state in (
            ClassicMemberState.JOINING,
            ClassicMemberState.ASSIGNING,
            ClassicMemberState.SYNCING,
        )

    @property
    def is_waiting(self) -> bool:
        """Whether there is nothing to send: a response is pending, or the member is out."""
        return self._asked is not None or self.state is ClassicMemberState.OUT

    def is_put_off(self, now: float) -> bool:
        """Whether the backoff of a failed request is not over."""
        return now < self._retries.not_before

    @property
    def has_asked_to_join(self) -> bool:
        """Whether a JoinGroup is pending."""
        return self._asked is not None and self._asked.response is JoinGroupResponse

    @property
    def sends_leave(self) -> bool:
        """Whether to send a LeaveGroup at the end. A static member stays (KIP-345)."""
        tells = self._protocol.terms.leaves_when_closed
        return self._protocol.terms.instance_id is None if tells is None else tells

    def is_unheard(self, now: float) -> bool:
        """Whether the coordinator has surely removed the member: no response for a session."""
        is_member = (
            self.generation != NO_GENERATION and self.state is not ClassicMemberState.LEAVING
        )
        return is_member and now >= self._last_heard + self._protocol.terms.session_timeout_s

    def _go(self, state: ClassicMemberState) -> None:
        assert state is self.state or state in TRANSITIONS[self.state], (self.state, state)
        self.state = state

    # Decisions of the protocol

    def begin(self, reason: str = "") -> None:
        """Join, if it is out."""
        if self.state is ClassicMemberState.OUT:
            self._reason = reason
            self._go(ClassicMemberState.JOINING)

    def share_out(self, shares: Mapping[str, bytes]) -> None:
        """Take the leader's assignments, by member id."""
        if self.state is ClassicMemberState.ASSIGNING:
            self._shares = shares
            self._go(ClassicMemberState.SYNCING)

    def join_again(self, reason: str) -> None:
        """Make all members join again."""
        if self.state is ClassicMemberState.JOINING:
            return
        self._reason = reason
        self._protocol.on_rebalance()
        self._go(ClassicMemberState.JOINING)

    def depart(self, reason: str) -> None:
        """Leave, once the protocol agrees. A static member is in the group from its first join on,
        and learns its id from the response: before that it leaves by its instance id."""
        if self.state in (ClassicMemberState.OUT, ClassicMemberState.LEAVING):
            return
        self._reason = reason
        is_static = self._protocol.terms.instance_id is not None
        may_be_known = bool(self.member_id) or (is_static and self.has_asked_to_join)
        if self.sends_leave and may_be_known:
            self._go(ClassicMemberState.LEAVING)
        else:
            self._forget()
            self._go(ClassicMemberState.OUT)

    def lose(self, reason: str) -> None:
        """Handle the loss of the membership: join as a new member."""
        self._is_in_doubt = False
        self._forget()
        self._reason = reason
        self._protocol.on_lost(None)
        self._go(ClassicMemberState.JOINING)

    def fail(self, error: KafkaError | BadData) -> None:
        """Leave the group for an error that no retry heals."""
        self._forget()
        self._protocol.on_lost(error)
        self._go(ClassicMemberState.OUT)

    def put_off(self, now: float) -> None:
        """Start the backoff: the last request has failed."""
        self._retries.put_off(now)

    def on_commit_refused(self, identity: Identity, code: ErrorCode) -> None:
        """Handle a rejected commit: its code may mean that the membership is lost."""
        is_settled = identity == self.identity and self.state is ClassicMemberState.STABLE
        if is_settled and (code in _LOST_MEMBERSHIP or self._has_fenced_itself(code)):
            self.lose("a commit was refused")

    def _has_fenced_itself(self, code: ErrorCode) -> bool:
        """Whether FENCED_INSTANCE_ID may be no other member's doing, as what the coordinator knows
        of this one is in doubt. One of two things has happened then:

        1. The member joined, as a static one under a new id. The broker died before it had written
           that down, and the next coordinator knows the member by its former id.
        2. The member's join got no answer, and was carried out late.

        It joins again, once: only if the coordinator has confirmed an id since may that be so
        again. If another member does have the name, it stays fenced, or that one is."""
        return code is ErrorCode.FENCED_INSTANCE_ID and self._is_in_doubt

    def _confirm(self) -> None:
        """The coordinator knows the member by its present id."""
        self._retries.worked()
        self._is_in_doubt = False

    def _forget(self) -> None:
        self.member_id = self.leader_id = ""
        self.generation = NO_GENERATION
        self._shares = {}

    # Called by the shell

    def ready(self, now: float) -> Ready:
        """Return what to do now."""
        if self.is_waiting:
            return Ready()
        if self.is_put_off(now):
            return Ready(wake=self._retries.not_before)
        self._asked = self._next_ask(now)
        if self._asked is not None:
            return Ready(self._asked)
        return Ready(wake=None if self.generation == NO_GENERATION else self._next_heartbeat())

    def _next_ask(self, now: float) -> Ask | None:
        protocol, terms = self._protocol, self._protocol.terms
        if self.state is ClassicMemberState.LEAVING and protocol.may_leave():
            return leave(terms, self.member_id, self._reason)
        if self.state is ClassicMemberState.SYNCING:
            kind = protocol.protocol_type
            return sync(terms, self.identity, kind, self.protocol_name, self._shares)
        if self.state is ClassicMemberState.JOINING:
            offer = protocol.offer()
            if offer is not None:
                return join(terms, self.member_id, protocol.protocol_type, offer, self._reason)
        if self.generation == NO_GENERATION or now < self._next_heartbeat():
            return None
        self._last_heartbeat = now
        return heartbeat(terms, self.identity)

    def _next_heartbeat(self) -> float:
        return self._last_heartbeat + self._protocol.terms.heartbeat_interval_s

    # Responses of the coordinator

    def on_answer(self, answer: Response | KafkaError, now: float) -> None:
        """Apply the response to the request from `ready`, or the error if it could not be sent."""
        assert self._asked is not None, "nothing was asked"
        asked, self._asked = self._asked, None
        if isinstance(answer, Response):
            self._last_heard = now
        else:
            self._is_in_doubt = True
        if asked.response is LeaveGroupResponse:
            self._forget()
            self._go(ClassicMemberState.OUT)
        elif self.state is ClassicMemberState.LEAVING:
            if isinstance(answer, JoinGroupResponse) and answer.member_id:
                self.member_id = answer.member_id
        elif self.state is ClassicMemberState.OUT or not self._is_current(asked.request):
            pass
        elif isinstance(answer, KafkaError):
            self.put_off(now) if answer.retriable else self.fail(answer)
        elif isinstance(answer, JoinGroupResponse):
            self._on_join(answer, now)
        elif isinstance(answer, SyncGroupResponse):
            self._on_sync(answer, now)
        else:
            assert isinstance(answer, HeartbeatResponse)
            self._on_heartbeat(ErrorCode(answer.error_code), now)

    def _is_current(self, request: Request) -> bool:
        """Whether the member still has the identity that it sent: a static member may have left and
        come back while the response was pending."""
        if isinstance(request, JoinGroupRequest):
            return self.state is ClassicMemberState.JOINING and request.member_id == self.member_id
        if isinstance(request, SyncGroupRequest) and self.state is not ClassicMemberState.SYNCING:
            return False
        assert isinstance(request, SyncGroupRequest | HeartbeatRequest)
        known = (request.member_id, request.generation_id)
        return known == (self.member_id, self.generation)

    def _on_join(self, answer: JoinGroupResponse, now: float) -> None:
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.put_off(now)
        elif code:
            self._refused(code, now)
        else:
            self._joined(answer, now)

    def _joined(self, answer: JoinGroupResponse, now: float) -> None:
        self._retries.worked()
        self._reason, self._shares, self._last_heartbeat = "", {}, now
        has_missed = answer.generation_id > self.generation + 1
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self.leader_id, self.protocol_name = answer.leader, answer.protocol_name or ""
        try:
            assigns = self._protocol.on_joined(answer, has_missed=has_missed)
        except (KafkaError, BadData) as error:
            self.fail(error)
        else:
            self._go(ClassicMemberState.ASSIGNING if assigns else ClassicMemberState.SYNCING)

    def _on_sync(self, answer: SyncGroupResponse, now: float) -> None:
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.join_again("the group rebalances")
        elif code:
            self._refused(code, now)
        else:
            self._confirm()
            self._last_heartbeat = now
            self._go(ClassicMemberState.STABLE)
            self._protocol.on_share(bytes(answer.assignment), now)

    def _on_heartbeat(self, code: ErrorCode, now: float) -> None:
        if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._confirm()
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.join_again("the group rebalances")
        elif code:
            self._refused(code, now)

    def _refused(self, code: ErrorCode, now: float) -> None:
        error = error_from("JoinGroup", code)
        if code in _LOST_MEMBERSHIP or self._has_fenced_itself(code):
            self.lose("the coordinator does not know the member")
        elif not error.retriable:
            self.fail(error)
        else:
            self._is_in_doubt = True
            self.put_off(now)
            if self.state is ClassicMemberState.SYNCING:
                self.join_again("the coordinator has moved")


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
