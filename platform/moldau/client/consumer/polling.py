"""Polls: waits for records, and runs what a rebalance requires of the reading task.

Invariants: one task reads; another one that asks for records while the first waits gets an error. A
poll lets other tasks run before it returns anything, if they last ran `_TURN_S` ago. It takes
nothing before that, so a poll may be cancelled there.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

from moldau.client.base.columns import PartitionColumns
from moldau.client.base.part import Part
from moldau.client.consumer.backlog import Chosen
from moldau.client.consumer.metrics import MS
from moldau.client.consumer.pipeline import RecordPipeline
from moldau.client.consumer.reading import Reading
from moldau.client.consumer.records import PartitionRecords
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.cluster import Cluster
from moldau.link.lifetime import ClientClosed, closed

P = TypeVar("P", bound=Part)

_ITERATION_S: Final = 60.0
_TURN_S: Final = 0.01
"""If other tasks last ran longer ago than this, they run before anything is returned."""
_LONG_AGO: Final = -math.inf
_TURNS: Final = 4
"""Loop iterations to wait: a heartbeat needs two (its timer, then the task that writes it), and so
does its response."""


class Polling:
    """The polls of one consumer."""

    def __init__(
        self,
        cluster: Cluster,
        reading: Reading,
        pipeline: RecordPipeline,
    ) -> None:
        self.is_closing = False
        self.out = reading.out
        self._cluster = cluster
        self._clock = cluster.runtime.clock
        self._reading = reading
        self._fetcher = reading.fetcher
        self._times = reading.metrics.polls
        self._pipeline = pipeline
        self._group = reading.group
        self._is_dry = False
        """Whether the last look found nothing in any partition, so that only news change that."""
        self._turned_at = _LONG_AGO
        """When other tasks last ran, as far as is known here."""
        self._poller: asyncio.Task[object] | None = None
        """The task that waits for records."""

    def close(self) -> None:
        """Let no poll return anything any more, even one that waits for a deserializer."""
        self.is_closing = True
        self.out.withhold()
        self._reading.wake()

    async def records(
        self, timeout_s: float, max_records: int, chosen: Chosen
    ) -> list[PartitionRecords]:
        """Return the records that are there or come within the timeout, as parts."""
        return await self._first(timeout_s, partial(self._pipeline.records, max_records), chosen)

    async def columns(
        self, timeout_s: float, max_records: int, chosen: Chosen
    ) -> list[PartitionColumns]:
        """Return the same as `records`, as columns."""
        return await self._first(timeout_s, partial(self._pipeline.columns, max_records), chosen)

    async def more(self, max_records: int, chosen: Chosen) -> list[PartitionRecords]:
        """Poll for a stream. Return nothing if the consumer is closed."""
        try:
            self.check()
            find = partial(self._pipeline.records, max_records)
            return await self._poll(_ITERATION_S, find, chosen)
        except ClientClosed:
            if not self.is_closing:
                raise
            return []

    async def _first(
        self, timeout_s: float, find: Callable[[], Awaitable[list[P]]], chosen: Chosen
    ) -> list[P]:
        """Poll: what was returned before counts as processed, what is returned now is at hand."""
        self.asks()
        if self.out.is_at_hand:
            self.out.finish()
        found = await self._poll(timeout_s, find, chosen)
        if found:
            self.out.gave(found)
        return found

    async def _poll(
        self, timeout_s: float, find: Callable[[], Awaitable[list[P]]], chosen: Chosen
    ) -> list[P]:
        began = self._clock.monotonic()
        self._poller = task = asyncio.current_task()
        self._note_began(began)
        found: list[P] = []
        try:
            if began - self._turned_at >= _TURN_S:
                await self._give_way()
                self.check()
            self._check_chosen()
            self._reading.positions.chosen = chosen
            if chosen is not None:
                self._is_dry = False
            found = await self._next(find, began + timeout_s)
            return found
        finally:
            if not found:
                self._turned_at = _LONG_AGO  # a caller that polls on after an error gives way first
            if self._poller is task:
                self._poller = self._reading.positions.chosen = None
            self._times.ended_at = self._clock.monotonic()

    def _note_began(self, now: float) -> None:
        """Record the time since the last poll, and the share spent polling."""
        times = self._times
        before, ended = times.began_at, times.ended_at
        if before is not None and now > before:
            idle = 0.0 if ended is None else max(0.0, ended - before)
            times.samples.add(now, (now - before) * MS, idle / (now - before))
        times.began_at, times.ended_at = now, None

    def asks(self) -> None:
        """Note that the current task asks for records. RuntimeError while another task waits."""
        task = asyncio.current_task()
        poller = self._poller
        if poller is not None and poller is not task:
            _refuse_two(poller)
        self._reading.asked_by = task

    async def give_way_if_due(self) -> bool:
        """Let other tasks run between two records, if that is due. Return whether it was."""
        self._cluster.check_loop()
        is_due = self._clock.monotonic() - self._turned_at >= _TURN_S
        if is_due:
            self.out.finish()
            await self._give_way()
        return is_due

    async def _give_way(self) -> None:
        if self._fetcher.is_overdue or not self._is_dry:
            self._fetcher.soon()
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        self._turned_at = self._clock.monotonic()

    async def _next(self, find: Callable[[], Awaitable[list[P]]], deadline: float) -> list[P]:
        has_fetched = self._fetcher.is_overdue and self._fetcher.catch_up()
        if self._group is not None:
            self._group.commit_if_due(self._clock.monotonic())
        while True:
            if self.out.is_withheld or self._fetcher.news.is_set():
                self._is_dry = False
            self._fetcher.news.clear()
            if self._group is not None:
                if not await self._group.on_poll(deadline):
                    return []
                self.check()  # a listener may have closed it
                self.out.is_withheld = self.out.needs_poll = False
            if self._reading.positions.chosen:
                self._check_named()
            refusal, self._reading.refusal = self._reading.refusal, None
            if refusal is not None:
                raise refusal
            if not self._is_dry:
                found = await self._found(find)
                if found or self._fetcher.is_overdue or not has_fetched:
                    self._fetcher.soon()
                if found:
                    return found
            has_fetched = False
            left = deadline - self._clock.monotonic()
            if left <= 0:
                return []
            if self._group is not None:
                left = min(left, self._group.longest_wait_s)
            await self._fetcher.wait(left)
            self._turned_at = self._clock.monotonic()
            self.check()

    async def _found(self, find: Callable[[], Awaitable[list[P]]]) -> list[P]:
        """Look for records. Nothing comes to lie here after a vain look without `news`, unless
        some records were withheld or of partitions that were not chosen."""
        found = await find()
        if not found:
            self._is_dry = self._reading.positions.chosen is None
            self.check()  # a deserializer may have taken longer
        return found

    def check(self) -> None:
        """Raise ClientClosed if the consumer is closing, RuntimeError in another event loop."""
        if self.is_closing:
            raise closed("consumer")
        self._cluster.check_loop()

    def _check_chosen(self) -> None:
        """Raise RuntimeError if nothing is subscribed or assigned: the poll would wait for ever.
        While an `unsubscribe` of another task is running, a new subscription may follow."""
        if self._reading.has_interest or (self._group is not None and self._group.is_settling):
            return
        raise RuntimeError(
            "nothing is chosen to be read: subscribe to topics, or assign partitions, and poll then"
        )

    def _check_named(self) -> None:
        """Raise KafkaError for a partition in `chosen` that can never come: it is not assigned
        manually, or its topic is not subscribed. The group may still assign any other."""
        interest = self._reading.interest
        for where in sorted(self._reading.positions.chosen or ()) if interest else ():
            if interest.is_by_hand:
                self._reading.assignment.require(where)
            is_wanted = interest.includes(where.topic) or interest.is_by_hand
            if not (is_wanted or interest.remote_pattern):
                reason = "the topic is not subscribed to"
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason, **where._asdict())


def _refuse_two(poller: asyncio.Task[object]) -> None:
    if not poller.done() and not poller.cancelling():
        raise RuntimeError(
            "another task polls this consumer: give each task a consumer of its own, or let one "
            "task poll and hand the records on"
        )
