"""The shell of a consumer's core towards the cluster: sends fetches and look-ups, and reports their
answers; has topics watched.

The task of a `Driver` asks the core what to do. A poll that finds buffered records never suspends,
so it has that done at once (`catch_up`); a response is applied when it comes. A poll that waits for
records gets those before the next fetch is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from moldau.client.base.notices import log_notices
from moldau.client.base.offsets import (
    FoundOffset,
    ask_leader,
    ends_of_epochs,
    found_or_end,
    list_offsets,
)
from moldau.client.consumer.consumer_core import NO_IDS, Answer, ConsumerCore, ConsumerReady, LookUp
from moldau.client.consumer.fetch import Fetch, bytes_of
from moldau.client.consumer.metrics import ConsumerMetrics
from moldau.client.consumer.position import PositionState
from moldau.client.group.subscription import Interest
from moldau.client.settings import group as group_rows
from moldau.config import Settings
from moldau.errors import without_frames
from moldau.errors.codes import KafkaError
from moldau.ids import Uuid
from moldau.link.cluster import Cluster
from moldau.link.metadata import TopicPartition
from moldau.protocol.declare import Response
from moldau.protocol.messages.fetch import FetchResponse
from moldau.runtime.driver import Driver

if TYPE_CHECKING:
    from moldau.client.consumer.membership import ConsumerGroup

_CLOSE_S: Final = 1.0


class Fetcher:
    """Does what the core wants, and keeps its buffers filled."""

    def __init__(
        self,
        cluster: Cluster,
        core: ConsumerCore,
        settings: Settings,
        metrics: ConsumerMetrics,
        group_of: Callable[[Fetcher], ConsumerGroup] | None,
    ) -> None:
        """`group_of` makes the consumer's part in its group, if it has one: committed offsets come
        from there."""
        self.core = core
        self.metrics = metrics
        self.news = asyncio.Event()
        """Set when a poll may have something to return."""
        self.cluster = cluster
        self._runtime = cluster.runtime
        self._clock = cluster.runtime.clock
        self._settings = settings
        self._looking: set[asyncio.Task[None]] = set()
        self._is_awaited = False
        self._is_due = False
        self._wake: float | None = None
        self._is_closed = False
        self._driver = Driver(
            cluster.runtime,
            "fetch",
            self._ready,
            self._act,
            lambda _: self._is_closed,
            reported=True,
        )
        self.group = None if group_of is None else group_of(self)

    async def aclose(self) -> None:
        """Stop fetching."""
        self._is_closed = True
        self.news.set()
        for task in self._looking:
            task.cancel()
        if self._driver.is_alive:  # a second close may be in another loop
            await self._driver.end(_CLOSE_S)

    # What the core wants

    def soon(self) -> None:
        """Look what there is to do, once this iteration of the loop ends."""
        self._is_due = True
        task = self._driver.task
        if task is None or (task.done() and not task.cancelled()):
            self._driver.go_on()  # not at the loop's end, which cancels it
        self._driver.poke()

    def catch_up(self) -> bool:
        """Send the fetch that an earlier poll put off, and return whether there was one."""
        is_overdue = self.core.is_overdue
        if is_overdue:
            self._look_now()
        return is_overdue

    def _look_now(self) -> None:
        self._is_due = True
        ready = self._ready(self._clock.monotonic())
        self._do(ready)
        if ready.wake is not None:
            self._driver.poke()  # the task waits for another time

    def _ready(self, now: float) -> ConsumerReady:
        """Ask the core, unless it was asked since this was due."""
        is_due = self._is_due or (self._wake is not None and now >= self._wake)
        if self._is_closed or not is_due:
            return ConsumerReady(wake=self._wake)
        self._is_due = False
        self.core.blind_for = self.cluster.blind_for
        ready = self.core.ready(now)
        self._wake = ready.wake
        return ready

    async def _act(self, ready: ConsumerReady) -> bool:
        self._do(ready)
        return False

    def _do(self, ready: ConsumerReady) -> None:
        for look_up in ready.look_ups:
            self._begin(look_up)
        if ready.is_stale or (ready.lacks_leaders and not self.cluster.is_refreshing):
            self.cluster.request_refresh()
        unsent = list(ready.fetches)
        try:
            while unsent:
                self._send(unsent[0])
                unsent.pop(0)
        finally:
            for each in unsent:
                self.core.fetches.on_answered(each, is_lost=True)
        log_notices(list(ready.notices))
        if ready.has_failed:
            self.news.set()

    # Fetching

    async def wait(self, timeout_s: float) -> None:
        """Wait for news or the timeout, which sets `news` too: an exception would cost more, and
        every wait for a single record comes through here."""
        self._is_awaited = True
        timer = asyncio.get_running_loop().call_later(timeout_s, self.news.set)
        try:
            await self.news.wait()
        finally:
            timer.cancel()
            self._is_awaited = False

    def _send(self, fetch: Fetch) -> None:
        connection = self.cluster.ready_connection(fetch.node_id)
        if connection is None:
            self.core.fetches.on_connecting(fetch.node_id)
            name = f"connect to {fetch.node_id}"
            self._runtime.spawn(self._connect(fetch.node_id), name=name)
            return
        now = self._clock.monotonic()
        try:
            request, version = fetch.request(connection, self.core.metadata, self._settings)
            timeout_s = connection.options.request_timeout_s + request.max_wait_ms / 1000
            on_answer = partial(self._answered, fetch, now)
            connection.ask(request, on_answer, version=version, timeout_s=timeout_s)
        except KafkaError as error:
            self._answered(fetch, now, error)

    async def _connect(self, node_id: int) -> None:
        try:
            await self.cluster.connection(node_id)
        except KafkaError as error:
            self.cluster.request_refresh()
            self.core.on_unreachable(node_id, error, self._clock.monotonic())
            await asyncio.sleep(self.cluster.backoff.wait_s(1, self._runtime.random))
        finally:
            self.core.fetches.on_connected(node_id)
        self.soon()  # not after a cancellation at the loop's end: it would start again

    def _answered(self, fetch: Fetch, asked_at: float, answer: Response | KafkaError) -> None:
        now = self._clock.monotonic()
        is_lost = isinstance(answer, KafkaError)
        response = cast(FetchResponse | KafkaError, answer)
        self.core.on_fetched(fetch, response, now)
        if not isinstance(response, KafkaError):
            self.metrics.fetched(bytes_of(response), now - asked_at, response.throttle_time_ms)
        self.news.set()
        if self._is_awaited or is_lost:
            self.core.is_overdue = True  # a waiting poll gets its records first
            self.soon()
        else:
            self._look_now()

    # Looking things up

    def _begin(self, look_up: LookUp) -> None:
        name = f"look positions up: {look_up.state.value}"
        task = self._runtime.spawn(self._look_up(look_up), name=name)
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _look_up(self, look_up: LookUp) -> None:
        try:
            answers: Mapping[TopicPartition, Answer] | KafkaError = await self._ask(look_up)
        except KafkaError as error:
            answers = without_frames(error)
        finally:
            self.core.on_look_up_ended(look_up)
        self.core.on_looked_up(look_up, answers, self._clock.monotonic())
        if look_up.state is PositionState.VALIDATING:
            self.news.set()  # what lies here may be returned now
        self.soon()

    async def _ask(self, look_up: LookUp) -> Mapping[TopicPartition, Answer]:
        cluster, core, leader = self.cluster, self.core, look_up.leader
        if look_up.state is PositionState.VALIDATING:
            epochs = {each.where: each.epoch for each in look_up.positions if core.current(each)}
            return await ends_of_epochs(cluster, leader, epochs)
        if look_up.state is PositionState.COMMITTED:
            assert self.group is not None
            return await self.group.commits.look_up([each.where for each in look_up.positions])
        now_ms = self._clock.wall_ms()
        times = {each.where: each.look_up.timestamp(now_ms) for each in look_up.positions}
        wanted = {where: each for where, each in times.items() if each is not None}
        ask = partial(ask_leader, cluster, leader, is_committed=core.policy.is_committed)
        return await found_or_end(ask, wanted)

    def may_look_up(self) -> None:
        """Look positions up that have waited for a commit or a listener."""
        if self.core.released_at is not None:
            self.soon()

    # Which partitions

    def follow(self, interest: Interest) -> None:
        """Replace the subscription or manual assignment."""
        self.core.on_interest(interest)
        self.cluster.watches_all = interest.pattern is not None
        self.cluster.follows_pattern = interest.is_pattern

    def read(
        self,
        wanted: Collection[TopicPartition],
        *,
        from_committed: bool,
        ids: Mapping[TopicPartition, Uuid] = NO_IDS,
    ) -> None:
        """Read these partitions and no others."""
        before = {where.topic for where in self.core.positions}
        topics = {where.topic for where in wanted} | self.core.interest.names
        self.core.on_assigned(wanted, from_committed=from_committed, ids=ids)
        self.cluster.unwatch(before - topics)
        self.cluster.watch(topics)
        if topics - self.core.metadata.topics.keys():
            self.cluster.request_refresh()
        self.soon()

    def read_subscribed(self) -> None:
        """Without a group: read all partitions of the subscribed topics."""
        wanted = self.core.subscribed()
        if wanted.keys() != self.core.positions.keys():
            self.read(wanted, from_committed=False)

    def on_metadata(self) -> None:
        """Apply new metadata."""
        core, now = self.core, self._clock.monotonic()
        core.on_topics()
        self.soon()
        if self.group is None and (core.interest.is_by_hand or not core.interest):
            return
        core.on_metadata(self._settings[group_rows.group_id], now)
        if core.refusal is not None:
            self.news.set()
        if self.group is None:
            self.read_subscribed()
            return
        if core.interest.pattern is not None:
            self.group.subscribe(core.interest.wanted(core.metadata))
        self.group.on_metadata()

    # Where

    def seek(self, wanted: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Read on at these offsets, each with the epoch of the record before it."""
        self.core.on_seek(wanted)
        self.soon()

    async def seek_by(self, wanted: dict[TopicPartition, int]) -> None:
        """Seek by these timestamps or ends of logs: in all partitions or in none."""
        for where in wanted:
            self.core.require(where)
        found = await found_or_end(self.offsets, wanted)
        self.seek({where: (found[where].offset, found[where].leader_epoch) for where in wanted})

    async def offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, FoundOffset]:
        is_committed = self.core.policy.is_committed
        return await list_offsets(self.cluster, wanted, is_committed=is_committed)

    def pause(self, partitions: Collection[TopicPartition], *, is_paused: bool) -> None:
        self.core.on_pause(partitions, is_paused=is_paused)
        if not is_paused:
            self.news.set()
            self.soon()
