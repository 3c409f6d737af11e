"""A member of a consumer group (KIP-848): one kind of heartbeat sends and returns everything. No
IO.

    OUT --> JOINING --> RECONCILING --> ACKNOWLEDGING --> STABLE
     ^         ^             ^                              |
     |         |             +------- another target -------+
     |         +-- FENCED <--- fenced or unknown -----------+
     +-- LEAVING <------------------------------------------+

The coordinator assigns partitions and sends each member its target, as far as partitions are free.
The member gets there by itself: revoked partitions are committed and given up, then the new ones
are taken (changes, run by the user's polls), then a heartbeat with the owned partitions
acknowledges the target. No other member waits meanwhile.

The member makes its own id (KIP-1082) and keeps it for life. A heartbeat contains only what has
changed since the last one that was answered; after a failure, or to join, it contains everything.

FENCED: other members may read what was owned; it is lost, and the member joins again with epoch 0.
The same happens if the group no longer exists: it became a classic one with its last member of this
protocol. Topics come by id: unknown names are looked up, without holding up the other topics.
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
    MemberSettings,
    MemberSubscription,
    Ready,
    Retries,
    in_words,
    reassigned,
)
from moldau.errors.codes import ErrorCode, KafkaError, error_from
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


class ConsumerMemberState(Enum):
    """The state of the member; see the module's text."""

    OUT = "out"
    JOINING = "joining"
    RECONCILING = "reconciling"
    ACKNOWLEDGING = "acknowledging"
    STABLE = "stable"
    FENCED = "fenced"
    LEAVING = "leaving"


_IN_GROUP: Final = frozenset(
    (ConsumerMemberState.RECONCILING, ConsumerMemberState.ACKNOWLEDGING, ConsumerMemberState.STABLE)
)
_FENCED: Final = frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH))
_WAITS_FOR_NOTHING: Final = frozenset(
    (ConsumerMemberState.FENCED, ConsumerMemberState.LEAVING, ConsumerMemberState.OUT)
)
TRANSITIONS: Final[Mapping[ConsumerMemberState, frozenset[ConsumerMemberState]]] = {
    ConsumerMemberState.OUT: frozenset((ConsumerMemberState.JOINING,)),
    ConsumerMemberState.JOINING: frozenset(ConsumerMemberState)
    - {ConsumerMemberState.ACKNOWLEDGING},
    ConsumerMemberState.RECONCILING: frozenset(ConsumerMemberState) - {ConsumerMemberState.JOINING},
    ConsumerMemberState.ACKNOWLEDGING: frozenset(ConsumerMemberState)
    - {ConsumerMemberState.JOINING},
    ConsumerMemberState.STABLE: frozenset(ConsumerMemberState) - {ConsumerMemberState.JOINING},
    ConsumerMemberState.FENCED: frozenset(
        (ConsumerMemberState.JOINING, ConsumerMemberState.LEAVING, ConsumerMemberState.OUT)
    ),
    ConsumerMemberState.LEAVING: frozenset((ConsumerMemberState.OUT,)),
}


class ConsumerMember(Member):
    """One member of a consumer group."""

    def __init__(self, terms: MemberSettings, member_id: str, random: Random) -> None:
        """Use `member_id`, the text of a random UUID."""
        super().__init__(terms)
        self._retries = Retries(terms.backoff, random)
        self._asked: Ask | None = None
        self.state = ConsumerMemberState.OUT
        self.member_id = member_id
        self.epoch = JOIN_EPOCH
        self._interval_s = _FIRST_INTERVAL_S
        self._next_heartbeat = 0.0
        self._target: dict[Uuid, list[int]] = {}
        self._names: dict[Uuid, str] = {}
        self._ids: dict[str, Uuid] = {}
        """The ids of the topics in the target."""
        self._owned_ids: dict[TopicPartition, Uuid] = {}
        self._unknown = frozenset[Uuid]()
        self._told: dict[str, object] = {}
        self._telling: dict[str, object] = {}

    @property
    def identity(self) -> Identity:
        """The identity for commits; none while it is out."""
        if self._may_commit:
            return Identity(self.member_id, self.epoch, self.terms.instance_id)
        return NOBODY

    @property
    def _may_commit(self) -> bool:
        return self.state in _IN_GROUP or self._leaves_later

    @property
    def _leaves_later(self) -> bool:
        """Whether it stays until what it gives up is committed."""
        return self.state is ConsumerMemberState.LEAVING and self._is_giving_up

    @property
    def is_out(self) -> bool:
        return self.state is ConsumerMemberState.OUT

    @property
    def is_rebalancing(self) -> bool:
        return self.state in (
            ConsumerMemberState.JOINING,
            ConsumerMemberState.RECONCILING,
            ConsumerMemberState.ACKNOWLEDGING,
        )

    @property
    def topics_of_interest(self) -> frozenset[str]:
        """No topics: the coordinator watches them itself."""
        return frozenset()

    def _go(self, state: ConsumerMemberState) -> None:
        assert state is self.state or state in TRANSITIONS[self.state], (self.state, state)
        self.state = state

    # Calls of the user

    def subscribe(self, wanted: MemberSubscription) -> None:
        """Subscribe to topics or a pattern, from the next heartbeat on. Without either, leave."""
        has_changed = wanted != self.wanted
        self.wanted = wanted
        if not wanted:
            self.leave(is_closing=False)
        elif has_changed:
            self._next_heartbeat = 0.0

    def on_poll(self, now: float) -> None:
        """Handle a poll of the user: join if it is time to."""
        super().on_poll(now)
        is_free = self._error is None and not self._is_changing
        if self.state is ConsumerMemberState.OUT and self.wanted and is_free:
            self._join()

    def leave(self, *, is_closing: bool) -> None:
        """Leave the group. When closing, the shell handles what is owned; else it is revoked."""
        self._give_everything_up(is_closing=is_closing)
        self._depart()

    def _depart(self) -> None:
        if self.state in (ConsumerMemberState.OUT, ConsumerMemberState.LEAVING):
            return
        tells = self.terms.leaves_when_closed is not False
        is_known = self.state in _IN_GROUP or self._asked is not None
        self._go(ConsumerMemberState.LEAVING if is_known and tells else ConsumerMemberState.OUT)

    def _join(self) -> None:
        self._waits_no_more = False
        self.epoch = JOIN_EPOCH
        self._target = {}
        self._unknown = frozenset()
        self._told = {}
        self._next_heartbeat = 0.0
        self._go(ConsumerMemberState.JOINING)

    # Called by the shell

    def ready(self, now: float) -> Ready:
        if self._asked is not None or self.state is ConsumerMemberState.OUT:
            return Ready()
        if self.state is ConsumerMemberState.LEAVING:
            return self._ready_to_leave(now)
        if now >= self._poll_deadline():
            self._expire()
            return self.ready(now)
        if now < self._retries.not_before:
            return Ready(wake=self._retries.not_before)
        if self.state is ConsumerMemberState.FENCED:
            return Ready(wake=self._poll_deadline())
        if now >= self._next_heartbeat:
            return self._ask(self._heartbeat())
        if self._unknown:
            return Ready(ids=self._unknown, wake=self._next_heartbeat)
        return Ready(wake=min(self._next_heartbeat, self._poll_deadline()))

    def _ready_to_leave(self, now: float) -> Ready:
        """Heartbeat while there is something to commit and the user polls; then leave."""
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
            # No new partitions are being taken. If the response with the member's new epoch was
            # lost, the coordinator recognizes the member by its owned partitions.
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
        """Return a heartbeat with all that the coordinator does not know yet. Owned partitions are
        reported before or after changes, not during them; see `_is_telling_what_it_owns`."""
        owned = () if self.state is ConsumerMemberState.JOINING else self._owned_by_id()
        self._telling = {
            "rebalance_timeout_ms": round(self.terms.poll_interval_s * 1000),
            "server_assignor": self.terms.remote_assignor,
            "rack_id": self.terms.rack,
            "subscribed_topic_names": tuple(sorted(self.wanted.topics)),
            "subscribed_topic_regex": self.wanted.pattern,
            "topic_partitions": owned,
        }
        if self._is_changing and self.state is not ConsumerMemberState.JOINING:
            del self._telling["topic_partitions"]
        news = {name: each for name, each in self._telling.items() if self._told.get(name) != each}
        if self.state is ConsumerMemberState.ACKNOWLEDGING:
            news["topic_partitions"] = owned
        if "subscribed_topic_regex" in news:
            news["subscribed_topic_regex"] = self.wanted.pattern or ""
        return _request(self.terms, self.member_id, self.epoch, news)

    def _owned_by_id(self) -> tuple[tuple[Uuid, tuple[int, ...]], ...]:
        by_id: dict[Uuid, list[int]] = {}
        for where, each in self._owned_ids.items():
            by_id.setdefault(each, []).append(where.partition)
        return tuple((each, tuple(sorted(by_id[each]))) for each in sorted(by_id))

    # Responses of the coordinator

    def on_answer(self, answer: Response | KafkaError, now: float) -> None:
        assert self._asked is not None, "nothing was asked"
        asked, self._asked = self._asked, None
        assert isinstance(asked.request, ConsumerGroupHeartbeatRequest)
        if asked.request.member_epoch < JOIN_EPOCH:
            self._go(ConsumerMemberState.OUT)
        elif asked.request.member_epoch != self.epoch:
            return  # a commit was rejected since: the member joins again, or is about to
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
        """Apply a heartbeat's response while leaving: a new epoch, which commits then use, or the
        loss of the membership, after which nothing can be committed."""
        if not answer.error_code:
            self.epoch = answer.member_epoch
        elif answer.error_code in _FENCED or answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            self._lose_everything()
            self._go(ConsumerMemberState.OUT)

    def _accepted(self, answer: ConsumerGroupHeartbeatResponse, now: float) -> None:
        self._retries.worked()
        if self._told or "topic_partitions" in self._telling:
            self._told = self._telling  # else send all: a full request gets a full response
        self._interval_s = answer.heartbeat_interval_ms / 1000
        self._next_heartbeat = now + self._interval_s
        self.epoch = answer.member_epoch
        if self.state in (ConsumerMemberState.JOINING, ConsumerMemberState.ACKNOWLEDGING):
            self._go(ConsumerMemberState.STABLE)
        if answer.assignment is not None:
            told = answer.assignment.topic_partitions
            self._target = {each.topic_id: sorted(each.partitions) for each in told}
            self._go(ConsumerMemberState.RECONCILING)
        self._reconcile()

    def on_names(self, names: Mapping[Uuid, str], now: float) -> None:
        """Apply names of topics; they may be more or fewer than requested."""
        self._names |= names
        if self._unknown & names.keys():
            # Do this even while a change runs: else known names would be requested again, which
            # is answered at once, in an endless loop.
            self._unknown -= names.keys()
            self._reconcile()
        elif self._unknown:
            self._retries.put_off(now)

    def on_topics(self, topics: Topics, now: float) -> None:
        """Do nothing: the coordinator assigns partitions."""

    def on_metadata(self, topics: Topics) -> None:
        """Do nothing: the coordinator watches topics."""

    # Getting there

    def _reconcile(self) -> None:
        """Plan the changes from what is owned to the target; acknowledge the target if reached."""
        if self.state is not ConsumerMemberState.RECONCILING or self._running is not None:
            return
        self._unknown = frozenset(self._target.keys() - self._names.keys())
        self._ids = {self._names[each]: each for each in self._target if each in self._names}
        known = {
            TopicPartition(name, index): each
            for name, each in self._ids.items()
            for index in self._target[each]
        }
        # A topic that was deleted and created again shares only its name with the old one.
        gone = [
            where
            for where, each in self._owned_ids.items()
            if self._ids.get(where.topic, each) != each
        ]
        left = tuple(each for each in self.owned if each not in gone)
        giving_up, taking = reassigned(left, known)
        taking = replace(taking, ids=known)
        if taking.partitions and self._is_telling_what_it_owns():
            return  # its response calls this method again
        changes = [Change(Kind.LOST, tuple(gone), left)] if gone else []
        changes += [] if giving_up is None else [giving_up]
        if changes or taking.partitions:
            self._plan(*changes, taking)
        else:
            self._plan()
            self._acknowledge()

    def _is_telling_what_it_owns(self) -> bool:
        """Whether a heartbeat with the owned partitions is pending; nothing new is taken until its
        response. 1. The heartbeat reports less than is taken now, 2. the coordinator gets it late,
        when it is about to take that away, 3. it concludes that there is nothing to give up, and
        assigns it to another member at once."""
        asked = None if self._asked is None else self._asked.request
        return (
            isinstance(asked, ConsumerGroupHeartbeatRequest) and asked.topic_partitions is not None
        )

    def _changed(self, now: float) -> None:
        known = self._owned_ids
        self._owned_ids = {each: known.get(each) or self._ids[each.topic] for each in self.owned}
        if self.state is ConsumerMemberState.FENCED:
            self._join_unless_changing()
        elif not self._changes:
            self._reconcile()

    def _acknowledge(self) -> None:
        """Report the target as reached, or as far as topic names are known."""
        if self._told.get("topic_partitions") != self._owned_by_id() or not self._unknown:
            self._next_heartbeat = 0.0
        if not self._unknown:
            self._go(ConsumerMemberState.ACKNOWLEDGING)

    # Ends and new beginnings

    def _refused(self, code: ErrorCode, message: str, now: float) -> None:
        self._told = {}
        if code in _FENCED or (code is ErrorCode.GROUP_ID_NOT_FOUND and self.epoch > JOIN_EPOCH):
            self._fence()
        elif code.retriable:
            self._retries.put_off(now)
        else:
            self._fail(error_from("ConsumerGroupHeartbeat", code, message))

    def _fence(self) -> None:
        self._lose(
            "the coordinator has fenced this member: others may have its partitions, and what was "
            "not committed is read again. Nothing was heard of it for the broker's "
            "group.consumer.session.timeout.ms (the event loop must not be blocked that long), or "
            "an administrator removed it",
            "group.consumer.session.timeout.ms",
        )
        self._go(ConsumerMemberState.FENCED)
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
        """Whether to retry a rejected commit: the epoch may have moved on while it was pending."""
        return self._may_commit and identity.member_id == self.member_id and self._has(where)

    def _fail(self, error: KafkaError) -> None:
        self._error = in_words(error, self.terms, _HINTS)
        if self._owned_soon():
            self.notices.append(self._error)
        self._lose_everything()
        self._go(ConsumerMemberState.OUT)


def _request(
    terms: MemberSettings, member_id: str, epoch: int, told: Mapping[str, object]
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
