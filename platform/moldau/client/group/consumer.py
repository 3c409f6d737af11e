"""A member of a consumer group (KIP-848): one heartbeat says and hears everything. No IO.

    OUT --> JOINING --> RECONCILING --> ACKNOWLEDGING --> STABLE
     ^         ^             ^                              |
     |         |             +------- another target -------+
     |         +-- FENCED <--- fenced or unknown -----------+
     +-- LEAVING <------------------------------------------+

The coordinator shares partitions out and tells each member its target, of what is free. The member
gets there by itself: revoked partitions are committed and given up, then the new ones are taken
(changes, run by the user's polls), then a heartbeat acknowledges by telling what is owned. No
other member waits meanwhile.

The member makes its own id (KIP-1082) and keeps it for life. A heartbeat tells only what changed
since the last one that was answered; after a failure, or when it joins, it tells everything.

FENCED: others may read what was owned; it is lost, and the member joins again with epoch 0. So it
does when the group is no more: with its last member of this protocol it turned into a classic one.
Topics are told by id: those whose name is not known yet are looked up, the others are not held up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from moldau.client.group.assignors import Topics
from moldau.client.group.member import (
    FENCED,
    NOBODY,
    Ask,
    Change,
    Identity,
    Kind,
    Member,
    Ready,
    Retries,
    Terms,
    Wanted,
    in_words,
    reassigned,
)
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid
from moldau.link.metadata import TopicPartition
from moldau.protocol.declare import Response
from moldau.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from random import Random

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2
_FIRST_INTERVAL_S: Final = 3.0


class State(Enum):
    """Where the member is; see above."""

    OUT = "out"
    JOINING = "joining"
    RECONCILING = "reconciling"
    ACKNOWLEDGING = "acknowledging"
    STABLE = "stable"
    FENCED = "fenced"
    LEAVING = "leaving"


_IN_GROUP: Final = frozenset((State.RECONCILING, State.ACKNOWLEDGING, State.STABLE))
_FENCED: Final = frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH))
_WAITS_FOR_NOTHING: Final = frozenset((State.FENCED, State.LEAVING, State.OUT))
TRANSITIONS: Final[Mapping[State, frozenset[State]]] = {
    State.OUT: frozenset((State.JOINING,)),
    State.JOINING: frozenset(State) - {State.ACKNOWLEDGING},
    State.RECONCILING: frozenset(State) - {State.JOINING},
    State.ACKNOWLEDGING: frozenset(State) - {State.JOINING},
    State.STABLE: frozenset(State) - {State.JOINING},
    State.FENCED: frozenset((State.JOINING, State.LEAVING, State.OUT)),
    State.LEAVING: frozenset((State.OUT,)),
}


class ConsumerMember(Member):
    """One member of a consumer group."""

    def __init__(self, terms: Terms, member_id: str, random: Random) -> None:
        """`member_id` is a random UUID's text."""
        super().__init__(terms)
        self._retries = Retries(terms.backoff, random)
        self._asked: Ask | None = None
        self.state = State.OUT
        self.member_id = member_id
        self.epoch = JOIN_EPOCH
        self._interval_s = _FIRST_INTERVAL_S
        self._next_heartbeat = 0.0
        self._target: dict[Uuid, list[int]] = {}
        self._names: dict[Uuid, str] = {}
        self._ids: dict[str, Uuid] = {}
        """Of the topics in the target."""
        self._owned_ids: dict[TopicPartition, Uuid] = {}
        self._unknown = frozenset[Uuid]()
        self._told: dict[str, object] = {}
        self._telling: dict[str, object] = {}

    @property
    def identity(self) -> Identity:
        """The member that commits: none in particular while it is out."""
        if self._may_commit:
            return Identity(self.member_id, self.epoch, self.terms.instance_id)
        return NOBODY

    @property
    def _may_commit(self) -> bool:
        return self.state in _IN_GROUP or self._leaves_later

    @property
    def _leaves_later(self) -> bool:
        """Whether it lives on until what it gives up is committed."""
        return self.state is State.LEAVING and self._is_giving_up

    @property
    def is_out(self) -> bool:
        return self.state is State.OUT

    @property
    def is_rebalancing(self) -> bool:
        return self.state in (State.JOINING, State.RECONCILING, State.ACKNOWLEDGING)

    @property
    def topics_of_interest(self) -> frozenset[str]:
        """None: the coordinator watches over topics itself."""
        return frozenset()

    def _go(self, state: State) -> None:
        assert state is self.state or state in TRANSITIONS[self.state], (self.state, state)
        self.state = state

    # What the user does

    def subscribe(self, wanted: Wanted) -> None:
        """These topics, or what matches the pattern, from the next heartbeat on; none: leave."""
        has_changed = wanted != self.wanted
        self.wanted = wanted
        if not wanted:
            self.leave(is_closing=False)
        elif has_changed:
            self._next_heartbeat = 0.0

    def on_poll(self, now: float) -> None:
        """The user is there: joins if it is time to."""
        super().on_poll(now)
        is_free = self._error is None and not self._is_changing
        if self.state is State.OUT and self.wanted and is_free:
            self._join()

    def leave(self, *, is_closing: bool) -> None:
        """Leaves. What is owned then is the shell's business when it closes, else it is revoked."""
        self._give_everything_up(is_closing=is_closing)
        self._depart()

    def _depart(self) -> None:
        if self.state in (State.OUT, State.LEAVING):
            return
        tells = self.terms.leaves_when_closed is not False
        is_known = self.state in _IN_GROUP or self._asked is not None
        self._go(State.LEAVING if is_known and tells else State.OUT)

    def _join(self) -> None:
        self._waits_no_more = False
        self.epoch = JOIN_EPOCH
        self._target = {}
        self._unknown = frozenset()
        self._told = {}
        self._next_heartbeat = 0.0
        self._go(State.JOINING)

    # What the shell does

    def ready(self, now: float) -> Ready:
        if self._asked is not None or self.state is State.OUT:
            return Ready()
        if self.state is State.LEAVING:
            return self._ready_to_leave(now)
        if now >= self._poll_deadline():
            self._expire()
            return self.ready(now)
        if now < self._retries.not_before:
            return Ready(wake=self._retries.not_before)
        if self.state is State.FENCED:
            return Ready(wake=self._poll_deadline())
        if now >= self._next_heartbeat:
            return self._ask(self._heartbeat())
        if self._unknown:
            return Ready(ids=self._unknown, wake=self._next_heartbeat)
        return Ready(wake=min(self._next_heartbeat, self._poll_deadline()))

    def _ready_to_leave(self, now: float) -> Ready:
        """What is given up can be committed as long as the member lives, and its user polls."""
        if self._is_giving_up and now >= self._poll_deadline():
            self._expire()
        if not self._is_giving_up:
            return self._ask(self._parting())
        if self.epoch <= JOIN_EPOCH:
            return Ready(wake=self._poll_deadline())
        if now < self._next_heartbeat:
            return Ready(wake=min(self._next_heartbeat, self._poll_deadline()))
        self._next_heartbeat = now + self._interval_s
        told: dict[str, object] = {}
        if self._running is None or self._running.kind is Kind.REVOKED:
            # Nothing comes just now. With what is owned the coordinator knows the member, if it has
            # moved it on unheard.
            told["topic_partitions"] = self._owned_by_id()
        return self._ask(_request(self.terms, self.member_id, self.epoch, told))

    def _ask(self, request: ConsumerGroupHeartbeatRequest) -> Ready:
        self._asked = Ask(request, ConsumerGroupHeartbeatResponse)
        return Ready(self._asked)

    def _expire(self) -> None:
        super()._expire()
        self._depart()

    def _parting(self) -> ConsumerGroupHeartbeatRequest:
        is_static = self.terms.instance_id is not None
        stays = is_static and self.terms.leaves_when_closed is None
        return ConsumerGroupHeartbeatRequest(
            group_id=self.terms.group_id,
            member_id=self.member_id,
            member_epoch=LEAVE_STATIC_EPOCH if stays else LEAVE_EPOCH,
            instance_id=self.terms.instance_id,
        )

    def _heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        """All that the coordinator was not told yet. What is owned is told before changes or after
        them, see `_is_telling_what_it_owns`."""
        owned = () if self.state is State.JOINING else self._owned_by_id()
        self._telling = {
            "rebalance_timeout_ms": round(self.terms.poll_interval_s * 1000),
            "server_assignor": self.terms.remote_assignor,
            "rack_id": self.terms.rack,
            "subscribed_topic_names": tuple(sorted(self.wanted.topics)),
            "subscribed_topic_regex": self.wanted.pattern,
            "topic_partitions": owned,
        }
        if self._is_changing and self.state is not State.JOINING:
            del self._telling["topic_partitions"]
        news = {name: each for name, each in self._telling.items() if self._told.get(name) != each}
        if self.state is State.ACKNOWLEDGING:
            news["topic_partitions"] = owned
        if "subscribed_topic_regex" in news:
            news["subscribed_topic_regex"] = self.wanted.pattern or ""
        return _request(self.terms, self.member_id, self.epoch, news)

    def _owned_by_id(self) -> tuple[tuple[Uuid, tuple[int, ...]], ...]:
        by_id: dict[Uuid, list[int]] = {}
        for where, each in self._owned_ids.items():
            by_id.setdefault(each, []).append(where.partition)
        return tuple((each, tuple(sorted(by_id[each]))) for each in sorted(by_id))

    # What the coordinator says

    def on_answer(self, answer: Response | KafkaError, now: float) -> None:
        assert self._asked is not None, "nothing was asked"
        asked, self._asked = self._asked, None
        assert isinstance(asked.request, ConsumerGroupHeartbeatRequest)
        if asked.request.member_epoch < JOIN_EPOCH:
            self._go(State.OUT)
        elif asked.request.member_epoch != self.epoch:
            return  # a commit was refused since: the member joins anew, or is about to
        elif self.state in _WAITS_FOR_NOTHING:
            if self._leaves_later and isinstance(answer, ConsumerGroupHeartbeatResponse):
                self._leaves_on(answer)
        elif isinstance(answer, KafkaError):
            self._told = {}
            self._retries.put_off(now) if answer.retriable else self._fail(answer)
        else:
            assert isinstance(answer, ConsumerGroupHeartbeatResponse)
            if answer.error_code:
                self._refused(ErrorCode(answer.error_code), answer.error_message or "", now)
            else:
                self._accepted(answer, now)

    def _leaves_on(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        """It may be in another epoch by now, and commits in that one. Or it is no member any more,
        and cannot commit."""
        if not answer.error_code:
            self.epoch = answer.member_epoch
        elif answer.error_code in _FENCED or answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            self._lose_everything()
            self._go(State.OUT)

    def _accepted(self, answer: ConsumerGroupHeartbeatResponse, now: float) -> None:
        self._retries.worked()
        if self._told or "topic_partitions" in self._telling:
            self._told = self._telling  # else all is still owed: a full request gets a full answer
        self._interval_s = answer.heartbeat_interval_ms / 1000
        self._next_heartbeat = now + self._interval_s
        self.epoch = answer.member_epoch
        if self.state in (State.JOINING, State.ACKNOWLEDGING):
            self._go(State.STABLE)
        if answer.assignment is not None:
            told = answer.assignment.topic_partitions
            self._target = {each.topic_id: sorted(each.partitions) for each in told}
            self._go(State.RECONCILING)
        self._reconcile()

    def on_names(self, names: Mapping[Uuid, str], now: float) -> None:
        """Names of topics; may be more or fewer than were asked for."""
        self._names |= names
        if self._unknown & names.keys():
            # Now, though a change may run, and what follows must wait for it: to ask again for what
            # is known is answered at once, and for ever.
            self._unknown -= names.keys()
            self._reconcile()
        elif self._unknown:
            self._retries.put_off(now)

    def on_topics(self, topics: Topics, now: float) -> None:
        """The coordinator shares partitions out."""

    def on_metadata(self, topics: Topics) -> None:
        """The coordinator watches over topics."""

    # Getting there

    def _reconcile(self) -> None:
        """Plans the way from what is owned to the target, if the member has not got there."""
        if self.state is not State.RECONCILING or self._running is not None:
            return
        self._unknown = frozenset(self._target.keys() - self._names.keys())
        self._ids = {self._names[each]: each for each in self._target if each in self._names}
        known = {
            TopicPartition(name, index): each
            for name, each in self._ids.items()
            for index in self._target[each]
        }
        # A topic that was deleted and made again has its old name, and nothing else of the old one.
        gone = [
            where
            for where, each in self._owned_ids.items()
            if self._ids.get(where.topic, each) != each
        ]
        left = tuple(each for each in self.owned if each not in gone)
        giving_up, taking = reassigned(left, known)
        taking = replace(taking, ids=known)
        if taking.partitions and self._is_telling_what_it_owns():
            return  # its answer brings us here again
        changes = [Change(Kind.LOST, tuple(gone), left)] if gone else []
        changes += [] if giving_up is None else [giving_up]
        if changes or taking.partitions:
            self._plan(*changes, taking)
        else:
            self._plan()
            self._acknowledge()

    def _is_telling_what_it_owns(self) -> bool:
        """A heartbeat that says so is under way. 1. It says less than what is taken now, 2. the
        coordinator hears it late, when it is about to take that away, 3. it believes that there is
        nothing to give up, and gives it to another member at once: so nothing is taken until it is
        answered."""
        asked = None if self._asked is None else self._asked.request
        return (
            isinstance(asked, ConsumerGroupHeartbeatRequest) and asked.topic_partitions is not None
        )

    def _changed(self, now: float) -> None:
        known = self._owned_ids
        self._owned_ids = {each: known.get(each) or self._ids[each.topic] for each in self.owned}
        if self.state is State.FENCED:
            self._join_unless_changing()
        elif not self._changes:
            self._reconcile()

    def _acknowledge(self) -> None:
        """The member is there, or as near as the names that it knows allow."""
        if self._told.get("topic_partitions") != self._owned_by_id() or not self._unknown:
            self._next_heartbeat = 0.0
        if not self._unknown:
            self._go(State.ACKNOWLEDGING)

    # Ends and new beginnings

    def _refused(self, code: ErrorCode, message: str, now: float) -> None:
        self._told = {}
        if code in _FENCED or (code is ErrorCode.GROUP_ID_NOT_FOUND and self.epoch > JOIN_EPOCH):
            self._fence()
        elif code.retriable:
            self._retries.put_off(now)
        else:
            self._fail(KafkaError(code, message))

    def _fence(self) -> None:
        self._lose(
            "the coordinator has fenced this member: others may have its partitions, and what was "
            "not committed is read again. Nothing was heard of it for the broker's "
            "group.consumer.session.timeout.ms (the event loop must not be blocked that long), or "
            "an administrator removed it",
            "group.consumer.session.timeout.ms",
        )
        self._go(State.FENCED)
        self._join_unless_changing()

    def _join_unless_changing(self) -> None:
        if not self._is_changing:
            self._join()

    def on_commit_refused(self, identity: Identity, code: ErrorCode) -> None:
        is_current = identity == self.identity and self._may_commit
        if is_current and code is ErrorCode.UNKNOWN_MEMBER_ID and not self._leaves_later:
            self._fence()
        elif is_current and code is ErrorCode.STALE_MEMBER_EPOCH:
            self._next_heartbeat = 0.0

    def may_commit_later(self, identity: Identity, where: TopicPartition) -> bool:
        """Its epoch may have moved on while the commit was under way."""
        return self._may_commit and identity.member_id == self.member_id and self._has(where)

    def _fail(self, error: KafkaError) -> None:
        self._error = in_words(error, self.terms, _HINTS)
        if self._owned_soon():
            self.notices.append(self._error)
        self._lose_everything()
        self._go(State.OUT)


def _request(
    terms: Terms, member_id: str, epoch: int, told: Mapping[str, object]
) -> ConsumerGroupHeartbeatRequest:
    request = ConsumerGroupHeartbeatRequest(
        group_id=terms.group_id,
        member_id=member_id,
        member_epoch=epoch,
        instance_id=terms.instance_id,
    )
    for name, each in told.items():
        if name == "topic_partitions":
            assert isinstance(each, tuple)
            request.topic_partitions = [
                TopicPartitions(topic_id=topic, partitions=list(found)) for topic, found in each
            ]
        else:
            setattr(request, name, list(each) if isinstance(each, tuple) else each)
    return request


_HINTS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.UNSUPPORTED_VERSION: "the broker does not speak the consumer group protocol (or no "
    "patterns in it): set group.protocol=classic",
    ErrorCode.FENCED_INSTANCE_ID: FENCED,
    ErrorCode.UNRELEASED_INSTANCE_ID: "another member has this group.instance.id and has not left. "
    "Give each consumer its own; if the other one has crashed, the id is free when its session "
    "ends (the broker's group.consumer.session.timeout.ms), and the next poll tries to join again",
    ErrorCode.UNSUPPORTED_ASSIGNOR: "the broker has no assignor of the name in "
    "group.remote.assignor",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has as many members as the broker's "
    "group.consumer.max.size allows",
    ErrorCode.GROUP_ID_NOT_FOUND: "the group is of another type",
}
