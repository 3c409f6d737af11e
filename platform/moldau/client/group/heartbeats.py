"""A member that lives by one kind of heartbeat, which sends and returns everything: the core of the
groups in which the coordinator assigns (KIP-848, KIP-1071). No IO.

    OUT --> JOINING --> RECONCILING --> ACKNOWLEDGING --> STABLE
     ^         ^             ^                              |
     |         |             +------- another target -------+
     |         +-- FENCED <--- fenced or unknown -----------+
     +-- LEAVING <------------------------------------------+

The coordinator sends each member its target, as far as it is free. The member gets there by itself:
what is revoked is committed and given up, then what is new is taken (changes, run by the user's
polls), then a heartbeat with what is owned acknowledges the target. No other member waits
meanwhile.

The member has its own id and keeps it for life. A heartbeat contains only what has changed since
the last one that was answered; after a failure, or to join, it contains everything.

FENCED: other members may have what was owned; it is lost, and the member joins again with epoch 0.

What a member owns, and how it gets to a target, is of each kind of group: `consumer`, `streams`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final

from moldau.client.group.assignors import Topics
from moldau.client.group.member import (
    NOBODY,
    Ask,
    Identity,
    Kind,
    Member,
    MemberSettings,
    MemberSubscription,
    Ready,
    Retries,
    in_words,
)
from moldau.errors.codes import ErrorCode, KafkaError, error_from
from moldau.ids import Uuid
from moldau.link.metadata import TopicPartition
from moldau.protocol.declare import Request, Response

if TYPE_CHECKING:
    from random import Random

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2
OWNED: Final = "owned"
"""The key of what is owned among what a heartbeat reports."""
_FIRST_INTERVAL_S: Final = 3.0


class HeartbeatState(Enum):
    """The state of the member; see the module's text."""

    OUT = "out"
    JOINING = "joining"
    RECONCILING = "reconciling"
    ACKNOWLEDGING = "acknowledging"
    STABLE = "stable"
    FENCED = "fenced"
    LEAVING = "leaving"


_IN_GROUP: Final = frozenset(
    (HeartbeatState.RECONCILING, HeartbeatState.ACKNOWLEDGING, HeartbeatState.STABLE)
)
_FENCED: Final = frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH))
_WAITS_FOR_NOTHING: Final = frozenset(
    (HeartbeatState.FENCED, HeartbeatState.LEAVING, HeartbeatState.OUT)
)
TRANSITIONS: Final[Mapping[HeartbeatState, frozenset[HeartbeatState]]] = {
    HeartbeatState.OUT: frozenset((HeartbeatState.JOINING,)),
    HeartbeatState.JOINING: frozenset(HeartbeatState) - {HeartbeatState.ACKNOWLEDGING},
    HeartbeatState.RECONCILING: frozenset(HeartbeatState) - {HeartbeatState.JOINING},
    HeartbeatState.ACKNOWLEDGING: frozenset(HeartbeatState) - {HeartbeatState.JOINING},
    HeartbeatState.STABLE: frozenset(HeartbeatState) - {HeartbeatState.JOINING},
    HeartbeatState.FENCED: frozenset(
        (HeartbeatState.JOINING, HeartbeatState.LEAVING, HeartbeatState.OUT)
    ),
    HeartbeatState.LEAVING: frozenset((HeartbeatState.OUT,)),
}


class HeartbeatMember(Member, ABC):
    """One member of a group whose coordinator assigns."""

    response: ClassVar[type[Response]]
    """The response to its heartbeats."""
    api: ClassVar[str]
    """The name of its heartbeats, in errors."""
    hints: ClassVar[Mapping[ErrorCode, str]]
    """What to do about errors that a retry does not heal."""
    session_setting: ClassVar[str]
    """The broker's setting that says how long a silent member stays."""

    def __init__(self, terms: MemberSettings, member_id: str, random: Random) -> None:
        """Use `member_id`, which no other member of the group has."""
        super().__init__(terms)
        self._retries = Retries(terms.backoff, random)
        self._asked: Ask | None = None
        self._reports_owned = False
        """Whether the pending heartbeat says what is owned."""
        self.state = HeartbeatState.OUT
        self.member_id = member_id
        self.epoch = JOIN_EPOCH
        self._interval_s = _FIRST_INTERVAL_S
        self._next_heartbeat = 0.0
        self._reported: dict[str, object] = {}
        self._reporting: dict[str, object] = {}

    # What each kind of group decides

    @abstractmethod
    def _request(self, epoch: int, news: Mapping[str, Any]) -> Request:
        """Return a heartbeat that reports `news`."""

    @abstractmethod
    def _parting(self) -> Request:
        """Return the last heartbeat."""

    @abstractmethod
    def _report(self) -> dict[str, object]:
        """Return all that the coordinator is to know, what is owned apart."""

    @abstractmethod
    def _owned_report(self) -> Hashable:
        """Return what is owned: nothing while it joins."""

    @abstractmethod
    def _take_target(self, answer: Any) -> bool:
        """Take the target from a response. Return whether it has one."""

    @abstractmethod
    def _reconcile(self) -> None:
        """Plan the changes from what is owned to the target; acknowledge the target if reached."""

    @abstractmethod
    def _forget_target(self) -> None:
        """Forget the target, before the member joins."""

    @abstractmethod
    def _look_up(self) -> Ready | None:
        """Return what is missing for the target; None if nothing is."""

    def on_topics(self, topics: Topics, now: float) -> None:
        """Take the metadata of topics that it required."""

    def on_names(self, names: Mapping[Uuid, str], now: float) -> None:
        """Take the names of topics that it required."""

    def on_metadata(self, topics: Topics) -> None:
        """Do nothing: the coordinator watches topics."""

    # What it is

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
        return self.state is HeartbeatState.LEAVING and self._is_giving_up

    @property
    def is_out(self) -> bool:
        return self.state is HeartbeatState.OUT

    @property
    def is_rebalancing(self) -> bool:
        return self.state in (
            HeartbeatState.JOINING,
            HeartbeatState.RECONCILING,
            HeartbeatState.ACKNOWLEDGING,
        )

    @property
    def topics_of_interest(self) -> frozenset[str]:
        """No topics: the coordinator watches them itself."""
        return frozenset()

    def _go(self, state: HeartbeatState) -> None:
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
        if self.state is HeartbeatState.OUT and self.wanted and is_free:
            self._join()

    def leave(self, *, is_closing: bool) -> None:
        """Leave the group. When closing, the shell handles what is owned; else it is revoked."""
        self._give_everything_up(is_closing=is_closing)
        self._depart()

    def _depart(self) -> None:
        if self.state in (HeartbeatState.OUT, HeartbeatState.LEAVING):
            return
        tells = self.terms.leaves_when_closed is not False
        is_known = self.state in _IN_GROUP or self._asked is not None
        self._go(HeartbeatState.LEAVING if is_known and tells else HeartbeatState.OUT)

    def _join(self) -> None:
        self._waits_no_more = False
        self.epoch = JOIN_EPOCH
        self._forget_target()
        self._reported = {}
        self._next_heartbeat = 0.0
        self._go(HeartbeatState.JOINING)

    # Called by the shell

    def ready(self, now: float) -> Ready:
        if self._asked is not None or self.state is HeartbeatState.OUT:
            return Ready()
        if self.state is HeartbeatState.LEAVING:
            return self._ready_to_leave(now)
        if now >= self._poll_deadline():
            self._expire()
            return self.ready(now)
        if now < self._retries.not_before:
            return Ready(wake=self._retries.not_before)
        if self.state is HeartbeatState.FENCED:
            return Ready(wake=self._poll_deadline())
        if now >= self._next_heartbeat:
            return self._ask(*self._heartbeat())
        if (missing := self._look_up()) is not None:
            return missing
        return Ready(wake=min(self._next_heartbeat, self._poll_deadline()))

    def _ready_to_leave(self, now: float) -> Ready:
        """Heartbeat while there is something to commit and the user polls; then leave."""
        if self._is_giving_up and now >= self._poll_deadline():
            self._expire()
        if not self._is_giving_up:
            return self._ask(self._parting(), reports_owned=False)
        if self.epoch <= JOIN_EPOCH:
            return Ready(wake=self._poll_deadline())
        if now < self._next_heartbeat:
            return Ready(wake=min(self._next_heartbeat, self._poll_deadline()))
        self._next_heartbeat = now + self._interval_s
        news: dict[str, object] = {}
        if self._running is None or self._running.kind is Kind.REVOKED:
            # Nothing new is being taken. If the response with the member's new epoch was lost, the
            # coordinator recognizes the member by what it owns.
            news[OWNED] = self._owned_report()
        return self._ask(self._request(self.epoch, news), reports_owned=OWNED in news)

    def _ask(self, request: Request, reports_owned: bool) -> Ready:
        self._asked = Ask(request, self.response)
        self._reports_owned = reports_owned
        return Ready(self._asked)

    def _is_reporting_owned(self) -> bool:
        """Whether a heartbeat that says what is owned is pending; nothing new is taken until its
        response. 1. The heartbeat reports less than is taken now, 2. the coordinator gets it late,
        when it is about to take that away, 3. it concludes that there is nothing to give up, and
        assigns it to another member at once."""
        return self._asked is not None and self._reports_owned

    def _expire(self) -> None:
        super()._expire()
        self._depart()

    def _heartbeat(self) -> tuple[Request, bool]:
        """Return a heartbeat with all that the coordinator does not know yet, and whether it says
        what is owned: before or after changes, not during them; see `_is_reporting_owned`."""
        owned = self._owned_report()
        self._reporting = self._report()
        if self.state is HeartbeatState.JOINING or not self._is_changing:
            self._reporting[OWNED] = owned
        news = {
            name: each for name, each in self._reporting.items() if self._reported.get(name) != each
        }
        if self.state is HeartbeatState.ACKNOWLEDGING:
            news[OWNED] = owned
        return self._request(self.epoch, news), OWNED in news

    # Responses of the coordinator

    def on_answer(self, answer: Response | KafkaError, now: float) -> None:
        assert self._asked is not None, "nothing was asked"
        asked, self._asked = self._asked, None
        epoch: int = asked.request.member_epoch  # type: ignore[attr-defined]
        if epoch < JOIN_EPOCH:
            self._go(HeartbeatState.OUT)
        elif epoch != self.epoch:
            return  # a commit was rejected since: the member joins again, or is about to
        elif self.state in _WAITS_FOR_NOTHING:
            if self._leaves_later and not isinstance(answer, KafkaError):
                self._leaves_on(answer)
        elif isinstance(answer, KafkaError):
            self._reported = {}
            self._retries.put_off(now) if answer.retriable else self._fail(answer)
        else:
            heard: Any = answer
            if heard.error_code:
                self._refused(ErrorCode(heard.error_code), heard.error_message or "", now)
            else:
                self._accepted(heard, now)

    def _leaves_on(self, answer: Any) -> None:
        """Apply a heartbeat's response while leaving: a new epoch, which commits then use, or the
        loss of the membership, after which nothing can be committed."""
        if not answer.error_code:
            self.epoch = answer.member_epoch
        elif answer.error_code in _FENCED or answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            self._lose_everything()
            self._go(HeartbeatState.OUT)

    def _accepted(self, answer: Any, now: float) -> None:
        self._retries.worked()
        if self._reported or OWNED in self._reporting:
            self._reported = self._reporting  # else send all: a full request gets a full response
        self._interval_s = answer.heartbeat_interval_ms / 1000
        self._next_heartbeat = now + self._interval_s
        self.epoch = answer.member_epoch
        if self.state in (HeartbeatState.JOINING, HeartbeatState.ACKNOWLEDGING):
            self._go(HeartbeatState.STABLE)
        if self._take_target(answer):
            self._go(HeartbeatState.RECONCILING)
        self._reconcile()

    def _acknowledge(self) -> None:
        """Report the target as reached."""
        self._next_heartbeat = 0.0
        self._go(HeartbeatState.ACKNOWLEDGING)

    # Ends and new beginnings

    def _refused(self, code: ErrorCode, message: str, now: float) -> None:
        self._reported = {}
        if code in _FENCED or (code is ErrorCode.GROUP_ID_NOT_FOUND and self.epoch > JOIN_EPOCH):
            self._fence()
        elif code.retriable:
            self._retries.put_off(now)
        else:
            self._fail(error_from(self.api, code, message))

    def _fence(self) -> None:
        self._lose(
            "the coordinator has fenced this member: others may have its partitions, and what was "
            "not committed is read again. Nothing was heard of it for the broker's "
            f"{self.session_setting} (the event loop must not be blocked that long), or an "
            "administrator removed it",
            self.session_setting,
        )
        self._join_again()

    def _join_again(self) -> None:
        """Join with epoch 0 as soon as what was owned is given up."""
        self._go(HeartbeatState.FENCED)
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
        self._error = in_words(error, self.terms, self.hints)
        if self._owned_soon():
            self.notices.append(self._error)
        self._lose_everything()
        self._go(HeartbeatState.OUT)
