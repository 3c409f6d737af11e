"""The shell of a consumer's core towards its user: polls, and what a rebalance requires of the
reading task.

Records go from the core to the user through deserializers and interceptors.

Invariants: one task reads; another one that asks for records while the first waits gets an error. A
poll lets other tasks run before it returns anything, if they last ran `_TURN_S` ago. It takes
nothing before that, so a poll may be cancelled there. Each record is returned once between two
seeks: if an interceptor is interrupted, its records are returned by the next poll. If a
deserializer fails, the records before the failed one are returned, the partition goes back to the
failed record, and the next poll raises the error.

Streams: a cancelled wait (`asyncio.wait_for(anext(records), 1.0)`) loses nothing and does not end
the stream, as it would end an asynchronous generator. Polled records that were not returned yet
stay in the `Backlog`, where commits, seeks and the next stream see them. Other tasks get to run
between two parts, and between two records when it is time: up to `_BETWEEN_LOOKS` records share one
check of the clock, fewer if the records take long.

Interceptors run in their order, each on the result of the one before. An exception from one is
logged and changes nothing: the positions have moved already, so records held back because of it
would be lost silently.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Generic, Self, TypeVar

from moldau.client.base.arguments import OffsetAndMetadata
from moldau.client.base.columns import PartitionColumns
from moldau.client.base.interceptor import ConsumerInterceptor
from moldau.client.base.part import Part
from moldau.client.base.user_code import close_all, guarded, load_interceptors
from moldau.client.consumer.decoding import RecordDecoder, UndecodedRecord
from moldau.client.consumer.fetcher import Fetcher
from moldau.client.consumer.metrics import MS
from moldau.client.consumer.progress import Chosen
from moldau.client.consumer.records import PartitionRecords
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.arguments import told
from moldau.link.lifetime import ClientClosed, closed
from moldau.link.metadata import TopicPartition
from moldau.plugins import Plugins
from moldau.records import ConsumerRecord, K, V

P = TypeVar("P", bound=Part)

_ITERATION_S: Final = 60.0
_TURN_S: Final = 0.01
"""If other tasks last ran longer ago than this, they run before anything is returned."""
_LONG_AGO: Final = -math.inf
_TURNS: Final = 4
"""Loop iterations to wait: a heartbeat needs two (its timer, then the task that writes it), and so
does its response."""


class RecordReader:
    """The polls of one consumer."""

    def __init__(
        self, fetcher: Fetcher, interceptors: Interceptors, decoding: RecordDecoder | None
    ) -> None:
        self.is_closing = False
        self.core = fetcher.core
        self.out = fetcher.core.progress
        self._interceptors = interceptors or None
        self._decoding = decoding
        self._undecoded: list[UndecodedRecord] = []
        self._cluster = fetcher.cluster
        self._clock = fetcher.cluster.runtime.clock
        self._fetcher = fetcher
        self._metrics = fetcher.metrics
        self._group = fetcher.group
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
        self._fetcher.news.set()

    # Polls

    async def records(
        self, timeout_s: float, max_records: int, chosen: Chosen
    ) -> list[PartitionRecords]:
        """Return the records that are there or come within the timeout, as parts."""
        return await self._first(timeout_s, partial(self._records, max_records), chosen)

    async def columns(
        self, timeout_s: float, max_records: int, chosen: Chosen
    ) -> list[PartitionColumns]:
        """Return the same as `records`, as columns."""
        return await self._first(timeout_s, partial(self._columns, max_records), chosen)

    async def more(self, max_records: int, chosen: Chosen) -> list[PartitionRecords]:
        """Poll for a stream. Return nothing if the consumer is closed."""
        try:
            self.check()
            return await self._poll(_ITERATION_S, partial(self._records, max_records), chosen)
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
        times = self._metrics.polls
        before, ended = times.began_at, times.ended_at
        if before is not None and began > before:
            idle = 0.0 if ended is None else max(0.0, ended - before)
            times.samples.add(began, (began - before) * MS, idle / (began - before))
        times.began_at, times.ended_at = began, None
        found: list[P] = []
        try:
            if began - self._turned_at >= _TURN_S:
                await self._give_way()
                self.check()
            self._check_interest()
            self.core.chosen = chosen
            if chosen is not None:
                self._is_dry = False
            found = await self._next(find, began + timeout_s)
            return found
        finally:
            if not found:
                self._turned_at = _LONG_AGO  # a caller that polls on after an error gives way first
            if self._poller is task:
                self._poller = self.core.chosen = None
            times.ended_at = self._clock.monotonic()

    def asks(self) -> None:
        """Note that the current task asks for records. RuntimeError while another task waits."""
        task, poller = asyncio.current_task(), self._poller
        if poller is not None and poller is not task and not (poller.done() or poller.cancelling()):
            raise RuntimeError(
                "another task polls this consumer: give each task a consumer of its own, or let "
                "one task poll and hand the records on"
            )
        self.core.progress.asked_by = task

    async def give_way_if_due(self) -> bool:
        """Let other tasks run between two records, if that is due. Return whether it was."""
        self._cluster.check_loop()
        is_due = self._clock.monotonic() - self._turned_at >= _TURN_S
        if is_due:
            self.out.finish()
            await self._give_way()
        return is_due

    async def _give_way(self) -> None:
        if self.core.is_overdue or not self._is_dry:
            self._fetcher.soon()
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        self._turned_at = self._clock.monotonic()

    async def _next(self, find: Callable[[], Awaitable[list[P]]], deadline: float) -> list[P]:
        core, fetcher, group = self.core, self._fetcher, self._group
        has_fetched = core.is_overdue and fetcher.catch_up()
        if group is not None:
            group.commits.commit_if_due(self._clock.monotonic())
        while True:
            if self.out.is_withheld or fetcher.news.is_set():
                self._is_dry = False
            fetcher.news.clear()
            if group is not None:
                if not await group.on_poll(deadline):
                    return []
                self.check()  # a listener may have closed it
                self.out.is_withheld = self.out.needs_poll = False
            if core.chosen:
                self._check_named()
            refusal, core.refusal = core.refusal, None
            if refusal is not None:
                raise refusal
            if not self._is_dry:
                found = await self._found(find)
                if found or core.is_overdue or not has_fetched:
                    fetcher.soon()
                if found:
                    return found
            has_fetched = False
            left = deadline - self._clock.monotonic()
            if left <= 0:
                return []
            if group is not None:
                left = min(left, group.longest_wait_s)
            await fetcher.wait(left)
            self._turned_at = self._clock.monotonic()
            self.check()

    async def _found(self, find: Callable[[], Awaitable[list[P]]]) -> list[P]:
        """Look for records. Nothing comes to lie here after a vain look without `news`, unless
        some records were withheld or of partitions that were not chosen."""
        found = await find()
        if not found:
            self._is_dry = self.core.chosen is None
            self.check()  # a deserializer may have taken longer
        return found

    def check(self) -> None:
        """Raise ClientClosed if the consumer is closing, RuntimeError in another event loop."""
        if self.is_closing:
            raise closed("consumer")
        self._cluster.check_loop()

    def _check_interest(self) -> None:
        """Raise RuntimeError if nothing is subscribed or assigned: the poll would wait for ever.
        While an `unsubscribe` of another task is running, a new subscription may follow."""
        if self.core.has_interest or (self._group is not None and self._group.is_settling):
            return
        raise RuntimeError(
            "nothing is chosen to be read: subscribe to topics, or assign partitions, and poll then"
        )

    def _check_named(self) -> None:
        """Raise KafkaError for a partition in `chosen` that can never come: it is not assigned
        manually, or its topic is not subscribed. The group may still assign any other."""
        interest = self.core.interest
        for where in sorted(self.core.chosen or ()) if interest else ():
            if interest.is_by_hand:
                self.core.require(where)
            is_wanted = interest.includes(where.topic) or interest.is_by_hand
            if not (is_wanted or interest.remote_pattern):
                reason = "the topic is not subscribed to"
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason, **where._asdict())

    # From the core to the user

    async def _records(self, count_max: int) -> list[PartitionRecords]:
        """Return records that an earlier poll left over, or else the next fetched ones."""
        while True:
            left = self.out.take(count_max, self.core.chosen)
            if left:
                return left
            if self._decoding is None:
                parts = self.core.take(count_max)
            else:
                parts = await self._decoded(self._decoding, count_max)
            self._count([(each.topic, len(each.records)) for each in parts])
            if not parts:
                return parts
            seen = parts if self._interceptors is None else self._intercepted(parts)
            if seen:
                return seen

    async def _columns(self, count_max: int) -> list[PartitionColumns]:
        """Return whole batches as columns. Records left over by a poll are fetched again."""
        self.fetch_again(self.out.take_all())
        parts = self.core.take_columns(count_max)
        self._count([(each.topic, len(each)) for each in parts])
        return parts

    def fetch_again(self, parts: Iterable[Part]) -> None:
        """Go back to the beginning of these parts. The user has not seen them."""
        for part in parts:
            position = self.core.positions.get(TopicPartition(part.topic, part.partition))
            if position is not None and part.first_offset < position.position:
                position.seek(part.first_offset, position.epoch)

    def _count(self, counts: Sequence[tuple[str, int]]) -> None:
        """Count the records taken by topic, and note whether this made room for another fetch."""
        emptied = self.core.emptied
        self._metrics.consumed(counts, emptied)
        makes_room = bool(emptied)
        emptied.clear()
        if counts or makes_room:
            self.core.on_emptied(makes_room=makes_room)

    def _intercepted(self, parts: list[PartitionRecords]) -> list[PartitionRecords]:
        """Return what the interceptors return. An interrupt (Ctrl-C) loses no records."""
        assert self._interceptors is not None
        seen: list[PartitionRecords] | None = None
        try:
            seen = self._interceptors.consumed(parts)
        finally:
            if seen is None:
                self.out.take_back(parts)
        return seen

    async def _decoded(self, decoding: RecordDecoder, count_max: int) -> list[PartitionRecords]:
        """Return the next records, deserialized."""
        while True:
            self._raise_undecoded()
            chosen = self.core.chosen
            parts = self.out.begin_decoding(count_max, chosen)
            if not parts:
                self.out.hold(self.core.take(count_max))
                parts = self.out.begin_decoding(count_max, chosen)
            decoded, self._undecoded = await decoding.decode(parts)
            wanted = self.out.end_decoding()
            for where, offset, error in self._undecoded:
                position = self.core.positions.get(where)
                if where in wanted and position is not None:
                    self.out.drop_waiting([where])  # the rest of what an earlier poll took
                    position.seek(offset, position.epoch)
                    position.fail(error)
            decoded = [each for each in decoded if TopicPartition(*each[:2]) in wanted]
            if decoded or not parts:
                return decoded

    def _raise_undecoded(self) -> None:
        """Raise the error of a failed record once, unless a seek has passed it."""
        for each in list(self._undecoded):
            if not self.core.is_chosen(each.where):
                continue
            self._undecoded.remove(each)
            position, error = self.core.positions.get(each.where), each.error
            if position is not None and position.error is error:
                position.take_error()
                raise error


_BETWEEN_LOOKS: Final = 64
"""At most this many records are returned between two checks of the clock."""


class RecordStream(Generic[K, V]):
    """An iterator over single records. Records left over stay in `out` for the next reader."""

    __slots__ = ("_between_looks", "_count_max", "_out", "_reader", "_records")

    def __init__(self, reader: RecordReader, count_max: int) -> None:
        """Let a poll take at most `count_max` records."""
        self._reader = reader
        self._out = reader.out
        self._count_max = count_max
        self._between_looks = 1
        self._records: Iterator[ConsumerRecord] = iter(())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord[K, V]:
        for record in self._records:  # a close empties it
            return record
        return await self._fetched()

    async def _fetched(self) -> ConsumerRecord[K, V]:
        if await self._reader.give_way_if_due():
            self._between_looks = max(1, self._between_looks // 2)
        else:
            self._between_looks = min(_BETWEEN_LOOKS, self._between_looks * 2)
        while True:
            if self._reader.is_closing:
                raise StopAsyncIteration
            self._reader.asks()
            self._records = self._out.some_records(self._between_looks)
            for record in self._records:
                return record
            self._out.add(await self._reader.more(self._count_max, None))
            await self._reader.give_way_if_due()


class PartStream(Generic[K, V]):
    """An iterator over parts of one partition each. The rest stays in `out` for the next reader."""

    __slots__ = ("_chosen", "_count_max", "_part_max", "_reader")

    def __init__(
        self, reader: RecordReader, count_max: int, *, part_max: int = sys.maxsize, chosen: Chosen
    ) -> None:
        """Let a poll take at most `count_max` records, and a part hold at most `part_max`."""
        self._reader = reader
        self._count_max = count_max
        self._part_max = part_max
        self._chosen = chosen

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> PartitionRecords[K, V]:
        while True:
            await self._reader.give_way_if_due()
            if self._reader.is_closing:
                raise StopAsyncIteration
            self._reader.asks()
            part = self.at_hand()
            if part is not None:
                return part
            await self.fill()

    def at_hand(self) -> PartitionRecords[K, V] | None:
        """Return the next part if it needs no poll. Thread-safe if `out` has a lock."""
        return self._reader.out.take_part(self._part_max, self._chosen)

    async def fill(self) -> None:
        """Poll, so that `at_hand` has parts."""
        self._reader.out.add(await self._reader.more(self._count_max, self._chosen))


class Interceptors:
    """The interceptors of one consumer."""

    def __init__(self, given: Sequence[object] = (), plugins: Plugins | None = None) -> None:
        """Take objects, or names as in `interceptor.classes`. ConfigError for anything else."""
        self._all = tuple(load_interceptors(given, ConsumerInterceptor, plugins))
        self._lent = tuple(given)

    def __bool__(self) -> bool:
        return bool(self._all)

    def consumed(self, parts: list[PartitionRecords]) -> list[PartitionRecords]:
        """Return the records of a poll as the interceptors changed them."""
        for each in self._all:
            made = guarded(f"{type(each).__name__}.on_consume", _on_consume, each, parts)
            if made is not None:
                parts = [part for part in made if part.records]
        return parts

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for each in self._all:
            guarded(f"{type(each).__name__}.on_commit", each.on_commit, offsets)

    def close(self, *, is_for_good: bool = True) -> None:
        """Close each interceptor once; unless `is_for_good`, not those given as objects."""
        ended, self._all = self._all, ()
        self._all = close_all(ended, but=() if is_for_good else self._lent)


def _on_consume(
    interceptor: ConsumerInterceptor, parts: list[PartitionRecords]
) -> list[PartitionRecords] | None:
    """Return the interceptor's records, or None. Raise TypeError if it returned anything else."""
    made: object = interceptor.on_consume(parts)
    if made is None:
        return None
    if isinstance(made, list | tuple) and all(isinstance(each, PartitionRecords) for each in made):
        return list(made)
    what = f"{type(interceptor).__name__}.on_consume"
    raise TypeError(f"{what} must return a list of PartitionRecords, not {told(made)}")
