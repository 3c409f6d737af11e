"""A consumer's part in its group: the member, if there is a subscription, and the offsets.

Invariants: commits are stored in the order in which they were begun. Auto commit covers only
finished records, and the next poll raises its final failure. Partitions that go are committed
before the listener is called.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    KeysView,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from moldau.client.base.arguments import ByPartition, OffsetAndMetadata, offsets_to_store
from moldau.client.base.coordinator import Coordinator, GroupMetadata
from moldau.client.base.notices import not_hiding
from moldau.client.base.notices import tell as tell_notices
from moldau.client.consumer.reading import Reading
from moldau.client.group.assignors import AssignorGiven, load_assignors
from moldau.client.group.classic_consumer import ClassicConsumer
from moldau.client.group.consumer import ConsumerMember
from moldau.client.group.consumer_session import AnyMember, ConsumerSession, tell_guarded
from moldau.client.group.listener import RebalanceListener
from moldau.client.group.member import NOBODY, Change, Identity, Kind, MemberSettings, Wanted
from moldau.client.group.offsets import AutoCommit, GroupOffsets, Later
from moldau.client.settings import group as rows
from moldau.client.settings.consumer import client_rack
from moldau.client.settings.group import coordinator_decides
from moldau.config import Settings
from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid, format_uuid, new_uuid
from moldau.link import settings as link_rows
from moldau.link.arguments import seconds_at_most
from moldau.link.cluster import Cluster
from moldau.link.lifetime import closed
from moldau.link.metadata import TopicPartition
from moldau.runtime import Runtime
from moldau.runtime.timeouts import timeout

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


class ConsumerGroup:
    """One consumer in its group."""

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        assignors: Sequence[AssignorGiven],
        on_committed: Callable[[Mapping[TopicPartition, OffsetAndMetadata], float], None],
        reader: Reading,
    ) -> None:
        """`on_committed` is called with the offsets of a stored commit, and the seconds that it
        took."""
        runtime = cluster.runtime
        self._runtime = runtime
        self._clock = runtime.clock
        self._settings = settings
        self.reader = reader
        self._coordinator = Coordinator(cluster, settings[rows.group_id] or "")
        self._member = _member(runtime, settings, assignors)
        self._session = ConsumerSession(
            runtime, cluster, self._coordinator, self._member, reader, self
        )
        self._offsets = GroupOffsets(
            cluster,
            self._coordinator,
            self._identity,
            self._session.on_commit_refused,
            self._may_retry,
        )
        self._is_subscribed = False
        self._is_over = False
        """Whether it is closed: pending commits fail."""
        self._is_told = False
        """Whether the close has called, or is calling, the listener for the partitions given up."""
        self.commits_by_itself = rows.commits_by_itself(settings)
        """Whether it commits without a call of the user."""
        self._cluster = cluster
        self._timer: asyncio.TimerHandle | None = None
        self._gone = set[Uuid]()
        """Deleted topics, known from rejected auto commits."""
        self._auto = AutoCommit(settings[rows.auto_commit_interval_ms] / 1000)
        self._order = asyncio.Lock()
        """The lock by which commits are stored one after another, in the order of their start."""
        self._on_committed = on_committed
        self._under_way: dict[asyncio.Task[None], tuple[KeysView[TopicPartition], float]] = {}
        """The pending commits: their partitions, and until when look-ups of these wait for them."""
        self._request_s = settings[link_rows.request_timeout_ms] / 1000
        self._failure: KafkaError | None = None
        self._rebalance_s = (
            min(settings[link_rows.default_api_timeout_ms], settings[rows.max_poll_interval_ms])
            / 1000
        )
        self.longest_wait_s = max(0.001, settings[rows.max_poll_interval_ms] / 2000)

    @property
    def member_id(self) -> str:
        """The member id; empty while it is not a member."""
        return self._member.identity.member_id

    def _identity(self) -> Identity:
        identity = self._member.identity
        if self._is_subscribed and identity == NOBODY:
            kept_out = self._member.kept_out_by
            if kept_out is not None:
                raise KafkaError(
                    kept_out.code, f"not committed: {kept_out.reason}", **kept_out.context
                )
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                "not committed: this consumer is no member of its group at present; poll, which "
                "joins it",
                group=self._coordinator.group_id,
            )
        if not (self._is_subscribed or self._member.is_out or self._session.is_attentive):
            raise Later(
                ErrorCode.UNKNOWN_MEMBER_ID,
                "not committed: this consumer has not left its group yet, which takes offsets of "
                "members alone until then",
                group=self._coordinator.group_id,
            )
        return identity

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
            if error.code in _OUT_OF_GROUP and self._is_subscribed:
                setting = self._lost_by()
                facts |= {} if setting is None else {"setting": setting}
                reason = _LEFT_BY_ITSELF if setting == _POLL_INTERVAL else reason
            error.reason, error.context = reason, {**error.context, **facts}
            raise

    def _lost_by(self) -> str | None:
        """The setting that made this consumer lose its membership."""
        if self._member.is_late(self._clock.monotonic()):
            return _POLL_INTERVAL
        return self._member.left_for

    def _may_retry(self, identity: Identity, where: TopicPartition, code: ErrorCode) -> bool:
        member = self._member
        if not self._is_subscribed:
            return identity != NOBODY  # True: it was a member, and has left since
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            return False
        return member.may_commit_later(identity, where)

    # Membership

    def listen(self, listener: RebalanceListener | None) -> None:
        """Use this listener from now on."""
        self._session.listener = RebalanceListener() if listener is None else listener

    def subscribe(self, wanted: Wanted) -> None:
        """Subscribe to these topics, from the next rebalance on."""
        self._is_subscribed = True
        self._member.subscribe(wanted)
        self._session.poke()

    def enforce_rebalance(self, reason: str) -> bool:
        """Make the group rebalance, from the next polls on; False if only the coordinator may."""
        is_possible = self._member.enforce_rebalance(reason)
        self._session.poke()
        return is_possible

    @property
    def metadata(self) -> GroupMetadata:
        """This member's identity in its group."""
        identity = self._member.identity
        return GroupMetadata(
            self._coordinator.group_id,
            identity.epoch,
            identity.member_id,
            self._member.terms.instance_id,
        )

    def read_by_hand(self) -> None:
        """Switch to manual assignment. The next polls finish an `unsubscribe` that was
        cancelled."""
        self._is_subscribed = False
        self._member.forgive()

    @property
    def has_member(self) -> bool:
        """Whether there is a subscription, or one is not wholly given up yet."""
        return self._is_subscribed or self.is_settling

    @property
    def is_settling(self) -> bool:
        """Whether a change or an error waits for a call, or a call is handling one."""
        return self._session.is_settling

    async def unsubscribe(self, is_wanted: Callable[[], bool]) -> BaseException | None:
        """Give everything up and leave the group. Return the listener's error. The user may
        subscribe again before this has ended: then `is_wanted` returns False."""
        self._member.subscribe(Wanted())
        self._session.poke()
        failure = await self._session.run_changes()
        if is_wanted():
            self._is_subscribed = False
        return failure

    def on_metadata(self) -> None:
        """Apply new metadata."""
        self._session.on_metadata()

    async def on_poll(self, until: float) -> bool:
        """Run this poll's part of a rebalance. Return False if the poll's time is over before."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        if not self.has_member:
            return True
        async with AsyncExitStack() as left:
            left.push_async_exit(self._tell_at_last)
            return await self._session.on_poll(until)

    async def _tell_at_last(self, kind: type[BaseException] | None, *_: object) -> None:
        """Call the listener if a close came during the poll, unless the poll was cancelled."""
        if self._is_over and (kind is None or issubclass(kind, Exception)):
            with not_hiding(kind):
                await self.end_goodbye(0.0)

    def commit_before(self, change: Change) -> Coroutine[Any, Any, None]:
        """Commit the returned records of partitions that go (with auto commit). Start the commit
        now, in the task that gives them up: a commit of another task, which may still hold records,
        comes after it.

        It may take as long as a rebalance. The user's own pending commits may take as long as a
        response: going on earlier would have them rejected.
        """
        gone = set(change.partitions)
        consumed = self.reader.let_go(asyncio.current_task()) if self.commits_by_itself else {}
        going = {where: each for where, each in consumed.items() if where in gone}
        offsets = self._without_the_gone(going)
        if not offsets:
            return self.commits_ended(change)
        return self._commit_by_itself(offsets, self._rebalance_s)

    def _commit_by_itself(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_s: float
    ) -> Coroutine[Any, Any, None]:
        """Start an auto commit now. Return a coroutine that waits for it and logs a failure."""
        ids = self.reader.topic_ids(offsets)
        task = self._spawn(offsets, ids, timeout_s)

        async def ended() -> None:
            try:
                await asyncio.wait([task])  # cancelled before the commit has begun: let it begin
                task.result()
            except KafkaError as error:
                self._note_failure(error, ids)
            except asyncio.CancelledError:
                task.cancel()
                _tell_uncommitted(offsets)
                raise

        return ended()

    async def commits_ended(self, change: Change, until: float = math.inf) -> None:
        """Wait for the pending commits of these partitions: each as long as a response may take,
        and not past `until`."""
        now = self._clock.monotonic()
        waits = {
            task: min(until, its_end) - now
            for task, (of, its_end) in self._under_way.items()
            if not of.isdisjoint(change.partitions)
        }
        if waits:
            await asyncio.wait(waits, timeout=max(0.0, *waits.values()))

    # Offsets

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
        reader = self.reader
        if reader.transactional is not None:
            reader.transactional.check_may_commit()
        given = reader.consumed() if offsets is None else offsets_to_store(offsets)
        ids = reader.topic_ids(given) if offsets is None else reader.given_ids(given)
        return self._spawn(given, ids, timeout_s)

    def _spawn(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        ids: Mapping[TopicPartition, Uuid],
        timeout_s: float | None = None,
    ) -> asyncio.Task[None]:
        if self._is_over:
            raise closed("consumer")
        left = dict(offsets)
        task = self._runtime.spawn(
            self._commit(left, ids, self._given_up(offsets), timeout_s),
            name="commit offsets",
            reported=False,
        )
        self._under_way[task] = (offsets.keys(), self._clock.monotonic() + self._request_s)
        self.reader.commit_begins(offsets)
        task.add_done_callback(partial(self._ended, offsets, left))
        return task

    def _ended(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        left: Mapping[TopicPartition, OffsetAndMetadata],
        task: asyncio.Task[None],
    ) -> None:
        del self._under_way[task]
        is_stored = not task.cancelled() and task.exception() is None
        self.reader.commit_ended(offsets, () if is_stored else left, was_cut_off=task.cancelled())
        self.reader.may_look_up()

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
            if not self._is_over:
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
        now = {where: self._member.tenure(where) for where in partitions}
        return lambda where: now[where] not in (None, self._member.tenure(where))

    def commit_if_due(self, now: float) -> None:
        """Auto-commit what the last poll returned, if the interval is over: the next poll says that
        it is processed. Also start the timer for finished records: processing the records of one
        poll, or waiting in one, may take long."""
        if not self.commits_by_itself:
            return
        if now >= self._auto.due_at and self._auto.is_due(now):
            self._commit_done(self.reader.consumed())
        if self._timer is None:
            self._commit_later(now)

    def commit_soon_by_itself(self, partitions: Collection[TopicPartition]) -> None:
        """Auto-commit the returned records of these partitions."""
        if self.commits_by_itself:
            consumed = self.reader.let_go(asyncio.current_task())
            self._commit_done({where: consumed[where] for where in consumed if where in partitions})

    def _commit_later(self, now: float) -> None:
        delay_s = max(_TIMER_S_MIN, self._auto.due_in_s(now))
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._commit_meanwhile)

    def _commit_meanwhile(self) -> None:
        self._timer = None
        if not self.commits_by_itself:
            return
        now = self._clock.monotonic()
        if self._auto.is_due(now):
            self._commit_done(self.reader.done())
        self._commit_later(now)

    def _commit_done(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        if self._is_subscribed and self._member.identity == NOBODY:
            return
        offsets = self._without_the_gone(offsets)
        if offsets:
            ids = self.reader.topic_ids(offsets)
            task = self._spawn(offsets, ids)
            task.add_done_callback(partial(self._auto_committed, ids))
            self._auto.begin(task)

    def _without_the_gone(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets without those of topics known to be deleted."""
        known = self._cluster.metadata.name_of
        ids = self.reader.topic_ids(offsets)
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
        tell_notices([KafkaError(error.code, reason, **setting)])
        if not error.retriable and error.code not in _TELLS_NOBODY:
            self._failure = error

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

    def held_until(self, where: TopicPartition) -> float:
        """Return until when (clock time) not to look up the committed offset: a commit of it is
        pending, and an earlier start would read processed records again. The wait ends with the
        first response that is due; it is infinite while a listener may still commit or seek."""
        if self._session.is_undecided(where):
            return math.inf
        return min((until for of, until in self._under_way.values() if where in of), default=0.0)

    def position_is_wanted(self, where: TopicPartition) -> None:
        """Let a listener that requests a position get it: it must not wait for its own return."""
        self._session.listener_wants(where)

    # The end

    async def aclose(
        self, timeout_s: float, *, leave_group: bool | None = None, commits: bool = True
    ) -> None:
        """Commit if allowed, wait for the user's commits, call the listener, then leave the group
        unless the member is to stay. Apart from the listener, this takes at most `timeout_s`."""
        self.commits_by_itself &= commits
        if self._timer is not None:
            self._timer.cancel()
        if leave_group is not None:
            self._member.terms = replace(self._member.terms, leaves_when_closed=leave_group)
        until = self._clock.monotonic() + timeout_s
        try:
            await self._session.aclose(timeout_s, partial(self._say_goodbye, until))
        finally:
            self._is_over = True
            loop = asyncio.get_running_loop()
            for task in self._under_way:
                loop.call_soon(task.cancel)  # after its start, so that it can raise its own error
            await self._coordinator.aclose()
            if self._under_way:
                await asyncio.wait(list(self._under_way))

    async def _say_goodbye(self, until: float) -> None:
        if self.commits_by_itself and not (self._is_subscribed and self._member.identity == NOBODY):
            await self._commit_at_last(max(0.0, until - self._clock.monotonic()))
        await self._all_committed_by(until)
        await self._tell_gone(Kind.LOST if self._member.identity == NOBODY else Kind.REVOKED)
        await self._all_committed_by(until)  # commits that the listener has begun

    async def end_goodbye(self, timeout_s: float) -> None:
        """Call the listener if `aclose` was cut off before that: other members may have all
        partitions by now. A listener call that is still running may take `timeout_s`; if it takes
        longer, the waiting poll or the next call does this."""
        if not self._is_told and await self._session.listened(timeout_s):
            await self._tell_gone(Kind.LOST)

    async def _tell_gone(self, kind: Kind) -> None:
        if self._is_told:
            return
        self._is_told = True
        owned = self._member.owned
        if owned:
            await tell_guarded(self._session.listener, Change(kind, owned, ()))

    @property
    def listening(self) -> Collection[asyncio.Task[None]]:
        """The tasks of running listener calls, even if the close has not waited for them."""
        return self._session.listening

    async def _all_committed_by(self, until: float) -> None:
        if self._under_way:
            left_s = max(0.0, until - self._clock.monotonic())
            await asyncio.wait(list(self._under_way), timeout=left_s)

    async def _commit_at_last(self, timeout_s: float) -> None:
        offsets = self._without_the_gone(self.reader.let_go(asyncio.current_task()))
        if offsets:
            await self._commit_by_itself(offsets, timeout_s)


def _member(runtime: Runtime, settings: Settings, assignors: Sequence[AssignorGiven]) -> AnyMember:
    terms = MemberSettings(
        group_id=settings[rows.group_id] or "",
        instance_id=settings[rows.group_instance_id],
        rack=settings[client_rack] or None,
        session_timeout_s=settings[rows.session_timeout_ms] / 1000,
        heartbeat_interval_s=settings[rows.heartbeat_interval_ms] / 1000,
        poll_interval_s=settings[rows.max_poll_interval_ms] / 1000,
        request_timeout_s=settings[link_rows.request_timeout_ms] / 1000,
        remote_assignor=settings[rows.group_remote_assignor],
    )
    if coordinator_decides(settings):
        return ConsumerMember(terms, format_uuid(new_uuid(runtime.random)), runtime.random)
    return ClassicConsumer(terms, load_assignors(assignors), runtime.random)


def _tell_uncommitted(offsets: Iterable[TopicPartition]) -> None:
    reason = (
        "the consumer was closed before its offsets were committed by themselves: what it has read "
        "last may be read again"
    )
    tell_notices([MoldauError(reason, partitions=sorted(map(str, offsets)))])
