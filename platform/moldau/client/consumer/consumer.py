"""The consumer: reads the partitions that you assign, or that its group assigns to it.

    async with Consumer(bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        await consumer.subscribe(["orders"])
        async for record in consumer:
            ...                       # or: for part in await consumer.poll(1.0): part.records

The consumer fetches ahead while you process earlier records, within `buffer.memory`. In a group, a
rebalance happens inside `poll`: offsets are committed, the listener is called, positions move.
No partition is taken away between two polls less than `max.poll.interval.ms` apart.

Invariants: between two seeks each record is returned once. `poll` raises each error once, with
topic, partition and offset (the next poll reads a record again that could not be deserialized).
Auto commit covers only what was returned before the current record or part. A poll lets other tasks
run. `positions` decides what to fetch, `group` what a member does; this shell joins them.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, Self, Unpack

from moldau.client.base import arguments
from moldau.client.base.arguments import ByPartition, OffsetAndMetadata, PartitionGiven
from moldau.client.base.columns import PartitionColumns
from moldau.client.base.coordinator import GroupMetadata
from moldau.client.base.given import GivenSettings, refuse_bytes, resolve
from moldau.client.base.interceptor import ConsumerInterceptor
from moldau.client.base.lifecycle import Lifecycle, comes_with_start, reach
from moldau.client.base.notices import not_hiding
from moldau.client.base.offsets import EARLIEST, LATEST, FoundOffset, partitions_of
from moldau.client.consumer.commits import OffsetsGiven
from moldau.client.consumer.consumer_core import ConsumerCore
from moldau.client.consumer.decoding import RecordDecoder
from moldau.client.consumer.fetch import BrokerFetches, FetchRoom
from moldau.client.consumer.fetcher import Fetcher
from moldau.client.consumer.membership import ConsumerGroup, MakeMember, consumer_member
from moldau.client.consumer.metrics import ConsumerMetrics
from moldau.client.consumer.options import ConsumerOptions
from moldau.client.consumer.position import ReadPolicy
from moldau.client.consumer.reader import Interceptors, PartStream, RecordReader, RecordStream
from moldau.client.consumer.records import PartitionRecords
from moldau.client.consumer.transactional import (
    TransactionalProgress,
    in_transactions,
    metadata_of_given,
)
from moldau.client.group.assignors import load_assignors
from moldau.client.group.listener import RebalanceListener, check_listener
from moldau.client.group.missing import MissingTopics
from moldau.client.group.subscription import Interest, Pattern, interest
from moldau.client.serdes.contract import DeserializerTo
from moldau.client.settings import consumer as own_rows
from moldau.client.settings import group as group_rows
from moldau.client.settings import rows
from moldau.client.settings import serdes as serde_rows
from moldau.client.settings.every_client import (
    WITHOUT_MEANING_TO_CONSUMERS,
    interceptor_classes,
    metrics_num_samples,
    metrics_sample_window_ms,
)
from moldau.client.settings.group import coordinator_decides
from moldau.client.settings.offset_reset import parse_reset
from moldau.config.times import instant_ms
from moldau.errors import ConfigError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid
from moldau.link.arguments import seconds, seconds_at_most, str_of, text_of
from moldau.link.cluster import Cluster
from moldau.link.lifetime import closed
from moldau.link.metadata import Metadata, Topic, TopicPartition
from moldau.link.settings import metadata_max_age_ms
from moldau.metrics import Registry
from moldau.protocol.messages.metadata import MetadataRequest, MetadataResponse
from moldau.records import ConsumerRecord, K, V
from moldau.runtime import Clock, Runtime

if TYPE_CHECKING:
    import asyncio

Partitions = Iterable[PartitionGiven]

_CLOSE_S: Final = 30.0
_COLUMNS_MAX: Final = 100_000
_REASON_CHARS_MAX: Final = 255
"""Java's client cuts a reason to the same length."""


class Consumer(Generic[K, V]):
    """A Kafka consumer, bound to the event loop that starts it. One task at a time may poll it.

    `K` and `V` are the types that its deserializers return. A type checker infers them from the
    deserializers. Write `Consumer[str, Order | None]` if a name selects one, or for tombstones.
    """

    _clock: Clock = comes_with_start("consumer")
    _cluster: Cluster = comes_with_start("consumer")
    _core: ConsumerCore = comes_with_start("consumer")
    _fetcher: Fetcher = comes_with_start("consumer")
    _reader: RecordReader = comes_with_start("consumer")
    _new_lock: Callable[[], AbstractContextManager[object]] = nullcontext
    _new_member: MakeMember = staticmethod(consumer_member)

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
        """Take `settings` by Kafka's names; `options` (underscores for dots) override them.

        A deserializer is an object (`moldau.client.serdes`), a function that takes bytes, or a name
        as in the settings `key.deserializer` and `value.deserializer`. By default keys and values
        are bytes.
        """
        self._given = GivenSettings(
            settings or {},
            options,
            objects=(interceptor_classes.name, group_rows.partition_assignment_strategy.name),
            without_meaning={**WITHOUT_MEANING_TO_CONSUMERS, **serde_rows.WITHOUT_MEANING},
        )
        self.settings = resolve(rows.CONSUMER_SETTINGS, self._given.settings, {})
        self._check_assignors()
        self._world = Lifecycle("consumer", runtime)
        self._given_interceptors = tuple(interceptors)
        self._interceptors = Interceptors()
        self._given_deserializers = (key_deserializer, value_deserializer)
        self._decoding: RecordDecoder | None = None
        self._group: ConsumerGroup | None = None
        self._begun: RecordReader | None = None
        """Its polls, from `start` on."""
        self._is_closing = self._is_closed = self._has_failed = False

    def _check_assignors(self) -> None:
        """Check the assignors. Given as objects, they bypass the checks of the settings table."""
        row, objects = group_rows.partition_assignment_strategy, self._given.objects
        given = objects.get(row.name)
        if given is None:
            load_assignors(self.settings[row])
            return
        refuse_bytes({row.name: given})
        if coordinator_decides(self.settings):
            reason = "with group.protocol=consumer the broker decides about assignors"
            raise ConfigError(reason, setting=row.name)
        if not isinstance(given, list | tuple):
            given = objects[row.name] = [given]
        load_assignors(given)

    def __repr__(self) -> str:
        return self._world.shown(self, self.settings)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._has_failed |= kind is not None
        with not_hiding(kind):
            await self.aclose()

    async def start(self) -> None:
        """Connect. Raise KafkaError if no bootstrap server can be reached, ClientClosed after a
        close. A second call does nothing."""
        async with self._world.opening(self._close) as is_new:
            if is_new:
                self._given.log_notices("consumer", self.settings)
                runtime = self._world.enter()
                named = self._given.of(interceptor_classes, self.settings)
                self._interceptors = Interceptors([*named, *self._given_interceptors])
                self._decoding = RecordDecoder.of(self._given_deserializers, self.settings, runtime)
                self._begin(runtime)
                await reach(self._cluster, "consumer")

    def _begin(self, runtime: Runtime) -> None:
        settings = self.settings
        self._clock = runtime.clock
        self._cluster = self._world.cluster = Cluster(
            runtime,
            settings,
            creates_topics=settings[own_rows.allow_auto_create_topics],
            answer_bytes_max=settings[own_rows.fetch_max_bytes],
            tokens=self._given.objects.get("oauth"),
            on_update=lambda: self._fetcher.on_metadata(),
        )
        self._cluster.awaits_topics = True
        has_group = settings[group_rows.group_id] is not None
        self._core = _core(self._cluster, self._new_lock(), has_group=has_group)
        assignors = self._given.of(group_rows.partition_assignment_strategy, settings)
        make = partial(self._new_member, runtime, settings, assignors)
        group_of = partial(ConsumerGroup, self._cluster, settings, make, self._committed_now)
        metrics = ConsumerMetrics(
            runtime.clock,
            settings[metrics_sample_window_ms] / 1000,
            settings[metrics_num_samples],
            self._core.progress.lags,
            lambda: self._cluster.connections,
            lambda: self._core.missed,
        )
        self._fetcher = Fetcher(
            self._cluster, self._core, settings, metrics, group_of if has_group else None
        )
        self._group = self._fetcher.group
        self._reader = RecordReader(self._fetcher, self._interceptors, self._decoding)
        self._begun = self._reader
        self._is_closing = self._is_closed = False

    def _committed_now(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], seconds: float
    ) -> None:
        self._fetcher.metrics.committed(seconds)
        self._interceptors.committed(offsets)

    async def aclose(self, timeout_s: float = _CLOSE_S, *, leave_group: bool | None = None) -> None:
        """Commit (with auto commit), call the listener, leave the group and close the connections.

        A waiting poll fails. May be called again. Nothing is committed if an exception ends the
        `async with` or is being handled. The current records of a task that is still reading, was
        cancelled or has failed are not committed.

        Without `leave_group`, a static member stays in its group until its session ends, and any
        other member leaves (KIP-1092). A listener that takes longer than `timeout_s` continues in
        the background. While one call runs, another returns at once; after a cancelled call,
        another finishes the rest.
        """
        timeout_s = seconds(timeout_s, "timeout_s")
        leave_group = arguments.flag_or_none(leave_group, "leave_group")
        self._world.check_loop()
        self._world.is_closed = True
        self._has_failed |= sys.exc_info()[0] is not None
        await self._close(timeout_s, leave_group=leave_group)

    async def _close(self, timeout_s: float = _CLOSE_S, *, leave_group: bool | None = None) -> None:
        """Close as `aclose` does. After a failed start the consumer can be started again."""
        if self._is_closing:
            if self._is_closed:
                await self._end_goodbye(timeout_s)
            return
        self._is_closing = True
        if self._begun is not None:
            self._begun.close()
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
        """Run `_end`. The error that ended the goodbye is raised even if closing a serde fails."""
        self._is_closed = True
        with not_hiding(kind):
            await self._end()

    async def _end(self) -> None:
        """Close interceptors, connections, deserializers and the runtime, in this order. A
        deserializer's error does not keep the runtime open. May be run again."""
        self._interceptors.close(is_for_good=self._world.is_closed)
        if self._begun is not None:
            await self._fetcher.aclose()
        await self._world.disconnect()
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
        """Share the partitions of these topics with the group from the next poll on, and read no
        others. Without a `group.id` read all their partitions, also later ones; a `listener` hears
        of rebalances, so it needs a group. An empty list is `unsubscribe`, as in Java's client.

        A `pattern` must match the whole topic name, and also matches topics created later. A
        compiled pattern uses Python's syntax and is matched by the client. A string is matched by
        the client with the classic protocol, and by the coordinator (RE2 syntax) with
        group.protocol=consumer.
        """
        self._check_open()
        group = self._group if listener is None else self._require_group("call a listener")
        check_listener(listener)
        wanted = interest(
            topics,
            pattern,
            is_remote=group is not None and coordinator_decides(self.settings),
            excludes_internal=self.settings[group_rows.exclude_internal_topics],
        )
        if not wanted:
            await self.unsubscribe()
            return
        if self._core.interest.is_by_hand:
            raise ValueError("partitions are assigned by hand: unsubscribe first")
        self._fetcher.follow(wanted)
        self._cluster.watch(wanted.names)
        if group is not None:
            group.listen(listener)
        if wanted.pattern is not None:
            await self._cluster.refresh()
        elif wanted.names - self._cluster.metadata.topics.keys():
            self._cluster.request_refresh()
        if self._core.interest is wanted:  # no other subscription or assignment came meanwhile
            if group is None:
                self._fetcher.read_subscribed()
            else:
                group.subscribe(wanted.wanted(self._cluster.metadata))

    async def unsubscribe(self) -> None:
        """Stop reading. In a group, give up all partitions as in a rebalance, then leave it."""
        self._check_open()
        self._give_up_by_hand(())
        self._fetcher.follow(Interest())
        if self._is_closing:
            return  # the close gives everything up and calls the listener, once
        failure = None
        if self._group is not None and self._group.has_member:
            failure = await self._group.unsubscribe(lambda: not self._core.interest)
        if not (self._core.interest or self._is_closing):  # nothing new was chosen meanwhile
            self._fetcher.read([], from_committed=False)
        if failure is not None:
            raise failure

    @property
    def subscription(self) -> frozenset[str]:
        """The subscribed topics: those given by name, or the known ones that match the pattern."""
        interest = self._core.interest
        if interest.remote_pattern is not None:
            return frozenset(each.topic for each in self.assignment)
        return interest.wanted(self._cluster.metadata).topics

    def assign(self, partitions: Partitions) -> None:
        """Read these partitions and no others, without sharing them in a group. New ones start at
        the committed offset if there is a `group.id`, else where `auto.offset.reset` says. Records
        returned from partitions assigned before count as processed for auto commit."""
        self._check_open()
        interest = self._core.interest
        if interest and not interest.is_by_hand:
            raise ValueError("topics are subscribed to: unsubscribe first")
        wanted = arguments.partitions_in(partitions)
        self._give_up_by_hand(wanted)
        self._fetcher.follow(Interest(is_by_hand=bool(wanted)))
        if self._group is not None:
            self._group.read_by_hand()
        self._fetcher.read(wanted, from_committed=self._group is not None)

    def _give_up_by_hand(self, wanted: Iterable[TopicPartition]) -> None:
        """Auto-commit the manually assigned partitions that go, since no rebalance does."""
        if self._group is not None and self._core.interest.is_by_hand:
            self._group.commits.commit_soon_by_itself(set(self.assignment).difference(wanted))

    async def partitions(
        self, *topics: str, timeout_s: float | None = None
    ) -> list[TopicPartition]:
        """Return all partitions of these topics. A topic may be new, so an unknown one is retried
        for `timeout_s` (default `default.api.timeout.ms`), then KafkaError is raised."""
        self._check_open()
        names = arguments.names_of(topics, "topic")
        timeout_s = seconds_at_most(timeout_s, "timeout_s")
        return await partitions_of(self._cluster, names, timeout_s=timeout_s)

    async def list_topics(
        self, *, internal: bool = False, timeout_s: float | None = None
    ) -> list[Topic]:
        """Return all topics that this client may see, sorted by name, with their partitions. The
        brokers' internal topics are included only with `internal`."""
        arguments.flag(internal, "internal")

        async def ask() -> MetadataResponse:
            request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
            return await self._cluster.call(request, MetadataResponse)

        found = Metadata()
        found.update(await self._cluster.retry(ask, timeout_s=timeout_s))
        topics = sorted(found.topics.values(), key=lambda each: each.name)
        return [each for each in topics if internal or not each.is_internal]

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that this consumer reads."""
        return list(self._core.positions)

    def topic_ids(self, partitions: Partitions) -> dict[TopicPartition, Uuid]:
        """Return the id of the topic that each partition is read from, or ZERO_UUID if it is
        unknown. The id stays the same when another topic takes over the name."""
        return self._core.topic_ids(arguments.partitions_in(partitions))

    # Seeking

    def seek(self, partition: PartitionGiven, offset: int, *, leader_epoch: int = -1) -> None:
        """Continue reading the partition at `offset`, or at the first record after it. With the
        `leader_epoch` of the record before it, the consumer can detect a truncated log."""
        self._check_open()
        where = arguments.partition_of(partition)
        facts = where._asdict()
        offset = arguments.offset_of(offset, facts)
        epoch = arguments.leader_epoch_of(leader_epoch, facts)
        self._fetcher.seek({where: (offset, epoch)})

    async def seek_to_beginning(self, partitions: Partitions | None = None) -> None:
        """Seek to the first record of these partitions, or of all assigned ones."""
        await self._fetcher.seek_by(dict.fromkeys(self._chosen(partitions), EARLIEST))

    async def seek_to_end(self, partitions: Partitions | None = None) -> None:
        """Seek to the end of these partitions, or of all assigned ones."""
        await self._fetcher.seek_by(dict.fromkeys(self._chosen(partitions), LATEST))

    async def seek_to_time(
        self,
        timestamp_ms: int | datetime | timedelta | str,
        partitions: Partitions | None = None,
    ) -> None:
        """Seek to the first record at or after a time, or to the end if there is none. The time is
        milliseconds since 1970, a datetime with a zone, `timedelta(hours=-1)` from now, or text
        such as "-1h" or "2026-11-20T12:00:00Z"."""
        given = instant_ms(timestamp_ms, self._clock.wall_ms())
        at_ms = arguments.since_1970(given, "timestamp_ms")
        await self._fetcher.seek_by(dict.fromkeys(self._chosen(partitions), at_ms))

    # Asking

    async def offsets(self, wanted: ByPartition[int]) -> dict[TopicPartition, FoundOffset]:
        """Return the first offset at or after each timestamp (ms). Special timestamps such as
        `offsets.EARLIEST` mean an end of the log. The offset is -1 if no record is that new."""
        self._check_open()
        asked = {
            where: arguments.timestamp_of(each, where)
            for where, each in arguments.by_partition(wanted).items()
        }
        return await self._fetcher.offsets(asked)

    async def offsets_for_times(
        self, wanted: ByPartition[int]
    ) -> dict[TopicPartition, FoundOffset | None]:
        """Return each partition's first offset at or after its timestamp (ms), None if there is
        none."""
        asked = {
            where: arguments.since_1970(each, f"the timestamp for {where}")
            for where, each in arguments.by_partition(wanted).items()
        }
        found = await self.offsets(asked)
        return {where: each if each.offset >= 0 else None for where, each in found.items()}

    async def beginning_offsets(self, partitions: Partitions) -> dict[TopicPartition, int]:
        """Return the first offset of each partition's log."""
        return await self._ends(partitions, EARLIEST)

    async def end_offsets(self, partitions: Partitions) -> dict[TopicPartition, int]:
        """Return the end of each partition's log: the offset of the next record. With
        read_committed it is the offset where the first open transaction begins."""
        return await self._ends(partitions, LATEST)

    async def _ends(self, partitions: Partitions, end: int) -> dict[TopicPartition, int]:
        found = await self.offsets(dict.fromkeys(arguments.partitions_in(partitions), end))
        return {where: each.offset for where, each in found.items()}

    def position(self, partition: PartitionGiven) -> int | None:
        """Return the offset of the next record that a poll returns; None while it is unknown."""
        where = arguments.partition_of(partition)
        found = self._core.require(where)
        if found.position < 0:
            if self._group is not None:
                self._group.position_is_wanted(where)
            return None
        return self._core.progress.returned().get(where, found.position)

    def lag(self, partition: PartitionGiven) -> int | None:
        """Return how many offsets the position is before the end as of the last fetch. None before
        that, and while a new leader does not know the end yet. With read_committed the end is where
        the first open transaction begins."""
        where = arguments.partition_of(partition)
        self._core.require(where)
        return self._core.progress.lag(where).lag

    # Pausing

    def pause(self, partitions: Partitions | None = None) -> None:
        """Stop returning and fetching records of these partitions; fetched records are kept. An
        `async for` in the middle of such a partition continues with another one. Parts that
        `batches` or `poll` returned earlier are not affected."""
        self._check_open()
        self._fetcher.pause(self._chosen(partitions), is_paused=True)

    def resume(self, partitions: Partitions | None = None) -> None:
        """Undo `pause` for these partitions, or for all assigned ones."""
        self._check_open()
        self._fetcher.pause(self._chosen(partitions), is_paused=False)

    @property
    def paused(self) -> list[TopicPartition]:
        """The paused partitions."""
        return [each.where for each in self._core.positions.values() if each.is_paused]

    # What is going on

    def troubles(self) -> dict[TopicPartition, KafkaError]:
        """Return why partitions cannot be read at present: their brokers' last errors, or why
        brokers cannot be reached. The consumer keeps retrying; empty if all is well. A topic that
        does not exist, or has no partition here while no broker answers, is under partition -1."""
        return self._core.troubles(None if self._group is None else self._group.session.trouble)

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return Kafka's consumer metrics by group and name:
        `metrics()["consumer-fetch-manager-metrics"]["records-lag-max"]`."""
        return self._fetcher.metrics.kafka_metrics()

    @property
    def registry(self) -> Registry:
        """The same metrics for exporters (`moldau.metrics.render_prometheus`)."""
        return self._fetcher.metrics.registry

    def _chosen(self, partitions: Partitions | None) -> list[TopicPartition]:
        return self.assignment if partitions is None else arguments.partitions_in(partitions)

    # Records out

    async def poll(
        self,
        timeout_s: float = 0.0,
        *,
        max_records: int | None = None,
        partitions: Iterable[PartitionGiven] | None = None,
    ) -> list[PartitionRecords[K, V]]:
        """Return records as soon as there are some, or an empty list after `timeout_s`. Time that a
        deserializer waits, for a schema say, is not included.

        Returns at most `max_records`, by default `max.poll.records`. Raises the error that keeps a
        partition from being read (KafkaError or CorruptRecord, with topic, partition and offset) or
        the member out of its group. RuntimeError if nothing is subscribed or assigned. The records
        of the last poll count as processed: they may be committed now.

        `partitions` limits the poll to these; others are still fetched, for a later poll.
        KafkaError for a partition that is not assigned, or whose topic is not subscribed.
        """
        if max_records is None:
            max_records = self.settings[own_rows.max_poll_records]
        elif max_records.__class__ is not int or max_records < 1:
            max_records = arguments.positive(max_records, "max_records")
        if timeout_s.__class__ is not float or not timeout_s >= 0:
            timeout_s = seconds(timeout_s, "timeout_s")
        self._reader.check()
        chosen = None if partitions is None else _chosen_in(partitions)
        return await self._reader.records(timeout_s, max_records, chosen)

    async def poll_batches(
        self,
        timeout_s: float = 0.0,
        *,
        max_records: int = _COLUMNS_MAX,
        partitions: Iterable[PartitionGiven] | None = None,
    ) -> list[PartitionColumns]:
        """Poll like `poll`, and return offsets, timestamps, keys, values and headers as columns in
        buffers: many times cheaper if you need no record objects.

        Batches are returned whole: the last one may exceed `max_records`. Keys and values are raw
        bytes; no deserializer runs. ValueError with interceptors, as these need records.
        """
        arguments.positive(max_records, "max_records")
        timeout_s = seconds(timeout_s, "timeout_s")
        self._reader.check()
        if self._interceptors:
            raise ValueError("interceptors look at records, and poll_batches makes none: use poll")
        chosen = None if partitions is None else _chosen_in(partitions)
        return await self._reader.columns(timeout_s, max_records, chosen)

    async def getone(
        self, partitions: Iterable[PartitionGiven] | None = None
    ) -> ConsumerRecord[K, V]:
        """Return the next record, of `partitions` if any are given. It counts as processed at the
        next request for records. Raise ClientClosed if the consumer is closed meanwhile."""
        async for part in self.batches(max_records=1, partitions=partitions):
            return part.records[0]
        raise closed("consumer")

    async def getmany(
        self,
        partitions: Iterable[PartitionGiven] | None = None,
        *,
        timeout_s: float = 0.0,
        max_records: int | None = None,
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """Poll like `poll`, and return a list of whole records for each partition."""
        found: dict[TopicPartition, list[ConsumerRecord[K, V]]] = {}
        for part in await self.poll(timeout_s, max_records=max_records, partitions=partitions):
            where = TopicPartition(part.topic, part.partition)
            found.setdefault(where, []).extend(part.records)
        return found

    def batches(
        self, *, max_records: int | None = None, partitions: Iterable[PartitionGiven] | None = None
    ) -> PartStream[K, V]:
        """Iterate over parts of one partition each, until the consumer is closed. You may leave the
        loop and start again. A commit inside covers the current part and those before it.
        `partitions` limits it as in `poll`."""
        chosen = None if partitions is None else _chosen_in(partitions)
        if max_records is None:
            return PartStream(self._reader, self.settings[own_rows.max_poll_records], chosen=chosen)
        arguments.positive(max_records, "max_records")
        return PartStream(self._reader, max_records, part_max=max_records, chosen=chosen)

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[K, V]]:
        """Iterate over single records until the consumer is closed. You may leave the loop and
        start again. A commit inside covers the current record and those before it."""
        return RecordStream(self._reader, self.settings[own_rows.max_poll_records])

    # Offsets

    async def commit(
        self, offsets: OffsetsGiven | None = None, *, timeout_s: float | None = None
    ) -> None:
        """Store the group's offsets: after all returned records, or these offsets (each a number or
        an `OffsetAndMetadata`: the offset of the next record to read).

        Returns when the offsets are stored. KafkaError names the partition. It is also raised in a
        transaction that commits this consumer's offsets (`Producer.transaction(consumer)`).
        """
        await self._require_group("commit").commits.commit(offsets, timeout_s=timeout_s)

    def commit_soon(self, offsets: OffsetsGiven | None = None) -> asyncio.Task[None]:
        """Commit like `commit`, without waiting. Errors are raised only if you await the task. The
        offsets are those of now, and commits are stored in the order of the calls."""
        return self._require_group("commit").commits.commit_soon(offsets)

    async def committed(
        self, partitions: Partitions | None = None, *, timeout_s: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets of these partitions, or of all assigned ones; None
        where nothing is committed."""
        group = self._require_group("ask for committed offsets")
        return await group.commits.committed(self._chosen(partitions), timeout_s=timeout_s)

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that `commit` would store now."""
        return self._core.progress.consumed()

    def group_metadata(self) -> GroupMetadata:
        """Return this member's identity in its group, for a transactional producer."""
        return metadata_of_given(self._core, self._require_group("know its group's metadata"))

    def enforce_rebalance(self, reason: str = "the application asked for it") -> bool:
        """Ask the group to rebalance, during the next polls. The coordinator gets the start of
        `reason`. Return False with group.protocol=consumer: only the coordinator decides."""
        reason = text_of(str_of(reason, "reason")[:_REASON_CHARS_MAX], "reason")
        return self._require_group("rebalance").enforce_rebalance(reason)

    @property
    def member_id(self) -> str:
        """This consumer's member id in its group; empty while it is not a member."""
        return "" if self._group is None else self._group.member_id

    def _in_transactions(self) -> TransactionalProgress:
        """Leave the commits to a producer's transactions, from the first call on."""
        return in_transactions(self._fetcher, self._require_group("commit in a transaction"))

    def _require_group(self, what: str) -> ConsumerGroup:
        self._check_open()
        if self._group is None:
            raise KafkaError(
                ErrorCode.INVALID_GROUP_ID,
                f"to {what}, a consumer needs a group",
                setting="group.id",
            )
        return self._group

    def _check_open(self) -> None:
        if self._is_closed or self._cluster.is_closed:  # `_cluster` exists from the start on
            raise closed("consumer")
        self._cluster.check_loop()


def _core(
    cluster: Cluster, lock: AbstractContextManager[object], *, has_group: bool
) -> ConsumerCore:
    settings, backoff, random = cluster.settings, cluster.backoff, cluster.runtime.random
    partition_bytes = max(1, settings[own_rows.max_partition_fetch_bytes])
    policy = ReadPolicy(
        parse_reset(settings[own_rows.auto_offset_reset]),
        partition_bytes,
        lambda failures: backoff.wait_s(failures, random),
        replica_s=settings[metadata_max_age_ms] / 1000,
        is_committed=settings[own_rows.isolation_level] == "read_committed",
        check_crcs=settings[own_rows.check_crcs],
    )
    memory_bytes, fetch_bytes = settings[own_rows.buffer_memory], settings[own_rows.fetch_max_bytes]
    fetches = BrokerFetches(FetchRoom(memory_bytes, fetch_bytes, partition_bytes))
    missing = MissingTopics(may_be_made=settings[own_rows.allow_auto_create_topics])
    metadata = cluster.metadata
    return ConsumerCore(policy, fetches, metadata, missing, lock=lock, has_group=has_group)


def _chosen_in(partitions: Partitions) -> frozenset[TopicPartition]:
    """Return the partitions as a set. ValueError if empty: such a poll would never end."""
    chosen = frozenset(arguments.partitions_in(partitions))
    if not chosen:
        raise ValueError("partitions is empty: leave it out to poll all that are assigned")
    return chosen
