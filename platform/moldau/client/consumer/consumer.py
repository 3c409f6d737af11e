"""The consumer: records of partitions that it is told to read, or that its group gives it.

    async with Consumer(bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        await consumer.subscribe(["orders"])
        async for record in consumer:
            ...                       # or: for part in await consumer.poll(1.0): part.records

Partitions are fetched ahead while you work on what came before, within `buffer.memory`. In a group,
a rebalance happens inside `poll`: offsets are committed, the listener is called, positions move.
Nothing is taken away between two polls, unless they are further apart than `max.poll.interval.ms`.

Invariants: between two seeks each record is returned once; `poll` raises each error once, with
topic, partition and offset (a record that cannot be deserialized is read again by the next poll);
auto commit covers only what was returned before the record or part at hand; a poll lets other tasks
run. `positions` decides what to fetch, `group` what a member does; this shell joins them.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack
from functools import partial
from typing import Final, Generic, Self, TypeVar, Unpack

from moldau.client.consumer.assignment import NO_IDS
from moldau.client.consumer.columns import PartitionColumns
from moldau.client.consumer.decoding import Decoding
from moldau.client.consumer.fetcher import Fetcher
from moldau.client.consumer.interceptors import ConsumerInterceptor, Interceptors
from moldau.client.consumer.iteration import PartStream, RecordStream
from moldau.client.consumer.membership import ConsumerGroup, OffsetsGiven
from moldau.client.consumer.metrics import ConsumerMetrics
from moldau.client.consumer.options import ConsumerOptions
from moldau.client.consumer.origin import Part
from moldau.client.consumer.positions import Bounds, Positions
from moldau.client.consumer.reader import GroupsReader
from moldau.client.consumer.records import PartitionRecords
from moldau.client.consumer.seeking import ConsumerPositions, Partitions
from moldau.client.consumer.supply import Supply
from moldau.client.consumer.taken import Chosen, RecordsOut
from moldau.client.group.assignors import load_assignors
from moldau.client.group.listener import RebalanceListener, check_listener
from moldau.client.group.member import GroupMetadata
from moldau.client.group.missing import MissingTopics
from moldau.client.group.subscription import Interest, Pattern, interest
from moldau.client.serdes.contract import DeserializerTo
from moldau.client.settings import rows
from moldau.client.settings import serdes as serde_rows
from moldau.client.settings.arguments import (
    OffsetAndMetadata,
    Partition,
    flag_or_none,
    partitions_in,
    positive,
)
from moldau.client.settings.every_client import (
    WITHOUT_MEANING_TO_CONSUMERS,
    Given,
    interceptor_classes,
    metrics_num_samples,
    metrics_sample_window_ms,
    refuse_bytes,
)
from moldau.client.settings.group import coordinator_decides
from moldau.client.settings.notices import not_hiding
from moldau.client.settings.notices import tell as tell_notices
from moldau.client.settings.offset_reset import parse_reset
from moldau.client.settings.opening import Life, comes_with_start, reach
from moldau.errors import ConfigError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid
from moldau.link.arguments import seconds, str_of, text_of
from moldau.link.cluster import Cluster
from moldau.link.lifetime import ClientClosed, closed
from moldau.link.metadata import TopicPartition
from moldau.records import ConsumerRecord, K, V
from moldau.runtime import Clock, Runtime

P = TypeVar("P", bound=Part)

_CLOSE_S: Final = 30.0
_COLUMNS_MAX: Final = 100_000
_ITERATION_S: Final = 60.0
_REASON_CHARS_MAX: Final = 255
"""As much of a reason as Java's client sends."""
_TURN_S: Final = 0.01
"""This long after its last turn the rest of the loop has another, before anything is given."""
_LONG_AGO: Final = -math.inf
_TURNS: Final = 4
"""A heartbeat takes two: its timer's, and that of the task which writes it; so does its answer."""
_NEVER: Final = (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


class Consumer(ConsumerPositions, Generic[K, V]):
    """Reads records. Belongs to the event loop that it was started in, and to one task at a time
    that polls.

    `K` and `V` are what its deserializers give: a type checker knows them from the deserializers,
    or from `Consumer[str, Order | None]` where a name chooses them, or there are tombstones.
    """

    _clock: Clock = comes_with_start("consumer")

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        runtime: Runtime | None = None,
        interceptors: Sequence[ConsumerInterceptor] = (),
        key_deserializer: DeserializerTo[K] = None,
        value_deserializer: DeserializerTo[V] = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        """`settings` by Kafka's names, `options` the same with underscores: these win.

        A deserializer is an object (`moldau.client.serdes`), a function of the bytes, or a name as
        in the settings `key.deserializer` and `value.deserializer`; without one it gives bytes.
        """
        self._given = Given(
            settings or {},
            options,
            objects=(interceptor_classes.name, rows.partition_assignment_strategy.name),
            without_meaning={**WITHOUT_MEANING_TO_CONSUMERS, **serde_rows.WITHOUT_MEANING},
        )
        self.settings = rows.resolve(rows.CONSUMER_SETTINGS, self._given.settings, {})
        self._check_assignors()
        self._world = Life("consumer", runtime)
        self._given_interceptors = tuple(interceptors)
        self._interceptors = Interceptors()
        self._given_deserializers = (key_deserializer, value_deserializer)
        self._decoding: Decoding | None = None
        self._interest = Interest()
        self._group: ConsumerGroup | None = None
        self._out = RecordsOut()
        self._is_closing = False
        self._is_closed = False
        self._has_failed = False
        self._turned_at = _LONG_AGO
        """When the rest of the loop had its last turn, as far as is known here."""
        self._poller: asyncio.Task[object] | None = None
        """The task that waits for records."""
        self._asked: asyncio.Task[object] | None = None
        """The task that asked for records last."""
        self._refusal: KafkaError | None = None
        self._missing = MissingTopics(may_be_made=self.settings[rows.allow_auto_create_topics])

    def _check_assignors(self) -> None:
        """Objects are none of the settings that the rules of the table know."""
        given = self._given.objects.get(rows.partition_assignment_strategy.name)
        if given is None:
            return
        refuse_bytes({rows.partition_assignment_strategy.name: given})
        if coordinator_decides(self.settings):
            reason = "with group.protocol=consumer the broker decides about assignors"
            raise ConfigError(reason, setting=rows.partition_assignment_strategy.name)
        if not isinstance(given, list | tuple):
            given = self._given.objects[rows.partition_assignment_strategy.name] = [given]
        load_assignors(given)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._has_failed |= kind is not None
        with not_hiding(kind):
            await self.aclose()

    async def start(self) -> None:
        """Connects; KafkaError when no bootstrap server can be reached. Does nothing when it is
        started; ClientClosed after a close."""
        async with self._world.opening(self._close) as is_new:
            if is_new:
                self._given.tell("consumer", self.settings)
                self._begin()
                named = self._given.of(interceptor_classes, self.settings)
                self._interceptors = Interceptors([*named, *self._given_interceptors])
                self._decoding = Decoding.of(
                    self._given_deserializers, self.settings, self._cluster.runtime
                )
                self._supply.interceptors = self._interceptors
                self._supply.decoding = self._decoding
                await reach(self._cluster, "consumer")

    def _begin(self) -> None:
        runtime = self._world.enter()
        settings = self.settings
        self._clock = runtime.clock
        self._cluster = Cluster(
            runtime,
            settings,
            creates_topics=settings[rows.allow_auto_create_topics],
            answer_bytes_max=settings[rows.fetch_max_bytes],
        )
        bounds = Bounds(
            max(1, settings[rows.max_partition_fetch_bytes]),
            settings[rows.buffer_memory_of_consumer],
            settings[rows.metadata_max_age_ms] / 1000,
            check_crcs=settings[rows.check_crcs],
        )
        reset = parse_reset(settings[rows.auto_offset_reset])
        self._positions = Positions(bounds, reset, self._cluster.backoff, runtime.random)
        self._out.is_paused = self._positions.assignment.is_paused
        self._positions.assignment.consumed = self._out.consumed
        self._fetcher = Fetcher(runtime, self._cluster, self._positions, settings)
        self._metrics = ConsumerMetrics(
            runtime.clock,
            settings[metrics_sample_window_ms] / 1000,
            settings[metrics_num_samples],
            self._lags,
        )
        self._supply = Supply(self._positions, self._out, self._fetcher, self._metrics)
        self._metrics.connections = lambda: self._cluster.connections
        self._fetcher.on_fetched = self._metrics.fetched
        self._cluster.on_update = self._metadata_came
        if settings[rows.group_id] is not None:
            self._cluster.awaits_topics = True
            assignors = self._given.of(rows.partition_assignment_strategy, settings)
            self._group = ConsumerGroup(
                runtime, self._cluster, settings, GroupsReader(self), assignors
            )
            self._fetcher.committed = self._group.look_up
            self._fetcher.held_until = self._group.held_until
        self._is_closing = self._is_closed = self._out.is_withheld = False

    async def aclose(self, timeout_s: float = _CLOSE_S, *, leave_group: bool | None = None) -> None:
        """Commit (with auto commit), call the listener, leave the group and close the connections.
        A poll that waits fails. May be called again.

        Nothing is committed if an exception ends the `async with`, or is being handled. Records at
        hand of a task that still reads, was cancelled or has failed are not committed.

        Without `leave_group`, a static member stays in its group until its session ends, and any
        other member leaves (KIP-1092). A listener that takes longer than `timeout_s` goes on beside
        the rest. While one call is at work, another returns at once; after a cancelled one it ends
        what is left.
        """
        timeout_s = seconds(timeout_s, "timeout_s")
        leave_group = flag_or_none(leave_group, "leave_group")
        if "_cluster" in vars(self):
            self._cluster.check_loop()
        self._world.is_closed = True
        self._has_failed |= sys.exc_info()[0] is not None
        await self._close(timeout_s, leave_group=leave_group)

    async def _close(self, timeout_s: float = _CLOSE_S, *, leave_group: bool | None = None) -> None:
        """The same; not for good, if it is what could not be opened."""
        if self._is_closing:
            if self._is_closed:
                await self._end_goodbye(timeout_s)
            return
        self._is_closing = True
        self._out.withhold()  # a poll that waits for a deserializer gives nothing any more
        if "_fetcher" in vars(self):
            self._fetcher.news.set()  # a poll that waits has to hear of it
        async with AsyncExitStack() as left:
            left.push_async_exit(self._end_after)
            if self._group is not None:
                await self._group.aclose(
                    timeout_s, leave_group=leave_group, commits=not self._has_failed
                )

    async def _end_goodbye(self, timeout_s: float) -> None:
        async with AsyncExitStack() as left:
            left.push_async_exit(self._end_after)
            if self._group is not None:
                await self._group.end_goodbye(timeout_s)

    async def _end_after(self, kind: type[BaseException] | None, *_: object) -> None:
        """What ended the goodbye comes out, also where a serde cannot be closed then."""
        self._is_closed = True
        with not_hiding(kind):
            await self._end()

    async def _end(self) -> None:
        """Each step is taken, whatever those before it raise, once, or may be taken again."""
        self._asked = None
        self._interceptors.close(is_for_good=self._world.is_closed)
        if "_fetcher" in vars(self):
            self._fetcher.close()
            await self._cluster.aclose()
        try:
            if self._decoding is not None:
                await self._decoding.aclose()
        finally:
            await self._world.aclose(() if self._group is None else self._group.listening)

    # Which partitions

    async def subscribe(
        self,
        topics: Iterable[str] | str | None = None,
        *,
        pattern: Pattern | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Share the partitions of these topics with the group from the next poll on, and no others.
        An empty list is `unsubscribe`, as in Java's client.

        A `pattern` matches whole names, of topics that come later too: a compiled one is Python's
        and matched here; a string is matched here with the classic protocol, and by the coordinator
        (RE2) with group.protocol=consumer.
        """
        group = self._require_group("subscribe")
        check_listener(listener)
        wanted = interest(
            topics,
            pattern,
            is_remote=coordinator_decides(self.settings),
            excludes_internal=self.settings[rows.exclude_internal_topics],
        )
        if not wanted:
            await self.unsubscribe()
            return
        if self._interest.is_by_hand:
            raise ValueError("partitions are assigned by hand: unsubscribe first")
        self._follow(wanted)
        self._cluster.watch(self._interest.names)
        group.listen(listener)
        if self._interest.pattern is not None:
            await self._cluster.refresh()
        elif self._interest.names - self._cluster.metadata.topics.keys():
            self._cluster.request_refresh()
        if self._interest is wanted:  # and nobody has chosen anew meanwhile
            group.subscribe(wanted.wanted(self._cluster.metadata))

    def _follow(self, interest: Interest) -> None:
        self._interest = interest
        if self._refusal is not None and self._refusal.context["topic"] not in interest.names:
            self._refusal = None
        self._positions.assignment.begin()
        self._cluster.watches_all = interest.pattern is not None
        self._cluster.follows_pattern = interest.is_pattern

    async def unsubscribe(self) -> None:
        """Reads nothing any more; in a group, gives everything up as in a rebalance, and leaves."""
        self._check_open()
        self._give_up_by_hand(())
        self._follow(Interest())
        if self._is_closing:
            return  # which gives everything up, and tells the listener of it, once
        failure = None
        if self._group is not None and self._group.has_member:
            failure = await self._group.unsubscribe(lambda: not self._interest)
        if not (self._interest or self._is_closing):  # and nobody has chosen anew meanwhile
            self._read([])
        if failure is not None:
            raise failure

    @property
    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed to by name, or that match the pattern as known here."""
        if self._interest.remote_pattern is not None:
            return frozenset(each.topic for each in self.assignment)
        return self._interest.wanted(self._cluster.metadata).topics

    def assign(self, partitions: Partitions) -> None:
        """Read these partitions and no others, without sharing them. New ones begin where the group
        has committed, if there is a `group.id`, else where `auto.offset.reset` says. Records given
        of those assigned before count as done: auto commit covers them."""
        self._check_open()
        if self._interest and not self._interest.is_by_hand:
            raise ValueError("topics are subscribed to: unsubscribe first")
        wanted = partitions_in(partitions)
        self._give_up_by_hand(wanted)
        self._follow(Interest(is_by_hand=bool(wanted)))
        if self._group is not None:
            self._group.read_by_hand()
        self._read(wanted)

    def _give_up_by_hand(self, wanted: Iterable[TopicPartition]) -> None:
        """All but these, if they were assigned: there is no rebalance that would commit them."""
        if self._group is not None and self._interest.is_by_hand:
            self._group.commit_soon_by_itself(set(self.assignment).difference(wanted))

    def _read(
        self, wanted: Sequence[TopicPartition], ids: Mapping[TopicPartition, Uuid] = NO_IDS
    ) -> None:
        before = {each.where for each in self._positions.assignment}
        topics = {where.topic for where in wanted} | self._interest.names
        self._positions.assignment.assign(wanted, from_committed=self._group is not None, ids=ids)
        self._check_topics()
        self._drop(before.difference(wanted))
        self._cluster.unwatch({where.topic for where in before} - topics)
        self._cluster.watch(topics)
        if topics - self._cluster.metadata.topics.keys():
            self._cluster.request_refresh()
        self._fetcher.soon()

    def _check_topics(self) -> None:
        self._drop(self._positions.assignment.check_topics(self._cluster.metadata))

    def _drop(self, partitions: Collection[TopicPartition]) -> None:
        self._out.drop(partitions)
        if self._group is not None:
            self._group.reader.forget(partitions)

    def _metadata_came(self) -> None:
        self._check_topics()
        self._fetcher.soon()
        if self._group is None:
            return
        self._hear_of_names()
        if self._interest.pattern is not None:
            self._group.subscribe(self._interest.wanted(self._cluster.metadata))
        self._group.on_metadata()

    def _hear_of_names(self) -> None:
        """A topic that is subscribed to and can never be is an error of the next poll; one that
        there is not is told of once."""
        refused = self._cluster.metadata.refused
        for name in sorted(self._interest.names):
            code = refused.get(name)
            if code in _NEVER:
                self._refusal = KafkaError(code, topic=name, group=self.settings[rows.group_id])
                self._fetcher.news.set()
        names, now = self._interest.names, self._clock.monotonic()
        tell_notices(self._missing.on_metadata(names, self._cluster.metadata, now))

    # Records out

    async def poll(
        self,
        timeout_s: float = 0.0,
        *,
        max_records: int | None = None,
        partitions: Iterable[Partition] | None = None,
    ) -> list[PartitionRecords[K, V]]:
        """Return records as soon as there are some, or an empty list when the time is over. Waits
        of deserializers, for a schema say, come on top.

        At most `max_records`, else `max.poll.records`. Raises what keeps a partition from being
        read: KafkaError or CorruptRecord, with topic, partition and offset; and what keeps the
        member out of its group. RuntimeError if nothing is subscribed to or assigned. Records of
        the last poll count as done: they may be committed now.

        `partitions` limits the poll to these. Others are fetched ahead, for a later poll.
        """
        if max_records is None:
            max_records = self.settings[rows.max_poll_records]
        elif max_records.__class__ is not int or max_records < 1:
            max_records = positive(max_records, "max_records")
        if timeout_s.__class__ is not float or not timeout_s >= 0:
            timeout_s = seconds(timeout_s, "timeout_s")
        self._check_may_poll()
        chosen = None if partitions is None else _chosen_in(partitions)
        self._asks()
        self._out.finish()
        found = await self._poll(timeout_s, partial(self._supply.records, max_records), chosen)
        self._out.gave(found)
        return found

    async def poll_batches(
        self,
        timeout_s: float = 0.0,
        *,
        max_records: int = _COLUMNS_MAX,
        partitions: Iterable[Partition] | None = None,
    ) -> list[PartitionColumns]:
        """As `poll`, with offsets, timestamps, keys, values and headers as columns in buffers: many
        times cheaper where no record is wanted as an object.

        Batches are given whole: the last one may bring more than `max_records`. Keys and values are
        as they are in the log, no deserializer sees them. ValueError if the consumer has
        interceptors, which look at records.
        """
        positive(max_records, "max_records")
        timeout_s = seconds(timeout_s, "timeout_s")
        self._check_may_poll()
        if self._interceptors:
            raise ValueError("interceptors look at records, and poll_batches makes none: use poll")
        chosen = None if partitions is None else _chosen_in(partitions)
        self._asks()
        self._out.finish()
        found = await self._poll(timeout_s, partial(self._supply.columns, max_records), chosen)
        self._out.gave(found)
        return found

    async def _poll(
        self, timeout_s: float, find: Callable[[], Awaitable[list[P]]], chosen: Chosen
    ) -> list[P]:
        began = self._clock.monotonic()
        self._poller = task = asyncio.current_task()
        self._metrics.poll_began(began)
        found: list[P] = []
        try:
            if began - self._turned_at >= _TURN_S:
                await self._give_way()
                self._check_may_poll()
            self._check_chosen()
            self._positions.chosen = chosen
            found = await self._next(find, began + timeout_s)
            return found
        finally:
            if not found:
                self._turned_at = _LONG_AGO  # a caller that polls on after an error gives way first
            if self._poller is task:
                self._poller = self._positions.chosen = None
            self._metrics.poll_ended(self._clock.monotonic())

    def _asks(self) -> None:
        """The present task asks for records. RuntimeError while another one waits for some."""
        task = asyncio.current_task()
        poller = self._poller
        if poller is not None and poller is not task:
            _refuse_two(poller)
        self._asked = task

    def _is_finished(self) -> bool:
        """Whether what is at hand is done with: the task that has it gives partitions up itself, or
        has ended, neither cancelled nor by an error."""
        asked = self._asked
        if asked is None or asked is asyncio.current_task():
            return True
        # Not `exception()`: then the loop would not log an error that nobody has looked at.
        return asked.done() and not asked.cancelled() and asked._exception is None

    async def _give_way_if_due(self) -> bool:
        """Let other tasks run while records are taken without a poll; whether it was due."""
        self._cluster.check_loop()
        is_due = self._clock.monotonic() - self._turned_at >= _TURN_S
        if is_due:
            self._out.finish()
            await self._give_way()
        return is_due

    async def _give_way(self) -> None:
        """The rest of the loop has its turn. Nothing is taken yet: a poll may be cancelled here."""
        self._fetcher.soon()
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        self._turned_at = self._clock.monotonic()

    async def _next(self, find: Callable[[], Awaitable[list[P]]], deadline: float) -> list[P]:
        has_fetched = self._fetcher.catch_up()
        if self._group is not None:
            self._group.commit_if_due(self._clock.monotonic())
        while True:
            self._fetcher.news.clear()
            if self._group is not None:
                if not await self._group.on_poll(deadline):
                    return []
                self._check_may_poll()  # a listener may have closed it
                self._out.is_withheld = self._out.needs_poll = False
            refusal, self._refusal = self._refusal, None
            if refusal is not None:
                raise refusal
            found = await find()
            if not found:
                self._check_may_poll()  # a deserializer may have taken longer
            if found or self._fetcher.is_overdue or not has_fetched:
                self._fetcher.soon()
            has_fetched = False
            left = deadline - self._clock.monotonic()
            if found or left <= 0:
                return found
            if self._group is not None:
                left = min(left, self._group.longest_wait_s)
            await self._fetcher.wait(left)
            self._turned_at = self._clock.monotonic()
            self._check_may_poll()

    async def getone(self, *partitions: Partition) -> ConsumerRecord[K, V]:
        """The next record, of these partitions if any are named. It is at hand until more is asked
        for. ClientClosed if the consumer is closed meanwhile."""
        async for part in self.batches(max_records=1, partitions=partitions or None):
            return part.records[0]
        raise closed("consumer")

    async def getmany(
        self,
        *partitions: Partition,
        timeout_s: float = 0.0,
        max_records: int | None = None,
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """As `poll`, with whole records by partition."""
        found: dict[TopicPartition, list[ConsumerRecord[K, V]]] = {}
        chosen = partitions or None
        for part in await self.poll(timeout_s, max_records=max_records, partitions=chosen):
            where = TopicPartition(part.topic, part.partition)
            found.setdefault(where, []).extend(part.records)
        return found

    def batches(
        self, *, max_records: int | None = None, partitions: Iterable[Partition] | None = None
    ) -> PartStream[K, V]:
        """Records by partition for as long as the consumer is open. May be left and taken up again;
        a commit inside covers the part at hand and those before it. `partitions`: as `poll`."""
        if max_records is not None:
            positive(max_records, "max_records")
        chosen = None if partitions is None else _chosen_in(partitions)
        return PartStream(self, partial(self._poll_on, max_records, chosen), max_records, chosen)

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[K, V]]:
        """Records one by one for as long as the consumer is open. May be left and taken up again;
        a commit inside covers the record at hand and those before it."""
        return RecordStream(self, self._poll_on)

    async def _poll_on(
        self, max_records: int | None = None, chosen: Chosen = None
    ) -> list[PartitionRecords] | None:
        """As `poll`, for a stream whose turn it is."""
        try:
            self._check_may_poll()
            most = max_records or self.settings[rows.max_poll_records]
            return await self._poll(_ITERATION_S, partial(self._supply.records, most), chosen)
        except ClientClosed:
            if not self._is_closing:
                raise
            return None

    # Offsets

    async def commit(
        self, offsets: OffsetsGiven | None = None, *, timeout_s: float | None = None
    ) -> None:
        """Store where the group goes on: behind all that was given out, or at these offsets (each
        a number or an `OffsetAndMetadata`: the offset of the next record to read).

        Returns when it is stored. KafkaError names the partition.
        """
        await self._require_group("commit").commit(offsets, timeout_s=timeout_s)

    def commit_soon(self, offsets: OffsetsGiven | None = None) -> asyncio.Task[None]:
        """As `commit`, without waiting. Errors come out only where the task is awaited.
        Offsets are taken now, and commits are stored in the order in which they were begun."""
        return self._require_group("commit").commit_soon(offsets)

    async def committed(
        self, partitions: Partitions | None = None, *, timeout_s: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed of these partitions, or of all that are assigned; None where
        nothing is."""
        group = self._require_group("ask for committed offsets")
        return await group.committed(self._chosen(partitions), timeout_s=timeout_s)

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What `commit` would store now."""
        return self._consumed() if self._group is None else self._group.consumed()

    def _consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The same, whatever is committed."""
        return self._ahead_of(self._out.consumed())

    def _ahead_of(
        self, left: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return {
            each.where: OffsetAndMetadata(left.get(each.where, each.position), "", each.epoch)
            for each in self._positions.assignment
            if each.position >= 0
        }

    def group_metadata(self) -> GroupMetadata:
        """This member's identity in its group, for a transactional producer."""
        return self._require_group("know its group's metadata").metadata

    def enforce_rebalance(self, reason: str = "the application asked for it") -> bool:
        """Makes the group share its partitions anew, from the next polls on; the coordinator hears
        the beginning of the reason. False with group.protocol=consumer, where only the coordinator
        decides about that."""
        reason = text_of(str_of(reason, "reason")[:_REASON_CHARS_MAX], "reason")
        return self._require_group("rebalance").enforce_rebalance(reason)

    @property
    def member_id(self) -> str:
        """Under which id this is a member of its group; empty while it is none."""
        return "" if self._group is None else self._group.member_id

    def _position_is_wanted(self, where: TopicPartition) -> None:
        if self._group is not None:
            self._group.position_is_wanted(where)

    def _require_group(self, what: str) -> ConsumerGroup:
        self._check_open()
        if self._group is None:
            raise KafkaError(
                ErrorCode.INVALID_GROUP_ID,
                f"to {what}, a consumer needs a group",
                setting="group.id",
            )
        return self._group

    def _check_may_poll(self) -> None:
        if self._is_closing:
            raise closed("consumer")
        self._cluster.check_loop()

    def _check_chosen(self) -> None:
        """A subscription that was forgotten would be silence without end. While an `unsubscribe` of
        another task is under way, it may be about to subscribe anew."""
        if self._interest or (self._group is not None and self._group.is_settling):
            return
        raise RuntimeError(
            "nothing is chosen to be read: subscribe to topics, or assign partitions, and poll then"
        )

    def _check_open(self) -> None:
        if self._is_closed or self._cluster.is_closed:  # which it has from its start on
            raise closed("consumer")
        self._cluster.check_loop()


def _chosen_in(partitions: Iterable[Partition]) -> frozenset[TopicPartition]:
    """An empty choice is mostly a mistake, and would be silence without end."""
    chosen = frozenset(partitions_in(partitions))
    if not chosen:
        raise ValueError("partitions is empty: leave it out to poll all that are assigned")
    return chosen


def _refuse_two(poller: asyncio.Task[object]) -> None:
    """One task reads a consumer."""
    if not poller.done() and not poller.cancelling():
        raise RuntimeError(
            "another task polls this consumer: give each task a consumer of its own, or let one "
            "task poll and hand the records on"
        )
