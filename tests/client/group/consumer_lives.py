"""The life of one consumer in a game: what its user calls, what its listener hears and does, and
what is promised of both.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moldau.broker.log.shell import rest
from moldau.client import Consumer, RebalanceListener, TopicPartition
from moldau.client.group.member import NOBODY, Identity
from moldau.client.world import ClientClosed
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime.simulated.simulation import Simulation
from tests.broker.simulation.promises import BrokenPromise, demand

if TYPE_CHECKING:
    from tests.client.group.consumer_games import Game

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
    ONLY_ASSIGNED = "a poll gives only what is assigned"
    NO_GAP = "records follow one another"
    BEGINS_AT_COMMITTED = "who takes a partition over begins where the group has committed"
    NOTHING_REPEATED = "what was given up in order is not given again"
    COMMITTED_AT_THE_END = "who ends in order has committed what was given to him"
    ONLY_GIVEN_COMMITTED = "a commit covers only what was given"
    ONE_OWNER = "a partition has one owner"
    ENDS_IN_TIME = "a call ends in its time"
    LEAVES = "who is closed, unsubscribed or silent is no member any more"
    STAYS = "a static member stays in its group when it is closed"
    NOTHING_RUNS_ON = "nothing of a consumer runs after it was closed"
    DOCUMENTED_ERRORS = "a user hears of documented errors only"
    CANCELLED_BY_USER = "only who is cancelled hears CancelledError, and he does"
    SAYS_NOTHING_CHOSEN = "who polls and has chosen nothing is told so"
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
            stored = self.stored[where][tenure.since :]
            self.demand(
                offset in stored,
                Promise.BEGINS_AT_COMMITTED,
                who=who,
                at=where,
                found=offset,
                stored=stored,
            )
        before = self.given[where].get(offset)
        self.demand(
            before is None or before is tenure or tenure.is_sought or not before.is_clean,
            Promise.NOTHING_REPEATED,
            who=who,
            at=where,
            offset=offset,
        )
        self.given[where][offset] = tenure
        tenure.next = offset + 1


_TOLD: Final[ContextVar[object]] = ContextVar("who is told", default=None)


class Life(RebalanceListener):
    """One consumer, its user's calls, and its listener."""

    def __init__(self, game: Game, name: str, runtime: Any, random: Random, options: Any) -> None:
        self.game, self.book, self.name, self.runtime = game, game.book, name, runtime
        self.random = random
        self.instance: str | None = options.get("group_instance_id")
        self.commits_by_itself = options["enable_auto_commit"]
        self.consumer = Consumer(runtime=runtime, client_id=name, **options)
        self.told: dict[TopicPartition, Tenure] = {}
        self.giving_up: dict[TopicPartition, Tenure] = {}
        self.closing: tuple[float, float] | None = None
        self.is_closed = self.is_soiled = self.was_cut = False
        self.is_subscribed = self.has_unsubscribed = False
        self.subscribed_times = 0
        self.calls = self.lost = self.under_way = 0
        self.helpers: list[asyncio.Task[None]] = []
        self._telling = 0
        self._listened_s = self._telling_since = 0.0

    @property
    def now(self) -> float:
        return self.game.world.now

    def demand(self, is_so: bool, promise: Promise, **facts: object) -> None:
        self.book.demand(is_so, promise, who=self.name, **facts)

    @property
    def identity(self) -> Identity:
        group = self.consumer._group
        return NOBODY if group is None else group._member.identity

    def soil(self) -> None:
        """What it was given may be given to others once more."""
        for tenure in (*self.told.values(), *self.giving_up.values()):
            tenure.is_clean = False

    # What its listener hears.

    @property
    def is_telling(self) -> bool:
        return self._telling > 0

    def listened_s(self) -> float:
        """How long listeners have run."""
        return self._listened_s + (self.now - self._telling_since if self._telling else 0.0)

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        with self._hears("assigned", partitions):
            for where in partitions:
                is_clean = self.commits_by_itself and self.game.is_calm and not self.is_soiled
                since = len(self.book.stored[where]) - 1
                self.told[where] = Tenure(since, is_clean)
            await self._react("assigned", partitions)

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        with self._hears("revoked", partitions):
            gone = {where: self.told.pop(where) for where in partitions}
            self.giving_up |= gone
            try:
                await self._react("revoked", partitions)
            finally:
                for where in gone:
                    self.giving_up.pop(where, None)

    async def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        with self._hears("lost", partitions):
            self.lost += 1
            for where in partitions:
                self.told.pop(where).is_clean = False
            await self._react("lost", partitions)

    @contextmanager
    def _hears(self, what: str, partitions: Sequence[TopicPartition]) -> Iterator[None]:
        told = " ".join(map(short, partitions))
        self.book.note(self.name, f"hears {what} [{told}]")
        self.book.counts[what] += 1
        self.demand(not self.is_closed, Promise.HEARD_BEFORE_CLOSED, heard=what, at=told)
        is_nested = _TOLD.get() is self
        self.demand(
            not self._telling or is_nested or self._may_overlap(),
            Promise.HEARD_ALONE,
            heard=what,
            at=told,
        )
        for where in partitions:
            is_known = where in self.told
            self.demand(
                is_known is (what != "assigned"), Promise.HEARD_IN_ORDER, heard=what, at=where
            )
        if not self._telling:
            self._telling_since = self.now
        self._telling += 1
        token = _TOLD.set(self)
        try:
            yield
        finally:
            _TOLD.reset(token)
            self._telling -= 1
            if not self._telling:
                self._listened_s += self.now - self._telling_since
            self.book.note(self.name, f"has heard {what} [{told}]")

    def _may_overlap(self) -> bool:
        """A listener that takes longer than close may take goes on beside the rest."""
        return self.closing is not None and self.now >= sum(self.closing)

    async def _react(self, what: str, partitions: Sequence[TopicPartition]) -> None:
        random = self.random
        reactions = {"return": 10, "rest": 3, "rest long": 2, "commit": 3, "commit soon": 2}
        reactions |= {"ask": 1, "raise": 1, "unsubscribe": 1, "close": 1, "poll": 1}
        if what == "assigned":
            reactions["seek"] = 1
        if self._telling > 1 or self.game.is_ending:
            reactions = {"return": 4, "rest": 2, "commit": 2}
        match weighted(random, reactions):
            case "rest":
                await rest(random.uniform(0.0, 0.3))
            case "rest long":
                await rest(random.uniform(0.3, 0.8 if self.game.is_calm else 4.0))
            case "commit":
                await self.commit()
            case "commit soon":
                await self.commit_soon()
            case "ask":
                await self._ask(partitions)
            case "raise":
                self.book.note(self.name, "listener raises")
                raise Refused
            case "unsubscribe":
                await self.unsubscribe()
            case "close":
                await self.close(random.choice((0.0, 0.5, 5.0)))
            case "poll":
                await self.poll(0.1)
            case "seek":
                for where in partitions:
                    self.seek(where)

    async def _ask(self, partitions: Sequence[TopicPartition]) -> None:
        async def ask() -> None:
            for where in partitions:
                if where in self.consumer.assignment:
                    self.consumer.position(*where)
            await self.consumer.committed(partitions)

        await self.call("asks", ask, COMMIT_S)

    # What its user calls.

    async def call(
        self,
        what: str,
        make: Callable[[], Awaitable[Any]],
        bound_s: float,
        cut_after_s: float | None = None,
    ) -> Ended:
        """In a task of its own, that is cancelled after a while, perhaps."""

        async def made() -> Any:
            return await make()

        self.calls += 1
        number = self.calls
        self.under_way += 1
        inside = " in listener" if _TOLD.get() is self else ""
        self.book.note(self.name, f"#{number} {what}{inside}")
        began, listened_s = self.now, self.listened_s()
        task = self.runtime.spawn(made(), name=f"user {what}", reported=False)
        is_cut = False
        try:
            if cut_after_s is not None:
                await asyncio.wait([task], timeout=cut_after_s)
                is_cut = task.cancel()
                self.book.note(self.name, f"#{number} is cut off: {is_cut}")
            while not task.done():
                until = began + bound_s + self.listened_s() - listened_s + SLACK_S
                self.demand(self.now < until, Promise.ENDS_IN_TIME, call=f"#{number} {what}")
                await asyncio.wait([task], timeout=until - self.now + 0.001)
        finally:
            self.under_way -= 1
            task.add_done_callback(_look_at)
        return self._ended(f"#{number} {what}", task, self.now - began, is_cut=is_cut)

    def _ended(self, what: str, task: asyncio.Task[Any], seconds: float, *, is_cut: bool) -> Ended:
        if task.cancelled():
            self.book.note(self.name, f"{what}: cancelled")
            self.demand(is_cut, Promise.CANCELLED_BY_USER, call=what)
            return Ended(asyncio.CancelledError(), seconds, is_cut)
        error = task.exception()
        told = "" if error is None else f" {type(error).__name__}: {error}"[:90]
        self.book.note(self.name, f"{what}: ended{told}")
        if error is None:
            if is_cut:
                self.book.counts[f"swallowed a cancel: {what.split(' ', 1)[1]}"] += 1
            return Ended(None, seconds, is_cut, task.result())
        self.book.counts[f"heard {_kind(error)}"] += 1
        self.demand(
            self._is_documented(error, what), Promise.DOCUMENTED_ERRORS, call=what, error=error
        )
        return Ended(error, seconds, is_cut)

    def _is_documented(self, error: BaseException, what: str) -> bool:
        if isinstance(error, ClientClosed):
            return self.closing is not None
        if isinstance(error, KafkaError):
            is_of_twins = self.instance is not None and error.code in OF_TWINS
            return "polls" not in what or is_of_twins
        if isinstance(error, RuntimeError):
            return str(error).startswith(DOCUMENTED)
        return isinstance(error, Refused)

    async def poll(self, timeout_s: float, cut_after_s: float | None = None) -> Ended:
        records = self.random.choice((1, 3, 10))

        async def poll() -> int:
            parts = await self.consumer.poll(timeout_s, max_records=records)
            for part in parts:
                where = TopicPartition(part.topic, part.partition)
                offsets = [each.offset for each in part.records]
                self.book.note(self.name, f"is given {short(where)} {offsets}")
                tenure = self.told.get(where)
                self.demand(tenure is not None, Promise.ONLY_ASSIGNED, at=where)
                assert tenure is not None
                for offset in offsets:
                    self.book.on_given(self.name, where, offset, tenure)
            return len(parts)

        has_nothing = self.has_unsubscribed and self._is_alone and self.closing is None
        was_closed, times = self.is_closed, self.calls
        ended = await self.call(f"polls {timeout_s:.2f}", poll, timeout_s, cut_after_s)
        if was_closed and not ended.was_cut:
            told = isinstance(ended.error, ClientClosed)
            self.demand(told, Promise.CLOSED_IS_CLOSED, told=ended.error)
        if has_nothing and not ended.was_cut and self.calls == times + 1:
            told = isinstance(ended.error, RuntimeError)
            self.demand(told, Promise.SAYS_NOTHING_CHOSEN, told=ended.error)
        return ended

    async def commit(self, cut_after_s: float | None = None) -> None:
        """All, or what is known of one partition."""
        known = {where: each.next for where, each in self.told.items() if each.next is not None}
        offsets = None
        if known and self.random.random() < 0.3:
            where = self.random.choice(sorted(known))
            offsets = {where: known[where]}
        await self.call("commits", lambda: self.consumer.commit(offsets), COMMIT_S, cut_after_s)

    async def commit_soon(self) -> None:
        self.book.note(self.name, "commits soon")
        try:
            task = self.consumer.commit_soon()
        except KafkaError as error:
            self.demand(self.closing is not None, Promise.DOCUMENTED_ERRORS, error=error)
            return
        if self.random.random() < 0.3:
            await self.call("waits for that", lambda: asyncio.shield(task), COMMIT_S)

    def seek(self, where: TopicPartition) -> None:
        """Back, or over some records."""
        tenure = self.told.get(where)
        if tenure is None or where not in self.consumer.assignment:
            return
        offset = self.random.randrange(RECORDS)
        self.book.note(self.name, f"seeks {short(where)} {offset}")
        try:
            self.consumer.seek(*where, offset)
        except KafkaError as error:
            self.demand(self.closing is not None, Promise.DOCUMENTED_ERRORS, error=error)
            return
        self.book.skipped[where].update(range(offset))
        given = self.book.given[where]
        given |= {each: tenure for each in given if each >= offset}
        tenure.next, tenure.is_sought, tenure.is_clean = offset, True, False

    async def subscribe(self) -> None:
        topics = self.random.choice((["t"], ["u"], ["t", "u"], ["t", "u"], ["t", "u"]))
        self.is_subscribed, self.has_unsubscribed = True, False
        self.subscribed_times += 1
        await self.call(
            f"subscribes to {topics}",
            lambda: self.consumer.subscribe(topics, listener=self),
            API_S,
        )

    async def unsubscribe(self, cut_after_s: float | None = None) -> None:
        self._ends_what_it_hears()
        owed, times = self._owed(), self.subscribed_times
        is_alone = self._is_alone
        if cut_after_s is not None:
            self.soil()
        self.is_subscribed = False
        ended = await self.call(
            "unsubscribes", self.consumer.unsubscribe, UNSUBSCRIBE_S, cut_after_s
        )
        if self.subscribed_times != times or self.closing is not None:
            return
        self.has_unsubscribed = ended.error is None or isinstance(ended.error, Refused)
        if ended.error is None and is_alone:
            self.demand(not self.told, Promise.HEARD_TO_THE_END, at=self.told.keys())
            self._check_committed(owed, ended)
        self.game.world.after(GONE_S, self._check_gone, times, "unsubscribed")
        is_quick = self.game.is_calm and self.game.kind == "consumer" and self.instance is None
        if ended.error is None and is_alone and is_quick:
            self.game.world.after(1.0, self._check_gone, times, "just unsubscribed")

    async def close(self, timeout_s: float, cut_after_s: float | None = None) -> None:
        self._ends_what_it_hears()
        is_first = self.closing is None
        self.closing = self.closing or (self.now, timeout_s)
        owed, was_member = self._owed(), self.identity != NOBODY
        is_alone = self._is_alone
        if timeout_s < 1.0 or cut_after_s is not None:
            self.soil()
            self.is_soiled = True
        ended = await self.call(
            f"closes {timeout_s:.1f}",
            lambda: self.consumer.aclose(timeout_s),
            timeout_s,
            cut_after_s,
        )
        self.was_cut |= ended.was_cut
        if not is_first or ended.was_cut:
            return
        self.is_closed = True
        self.demand(not self.told, Promise.HEARD_TO_THE_END, at=self.told.keys())
        if not is_alone:
            return
        self._check_committed(owed, ended)
        if self.game.is_calm and timeout_s >= 1.0 and ended.seconds < timeout_s:
            if self.instance is None:
                self._check_gone(None, "just closed")
            elif was_member and not self.lost:
                members = self.game.members()
                self.demand(self.instance in members, Promise.STAYS, members=members)

    @property
    def _is_alone(self) -> bool:
        """Nobody else does anything with it."""
        return not (self.under_way or self._telling or self._is_changing)

    @property
    def _is_changing(self) -> bool:
        group = self.consumer._group
        return group is not None and (
            group._session.is_attentive or bool(group._session._unsettled)
        )

    def _owed(self) -> dict[TopicPartition, tuple[int, int, int]]:
        """What has to be committed when it ends now: the offset, how many were stored before, and
        how often partitions had been lost."""
        if not (self.commits_by_itself and self.game.is_calm and self._is_alone):
            return {}
        if self.identity == NOBODY or self.was_cut:
            return {}
        consumed = self.consumer.consumed()
        return {
            where: (consumed[where].offset, len(self.book.stored[where]) - 1, self.lost)
            for where, tenure in self.told.items()
            if tenure.next is not None and where in consumed
        }

    def _check_committed(
        self, owed: Mapping[TopicPartition, tuple[int, int, int]], ended: Ended
    ) -> None:
        if isinstance(ended.error, KafkaError) or ended.was_cut:
            return
        if self.closing is not None and ended.seconds > self.closing[1] - SLACK_S:
            return
        for where, (offset, since, lost) in owed.items():
            stored = self.book.stored[where][since:]
            self.demand(
                lost != self.lost or max(stored) >= offset,
                Promise.COMMITTED_AT_THE_END,
                at=where,
                offset=offset,
                stored=stored,
            )
            self.book.counts["committed at the end"] += 1

    def _check_gone(self, times: int | None, why: str) -> None:
        """`times` it had subscribed, if it may have done so again since."""
        may_be_there = why == "just unsubscribed" and self.closing is not None
        is_same = times is None or (times == self.subscribed_times and not self.is_subscribed)
        if is_same and not may_be_there:
            self.check_is_no_member(why)

    def check_is_no_member(self, why: str) -> None:
        """A static one may have a successor, which has its name."""
        self.book.counts[f"gone: {why}"] += 1
        members = self.game.members()
        is_gone = (self.instance or self.name) not in members
        is_succeeded = self.instance is not None and (self.is_closed or self.is_subscribed)
        self.demand(is_gone or is_succeeded, Promise.LEAVES, why=why, members=members)

    def _ends_what_it_hears(self) -> None:
        """A listener that unsubscribes or closes has done with what it is told of."""
        if _TOLD.get() is self:
            self.giving_up.clear()

    def check_at_rest(self) -> None:
        """Nothing is under way."""
        if self.closing is None and self._is_alone:
            assigned = set(self.consumer.assignment)
            self.demand(
                assigned == self.told.keys(),
                Promise.READS_WHAT_IT_HEARD,
                reads=assigned,
                told=self.told.keys(),
            )

    def check_nothing_runs(self) -> None:
        """Some time after it was closed."""
        if self._telling:
            return
        left = [
            each.get_name()
            for each in self.runtime.incarnation.tasks
            if not each.done() and "/user" not in each.get_name() and "/main" not in each.get_name()
        ]
        self.demand(not left, Promise.NOTHING_RUNS_ON, tasks=left)


def everything() -> list[TopicPartition]:
    return [TopicPartition(name, at) for name, count in PARTITIONS.items() for at in range(count)]


def weighted(random: Random, table: Mapping[str, int]) -> str:
    return random.choices(list(table), list(table.values()))[0]


def short(where: TopicPartition) -> str:
    return f"{where.topic}{where.partition}"


def _look_at(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


def _kind(error: BaseException) -> str:
    return error.code.name if isinstance(error, KafkaError) else type(error).__name__
