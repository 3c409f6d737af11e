"""The shell of the positions: fetches records ahead, and looks positions up.

A fetch waits at the broker for new records only if it names every partition that is read there:
otherwise a partition whose records were just taken would wait for the others.

Invariants: at most one fetch a broker is pending, and one look-up of each kind. A response is
applied when it comes. A failure that may pass is retried after the backoff; any other one is the
error of its position alone. `positions` decides what to fetch and to return; this shell has the
clock, the connections and the waiting.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from moldau.client.base.notices import tell as tell_notices
from moldau.client.base.offsets import ask_leader, ends_of_epochs, found_or_end
from moldau.client.consumer.fetch_room import FetchRoom
from moldau.client.consumer.fetch_session import FetchSession
from moldau.client.consumer.metrics import ConsumerMetrics
from moldau.client.consumer.position import Asked, Position, PositionState
from moldau.client.consumer.positions import Positions
from moldau.client.consumer.requests import Told, fetch_request, settle_fetch
from moldau.client.settings import consumer as rows
from moldau.config import Settings
from moldau.errors.codes import KafkaError
from moldau.link.cluster import Cluster
from moldau.link.metadata import NO_LEADER, TopicPartition
from moldau.protocol.declare import Response
from moldau.protocol.messages.fetch import FetchResponse

if TYPE_CHECKING:
    from moldau.client.consumer.membership import ConsumerGroup

_SHORTEST_WAIT_S: Final = 0.001

Find = Callable[[list[Asked]], Awaitable[None]]


class Fetcher:
    """Keeps the buffers of the positions filled."""

    def __init__(
        self,
        cluster: Cluster,
        positions: Positions,
        settings: Settings,
        metrics: ConsumerMetrics,
        group: ConsumerGroup | None,
    ) -> None:
        """Committed offsets come from the `group`, if there is one."""
        self.news = asyncio.Event()
        """Set when a poll may have something to return."""
        self.is_committed_only = settings[rows.isolation_level] == "read_committed"
        self._runtime = cluster.runtime
        self._clock = cluster.runtime.clock
        self._metrics = metrics
        self._group = group
        self._cluster = cluster
        self._positions = positions
        self._settings = settings
        self._sessions: dict[int, FetchSession] = {}
        self._fetching: set[int] = set()
        # Brokers whose last response had nothing new of the partitions with room for more.
        self._had_nothing: set[int] = set()
        self._looking: dict[tuple[PositionState, int], asyncio.Task[None]] = {}
        self._released_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due: asyncio.Handle | None = None
        self._is_awaited = False
        self.is_overdue = False
        """Whether there may be something to fetch that was not requested yet."""
        self._is_closed = False
        self._room = FetchRoom(
            settings[rows.buffer_memory],
            settings[rows.fetch_max_bytes],
            settings[rows.max_partition_fetch_bytes],
        )

    def close(self) -> None:
        """Stop fetching."""
        self._is_closed = True
        self.news.set()
        if self._timer is not None:
            self._timer.cancel()
        for task in self._looking.values():
            task.cancel()

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

    def taken(self, *, makes_room: bool) -> None:
        """Note that records were taken: there may be room again."""
        self._had_nothing.clear()
        self.is_overdue |= makes_room

    def soon(self) -> None:
        """Check what to fetch, once this iteration of the loop ends."""
        if self._due is None and not self._is_closed:
            self._due = asyncio.get_running_loop().call_soon(self._fetch)

    def may_look_up(self) -> None:
        """Check what to look up: a partition may have waited for this call."""
        if self._released_at is not None:
            self.soon()

    def catch_up(self) -> bool:
        """Send the fetch that an earlier poll put off, and return whether there was one. A poll
        that finds buffered records never suspends, so the loop may never get to send it."""
        is_overdue = self.is_overdue
        if is_overdue:
            self._fetch()
        return is_overdue

    # Fetching

    def _fetch(self) -> None:
        """Send a fetch to each broker that has none pending and leads partitions to fetch."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        self.is_overdue = False
        if self._is_closed:
            return
        now = self._clock.monotonic()
        metadata = self._cluster.metadata
        self._positions.leaders_changed(metadata)
        self._look_things_up(now)
        full = self._positions.full_at(metadata, now)
        wanted = self._positions.to_fetch(now, metadata)
        awaited = self._positions.awaited_at(metadata)
        brokers = len(wanted.keys() - {NO_LEADER} | self._fetching | awaited)
        for node_id in self._room.in_turn(wanted):
            positions = wanted[node_id]
            if node_id == NO_LEADER:
                self._check_partitions(positions)
                self._cluster.request_refresh()
            elif node_id not in self._fetching and node_id not in full & self._had_nothing:
                may_wait = node_id not in full
                self._fetch_from(node_id, positions, brokers, may_wait=may_wait)
        if self._positions.awaits_topics(now):
            self._cluster.request_refresh()
        self._positions.note_lasting_troubles(now)
        tell_notices(self._positions.notices)
        failed = [
            each.where for each in self._positions.assignment if each.state is PositionState.FAILED
        ]
        if any(map(self._positions.is_chosen, failed)):
            self.news.set()
        self._set_timer(now)

    def _check_partitions(self, positions: list[Position]) -> None:
        """Fail a partition that does not exist, instead of waiting for it silently."""
        for each in positions:
            topic = self._cluster.metadata.topics.get(each.where.topic)
            refused = self._cluster.metadata.refused.get(each.where.topic)
            if topic is None and (refused is None or refused.retriable):
                continue
            try:
                self._cluster.metadata.check(each.where)
            except KafkaError as error:
                each.fail(error)

    def _set_timer(self, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wakes = (self._positions.next_wake(now), self._released_at)
        wake = min((each for each in wakes if each is not None), default=math.inf)
        if wake < math.inf:
            delay = max(_SHORTEST_WAIT_S, wake - now)
            self._timer = asyncio.get_running_loop().call_later(delay, self._fetch)

    def _fetch_from(
        self, node_id: int, positions: list[Position], brokers: int, *, may_wait: bool
    ) -> None:
        connection = self._cluster.ready_connection(node_id)
        if connection is None:
            self._fetching.add(node_id)
            self._sessions.pop(node_id, None)
            self._runtime.spawn(self._connect(node_id), name=f"connect to {node_id}")
            return
        buffered = self._positions.buffered_bytes
        room_bytes = self._room.ask(node_id, len(positions), buffered, brokers)
        if not room_bytes:
            return  # the next response, or records taken, will make room
        self._fetching.add(node_id)
        session = self._sessions.setdefault(node_id, FetchSession())
        wait_ms = self._settings[rows.fetch_max_wait_ms] if may_wait else 0
        told = Told(session, [each.asked() for each in positions], is_full=True)
        try:
            with ExitStack() as undo:
                undo.callback(self._not_asked, node_id)
                request, version, told = fetch_request(
                    connection, session, positions, self._cluster.metadata, self._settings
                )
                request.max_wait_ms = wait_ms
                request.max_bytes = room_bytes
                timeout_s = connection.options.request_timeout_s + wait_ms / 1000
                on_answer = partial(self._answered, node_id, told, self._clock.monotonic())
                connection.ask(request, on_answer, version=version, timeout_s=timeout_s)
                undo.pop_all()
        except KafkaError as error:
            self._answered(node_id, told, self._clock.monotonic(), error)

    def _not_asked(self, node_id: int) -> None:
        """Undo a fetch that was not sent: another one may be sent to the broker."""
        self._fetching.discard(node_id)
        self._room.answered(node_id)
        self._sessions.pop(node_id, None)

    async def _connect(self, node_id: int) -> None:
        try:
            await self._cluster.connection(node_id)
        except KafkaError as error:
            self._cluster.request_refresh()
            now = self._clock.monotonic()
            for each in self._positions.assignment:
                if each.source(self._cluster.metadata, now) == node_id:
                    each.in_trouble(error, now)
                if each.replica == node_id:
                    each.replica = NO_LEADER
            await asyncio.sleep(self._cluster.backoff.wait_s(1, self._runtime.random))
        finally:
            self._fetching.discard(node_id)
        self.soon()  # not after a cancellation at the loop's end: it would start again

    def _answered(
        self, node_id: int, told: Told, asked_at: float, answer: Response | KafkaError
    ) -> None:
        self._fetching.discard(node_id)
        self._room.answered(node_id)
        now = self._clock.monotonic()
        if isinstance(answer, KafkaError):
            self._sessions.pop(node_id, None)
            self._cluster.note(answer)
            for each in told.asked:
                self._positions.refused(each, answer, now)
        else:
            response = cast(FetchResponse, answer)
            only = self.is_committed_only
            settle_fetch(response, told, self._positions, self._cluster, (now, only))
            sizes = [
                len(data.records)
                for topic in response.responses
                for data in topic.partitions
                if data.records
            ]
            if sizes:
                self._had_nothing.discard(node_id)
            else:
                self._had_nothing.add(node_id)
            self._metrics.fetched(sum(sizes), now - asked_at, response.throttle_time_ms)
        self.news.set()
        if self._is_awaited or isinstance(answer, KafkaError):
            self.is_overdue = True  # a waiting poll gets its records first
            self.soon()
        else:
            self._fetch()

    # Looking things up

    def _look_things_up(self, now: float) -> None:
        if self._group is not None:
            # Not of an unknown topic: its id must be known before its committed offset is looked
            # up. 1. The topic is deleted. 2. Its committed offset is still found. 3. Another topic
            # has the name now, and would be read and committed from that offset.
            led = self._led(self._positions.waiting(PositionState.COMMITTED, now)).values()
            known = [each for chosen in led for each in chosen]
            ready = self._without_held(self._group, known, now)
            find = partial(self._look_committed_up, self._group)
            self._look((PositionState.COMMITTED, NO_LEADER), ready, find)
        wanted = self._positions.to_look_up(now, self._clock.wall_ms())
        unknown = [self._positions.assignment.require(where) for where in wanted]
        self._look_at_leaders(
            PositionState.UNKNOWN,
            unknown,
            lambda leader: partial(self._look_offsets_up, leader, wanted),
        )
        if self._positions.awaits_epochs(self._cluster.metadata, now):
            self._cluster.request_refresh()
        waiting = self._positions.waiting(PositionState.VALIDATING, now)
        self._look_at_leaders(
            PositionState.VALIDATING, waiting, lambda leader: partial(self._validate, leader)
        )

    def _without_held(
        self, group: ConsumerGroup, waiting: list[Position], now: float
    ) -> list[Position]:
        """Return the positions whose committed offset is not about to change."""
        held = {
            each.where: until for each in waiting if (until := group.held_until(each.where)) > now
        }
        self._released_at = min(held.values(), default=None)
        return [each for each in waiting if each.where not in held]

    def _look_at_leaders(
        self, state: PositionState, waiting: list[Position], at: Callable[[int], Find]
    ) -> None:
        """Look up these positions at their leaders, with `at(leader)`."""
        for leader, chosen in self._led(waiting).items():
            self._look((state, leader), chosen, at(leader))

    def _led(self, waiting: list[Position]) -> dict[int, list[Position]]:
        """Group the positions by leader. Put off those without one."""
        cluster, now = self._cluster, self._clock.monotonic()
        found = self._positions.by_leader(waiting, cluster.metadata, now, cluster.blind_for)
        if found.pop(NO_LEADER, None) is not None and not cluster.is_refreshing:
            cluster.request_refresh()
        return found

    def _look(self, what: tuple[PositionState, int], waiting: list[Position], find: Find) -> None:
        if not waiting or what in self._looking:
            return
        asked = [each.asked() for each in waiting]

        async def look() -> None:
            try:
                await find(asked)
            except KafkaError as error:
                # No other request may find out that the partition has another leader now.
                self._cluster.request_refresh()
                for each in asked:
                    self._positions.could_not_look_up(each, error, self._clock.monotonic())
            finally:
                del self._looking[what]
            self.soon()

        name = f"look positions up: {what[0].value}"
        self._looking[what] = self._runtime.spawn(look(), name=name)

    async def _look_committed_up(self, group: ConsumerGroup, asked: list[Asked]) -> None:
        found = await group.look_up([each.where for each in asked])
        for each in asked:
            committed = found[each.where]
            if isinstance(committed, KafkaError):
                self._cluster.note(committed)
                self._positions.could_not_look_up(each, committed, self._clock.monotonic())
            elif committed is None:
                self._positions.found_committed(each, None, -1)
            else:
                self._positions.found_committed(each, committed.offset, committed.leader_epoch)

    async def _look_offsets_up(
        self, leader: int, wanted: Mapping[TopicPartition, int], asked: list[Asked]
    ) -> None:
        ask = partial(ask_leader, self._cluster, leader, is_committed=self.is_committed_only)
        found = await found_or_end(ask, {each.where: wanted[each.where] for each in asked})
        for each in asked:
            answer = found[each.where]
            if isinstance(answer, KafkaError):
                self._positions.could_not_look_up(each, answer, self._clock.monotonic())
            else:
                self._positions.found(each, max(0, answer.offset), answer.leader_epoch)
        tell_notices(self._positions.notices)

    async def _validate(self, leader: int, asked: list[Asked]) -> None:
        epochs = {
            position.where: position.fetch_epoch
            for each in asked
            if (position := self._positions.assignment.current(each)) is not None
        }
        ends = await ends_of_epochs(self._cluster, leader, epochs)
        for each in asked:
            end = ends[each.where] if each.where in epochs else None
            if isinstance(end, KafkaError):
                self._positions.could_not_look_up(each, end, self._clock.monotonic())
            elif end is not None:
                self._positions.validated(each, end.end_offset, end.epoch)
        self.news.set()  # what lies here may be returned now
        tell_notices(self._positions.notices)
