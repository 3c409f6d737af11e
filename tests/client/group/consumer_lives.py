"""The life of one consumer in a game: what its user calls, what its listener hears and does, what
it commits, and what is promised of all that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moldau.broker.log.rounds import rest
from moldau.client import Consumer, RebalanceListener, TopicPartition
from moldau.client.base.arguments import OffsetAndMetadata
from moldau.client.group.member import NOBODY, Identity
from moldau.errors.codes import KafkaError
from moldau.link.lifetime import ClientClosed
from tests.client.group.consumer_book import (
    API_S,
    COMMIT_S,
    DOCUMENTED,
    GONE_S,
    OF_TWINS,
    RECORDS,
    SLACK_S,
    UNSUBSCRIBE_S,
    Ended,
    Promise,
    Refused,
    Tenure,
    short,
    weighted,
)
from tests.client.group.consumer_calls import Caller
from tests.client.group.consumer_hands import Hands

if TYPE_CHECKING:
    from tests.client.group.consumer_games import Game

READS: Final = ("polls", "takes")
_TOLD: Final[ContextVar[object]] = ContextVar("who is told", default=None)


class Owed(NamedTuple):
    """What a consumer should commit by itself, and who it is."""

    identity: Identity
    calls: int
    offsets: Mapping[TopicPartition, tuple[Tenure, int]]


class Life(Caller, RebalanceListener):
    """One consumer, its user's calls, and its listener."""

    def __init__(self, game: Game, name: str, runtime: Any, random: Random, options: Any) -> None:
        super().__init__(game.world, game.book, name, runtime)
        self.game = game
        self.random = random
        self.instance: str | None = options.get("group_instance_id")
        self.commits_by_itself = options["enable_auto_commit"]
        self.interval_s = options.get("auto_commit_interval_ms", 5000) / 1000
        self.consumer = Consumer(runtime=runtime, client_id=name, **options)
        self.told: dict[TopicPartition, Tenure] = {}
        self.giving_up: dict[TopicPartition, Tenure] = {}
        self.hands = Hands()
        self.closing: tuple[float, float] | None = None
        self.is_closed = self.is_soiled = self.was_cut = False
        self.is_subscribed = self.has_unsubscribed = False
        self.subscribed_times = 0
        self.lost = 0
        self.helpers: list[asyncio.Task[None]] = []
        self.hanging: set[asyncio.Task[Any]] = set()
        """Of the helpers, who is at work on something until he is cancelled, or for a while."""
        self._telling = 0
        self._ends_inside = False
        """Whether a listener unsubscribes or closes, and so waits for what he is told of that."""
        self._listened_s = self._telling_since = 0.0

    @property
    def is_listener(self) -> bool:
        return _TOLD.get() is self

    @property
    def identity(self) -> Identity:
        group = self.consumer._group
        return NOBODY if group is None else group.member.identity

    @property
    def progress(self) -> object:
        """What tells its group how far it is."""
        group = self.consumer._group
        return None if group is None else group._core.progress

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
            for where in gone:
                self.hands.forget(where)
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
                self.hands.forget(where)
            await self._react("lost", partitions)

    @contextmanager
    def _hears(self, what: str, partitions: Sequence[TopicPartition]) -> Iterator[None]:
        told = " ".join(map(short, partitions))
        self.book.note(self.name, f"hears {what} [{told}]")
        self.book.counts[what] += 1
        self.demand(not self.is_closed, Promise.HEARD_BEFORE_CLOSED, heard=what, at=told)
        is_nested = self.is_listener
        self.demand(
            not self._telling or is_nested or self._ends_inside or self.may_overlap,
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
                self._ends_inside = False
                self._listened_s += self.now - self._telling_since
            self.book.note(self.name, f"has heard {what} [{told}]")

    @property
    def may_overlap(self) -> bool:
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
                    self.consumer.position(where)
            await self.consumer.committed(partitions)

        await self.call("asks", ask, COMMIT_S)

    # What its user calls.

    def is_documented(self, error: BaseException, what: str) -> bool:
        if isinstance(error, ClientClosed):
            return self.closing is not None
        if isinstance(error, KafkaError):
            is_of_twins = self.instance is not None and error.code in OF_TWINS
            return not any(each in what for each in READS) or is_of_twins
        if isinstance(error, RuntimeError):
            return str(error).startswith(DOCUMENTED)
        return isinstance(error, Refused)

    async def poll(
        self, timeout_s: float, cut_after_s: float | None = None, *, here: bool = False
    ) -> Ended:
        records = self.random.choice((1, 3, 10))

        async def poll() -> int:
            with self.hands.asking():
                parts = await self.consumer.poll(timeout_s, max_records=records)
            self.hands.be_answered()
            for part in parts:
                offsets = [each.offset for each in part.records]
                self.hands.take(TopicPartition(*part[:2]), offsets)
                self.be_given(part.topic, part.partition, offsets)
            return len(parts)

        return await self.read(f"polls {timeout_s:.2f}", poll, timeout_s, cut_after_s, here=here)

    async def read(
        self,
        what: str,
        make: Callable[[], Awaitable[Any]],
        bound_s: float,
        cut_after_s: float | None,
        *,
        here: bool,
    ) -> Ended:
        """By whatever way: what `make` gives is None where it is told that there is no more."""
        has_nothing = self.has_unsubscribed and self._is_alone and self.closing is None
        was_closed, times = self.is_closed, self.calls
        ended = await self.call(what, make, bound_s, cut_after_s, here=here)
        is_at_end = ended.error is None and ended.result is None and not ended.was_cut
        if was_closed and not ended.was_cut:
            told = is_at_end or isinstance(ended.error, ClientClosed)
            self.demand(told, Promise.CLOSED_IS_CLOSED, told=ended.error)
        if is_at_end:
            self.demand(self.closing is not None, Promise.STREAMS_GO_ON, call=what)
        if has_nothing and not ended.was_cut and self.calls == times + 1:
            told = isinstance(ended.error, RuntimeError)
            self.demand(told, Promise.SAYS_NOTHING_CHOSEN, told=ended.error)
        return ended

    def be_given(self, topic: str, partition: int, offsets: Sequence[int]) -> None:
        """In whatever way."""
        where = TopicPartition(topic, partition)
        self.book.note(self.name, f"is given {short(where)} {[*offsets]}")
        tenure = self.told.get(where)
        self.demand(tenure is not None, Promise.ONLY_ASSIGNED, at=where)
        assert tenure is not None
        for offset in offsets:
            self.book.on_given(self.name, where, offset, tenure)

    async def commit(self, cut_after_s: float | None = None, *, here: bool = False) -> None:
        """All, or what is known of one partition."""
        names_one = self.random.random() < 0.3

        async def commit() -> None:
            known = {where: each.next for where, each in self.told.items() if each.next is not None}
            offsets = None
            if known and names_one:
                where = self.random.choice(sorted(known))
                offsets = {where: self._somewhere_in_hand(where, known[where])}
                self.told[where].chosen = max(self.told[where].chosen, offsets[where])
            await self.consumer.commit(offsets)

        await self.call("commits", commit, COMMIT_S, cut_after_s, here=here)

    def _somewhere_in_hand(self, where: TopicPartition, given: int) -> int:
        """What a user may commit by its number without going back."""
        chosen = self.told[where].chosen
        before = min(given, max(chosen, self.book.stored[where][-1]))
        return self.random.randint(before, given)

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
            self.consumer.seek(where, offset)
        except KafkaError as error:
            self.demand(self.closing is not None, Promise.DOCUMENTED_ERRORS, error=error)
            return
        self.book.skipped[where].update(range(offset))
        given = self.book.given[where]
        given |= {each: tenure for each in given if each >= offset}
        self.book.sought.add(where)
        self.hands.forget(where)
        tenure.next, tenure.is_sought, tenure.is_clean = offset, True, False
        tenure.chosen = 0

    def pause(self, share: float) -> None:
        """About so much of what is assigned."""
        chosen = [where for where in self.consumer.assignment if self.random.random() < share]
        self.book.note(self.name, f"pauses {' '.join(map(short, chosen))}")
        try:
            self.consumer.pause(chosen)
        except KafkaError as error:
            self.demand(self.closing is not None, Promise.DOCUMENTED_ERRORS, error=error)
            return
        for where in self.told.keys() & chosen:
            self.told[where].is_paused = True

    def resume(self) -> None:
        """All of it."""
        self.book.note(self.name, "resumes")
        try:
            self.consumer.resume()
        except KafkaError as error:
            self.demand(self.closing is not None, Promise.DOCUMENTED_ERRORS, error=error)
            return
        for tenure in self.told.values():
            tenure.is_paused = False

    async def hang(self) -> None:
        """In a task of its own."""
        task = asyncio.current_task()
        assert task is not None
        self.book.note(self.name, f"{task.get_name()} hangs")
        self.hanging.add(task)
        try:
            await rest(self.random.uniform(0.0, 1.5))
        except asyncio.CancelledError:
            if self.random.random() < 0.5:
                await rest(self.random.uniform(0.0, 0.4))  # it cleans up
            raise
        finally:
            self.hanging.discard(task)

    async def cancel_the_hanging(self) -> None:
        """All at once, or one after the other, perhaps without waiting for them."""
        hanging = sorted(self.hanging, key=lambda task: task.get_name())
        is_in_turn, waits = self.random.random() < 0.5, self.random.random() < 0.7
        for each in hanging:
            if each not in self.hanging:
                continue  # it went on while others ended
            self.book.note(self.name, f"{each.get_name()} is cancelled")
            self.book.counts["cancelled a reader"] += 1
            each.cancel()
            if is_in_turn and waits:
                await asyncio.wait([each])
                await rest(self.random.uniform(0.0, 0.2))
        if hanging and waits:
            await asyncio.wait(hanging)

    # What its consumer commits.

    def on_chosen(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], by: str) -> None:
        """To be committed, in the present task, if it is about that: `by` tells what asked."""
        for where, (offset, *_) in offsets.items():
            tenure = self.told.get(where) or self.giving_up.get(where)
            if tenure is None or tenure.next is None:
                continue
            end = tenure.next
            if by == "done":
                end = self.hands.end_of_done(where, end)
            if by == "let_go":
                end = self.hands.end_of_let_go(where, end)
            end = max(tenure.chosen, end)
            facts = {"by": by, "at": where, "offset": offset}
            tenure.chosen = max(offset, tenure.chosen)
            self.demand(offset <= end, Promise.NOT_IN_HAND, **facts, given=tenure.next, end=end)
            if by == "consumed" and where in self.told:
                sure = tenure.next
                self.demand(offset >= sure, Promise.COVERS_ALL_GIVEN, **facts, sure=sure)

    def owed_meanwhile(self) -> Owed:
        """What is to be committed as time passes, if the one record or part of a stream that is in
        hand takes longer than the interval, and nothing else happens."""
        is_known = self.game.is_calm and self.commits_by_itself and self._goes_on_alone
        owed = {
            where: (tenure, self.hands.sure_of_end(where, tenure.next))
            for where, tenure in self.told.items()
            if tenure.next is not None and not tenure.is_sought
        }
        return Owed(self.identity, self.calls, owed if is_known else {})

    def check_committed_meanwhile(self, owed: Owed) -> None:
        """After more than the interval."""
        if not self._goes_on_alone or (owed.identity, owed.calls) != (self.identity, self.calls):
            return
        for where, (tenure, offset) in owed.offsets.items():
            if self.told.get(where) is tenure and not tenure.is_sought:
                stored = self.book.stored[where][-1]
                self.demand(
                    stored >= offset,
                    Promise.COMMITTED_MEANWHILE,
                    at=where,
                    offset=offset,
                    stored=stored,
                )
                self.book.counts["committed meanwhile"] += 1

    @property
    def _goes_on_alone(self) -> bool:
        group = self.consumer._group
        is_rebalancing = group is None or group.member.is_rebalancing
        is_member = self.identity != NOBODY and not is_rebalancing
        return is_member and self._is_alone and self.closing is None

    def on_goodbye(self) -> None:
        """What it has is about to be committed, and to go."""
        for where, tenure in self.told.items():
            tenure.kept = None
            if tenure.next is not None:
                tenure.kept = self.hands.sure_of_let_go(where, tenure.next)

    async def subscribe(self) -> None:
        topics = self.random.choice((["t"], ["u"], ["t", "u"], ["t", "u"], ["t", "u"]))
        self.is_subscribed, self.has_unsubscribed = True, False
        self.subscribed_times += 1
        await self.call(
            f"subscribes to {topics}",
            lambda: self.consumer.subscribe(topics, listener=self),
            API_S,
        )

    async def unsubscribe(self, cut_after_s: float | None = None, *, here: bool = False) -> None:
        self._ends_what_it_hears()
        owed, times = self._owed(), self.subscribed_times
        is_alone = self._is_alone
        if cut_after_s is not None:
            self.soil()
        self.is_subscribed = False
        ended = await self.call(
            "unsubscribes", self.consumer.unsubscribe, UNSUBSCRIBE_S, cut_after_s, here=here
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
        return group is not None and (group.is_attentive or bool(group._unsettled))

    def _owed(self) -> dict[TopicPartition, tuple[int, int, int]]:
        """What has to be committed when it ends now: the offset, how many were stored before, and
        how often partitions had been lost."""
        if not (self.commits_by_itself and self.game.is_calm and self._is_alone):
            return {}
        if self.identity == NOBODY or self.was_cut:
            return {}
        return {
            where: (
                self.hands.sure_of_end(where, tenure.next),
                len(self.book.stored[where]) - 1,
                self.lost,
            )
            for where, tenure in self.told.items()
            if tenure.next is not None
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
        if self.is_listener:
            self.giving_up.clear()
            self._ends_inside = True

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
