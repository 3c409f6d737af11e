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
ILLEGAL_GENERATION) makes what was owned lost, not revoked: it can no longer be committed. So does a
generation that the others began without a static member that was silent: the leader saw what that
member had wanted and owned when it joined last, and may have given to others what it owns by now.
What the next share takes from it is lost, and until it is gone the member commits nothing.

A static member (KIP-345) does not leave, so that it finds its share again under a new member id;
FENCED_INSTANCE_ID tells it that another one has its name, and it gives up for good. A static leader
that is back is not to share anything out (KIP-814). Partitions may have come meanwhile, so
it asks once which member has which, and has all join again if one belongs to no member.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final

from moldau.client.group.assignors import (
    NO_GENERATION,
    Assignor,
    Rebalance,
    Share,
    Subscription,
    Topics,
)
from moldau.client.group.classic_requests import describe, heartbeat, join, leave, sync
from moldau.client.group.member import (
    FENCED,
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
    decode_share,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from moldau.errors import BadData, MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid
from moldau.link.metadata import TopicPartition
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages.describe_groups import DescribeGroupsResponse
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from moldau.protocol.messages.leave_group import LeaveGroupResponse
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

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
        self._settled_generation = NO_GENERATION
        """The one in which it has a share."""
        self._has_missed = False
        """Whether there was a generation since in which the others shared without it."""
        self._taken = frozenset[TopicPartition]()
        """What it lost by that, and its user has not heard of: others may have read on."""
        self._assignors = {each.name: each for each in assignors}
        self._is_cooperative = all(Rebalance.COOPERATIVE in each.rebalances for each in assignors)
        self._protocol = ""
        self._joined_with = frozenset[str]()
        self._must_join_again = False
        self._reason = ""
        self._members: dict[str, Subscription] = {}
        self._shares: dict[str, bytes] = {}
        self._watched = frozenset[str]()
        """As a leader: the topics that any member wants, there or not."""
        self._shared: Topics = {}
        self._is_shared_out = False
        self._must_compare = False
        self._departs = False
        """Whether it is to leave once what it gives up is committed."""
        self._last_heartbeat = 0.0

    @property
    def identity(self) -> Identity:
        """The member that commits: none in particular while it is out, and before it has a share in
        a new generation the member in the one before. Else a cooperative member that was thrown
        out, and let in again before it heard of it, could commit what is somebody else's. A
        generation that ended before it had a share, and is next to the one before, has taken
        nothing from it: the coordinator knows it in that one."""
        if self._settled_generation == NO_GENERATION:
            return NOBODY
        waits = self.state is State.JOINING or (self.state is State.LEAVING and self._is_giving_up)
        if waits and not self._has_missed:
            return self._named()
        return Identity(self.member_id, self._settled_generation, self.terms.instance_id)

    @property
    def is_out(self) -> bool:
        """Whether it is in no group and on its way to none."""
        return self.state is State.OUT

    @property
    def is_rebalancing(self) -> bool:
        """Whether it is on its way to a share of the partitions."""
        return self.state in (State.JOINING, State.ASSIGNING, State.SYNCING)

    @property
    def topics_of_interest(self) -> frozenset[str]:
        """Those of which the leader must hear when their partitions change."""
        return self._watched if self.is_leader else frozenset()

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
            self._waits_no_more = False
            self._go(State.JOINING)

    def enforce_rebalance(self, reason: str) -> bool:
        """All join again; while the group shares anew that is under way."""
        if self.state is State.STABLE:
            self._join_again(reason)
        return True

    def leave(self, *, is_closing: bool) -> None:
        """Leaves. What is owned then is the shell's business when it closes, else it is revoked,
        and committed, for which a generation that has begun is finished before."""
        self._give_everything_up(is_closing=is_closing)
        self._departs = not is_closing
        if is_closing:
            self._depart("the consumer is closed")
        else:
            self._depart_if_free()

    def _depart_if_free(self) -> None:
        if self._departs and not self._stays_until_given_up:
            self._depart("nothing is subscribed to")

    @property
    def _stays_until_given_up(self) -> bool:
        """Whether it is about to leave, and may not even say so yet. In the midst of a generation
        nobody may commit: it has to end. And a static member is none any more once it has left."""
        return (
            self._departs and self._is_giving_up and (self._is_under_way or not self._tells_of_end)
        )

    @property
    def _is_under_way(self) -> bool:
        """To a share, whatever its user does."""
        is_asked = self._asked is not None and self._asked.response is JoinGroupResponse
        is_joining = self.state is State.JOINING and is_asked
        return is_joining or self.state in (State.ASSIGNING, State.SYNCING)

    @property
    def _tells_of_end(self) -> bool:
        """Whether the coordinator hears that it leaves."""
        tells = self.terms.leaves_when_closed
        return self.terms.instance_id is None if tells is None else tells

    @property
    def _may_be_member(self) -> bool:
        """A static member is in the group from its first join on, and hears its id with the answer:
        before that it leaves by its instance id."""
        is_asked = self._asked is not None and self._asked.response is JoinGroupResponse
        return bool(self.member_id) or (self.terms.instance_id is not None and is_asked)

    def _depart(self, reason: str) -> None:
        self._departs = False
        if self.state in (State.OUT, State.LEAVING):
            return
        self._reason = reason
        if self._tells_of_end and self._may_be_member:
            self._go(State.LEAVING)
        else:
            self._forget_membership()
            self._go(State.OUT)

    # What the shell does

    def ready(self, now: float) -> Ready:
        """What is to be done now."""
        if self._asked is not None or self.state is State.OUT:
            return Ready()
        if self._waits_for_user and now >= self._poll_deadline():
            self._expire()
            return self.ready(now)
        if now < self._not_before:
            return Ready(wake=self._not_before)
        if self.state is State.ASSIGNING:
            return Ready(topics=self._watched)
        ask = self._next_ask(now)
        if ask is not None:
            self._asked = ask
            return Ready(ask)
        wakes = []
        if self.generation != NO_GENERATION:
            wakes.append(self._last_heartbeat + self.terms.heartbeat_interval_s)
        if self._waits_for_user:
            wakes.append(self._poll_deadline())
        return Ready(wake=min(wakes, default=None))

    @property
    def _waits_for_user(self) -> bool:
        return self.state is not State.LEAVING or self._is_giving_up

    def _expire(self) -> None:
        super()._expire()
        self._depart("max.poll.interval.ms is over")

    def _next_ask(self, now: float) -> Ask | None:
        if self.state is State.LEAVING and not self._is_giving_up:
            return leave(self.terms, self.member_id, self._reason)
        if self.state is State.SYNCING:
            return sync(self.terms, self._named(), self._protocol, self._shares)
        if self.state is State.JOINING and not self._is_held and not self._prepares():
            return self._join()
        if self._must_compare and self.state is State.STABLE:
            return describe(self.terms)
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
                    generation=self._settled_generation,
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
        elif self.state is State.OUT or not self._is_current(asked.request):
            pass
        elif asked.response is DescribeGroupsResponse:
            self._on_described(answer, now)
        elif isinstance(answer, KafkaError):
            self._put_off(now) if answer.retriable else self._fail(answer)
        elif isinstance(answer, JoinGroupResponse):
            self._on_join(answer, now)
        elif isinstance(answer, SyncGroupResponse):
            self._on_sync(answer, now)
        else:
            assert isinstance(answer, HeartbeatResponse)
            self._on_heartbeat(answer, now)
        self._depart_if_free()

    def _is_current(self, request: Request) -> bool:
        """Whether the member still has the identity that it asked with: a static member may have
        left and come back while the answer was on its way."""
        if isinstance(request, JoinGroupRequest):
            return self.state is State.JOINING and request.member_id == self.member_id
        if isinstance(request, SyncGroupRequest) and self.state is not State.SYNCING:
            return False
        if isinstance(request, SyncGroupRequest | HeartbeatRequest):
            known = (request.member_id, request.generation_id)
            return known == (self.member_id, self.generation)
        return True

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
        if self._settled_generation != NO_GENERATION:
            self._has_missed |= answer.generation_id > self.generation + 1
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
            self._members = dict(map(self._read, answer.members))
        except BadData as error:
            self._fail(error)
            return
        self._watched = frozenset(t for each in self._members.values() for t in each.topics)
        self._is_shared_out = self._must_compare = answer.skip_assignment
        self._shared = {}
        self._go(State.ASSIGNING)

    def _read(self, member: JoinGroupResponseMember) -> tuple[str, Subscription]:
        try:
            wants = decode_subscription(member.metadata, member.group_instance_id)
        except BadData as error:
            told = {"group": self.terms.group_id, "member": member.member_id}
            told["assignor"] = self._protocol
            reason = "the leader cannot read what another member subscribes to: " + error.reason
            raise type(error)(reason, **{**error.context, **told}) from error
        return member.member_id, wants

    def on_topics(self, topics: Topics, now: float) -> None:
        """The leader shares them out: all that any member wants and that exist."""
        if self.state is not State.ASSIGNING:
            return
        self._shared = topics
        if not self._is_shared_out:
            try:
                shares = self._assignors[self._protocol].assign(topics, self._members)
            except Exception as error:
                if not (self._departs or self._is_held):
                    raise
                self._cannot_share(error)
                return
            self._shares = {member: _encoded(each) for member, each in shares.items()}
        self._members = {}
        self._go(State.SYNCING)

    def _cannot_share(self, error: Exception) -> None:
        """It is about to leave, and does that now: another one may be able to."""
        reason = f"the assignor failed, and the member leaves without having shared: {error!r}"
        self.notices.append(MoldauError(reason, group=self.terms.group_id, assignor=self._protocol))
        self._join_again("partitions could not be shared out")
        self._depart_if_free()

    def on_metadata(self, topics: Topics) -> None:
        """The leader shares anew when partitions came or went of what it has shared."""
        if self.state is State.STABLE and self.is_leader:
            known = {topic: list(self._shared[topic]) for topic in self._shared}
            if known != {topic: list(each) for topic, each in topics.items()}:
                self._join_again("the partitions of a topic have changed")

    def _on_described(self, answer: Response | KafkaError, now: float) -> None:
        """To a static leader that is back: what all have been given."""
        if isinstance(answer, KafkaError):
            self._must_compare = answer.retriable
            self._put_off(now)
            return
        assert isinstance(answer, DescribeGroupsResponse)
        group = answer.groups[0]
        code = ErrorCode(group.error_code)
        if code.retriable:
            self._put_off(now)
            return
        self._must_compare = False
        if code or self.state is not State.STABLE:
            return
        try:
            given = {
                each
                for member in group.members
                for each in decode_assignment(member.member_assignment)
            }
        except BadData:
            return  # the leader has shared out in a format of its own
        there = {
            TopicPartition(topic, index)
            for topic, racks in self._shared.items()
            for index in range(len(racks))
        }
        if there - given:
            self._join_again("partitions came while the leader was away")

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
            target = decode_share(data)
        except BadData as error:
            self._fail(error)
            return
        self._worked()
        self._last_heartbeat = now
        self._go(State.STABLE)
        assignor = self._assignors[self._protocol]
        assignor.on_assignment(target, self.generation, target.user_data)
        if self._departs:
            if not self._has_missed:
                self._settle()
            return
        giving_up, taking = self._on_the_way_to(target)
        if giving_up is None or not self._has_missed:
            self._settle()
        if giving_up is None:
            self._plan(taking)
        else:
            self._must_join_again = True
            self._plan(giving_up, taking)
        if self.wanted.topics != self._joined_with:
            self._join_again("the subscription has changed")

    def _on_the_way_to(self, target: Sequence[TopicPartition]) -> tuple[Change | None, Change]:
        """What is given up first, if anything, and what is taken then. What a generation that was
        missed has cost is lost, also where this one gives it back before the user has heard."""
        owned = self._owned_soon()
        known = tuple(each for each in owned if each not in self._taken)
        giving_up, taking = reassigned(known, target)
        kept = known if giving_up is None else giving_up.owned
        if self._has_missed and kept != owned:
            lost = tuple(each for each in owned if each not in kept)
            self._taken = frozenset(lost)
            giving_up = Change(Kind.LOST, lost, kept)
        return giving_up, taking

    def _settle(self) -> None:
        """From here on it commits as a member of this generation."""
        self._settled_generation = self.generation
        self._has_missed = False
        self._taken = frozenset()

    def _changed(self, now: float) -> None:
        self._depart_if_free()
        is_losing = any(each.kind is Kind.LOST for each in self._changes)
        if self._has_missed and self.state is State.STABLE and not is_losing:
            self._settle()
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
        if not self._departs:
            self._changes.clear()
        self._go(State.JOINING)

    def _fall_out(self) -> None:
        """The coordinator does not know this member, or not in this generation."""
        self._forget_membership()
        self._lose(
            "the coordinator took this member for dead: others may have its partitions, and what "
            "was not committed is read again. Nothing was heard of it for session.timeout.ms (the "
            "event loop must not be blocked that long), or an administrator removed it",
            "session.timeout.ms",
        )
        self._go(State.JOINING)

    def on_commit_refused(self, identity: Identity, code: ErrorCode) -> None:
        """A commit was told that the member is none any more."""
        is_current = identity == self.identity == self._named() and self.state is State.STABLE
        if is_current and code in _LOST_MEMBERSHIP:
            self._fall_out()

    def may_commit_later(self, identity: Identity, where: TopicPartition) -> bool:
        """Whether a commit that was refused came between two generations, and the partition is
        still the member's in the next one: it has a share in that by now, given up or not, or goes
        on to it by itself (cooperative)."""
        if identity.member_id != self.member_id or not self._has(where):
            return False
        return identity != self.identity or self._goes_on_by_itself

    @property
    def _goes_on_by_itself(self) -> bool:
        """Whether its next share comes without its user. A change that is to be run before, and may
        wait for the very commit, is the user's."""
        if self._departs:
            return self._is_under_way
        if self._is_changing or not self.is_rebalancing:
            return False
        return self._is_under_way or not self._is_held

    def _forget_membership(self) -> None:
        self.member_id = ""
        self.generation = self._settled_generation = NO_GENERATION
        self._has_missed = self.is_leader = False
        self._taken = frozenset()
        self._members = {}
        self._shares = {}
        self._shared = {}
        self._watched = frozenset()
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
        if self._owned_soon():
            self.notices.append(self._error)
        self._lose_everything()
        self._go(State.OUT)


def _encoded(share: Sequence[TopicPartition]) -> bytes:
    return encode_assignment(share, share.user_data if isinstance(share, Share) else None)


_HINTS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "no assignor is common to all members: give this one "
    "another one in partition.assignment.strategy, or the group has another protocol type",
    ErrorCode.INVALID_SESSION_TIMEOUT: "session.timeout.ms is outside of what the broker allows, "
    "see group.min.session.timeout.ms and group.max.session.timeout.ms there",
    ErrorCode.FENCED_INSTANCE_ID: FENCED,
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has as many members as group.max.size allows",
    ErrorCode.INVALID_GROUP_ID: "group.id must not be empty",
}
