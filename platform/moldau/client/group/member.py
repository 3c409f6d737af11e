"""One member of a group: what a core returns to its shell, and what both protocols have in common.
No IO.

A core gets events by method calls, and `ready(now)` returns what to do next: send one request, find
out about topics, or wait until a time. Changes of the user's partitions come from `begin_change`:
the shell runs such a change inside the user's own `poll`, so no listener is called while the user
processes records, and no task reads partitions that were given up.

Invariants:
- `owned` is exactly what the user's listener was called with. It changes only by a `Change` that
  was run, so each assigned partition is revoked or lost before it is assigned again.
- At most one request and one change are pending. A change that has not begun may still be replaced;
  one that has begun is finished first.
- A member whose user neither polls nor continues with polled records for `poll_interval_s` leaves
  by itself, and what it owned is lost.
- An error that a retry does not heal is returned by `take_error` once. The member is then out of
  the group, and the next poll tries to join again. Except if another member has its
  `group.instance.id` (FENCED_INSTANCE_ID): joining again would fence that one, which would do the
  same in turn. So that error stays, and the member out, until the user unsubscribes. A classic
  member whose requests got no answer before may have fenced itself, and joins again once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.deferred import dataclass
from moldau.errors import BadData, MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid
from moldau.link.metadata import TopicPartition
from moldau.protocol.declare import Request, Response
from moldau.runtime.backoff import Backoff

if TYPE_CHECKING:
    from random import Random

NO_EPOCH: Final = -1
FENCED: Final = (
    "another consumer has joined with this group.instance.id, so this one stays out of the group. "
    "Give each its own; to join all the same, and throw the other out, unsubscribe and subscribe"
)
_OF_INSTANCE: Final = (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID)
_LATE_ANSWER_S: Final = 5.0
"""How much longer than a rebalance may take to wait for its response."""


class Kind(Enum):
    """The kinds of changes of partitions."""

    ASSIGNED = "assigned"
    REVOKED = "revoked"
    """They are still the member's, and can be committed, until the change was run."""
    LOST = "lost"
    """Other members may read them already."""


@dataclass(frozen=True, slots=True)
class Change:
    """`partitions` come or go; afterwards the member reads `owned`. `ids` are their topic ids, if
    the group assigned them by id."""

    kind: Kind
    partitions: tuple[TopicPartition, ...]
    owned: tuple[TopicPartition, ...]
    ids: Mapping[TopicPartition, Uuid] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for the coordinator, and how long its response may take."""

    request: Request
    response: type[Response]
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    """What the shell must do: send `ask` and call `on_answer`; or look up `topics` or `ids` and
    call `on_topics` or `on_names`; or come back at `wake`, or when something has happened."""

    ask: Ask | None = None
    topics: frozenset[str] | None = None
    ids: frozenset[Uuid] | None = None
    wake: float | None = None


class Identity(NamedTuple):
    """The identity that a commit is made with. The epoch is the generation in a classic group."""

    member_id: str
    epoch: int
    instance_id: str | None


NOBODY: Final = Identity("", NO_EPOCH, None)


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """A member's subscription: topic names, or a pattern that the coordinator evaluates."""

    topics: frozenset[str] = frozenset()
    pattern: str | None = None

    def __bool__(self) -> bool:
        return bool(self.topics) or self.pattern is not None


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """A member's settings that it reports to the group; times in seconds."""

    group_id: str
    instance_id: str | None = None
    rack: str | None = None
    session_timeout_s: float = 45.0
    heartbeat_interval_s: float = 3.0
    poll_interval_s: float = 300.0
    request_timeout_s: float = 30.0
    leaves_when_closed: bool | None = None
    """None: leave unless the member is static."""
    remote_assignor: str | None = None
    backoff: Backoff = field(default_factory=lambda: Backoff(100, 1000))

    @property
    def rebalance_answer_s(self) -> float:
        """How long to wait for a response that comes only when all members have joined."""
        return max(self.request_timeout_s, self.poll_interval_s + _LATE_ANSWER_S)


class Retries:
    """The backoff: when the next request may be sent after failures."""

    def __init__(self, backoff: Backoff, random: Random) -> None:
        self.not_before = 0.0
        self._backoff = backoff
        self._random = random
        self._failures = 0

    def put_off(self, now: float) -> None:
        """Count a failure, and set the time for the next request."""
        self._failures += 1
        self.not_before = now + self._backoff.wait_s(self._failures, self._random)

    def worked(self) -> None:
        """Reset the backoff after a successful request."""
        self._failures = 0
        self.not_before = 0.0


class Member:
    """The part of a consumer's member that both protocols have in common."""

    def __init__(self, terms: MemberSettings) -> None:
        self.terms = terms
        self.owned: tuple[TopicPartition, ...] = ()
        self.wanted = MemberSubscription()
        self._changes: deque[Change] = deque()
        self._running: Change | None = None
        self._is_closing = False
        self._is_held = False
        self._waits_no_more = False
        """Whether the user did not poll in time to commit what is revoked."""
        self._last_poll: float | None = None
        self._error: KafkaError | BadData | None = None
        self._tenures: dict[TopicPartition, int] = {}
        self._tenures_begun = 0
        self.notices: list[MoldauError] = []
        """What the shell must log, and then remove."""
        self.left_for: str | None = None
        """The setting that made it last lose its partitions."""

    # Changes

    def has_change(self) -> bool:
        """Whether the next poll has a change to run."""
        return bool(self._changes) and self._running is None

    def begin_change(self) -> Change | None:
        """Return the change to run now; from here on it is finished, whatever happens."""
        if self._running is not None or not self._changes:
            return None
        self._running = self._changes.popleft()
        if self._running.kind is Kind.ASSIGNED:
            self._begin_tenures(self._running.owned)  # the listener may commit them
        return self._running

    def end_change(self, now: float) -> None:
        """End the change that was run."""
        assert self._running is not None, "no change has begun"
        self.owned, self._running = self._running.owned, None
        self._begin_tenures(self.owned)
        self._changed(now)

    def _begin_tenures(self, owned: Iterable[TopicPartition]) -> None:
        self._tenures_begun += 1
        known, new = self._tenures, self._tenures_begun
        self._tenures = {where: known.get(where, new) for where in owned}

    def tenure(self, where: TopicPartition) -> int | None:
        """Return a number that stays the same as long as the user has the partition without a
        break; a new one when it has come back, None while the user does not have it."""
        return self._tenures.get(where)

    def _changed(self, now: float) -> None:
        """React to a change that was run."""

    def _plan(self, *changes: Change) -> None:
        """Replace all changes that have not begun by these."""
        self._changes.clear()
        self._changes.extend(changes)

    def _owned_soon(self) -> tuple[TopicPartition, ...]:
        """Return what the user owns after the running change."""
        return self.owned if self._running is None else self._running.owned

    @property
    def _is_giving_up(self) -> bool:
        """Whether the member must not leave yet: revoked partitions can be committed only as a
        member. A close has committed them already."""
        is_revoking = any(each.kind is Kind.REVOKED for each in self._unfinished)
        return is_revoking and not (self._is_closing or self._waits_no_more)

    @property
    def _unfinished(self) -> tuple[Change, ...]:
        return (*self._changes, *([self._running] if self._running else []))

    def _has(self, where: TopicPartition) -> bool:
        """Whether the user has the partition, and no other member may read it by now."""
        is_lost = any(
            each.kind is Kind.LOST and where in each.partitions for each in self._unfinished
        )
        return where in self.owned and not is_lost

    def _give_everything_up(self, *, is_closing: bool) -> None:
        """Revoke everything, except what is lost already and whose change was not run."""
        self._is_closing |= is_closing
        owned = () if is_closing else self._owned_soon()
        gone = {
            where for each in self._changes if each.kind is Kind.LOST for where in each.partitions
        }
        lost = tuple(each for each in owned if each in gone)
        revoked = tuple(each for each in owned if each not in gone)
        planned = (Change(Kind.LOST, lost, revoked), Change(Kind.REVOKED, revoked, ()))
        self._plan(*(each for each in planned if each.partitions))

    def _lose_everything(self) -> None:
        owned = self._owned_soon()
        self._plan(*[Change(Kind.LOST, owned, ())] if owned else [])

    def _lose(self, reason: str, setting: str) -> None:
        """Lose everything, and log why."""
        owned = self._owned_soon()
        self.left_for = setting
        if owned:
            told = [str(each) for each in sorted(owned)]
            group = self.terms.group_id
            self.notices.append(MoldauError(reason, group=group, partitions=told, setting=setting))
        self._lose_everything()

    def _expire(self) -> None:
        """Lose everything because the user did not poll: another member must get the partitions."""
        self._lose(
            "the last poll is longer ago than max.poll.interval.ms: the consumer leaves its group, "
            "others get its partitions, and what was not committed is read again. Make the handler "
            "faster, max.poll.records smaller or max.poll.interval.ms larger",
            "max.poll.interval.ms",
        )
        self._waits_no_more = True

    @property
    def _is_changing(self) -> bool:
        return self._running is not None or bool(self._changes)

    # Polling

    def on_poll(self, now: float) -> None:
        """Handle a poll of the user."""
        self.is_there(now)

    def is_there(self, now: float) -> None:
        """Restart `poll_interval_s`: the user polls, or works on polled records."""
        self._last_poll = now

    def _poll_deadline(self) -> float:
        assert self._last_poll is not None
        return self._last_poll + self.terms.poll_interval_s

    def is_late(self, now: float) -> bool:
        """Whether the last poll is longer ago than allowed."""
        return self._last_poll is not None and now >= self._poll_deadline()

    def enforce_rebalance(self, reason: str) -> bool:
        """Make the group rebalance. Return False if only the coordinator may decide that."""
        return False

    def hold(self) -> None:
        """Join no new generation any more, as the member is about to leave: its last commits belong
        to this one."""
        self._is_held = True

    # Failing

    def take_error(self) -> KafkaError | BadData | None:
        """Return the error that the next poll raises: once, or at every poll."""
        error = self._error
        if self.kept_out_by is None:
            self._error = None
        return error

    @property
    def kept_out_by(self) -> KafkaError | None:
        """The error that keeps it out of its group until the user unsubscribes, or None."""
        error = self._error
        if isinstance(error, KafkaError) and error.code is ErrorCode.FENCED_INSTANCE_ID:
            return error
        return None

    def forgive(self) -> None:
        """Forget the error after an unsubscribe, so that a new subscription starts again."""
        self._error = None


def in_words(
    error: KafkaError, terms: MemberSettings, hints: Mapping[ErrorCode, str], **facts: object
) -> KafkaError:
    """Return the error with a hint, if there is one, and with the member's facts."""
    facts = {**error.context, "group": terms.group_id, **facts}
    if error.code in _OF_INSTANCE:
        facts["instance"] = terms.instance_id
    return KafkaError(error.code, hints.get(error.code) or error.reason, **facts)


def reassigned(
    owned: Iterable[TopicPartition], target: Iterable[TopicPartition]
) -> tuple[Change | None, Change]:
    """Return the changes from what is owned to the target: what is revoked first (None if nothing),
    then what is assigned (possibly no partitions)."""
    owned, target = tuple(owned), tuple(target)
    wanted, had = set(target), set(owned)
    revoked = tuple(each for each in owned if each not in wanted)
    added = tuple(each for each in target if each not in had)
    kept = tuple(each for each in owned if each in wanted)
    giving_up = Change(Kind.REVOKED, revoked, kept) if revoked else None
    return giving_up, Change(Kind.ASSIGNED, added, target)
