"""A consumer's commits: the user's, and those that it makes by itself.

Invariants: commits are stored in the order in which they were begun. Auto commit covers only
finished records, and the next poll raises its final failure. Partitions that go are committed
before the listener is called.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from moldau.client.base.arguments import ByPartition, OffsetAndMetadata, offsets_to_store
from moldau.client.base.coordinator import Coordinator
from moldau.client.base.notices import log_notices
from moldau.client.consumer.fetcher import Fetcher
from moldau.client.group.member import Change
from moldau.client.group.offsets import AutoCommit, GroupOffsets
from moldau.client.settings import group as rows
from moldau.config import Settings
from moldau.errors import MoldauError, without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid
from moldau.link import settings as link_rows
from moldau.link.arguments import seconds_at_most
from moldau.link.lifetime import closed
from moldau.link.metadata import TopicPartition
from moldau.runtime.timeouts import timeout

if TYPE_CHECKING:
    from moldau.client.consumer.membership import ConsumerGroup

T = TypeVar("T")

OffsetsGiven = ByPartition[int | OffsetAndMetadata]

_TELLS_NOBODY: Final = frozenset(
    (
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )
)


_OUT_OF_GROUP: Final = frozenset(
    (
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
    )
)
_TIMER_S_MIN: Final = 0.1
_POLL_INTERVAL: Final = "max.poll.interval.ms"
_LEFT_BY_ITSELF: Final = (
    "not committed: no poll came for max.poll.interval.ms, so this consumer has left its group, "
    "and others may have its partitions. Poll, which joins again; and make the handler faster, "
    "max.poll.records smaller or max.poll.interval.ms larger"
)


class Commits:
    """The commits of one consumer in its group."""

    def __init__(
        self,
        group: ConsumerGroup,
        coordinator: Coordinator,
        settings: Settings,
        fetcher: Fetcher,
        on_committed: Callable[[Mapping[TopicPartition, OffsetAndMetadata], float], None],
    ) -> None:
        """`on_committed` is called with the offsets of a stored commit, and the seconds that it
        took."""
        self.by_itself = rows.commits_by_itself(settings)
        """Whether it commits without a call of the user."""
        self.is_over = False
        """Whether the consumer is closed: pending commits fail."""
        self._runtime = fetcher.cluster.runtime
        self._clock = fetcher.cluster.runtime.clock
        self._group = group
        self._core = fetcher.core
        self._fetcher = fetcher
        self._coordinator = coordinator
        self._offsets = GroupOffsets(
            fetcher.cluster, coordinator, group.identity, group.on_commit_refused, group.may_retry
        )
        self._timer: asyncio.TimerHandle | None = None
        self._gone = set[Uuid]()
        """Deleted topics, known from rejected auto commits."""
        self._auto = AutoCommit(settings[rows.auto_commit_interval_ms] / 1000)
        self._order = asyncio.Lock()
        """The lock by which commits are stored one after another, in the order of their start."""
        self._on_committed = on_committed
        self._request_s = settings[link_rows.request_timeout_ms] / 1000
        self._failure: KafkaError | None = None
        self._rebalance_s = (
            min(settings[link_rows.default_api_timeout_ms], settings[rows.max_poll_interval_ms])
            / 1000
        )

    @property
    def pending(self) -> dict[asyncio.Task[None], tuple[Collection[TopicPartition], float]]:
        """The pending commits: their partitions, and how long their responses may take."""
        return self._core.progress.commits

    # By the user

    async def commit(
        self, offsets: OffsetsGiven | None = None, *, timeout_s: float | None = None
    ) -> None:
        """Commit the offsets, and return when they are stored."""
        task = self.commit_soon(offsets, seconds_at_most(timeout_s, "timeout_s"))
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.cancelled():  # because the runtime was closed
            raise self._closed_meanwhile()
        task.result()

    def commit_soon(
        self, offsets: OffsetsGiven | None = None, timeout_s: float | None = None
    ) -> asyncio.Task[None]:
        """Commit in a task of its own. The topic ids are those of now: when the offsets are stored,
        other topics may have the names."""
        core = self._core
        if core.transactional is not None:
            core.transactional.check_may_commit()
        given = core.progress.consumed() if offsets is None else offsets_to_store(offsets)
        ids = core.topic_ids(given) if offsets is None else core.given_ids(given)
        return self._spawn(given, ids, timeout_s)

    def _spawn(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        ids: Mapping[TopicPartition, Uuid],
        timeout_s: float | None = None,
    ) -> asyncio.Task[None]:
        if self.is_over:
            raise closed("consumer")
        left = dict(offsets)
        task = self._runtime.spawn(
            self._commit(left, ids, self._given_up(offsets), timeout_s),
            name="commit offsets",
            reported=False,
        )
        until = self._clock.monotonic() + self._request_s
        self._core.progress.on_commit(task, offsets, until)
        task.add_done_callback(partial(self._ended, offsets, left))
        return task

    def _ended(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        left: Mapping[TopicPartition, OffsetAndMetadata],
        task: asyncio.Task[None],
    ) -> None:
        is_stored = not task.cancelled() and task.exception() is None
        self._core.progress.on_committed(
            task, offsets, () if is_stored else left, was_cut_off=task.cancelled()
        )
        self._fetcher.may_look_up()

    async def _commit(
        self,
        left: dict[TopicPartition, OffsetAndMetadata],
        ids: Mapping[TopicPartition, Uuid],
        is_given_up: Callable[[TopicPartition], bool],
        timeout_s: float | None = None,
    ) -> None:
        """Store the offsets in `left`; remove those that are known to be stored."""
        try:
            began = self._clock.monotonic()
            await self._wait_in_order(timeout_s)
            try:
                waited_s = self._clock.monotonic() - began
                left_s = None if timeout_s is None else max(0.0, timeout_s - waited_s)
                await self._store(left, ids, is_given_up, left_s)
            finally:
                self._order.release()
        except asyncio.CancelledError:
            if not self.is_over:
                raise
            raise self._closed_meanwhile() from None

    def _closed_meanwhile(self) -> KafkaError:
        return KafkaError(
            ErrorCode.NETWORK_EXCEPTION,
            "not committed: the consumer was closed meanwhile",
            group=self._coordinator.group_id,
        )

    async def _wait_in_order(self, timeout_s: float | None) -> None:
        """Wait for the commits that were begun before."""
        try:
            async with timeout(timeout_s if self._order.locked() else None):
                await self._order.acquire()
        except TimeoutError:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                "not committed: the commit before this one has no answer yet",
                group=self._coordinator.group_id,
                timeout_s=timeout_s,
            ) from None

    async def _store(
        self,
        left: dict[TopicPartition, OffsetAndMetadata],
        ids: Mapping[TopicPartition, Uuid],
        is_given_up: Callable[[TopicPartition], bool],
        timeout_s: float | None,
    ) -> None:
        if left:
            began, offsets = self._clock.monotonic(), dict(left)
            storing = self._offsets.commit(left, ids, is_given_up, timeout_s=timeout_s)
            await self._told_of(storing, offsets)
            self._on_committed(offsets, self._clock.monotonic() - began)

    def _given_up(self, partitions: Iterable[TopicPartition]) -> Callable[[TopicPartition], bool]:
        """Return a predicate: whether a partition was given up since now, even if it is back."""
        now = {where: self._group.member.tenure(where) for where in partitions}
        return lambda where: now[where] not in (None, self._group.member.tenure(where))

    def commit_if_due(self, now: float) -> None:
        """Auto-commit what the last poll returned, if the interval is over: the next poll says that
        it is processed. Also start the timer for finished records: processing the records of one
        poll, or waiting in one, may take long."""
        if not self.by_itself:
            return
        if now >= self._auto.due_at and self._auto.is_due(now):
            self._commit_done(self._core.progress.consumed())
        if self._timer is None:
            self._commit_later(now)

    def commit_soon_by_itself(self, partitions: Collection[TopicPartition]) -> None:
        """Auto-commit the returned records of these partitions."""
        if self.by_itself:
            consumed = self._core.progress.let_go(asyncio.current_task())
            self._commit_done({where: consumed[where] for where in consumed if where in partitions})

    def _commit_later(self, now: float) -> None:
        delay_s = max(_TIMER_S_MIN, self._auto.due_in_s(now))
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._commit_meanwhile)

    def _commit_meanwhile(self) -> None:
        self._timer = None
        if not self.by_itself:
            return
        now = self._clock.monotonic()
        if self._auto.is_due(now):
            self._commit_done(self._core.progress.done())
        self._commit_later(now)

    def _commit_done(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        if self._group.is_kept_out:
            return
        offsets = self._without_the_gone(offsets)
        if offsets:
            ids = self._core.topic_ids(offsets)
            task = self._spawn(offsets, ids)
            task.add_done_callback(partial(self._auto_committed, ids))
            self._auto.begin(task)

    def _without_the_gone(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets without those of topics known to be deleted."""
        known = self._core.metadata.name_of
        ids = self._core.topic_ids(offsets)
        return {
            where: each
            for where, each in offsets.items()
            if ids[where] not in self._gone or known(ids[where]) is not None
        }

    def _auto_committed(self, ids: Mapping[TopicPartition, Uuid], task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, KafkaError):
            self._note_failure(error, ids)

    def _note_failure(self, error: KafkaError, ids: Mapping[TopicPartition, Uuid]) -> None:
        """Log a failed auto commit (a deleted topic's once), and let the next poll raise it if it
        would fail again. A passing error or a lost membership only means that records are read
        again; offsets of a deleted topic are useless."""
        if error.code is ErrorCode.UNKNOWN_TOPIC_ID:
            told = (error.context.get("topic"), error.context.get("partition"))
            self._gone |= {each for where, each in ids.items() if where == told}
        setting = {"setting": "enable.auto.commit", **error.context}
        reason = f"offsets could not be committed by themselves: {error.reason}"
        log_notices([KafkaError(error.code, reason, **setting)])
        if not error.retriable and error.code not in _TELLS_NOBODY:
            self._failure = without_frames(error)

    async def committed(
        self, partitions: Iterable[TopicPartition], *, timeout_s: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offsets."""
        timeout_s = seconds_at_most(timeout_s, "timeout_s")
        wanted = list(partitions)
        found = self._offsets.committed(wanted, timeout_s=timeout_s)
        return await self._told_of(found, dict.fromkeys(wanted)) if wanted else await found

    async def look_up(
        self, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | KafkaError | None]:
        """Request the committed offsets once. An error counts for its partition alone."""
        return await self._offsets.look_up(partitions)

    async def _told_of(
        self, call: Awaitable[T], offsets: Mapping[TopicPartition, OffsetAndMetadata | None]
    ) -> T:
        """Return the result of `call`. Add the group and the first partition to an error."""
        try:
            return await call
        except KafkaError as error:
            where, offset = next(iter(offsets.items()))
            facts: dict[str, object] = {"group": self._coordinator.group_id}
            if "topic" not in error.context:
                facts |= {"topic": where.topic, "partition": where.partition}
                facts |= {} if offset is None else {"offset": offset.offset}
            reason = error.reason
            if error.code in _OUT_OF_GROUP and self._group.is_subscribed:
                setting = self._group.lost_by()
                facts |= {} if setting is None else {"setting": setting}
                reason = _LEFT_BY_ITSELF if setting == _POLL_INTERVAL else reason
            error.reason, error.context = reason, {**error.context, **facts}
            raise

    # By itself

    def raise_failure(self) -> None:
        """Raise, once, an auto commit's final failure."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def commit_before(self, change: Change) -> Coroutine[Any, Any, None]:
        """Commit the returned records of partitions that go (with auto commit). Start the commit
        now, in the task that gives them up: a commit of another task, which may still hold records,
        comes after it.

        It may take as long as a rebalance. The user's own pending commits may take as long as a
        response: going on earlier would have them rejected.
        """
        gone = set(change.partitions)
        consumed = self._core.progress.let_go(asyncio.current_task()) if self.by_itself else {}
        going = {where: each for where, each in consumed.items() if where in gone}
        offsets = self._without_the_gone(going)
        if not offsets:
            return self.commits_ended(change)
        return self._commit_by_itself(offsets, self._rebalance_s)

    def _commit_by_itself(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_s: float
    ) -> Coroutine[Any, Any, None]:
        """Start an auto commit now. Return a coroutine that waits for it and logs a failure."""
        ids = self._core.topic_ids(offsets)
        task = self._spawn(offsets, ids, timeout_s)

        async def ended() -> None:
            try:
                await asyncio.wait([task])  # cancelled before the commit has begun: let it begin
                task.result()
            except KafkaError as error:
                self._note_failure(error, ids)
            except asyncio.CancelledError:
                task.cancel()
                _report_uncommitted(offsets)
                raise

        return ended()

    async def commits_ended(self, change: Change, until: float = math.inf) -> None:
        """Wait for the pending commits of these partitions: each as long as a response may take,
        and not past `until`."""
        now = self._clock.monotonic()
        waits = {
            task: min(until, its_end) - now
            for task, (of, its_end) in self.pending.items()
            if any(where in of for where in change.partitions)
        }
        if waits:
            await asyncio.wait(waits, timeout=max(0.0, *waits.values()))

    # The end

    def stop(self) -> None:
        """Start no more auto commits by time."""
        if self._timer is not None:
            self._timer.cancel()

    async def cut_off(self) -> None:
        """Cancel the pending commits: they raise an error of their own."""
        self.is_over = True
        loop = asyncio.get_running_loop()
        for task in self.pending:
            loop.call_soon(task.cancel)  # after its start, so that it can raise its own error

    async def ended_by(self, until: float) -> None:
        if self.pending:
            left_s = max(0.0, until - self._clock.monotonic())
            await asyncio.wait(list(self.pending), timeout=left_s)

    async def commit_at_last(self, timeout_s: float) -> None:
        offsets = self._without_the_gone(self._core.progress.let_go(asyncio.current_task()))
        if offsets:
            await self._commit_by_itself(offsets, timeout_s)


def _report_uncommitted(offsets: Iterable[TopicPartition]) -> None:
    reason = (
        "the consumer was closed before its offsets were committed by themselves: what it has read "
        "last may be read again"
    )
    log_notices([MoldauError(reason, partitions=sorted(map(str, offsets)))])
