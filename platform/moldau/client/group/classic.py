"""A member of a classic group: join, sync, heartbeat, leave. No IO.

    OUT ------> JOINING ----> SYNCING ----> STABLE        follower
     ^             |             ^             |
     |             +-> ASSIGNING +             |          leader: shares partitions out in between
     +-- LEAVING <-+---------------------------+
                   ^---------------------------+          rebalance, revoked, other topics wanted

A rebalance begins with a heartbeat's answer. Eager: everything is revoked (a change, run by the
next poll), then the member joins. Cooperative (KIP-429), where all assignors can: the member joins
with what it owns, gives up what the new assignment takes from it, and joins again to say so.

While a change waits for the user, heartbeats go on, as the member is alive; when the user does not
poll for `max.poll.interval.ms`, it leaves. Whatever takes the membership away (UNKNOWN_MEMBER_ID,
ILLEGAL_GENERATION) makes what was owned lost, not revoked: it can no longer be committed.

A static member (KIP-345) does not leave, so that it finds its share again under a new member id;
FENCED_INSTANCE_ID tells it that another one has its name, and it gives up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final

from moldau.client.assignors import (
    NO_GENERATION,
    Assignment,
    Assignor,
    Rebalance,
    Subscription,
    Topics,
)
from moldau.client.group.classic_requests import heartbeat, join, leave, sync
from moldau.client.group.member import (
    NOBODY,
    Ask,
    Change,
    Identity,
    Kind,
    Membership,
    Ready,
    Terms,
    Wanted,
    reassigned,
)
from moldau.client.group.subscription_bytes import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from moldau.errors import BadData
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid
from moldau.protocol.declare import Response
from moldau.protocol.messages.heartbeat import HeartbeatResponse
from moldau.protocol.messages.join_group import JoinGroupResponse
from moldau.protocol.messages.leave_group import LeaveGroupResponse
from moldau.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from random import Random


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

_LOST_MEMBERSHIP: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)


class ClassicMember(Membership):
    """One member of a classic group."""

    def __init__(self, terms: Terms, assignors: Sequence[Assignor], random: Random) -> None:
        """`assignors` in order of preference; the members agree on one that all have."""
        super().__init__(terms, random)
        assert assignors, "a member needs an assignor"
        self.state = State.OUT
        self.member_id = ""
        self.generation = NO_GENERATION
        self.is_leader = False
        self._assignors = {each.name: each for each in assignors}
        self._is_cooperative = all(Rebalance.COOPERATIVE in each.rebalances for each in assignors)
        self._protocol = ""
        self._joined_with = frozenset[str]()
        self._must_join_again = False
        self._reason = ""
        self._members: dict[str, Subscription] = {}
        self._shares: dict[str, bytes] = {}
        self._shared: Topics = {}
        self._last_heartbeat = 0.0

    @property
    def identity(self) -> Identity:
        """Who commits: nobody in particular while the member is out."""
        if self.generation == NO_GENERATION:
            return NOBODY
        return Identity(self.member_id, self.generation, self.terms.instance_id)

    @property
    def is_out(self) -> bool:
        """Whether it is in no group and on its way to none."""
        return self.state is State.OUT

    @property
    def topics_of_interest(self) -> frozenset[str]:
        """Those of which the leader must hear when their partitions change."""
        return frozenset(self._shared) if self.is_leader else frozenset()

    def _go(self, state: State) -> None:
        assert state is self.state or state in TRANSITIONS[self.state], (self.state, state)
        self.state = state

    # What the user does

    def subscribe(self, wanted: Wanted) -> None:
        """These topics, from the next rebalance on; none: leave."""
        assert wanted.pattern is None, "a classic group knows no patterns"
        self.wanted = wanted
        if not wanted:
            self.leave(is_closing=False)
        elif self.state is State.STABLE and wanted.topics != self._joined_with:
            self._join_again("the subscription has changed")

    def on_poll(self, now: float) -> None:
        """The user is there: joins if it is time to."""
        super().on_poll(now)
        if self.state is State.OUT and self.wanted and self._error is None:
            self._go(State.JOINING)

    def leave(self, *, is_closing: bool) -> None:
        """Leaves. What is owned then is the shell's business when it closes, else it is revoked."""
        self._give_everything_up(is_closing=is_closing)
        self._depart("the consumer is closed" if is_closing else "nothing is subscribed to")

    def _depart(self, reason: str) -> None:
        tells = self.terms.leaves_when_closed
        if tells is None:
            tells = self.terms.instance_id is None
        if self.state in (State.OUT, State.LEAVING):
            return
        self._reason = reason
        if tells and self.member_id:
            self._go(State.LEAVING)
        else:
            self._forget_membership()
            self._go(State.OUT)

    # What the shell does

    def ready(self, now: float) -> Ready:
        """What is to be done now."""
        if self._asked is not None or self.state is State.OUT:
            return Ready()
        if self.state is not State.LEAVING and now >= self._poll_deadline():
            self._expire()
            return self.ready(now)
        if now < self._not_before:
            return Ready(wake=self._not_before)
        if self.state is State.ASSIGNING:
            return Ready(topics=frozenset(t for m in self._members.values() for t in m.topics))
        ask = self._next_ask(now)
        if ask is not None:
            self._asked = ask
            return Ready(ask)
        if self.generation == NO_GENERATION:
            return Ready(wake=self._poll_deadline())
        beat = self._last_heartbeat + self.terms.heartbeat_interval_s
        return Ready(wake=min(beat, self._poll_deadline()))

    def _expire(self) -> None:
        """The user did not poll: somebody else shall have the partitions."""
        self._lose_everything()
        self._depart("max.poll.interval.ms is over")

    def _next_ask(self, now: float) -> Ask | None:
        if self.state is State.LEAVING:
            if self._is_giving_up:
                return None
            return leave(self.terms, self.member_id, self._reason)
        if self.state is State.SYNCING:
            return sync(self.terms, self._named(), self._protocol, self._shares)
        if self.state is State.JOINING and not self._is_held and not self._prepares():
            return self._join()
        if now < self._last_heartbeat + self.terms.heartbeat_interval_s:
            return None
        if self.generation == NO_GENERATION:
            return None
        self._last_heartbeat = now
        return heartbeat(self.terms, self._named())

    def _named(self) -> Identity:
        return Identity(self.member_id, self.generation, self.terms.instance_id)

    def _prepares(self) -> bool:
        """Whether something has to be given up, by the user, before the member may join."""
        if self._is_changing:
            return True
        given_up = self.owned
        if self._is_cooperative:
            given_up = tuple(each for each in given_up if each.topic not in self.wanted.topics)
        if given_up:
            kept = tuple(each for each in self.owned if each not in given_up)
            self._plan(Change(Kind.REVOKED, given_up, kept))
        return bool(given_up)

    def _join(self) -> Ask:
        self._joined_with = self.wanted.topics
        topics = tuple(sorted(self._joined_with))
        protocols = {
            name: encode_subscription(
                Subscription(
                    topics,
                    user_data=each.user_data(self._joined_with),
                    owned=self.owned,
                    generation=self.generation,
                    rack=self.terms.rack,
                )
            )
            for name, each in self._assignors.items()
        }
        return join(self.terms, self.member_id, protocols, self._reason)

    # What the coordinator says

    def on_answer(self, answer: Response | KafkaError, now: float) -> None:
        """To the request that `ready` gave out; also when it could not be sent."""
        assert self._asked is not None, "nothing was asked"
        asked, self._asked = self._asked, None
        if asked.response is LeaveGroupResponse:
            self._forget_membership()
            self._go(State.OUT)
        elif self.state is State.LEAVING:
            if isinstance(answer, JoinGroupResponse) and answer.member_id:
                self.member_id = answer.member_id
        elif self.state is State.OUT:
            pass
        elif isinstance(answer, KafkaError):
            self._put_off(now) if answer.retriable else self._fail(answer)
        elif isinstance(answer, JoinGroupResponse):
            self._on_join(answer, now)
        elif isinstance(answer, SyncGroupResponse):
            self._on_sync(answer, now)
        else:
            assert isinstance(answer, HeartbeatResponse)
            self._on_heartbeat(answer, now)

    def _on_join(self, answer: JoinGroupResponse, now: float) -> None:
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._fall_out()
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._put_off(now)
        elif code:
            self._refused(code, now)
        else:
            self._joined(answer)

    def _joined(self, answer: JoinGroupResponse) -> None:
        self._worked()
        self._must_join_again = False
        self._reason = ""
        self.member_id = answer.member_id
        self.generation = answer.generation_id
        self._protocol = answer.protocol_name or ""
        self.is_leader = answer.leader == answer.member_id
        self._shares = {}
        if self._protocol not in self._assignors:
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            self._fail(KafkaError(code, "the group shares partitions in a way unknown here"))
            return
        if not self.is_leader:
            self._go(State.SYNCING)
            return
        try:
            self._members = {
                each.member_id: decode_subscription(each.metadata, each.group_instance_id)
                for each in answer.members
            }
        except BadData as error:
            self._fail(error)
            return
        self._shared = {}
        self._go(State.SYNCING if answer.skip_assignment else State.ASSIGNING)

    def on_topics(self, topics: Topics, now: float) -> None:
        """The leader shares them out: all that any member wants and that exist."""
        if self.state is not State.ASSIGNING:
            return
        shares: Assignment = self._assignors[self._protocol].assign(topics, self._members)
        self._shared = topics
        self._shares = {member: encode_assignment(each) for member, each in shares.items()}
        self._members = {}
        self._go(State.SYNCING)

    def on_metadata(self, topics: Topics) -> None:
        """The leader shares anew when partitions came or went of what it has shared."""
        if self.state is State.STABLE and self.is_leader and self._shared:
            known = {topic: list(self._shared[topic]) for topic in self._shared}
            if known != {topic: list(each) for topic, each in topics.items()}:
                self._join_again("the partitions of a topic have changed")

    def on_names(self, names: Mapping[Uuid, str], now: float) -> None:
        """Classic members speak of topics by their names."""

    def _on_sync(self, answer: SyncGroupResponse, now: float) -> None:
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._join_again("the group rebalances")
        elif code in _LOST_MEMBERSHIP:
            self._fall_out()
        elif code:
            self._refused(code, now)
        else:
            self._synced(answer.assignment, now)

    def _synced(self, data: bytes, now: float) -> None:
        try:
            target = decode_assignment(data)
        except BadData as error:
            self._fail(error)
            return
        self._worked()
        self._last_heartbeat = now
        self._go(State.STABLE)
        self._assignors[self._protocol].on_assignment(target, self.generation)
        giving_up, taking = reassigned(self._owned_soon(), target)
        if giving_up is None:
            self._plan(taking)
        else:
            self._must_join_again = True
            self._plan(giving_up, taking)
        if self.wanted.topics != self._joined_with:
            self._join_again("the subscription has changed")

    def _changed(self, now: float) -> None:
        if self._must_join_again and not self._changes and self.state is State.STABLE:
            self._join_again("partitions were given up")

    def _on_heartbeat(self, answer: HeartbeatResponse, now: float) -> None:
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._join_again("the group rebalances")
        elif code in _LOST_MEMBERSHIP:
            self._fall_out()
        elif code:
            self._refused(code, now)
        else:
            self._worked()

    # Ends and new beginnings

    def _join_again(self, reason: str) -> None:
        if self.state is State.JOINING:
            return
        self._reason = reason
        self._changes.clear()
        self._go(State.JOINING)

    def _fall_out(self) -> None:
        """The coordinator does not know this member, or not in this generation."""
        self._forget_membership()
        self._lose_everything()
        self._go(State.JOINING)

    def on_commit_refused(self, identity: Identity, code: ErrorCode) -> None:
        """A commit was told that the member is none any more."""
        is_current = identity == self.identity and self.state is State.STABLE
        if is_current and code in _LOST_MEMBERSHIP:
            self._fall_out()

    def may_commit_later(self, identity: Identity) -> bool:
        """Whether a commit that was refused came between two generations, while the member goes
        from the one to the other by itself (cooperative) and keeps what it has."""
        is_on_its_way = self.state in (State.JOINING, State.ASSIGNING, State.SYNCING)
        is_same = bool(self.member_id) and identity.member_id == self.member_id
        has_moved = self.identity != identity or is_on_its_way
        return is_same and has_moved and not self._is_changing and not self._is_held

    def _forget_membership(self) -> None:
        self.member_id = ""
        self.generation = NO_GENERATION
        self.is_leader = False
        self._members = {}
        self._shares = {}
        self._shared = {}
        self._must_join_again = False

    def _refused(self, code: ErrorCode, now: float) -> None:
        if code.retriable:
            self._put_off(now)
            if self.state is State.SYNCING:
                self._join_again("the coordinator has moved")
        else:
            self._fail(KafkaError(code))

    def _fail(self, error: KafkaError | BadData) -> None:
        if isinstance(error, KafkaError):
            error = self._in_words(error, _HINTS.get(error.code, ""))
        self._error = error
        self._forget_membership()
        self._lose_everything()
        self._go(State.OUT)


_HINTS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "no assignor is common to all members: give this one "
    "another one in partition.assignment.strategy, or the group has another protocol type",
    ErrorCode.INVALID_SESSION_TIMEOUT: "session.timeout.ms is outside of what the broker allows, "
    "see group.min.session.timeout.ms and group.max.session.timeout.ms there",
    ErrorCode.FENCED_INSTANCE_ID: "another consumer has joined with this group.instance.id",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has as many members as group.max.size allows",
    ErrorCode.INVALID_GROUP_ID: "group.id must not be empty",
}
