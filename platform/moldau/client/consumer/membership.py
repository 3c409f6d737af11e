"""A consumer's part in its group: its member, kept alive by `session`, and the user's part in a
rebalance.

The member lives on while the user processes records. `on_poll` runs changes of the owned
partitions, in a task of their own: a cancelled poll does not interrupt a listener, and the next
poll waits for it. A request for the next record or part shows that the user is alive, as a poll
does.

Invariants: a change commits (with auto commit), calls the listener, moves the positions, and ends
even if the listener raises. The first call that waits for a change, closes, polls or unsubscribes
raises that error; one that no call raises is logged. No records are returned during a change.

A listener may unsubscribe and close: its change is then ended, and the following changes run inside
its call, since it could not wait for itself. Its calls are recognized by a context variable. A poll
inside a listener is an error.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import Final, NamedTuple

from moldau.client.base.arguments import OffsetAndMetadata
from moldau.client.base.coordinator import Coordinator, GroupMetadata
from moldau.client.base.notices import log_notices, not_hiding
from moldau.client.consumer.commits import Commits
from moldau.client.consumer.fetcher import Fetcher
from moldau.client.group.assignors import AssignorGiven, Topics, load_assignors
from moldau.client.group.classic_consumer import ClassicConsumer
from moldau.client.group.consumer import ConsumerMember
from moldau.client.group.heartbeats import HeartbeatMember
from moldau.client.group.listener import RebalanceListener, tell
from moldau.client.group.member import (
    NOBODY,
    Change,
    Identity,
    Kind,
    MemberSettings,
    MemberSubscription,
    Ready,
)
from moldau.client.group.missing import unheard_of
from moldau.client.group.offsets import Later
from moldau.client.group.session import GroupSession
from moldau.client.settings import group as rows
from moldau.client.settings.consumer import client_rack
from moldau.client.settings.group import coordinator_decides
from moldau.config import Settings
from moldau.errors import MoldauError, without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import format_uuid, new_uuid
from moldau.link import settings as link_rows
from moldau.link.cluster import Cluster
from moldau.link.metadata import TopicPartition
from moldau.runtime import Runtime
from moldau.runtime.cancellation import is_cancelling

AnyMember = ClassicConsumer | HeartbeatMember
"""The core of a consumer's member, of any protocol."""
MakeMember = Callable[[Runtime, Settings, Sequence[AssignorGiven]], AnyMember]
_LONG_S: Final = 10.0
"""Missing metadata are logged after this long."""
_LEAVE_S_MIN: Final = 0.05
"""Enough to write the request, if a last commit took all the time of the close."""
_LISTENER_S_MIN: Final = 0.05
"""Enough to call a listener, if the commit before it took all the time of the close."""
_INSIDE: Final[ContextVar[Change | None]] = ContextVar("told of a change", default=None)
"""The change that the running listener is called for, in its context."""
_POLL_INTERVAL: Final = "max.poll.interval.ms"


class _Running(NamedTuple):
    """A running change, and whether its listener has returned."""

    task: asyncio.Task[None]
    has_told: asyncio.Event


class _ListenerErrors:
    """The exceptions of listeners, until a call raises them."""

    def __init__(self, group_id: str) -> None:
        self.hearers = 0
        """How many calls poll, unsubscribe or close: one of them will raise it."""
        self.are_logged = False
        """Whether to log errors that no call will raise, as the consumer is being closed."""
        self._group_id = group_id
        self.unheard: list[BaseException] = []

    @property
    def is_awaited(self) -> bool:
        """Whether there is an error to raise, or a call that may raise one."""
        return bool(self.unheard) or self.hearers > 0

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Mark the code inside as a call that may raise listeners' errors."""
        self.hearers += 1
        try:
            yield
        finally:
            self.hearers -= 1
            self.add(None)

    def add(self, error: BaseException | None) -> None:
        """Add the error of a listener call that has ended, if any."""
        if error is not None:
            self.unheard.append(without_frames(error))
        if self.are_logged and not self.hearers:
            self._log_all()

    def take_first(self) -> BaseException | None:
        """Return the first error, for the caller to raise, or None. Log the others."""
        first = self.unheard.pop(0) if self.unheard else None
        self._log_all()
        return first

    def raise_first(self) -> None:
        """Raise the first error, if there is one. Log the others."""
        error = self.take_first()
        if error is not None:
            raise error

    def _log_all(self) -> None:
        reason = "a rebalance listener has failed, and no call says so"
        group = self._group_id
        log_notices([MoldauError(f"{reason}: {each!r}", group=group) for each in self.unheard])
        self.unheard.clear()


class ConsumerGroup:
    """One consumer in its group."""

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        make_member: Callable[[], AnyMember],
        on_committed: Callable[[Mapping[TopicPartition, OffsetAndMetadata], float], None],
        fetcher: Fetcher,
    ) -> None:
        """`on_committed` is called with the offsets of a stored commit, and the seconds that it
        took."""
        runtime = cluster.runtime
        self._runtime = runtime
        self._clock = runtime.clock
        self._cluster = cluster
        self._fetcher = fetcher
        self._core = fetcher.core
        self._coordinator = Coordinator(cluster, settings[rows.group_id] or "", purpose="JoinGroup")
        self.member = make_member()
        self.commits = Commits(self, self._coordinator, settings, fetcher, on_committed)
        self.listener = RebalanceListener()
        self.session = GroupSession(
            runtime, self._coordinator, self.member, self._step, self._learn, fetcher.news.set
        )
        self.is_subscribed = False
        self._is_told = False
        """Whether the close has called, or is calling, the listener for the partitions given up."""
        self._begun: tuple[Change, asyncio.Task[None] | None] | None = None
        """The next change to run, and the commit that goes before it."""
        self._changing: _Running | None = None
        self._unsettled: Change | None = None
        """The running change, until it is ended."""
        self.listening = set[asyncio.Task[None]]()
        """Changes whose listener has not returned, though the changes may be ended."""
        self._errors = _ListenerErrors(self.member.terms.group_id)
        self._is_ending = False
        """Whether it is being closed: the close runs the remaining changes."""
        self._given_last: object = None
        self._rebalancing_since: float | None = None
        self._unheard_since: float | None = None
        self.longest_wait_s = max(0.001, settings[rows.max_poll_interval_ms] / 2000)

    @property
    def member_id(self) -> str:
        """The member id; empty while it is not a member."""
        return self.member.identity.member_id

    @property
    def is_kept_out(self) -> bool:
        """Whether it is to be a member, and is none."""
        return self.is_subscribed and self.member.identity == NOBODY

    def identity(self) -> Identity:
        """Return the identity for commits. Raise KafkaError if no member may commit, or not yet
        (`Later`)."""
        identity = self.member.identity
        if self.is_subscribed and identity == NOBODY:
            kept_out = self.member.kept_out_by
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
        if not (self.is_subscribed or self.member.is_out or self.is_attentive):
            raise Later(
                ErrorCode.UNKNOWN_MEMBER_ID,
                "not committed: this consumer has not left its group yet, which takes offsets of "
                "members alone until then",
                group=self._coordinator.group_id,
            )
        return identity

    def lost_by(self) -> str | None:
        """The setting that made this consumer lose its membership."""
        if self.member.is_late(self._clock.monotonic()):
            return _POLL_INTERVAL
        return self.member.left_for

    def may_retry(self, identity: Identity, where: TopicPartition, code: ErrorCode) -> bool:
        member = self.member
        if not self.is_subscribed:
            return identity != NOBODY  # True: it was a member, and has left since
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            return False
        return member.may_commit_later(identity, where)

    # Membership

    def listen(self, listener: RebalanceListener | None) -> None:
        """Use this listener from now on."""
        self.listener = RebalanceListener() if listener is None else listener

    def subscribe(self, wanted: MemberSubscription) -> None:
        """Subscribe to these topics, from the next rebalance on."""
        self.is_subscribed = True
        self.member.subscribe(wanted)
        self.session.poke()

    def enforce_rebalance(self, reason: str) -> bool:
        """Make the group rebalance, from the next polls on; False if only the coordinator may."""
        is_possible = self.member.enforce_rebalance(reason)
        self.session.poke()
        return is_possible

    @property
    def metadata(self) -> GroupMetadata:
        """This member's identity in its group."""
        identity = self.member.identity
        return GroupMetadata(
            self._coordinator.group_id,
            identity.epoch,
            identity.member_id,
            self.member.terms.instance_id,
        )

    def read_by_hand(self) -> None:
        """Switch to manual assignment. The next polls finish an `unsubscribe` that was
        cancelled."""
        self.is_subscribed = False
        self.member.forgive()

    @property
    def has_member(self) -> bool:
        """Whether there is a subscription, or one is not wholly given up yet."""
        return self.is_subscribed or self.is_settling

    async def unsubscribe(self, is_wanted: Callable[[], bool]) -> BaseException | None:
        """Give everything up and leave the group. Return the listener's error. The user may
        subscribe again before this has ended: then `is_wanted` returns False."""
        self.member.subscribe(MemberSubscription())
        self.session.poke()
        failure = await self.run_changes()
        if is_wanted():
            self.is_subscribed = False
        return failure

    async def on_poll(self, until: float = math.inf) -> bool:
        """Run the pending changes, then raise the member's error: the listener is first called for
        the partitions that it has cost. Return False if `until` is over before that."""
        self.commits.raise_failure()
        if not self.has_member:
            return True
        async with AsyncExitStack() as left:
            left.push_async_exit(self._notify_at_last)
            return await self._run_due(until)

    async def _notify_at_last(self, kind: type[BaseException] | None, *_: object) -> None:
        """Call the listener if a close came during the poll, unless the poll was cancelled."""
        if self.commits.is_over and (kind is None or issubclass(kind, Exception)):
            with not_hiding(kind):
                await self.end_goodbye(0.0)

    # Changes

    async def _run_due(self, until: float) -> bool:
        if self._unsettled is not None and _INSIDE.get() is self._unsettled:
            raise RuntimeError(
                "a rebalance listener cannot poll: no records are given until it has returned"
            )
        self.member.on_poll(self._clock.monotonic())
        self.session.begin_or_raise()
        self.session.poke()
        if self._errors.unheard or self._runs_on:
            with self._errors.heard():
                self._errors.raise_first()
                while self._runs_on:
                    is_over = await self._change(until)
                    self._errors.raise_first()
                    if not is_over:
                        return False
                    self._be_there()
        error = self.member.take_error()
        if error is not None:
            raise error
        return True

    @property
    def is_attentive(self) -> bool:
        """Whether a poll has a change to run."""
        return self._is_running or self.member.has_change()

    @property
    def is_settling(self) -> bool:
        """Whether a poll has a change to run or an error to raise, or a call is doing that now."""
        return self.is_attentive or self._errors.is_awaited

    @property
    def _is_running(self) -> bool:
        return self._begun is not None or self._changing is not None

    @property
    def _runs_on(self) -> bool:
        """Whether changes are left to run that no close has taken over."""
        return self._is_running or (self.member.has_change() and not self._is_ending)

    def on_commit_refused(self, identity: Identity, code: ErrorCode) -> None:
        """Handle a rejected commit, which may mean that the membership is lost. Then stop returning
        records now: a pending heartbeat may take its whole timeout."""
        self.member.on_commit_refused(identity, code)
        self._look_for_change()
        self.session.poke()

    async def _change(self, until: float = math.inf) -> bool:
        """Run a change to its end. Return False if the commit before it, or one by the listener,
        takes longer than `until`."""
        running = await self._runs_by(until)
        if running is None:
            return not self._runs_on
        await running.has_told.wait()
        return await self._is_over(running.task, until)

    async def _runs_by(self, until: float) -> _Running | None:
        """Start the next change, if its commit has ended by `until`. Return the running one."""
        while self._changing is None:
            if not self._runs_on:
                return None  # a close has taken it over
            begun = self._begun = self._begun or self._begin_change()
            change, commit = begun
            if commit is not None and not await self._is_over(commit, until):
                return None
            if self._begun is begun:  # no other task has started it meanwhile
                self._begun = None
                self._changing = self._start(change, commit)
        return self._changing

    def _start(self, change: Change, commit: asyncio.Task[None] | None) -> _Running:
        has_told = asyncio.Event()
        name = f"partitions {change.kind.value}"
        task = self._runtime.spawn(self._run(change, commit, has_told), name=name, reported=False)
        running = _Running(task, has_told)
        self.listening.add(task)
        task.add_done_callback(lambda _: self._ended(running))
        return running

    def _ended(self, running: _Running) -> None:
        """Clean up after a change has ended in any way. Waiting tasks continue after this."""
        task = running.task
        self.listening.discard(task)
        running.has_told.set()
        if self._changing is running:  # cancelled before it had begun
            self._changing = None
        error = _failure(task)
        self._errors.add(error)

    def _begin_change(self) -> tuple[Change, asyncio.Task[None] | None]:
        change = self.member.begin_change()
        assert change is not None
        self._core.progress.withhold()
        if change.kind is not Kind.REVOKED:
            return change, None
        commit = self._runtime.spawn(
            self.commits.commit_before(change), name="commit what goes", reported=False
        )
        return change, commit

    async def _is_over(self, task: asyncio.Task[None], until: float) -> bool:
        """Return whether the task has ended by `until`. Waiting here counts as polling."""
        while not task.done():
            now = self._be_there()
            left = min(until - now, self.member.terms.poll_interval_s / 2)
            await asyncio.wait([task], timeout=max(0.0, left))
            if self._clock.monotonic() >= until:
                break
        return task.done()

    def _be_there(self) -> float:
        now = self._clock.monotonic()
        self.member.on_poll(now)
        self.session.poke()
        return now

    async def _run(
        self, change: Change, commit: asyncio.Task[None] | None, has_told: asyncio.Event
    ) -> None:
        self._unsettled = change
        try:
            if change.kind is Kind.ASSIGNED:
                self._core.progress.on_undecided(change.partitions)
                self._take_over(change)
            if commit is not None and not commit.cancelled():
                commit.result()
            _INSIDE.set(change)
            await notify_guarded(self.listener, change)
            has_told.set()
            if change.kind is Kind.REVOKED:
                await self.commits.commits_ended(change)  # commits that the listener has begun
        finally:
            self._settle(change)

    def _settle(self, change: Change) -> None:
        """End the change, once."""
        if self._unsettled is not change:
            return
        self._unsettled = self._changing = None
        self._decided()
        if change.kind is not Kind.ASSIGNED:
            self._take_over(change)
        self.member.end_change(self._clock.monotonic())
        self.session.poke()

    def position_is_wanted(self, where: TopicPartition) -> None:
        """Let a listener that requests a position get what is committed: it must not wait for
        itself."""
        if self._unsettled is not None and _INSIDE.get() is self._unsettled:
            self._decided([where])

    def _decided(self, partitions: Collection[TopicPartition] | None = None) -> None:
        self._core.progress.on_decided(partitions)
        self._fetcher.may_look_up()

    def _take_over(self, change: Change) -> None:
        """Read what the change says from now on, unless partitions were assigned manually since."""
        if not self._core.interest.is_by_hand:
            self._fetcher.read(change.owned, from_committed=True, ids=change.ids)

    def _has_gone_on(self) -> bool:
        """Whether the user has asked for another record or part since the last call."""
        before, self._given_last = self._given_last, self._core.progress.given_last
        return self._given_last is not None and self._given_last is not before

    async def _settle_from_inside(self, until: float = math.inf) -> None:
        """If the caller is the listener of the running change, end that change, after the commits
        that the listener may have begun."""
        change = self._unsettled
        if change is None or _INSIDE.get() is not change:
            return
        if change.kind is Kind.REVOKED:
            await self.commits.commits_ended(change, until)
        self._settle(change)

    # The member's life

    def _step(self, now: float) -> Ready:
        """Return what the core wants now, and apply what has become of the member."""
        if self._has_gone_on():
            self.member.is_there(now)
        ready = self.member.ready(now)
        self._note_unheard(now)
        log_notices(self.member.notices)
        self._look_for_change()
        if self.member.is_rebalancing:
            if self._rebalancing_since is None:
                self._rebalancing_since = now
        elif self._rebalancing_since is not None:
            began, self._rebalancing_since = self._rebalancing_since, None
            self._fetcher.metrics.rebalanced(now - began, has_failed=self.member.is_out)
        return ready

    def _look_for_change(self) -> None:
        if self.member.has_change():
            self._core.progress.need_poll()
            self._fetcher.news.set()

    def _note_unheard(self, now: float) -> None:
        """Log that no metadata of topics come, once that lasts; again only after metadata came.
        Until then a member may be in its group without partitions."""
        blind_for = self._cluster.blind_for
        unheard = unheard_of(self.member.wanted.topics, self._cluster.metadata, blind_for)
        if blind_for is None or not unheard:
            self._unheard_since = None
        elif self._unheard_since is None:
            self._unheard_since = now
        elif now - self._unheard_since >= _LONG_S:
            self._unheard_since = math.inf
            reason = f"nothing was heard of topics for {_LONG_S:g} s; they are asked about on"
            facts = {
                "group": self.member.terms.group_id,
                "topics": [each.topic for each in unheard],
            }
            facts = {**blind_for.context, **facts}
            self.member.notices.append(MoldauError(f"{reason}: {blind_for.reason}", **facts))

    async def _learn(self, ready: Ready) -> None:
        """Get metadata for the core. The leader needs fresh metadata of all topics that any member
        wants; a member whose coordinator sends topic ids needs their names."""
        if ready.topics is not None:
            self._cluster.watch(ready.topics)
            await self._refresh()
            self.member.on_topics(self._view(ready.topics), self._clock.monotonic())
        elif ready.ids is not None:
            name_of = self._cluster.metadata.name_of
            if all(name_of(each) is None for each in ready.ids):
                self._cluster.look_for(ready.ids)
                await self._refresh()
            found = {each: name_of(each) for each in ready.ids}
            names = {each: name for each, name in found.items() if name is not None}
            self.member.on_names(names, self._clock.monotonic())

    async def _refresh(self) -> None:
        with suppress(KafkaError):
            await self._cluster.refresh()

    def _view(self, topics: frozenset[str]) -> Topics:
        """Return the known metadata of these topics in the assignors' form."""
        metadata = self._cluster.metadata
        found = {name: metadata.racks_of(name) for name in topics}
        return {name: each for name, each in found.items() if each}

    def on_metadata(self) -> None:
        """Apply new metadata."""
        topics = self.member.topics_of_interest
        if topics:
            self.member.on_metadata(self._view(topics))
            self.session.poke()

    # The end

    async def run_changes(self) -> BaseException | None:
        """Run the remaining changes, as a poll would, without staying in the group for that; not
        those that a close has taken over. Clear the error that keeps the member out. Return the
        listener's error: its change has ended all the same."""
        with self._errors.heard():
            await self._settle_from_inside()
            self.session.live_on()
            while self._runs_on:
                await self._change()
            self.member.forgive()
            return self._errors.take_first()

    async def aclose(
        self, timeout_s: float, *, leave_group: bool | None = None, commits: bool = True
    ) -> None:
        """Commit if allowed, wait for the user's commits, call the listener, then leave the group
        unless the member is to stay. Apart from the listener, this takes at most `timeout_s`. Leave
        even if this is cancelled, or a listener raises."""
        self.commits.by_itself &= commits
        self.commits.stop()
        if leave_group is not None:
            self.member.terms = replace(self.member.terms, leaves_when_closed=leave_group)
        until = self._clock.monotonic() + timeout_s
        try:
            await self._leave(until)
        finally:
            await self.commits.cut_off()
            await self._coordinator.aclose()
            if self.commits.pending:
                await asyncio.wait(list(self.commits.pending))

    async def _leave(self, until: float) -> None:
        self._is_ending = self._errors.are_logged = True
        with self._errors.heard():
            try:
                await self._settle_from_inside(until)
                await self._end_change(until)
                self.member.hold()
                self.session.live_on()
                await self._say_goodbye(until)
            finally:
                self.member.leave(is_closing=True)
                self.session.live_on()
                await self.session.end(max(_LEAVE_S_MIN, until - self._clock.monotonic()))
            if self._errors.hearers == 1:
                self._errors.raise_first()

    async def _say_goodbye(self, until: float) -> None:
        if self.commits.by_itself and not self.is_kept_out:
            await self.commits.commit_at_last(max(0.0, until - self._clock.monotonic()))
        await self.commits.ended_by(until)
        await self._notify_gone(Kind.LOST if self.member.identity == NOBODY else Kind.REVOKED)
        await self.commits.ended_by(until)  # commits that the listener has begun

    async def end_goodbye(self, timeout_s: float) -> None:
        """Call the listener if `aclose` was cut off before that: other members may have all
        partitions by now. A listener call that is still running may take `timeout_s`; if it takes
        longer, the waiting poll or the next call does this."""
        if not self._is_told and await self.listened(timeout_s):
            await self._notify_gone(Kind.LOST)

    async def _notify_gone(self, kind: Kind) -> None:
        if self._is_told:
            return
        self._is_told = True
        owned = self.member.owned
        if owned:
            await notify_guarded(self.listener, Change(kind, owned, ()))

    async def _end_change(self, until: float) -> None:
        """End the running change by `until`; a slower listener continues in the background."""
        try:
            running = await self._run_begun(until)
            if running is not None:
                left_s = max(_LISTENER_S_MIN, until - self._clock.monotonic())
                await asyncio.wait([running.task], timeout=left_s)
        finally:
            if self._unsettled is not None:
                self._settle(self._unsettled)
            if self._errors.hearers == 1:
                self._begun = self._changing = None

    async def listened(self, timeout_s: float) -> bool:
        """Wait for running listeners, at most `timeout_s`. Return whether none is running or about
        to; a listener that calls this is itself running."""
        if self.listening and _INSIDE.get() is None:
            await asyncio.wait(self.listening, timeout=timeout_s)
        is_next = self._begun is not None and self._errors.hearers > 0  # else no call runs it
        return not (self.listening or is_next)

    async def _run_begun(self, until: float) -> _Running | None:
        """Return the running change. If it waits for a commit, start it by `until` anyway."""
        if self._begun is None:
            return self._changing
        change, commit = self._begun
        if commit is not None and not await self._is_over(commit, until):
            commit.cancel()
            self._begun = change, None
        return await self._runs_by(math.inf) if self._is_running else None


def member_settings(settings: Settings) -> MemberSettings:
    """Return what a member reports of these settings."""
    return MemberSettings(
        group_id=settings[rows.group_id] or "",
        instance_id=settings[rows.group_instance_id],
        rack=settings[client_rack] or None,
        session_timeout_s=settings[rows.session_timeout_ms] / 1000,
        heartbeat_interval_s=settings[rows.heartbeat_interval_ms] / 1000,
        poll_interval_s=settings[rows.max_poll_interval_ms] / 1000,
        request_timeout_s=settings[link_rows.request_timeout_ms] / 1000,
        remote_assignor=settings[rows.group_remote_assignor],
    )


def consumer_member(
    runtime: Runtime, settings: Settings, assignors: Sequence[AssignorGiven]
) -> AnyMember:
    """Return the core of a member of the protocol that the settings choose."""
    terms = member_settings(settings)
    if coordinator_decides(settings):
        return ConsumerMember(terms, format_uuid(new_uuid(runtime.random)), runtime.random)
    return ClassicConsumer(terms, load_assignors(assignors), runtime.random)


def _failure(task: asyncio.Task[None]) -> BaseException | None:
    """Return the error of a change. A listener cancelled at the end of its loop must not cancel the
    waiting tasks, so that is a RuntimeError."""
    if task.cancelled():
        return RuntimeError("the rebalance listener was cut off")
    return task.exception()


async def notify_guarded(listener: RebalanceListener, change: Change) -> None:
    """Call the listener. A CancelledError that it raises by itself, as after awaiting a task that
    it has cancelled, becomes a RuntimeError."""
    try:
        await tell(listener, change)
    except asyncio.CancelledError as error:
        if is_cancelling(error):
            raise
        raise RuntimeError("the rebalance listener raised CancelledError") from error
