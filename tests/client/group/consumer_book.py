"""What consumers in a game have promised, and the book in which all that happens stands."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any, Final, NamedTuple

from moldau.client import TopicPartition
from moldau.errors.codes import ErrorCode
from moldau.runtime.simulated.simulation import Simulation
from tests.broker.simulation.promises import BrokenPromise, demand

PARTITIONS: Final = {"t": 3, "u": 2}
RECORDS: Final = 24
"""Of each partition."""
API_S, REQUEST_S, POLL_INTERVAL_S, SESSION_S = 3.0, 1.0, 3.0, 2.0
GONE_S: Final = POLL_INTERVAL_S + SESSION_S + API_S
"""After this long nobody takes a member that does nothing for a member any more."""
SLACK_S: Final = 0.7
"""What a call may take beside what it was given: the way to the broker, and goodbyes."""
UNSUBSCRIBE_S: Final = 2 * (API_S + REQUEST_S)
COMMIT_S: Final = 4 * API_S
"""Those before it, too."""
DOCUMENTED: Final = (
    "nothing is chosen to be read",
    "another task polls this consumer",
    "a rebalance listener cannot poll",
)
OF_TWINS: Final = (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID)


class Promise(StrEnum):
    """What a consumer has promised."""

    HEARD_IN_ORDER = "listeners hear of each partition in order"
    """Assigned, then once revoked or lost, before it is assigned again."""
    HEARD_ALONE = "a listener is told of one thing at a time"
    HEARD_TO_THE_END = "a listener hears of the end of all that it was told"
    """Before close or unsubscribe returns."""
    HEARD_BEFORE_CLOSED = "a listener hears nothing once close has returned"
    READS_WHAT_IT_HEARD = "what is assigned is what the listener was told"
    ONLY_ASSIGNED = "only what is assigned is given"
    PAUSED_GIVES_NOTHING = "nothing of a paused partition is given"
    NO_GAP = "records follow one another"
    """Whoever takes them, by whatever way: between two seeks nothing is left out or given twice."""
    BEGINS_AT_COMMITTED = "who takes a partition over begins where the group has committed"
    NOTHING_REPEATED = "what was given up in order is not given again"
    """But for what was at hand then."""
    COMMITTED_AT_THE_END = "who ends in order has committed what was given to him"
    COMMITTED_MEANWHILE = "who works for long on one record has those before it committed"
    ONLY_GIVEN_COMMITTED = "a commit covers only what was given"
    NOT_IN_HAND = "a commit that goes by itself covers nothing that is at hand"
    COVERS_ALL_GIVEN = "a commit covers all that was given"
    COMMITS_GO_ON = "commits go back only after a seek"
    ONE_OWNER = "a partition has one owner"
    ENDS_IN_TIME = "a call ends in its time"
    LEAVES = "who is closed, unsubscribed or silent is no member any more"
    STAYS = "a static member stays in its group when it is closed"
    NOTHING_RUNS_ON = "nothing of a consumer runs after it was closed"
    DOCUMENTED_ERRORS = "a user hears of documented errors only"
    CANCELLED_BY_USER = "only who is cancelled hears CancelledError, and he does"
    SAYS_NOTHING_CHOSEN = "who polls and has chosen nothing is told so"
    STREAMS_GO_ON = "a stream ends when its consumer is closed, and not before"
    CLOSED_IS_CLOSED = "who is closed gives nothing any more"
    GROUP_GOES_ON = "who comes last has everything in time"


class Refused(Exception):
    """What listeners raise."""


@dataclass(eq=False)
class Tenure:
    """A partition in the hands of one consumer, from told to told."""

    since: int
    """How many offsets had been stored then."""
    is_clean: bool
    """Whether all that it was given is to be committed at its end, by itself."""
    next: int | None = None
    is_sought: bool = False
    is_paused: bool = False
    chosen: int = 0
    """As far as anything was chosen to be committed, since it was sought last."""
    kept: int | None = None
    """When it was about to end: before this nobody had anything in hand."""

    def may_be_given_again(self, offset: int) -> bool:
        """To others, after it has ended."""
        return not self.is_clean or (self.kept is not None and offset >= self.kept)


class Ended(NamedTuple):
    """How a call went."""

    error: BaseException | None
    seconds: float
    was_cut: bool
    result: Any = None


class Book:
    """What has happened, and what is true of the group."""

    def __init__(self, world: Simulation) -> None:
        self.history: list[str] = []
        self.counts: Counter[str] = Counter()
        self.stored: dict[TopicPartition, list[int]] = defaultdict(lambda: [0])
        self.given: dict[TopicPartition, dict[int, Tenure]] = defaultdict(dict)
        self.skipped: dict[TopicPartition, set[int]] = defaultdict(set)
        self.sought: set[TopicPartition] = set()
        """Since somebody took them over: what is committed of these may go back."""
        self._covered: Counter[TopicPartition] = Counter()
        self._world = world

    def note(self, who: str, what: str) -> None:
        self.history.append(f"{self._world.now:9.4f} {who:10} {what}")

    def demand(self, is_so: bool, promise: Promise, **facts: object) -> None:
        """Ends the run if it is not so, whoever called."""
        try:
            demand(is_so, promise, **facts)
        except BrokenPromise as error:
            self._world.fail(f"{error}", error)
            raise

    def on_stored(self, where: TopicPartition, offset: int) -> None:
        """The coordinator has written it."""
        self.note("broker", f"stored {short(where)} {offset}")
        before = self.stored[where][-1]
        self.demand(
            offset >= before or where in self.sought,
            Promise.COMMITS_GO_ON,
            at=where,
            offset=offset,
            before=before,
        )
        self.stored[where].append(offset)
        known, skipped = self.given[where], self.skipped[where]
        while (end := self._covered[where]) in known or end in skipped:
            self._covered[where] += 1
        self.demand(offset <= end, Promise.ONLY_GIVEN_COMMITTED, at=where, offset=offset, given=end)

    def on_given(self, who: str, where: TopicPartition, offset: int, tenure: Tenure) -> None:
        """To the user."""
        if tenure.next is not None:
            self.demand(
                offset == tenure.next,
                Promise.NO_GAP,
                who=who,
                at=where,
                expected=tenure.next,
                found=offset,
            )
        elif not tenure.is_sought:
            self.sought.discard(where)
            stored = self.stored[where][tenure.since :]
            self.demand(
                offset in stored,
                Promise.BEGINS_AT_COMMITTED,
                who=who,
                at=where,
                found=offset,
                stored=stored,
            )
        self.demand(not tenure.is_paused, Promise.PAUSED_GIVES_NOTHING, who=who, at=where)
        before = self.given[where].get(offset)
        is_same = before is None or before is tenure or tenure.is_sought
        self.demand(
            is_same or before is None or before.may_be_given_again(offset),
            Promise.NOTHING_REPEATED,
            who=who,
            at=where,
            offset=offset,
        )
        self.given[where][offset] = tenure
        tenure.next = offset + 1


def everything() -> list[TopicPartition]:
    return [TopicPartition(name, at) for name, count in PARTITIONS.items() for at in range(count)]


def weighted(random: Random, table: Mapping[str, int]) -> str:
    return random.choices(list(table), list(table.values()))[0]


def short(where: TopicPartition) -> str:
    return f"{where.topic}{where.partition}"
