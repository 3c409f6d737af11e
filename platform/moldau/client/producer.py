"""The producer: records in, acknowledged by the cluster or failed with a reason.

    async with Producer(bootstrap_servers="localhost:9092") as producer:
        sent = await (await producer.send("orders", b"value", key=b"key"))
        await producer.send_many("orders", values)
        await producer.flush()

`send` returns when the record is in a batch, which it is at once unless memory or metadata is
missing; what it gives can be awaited for the outcome. Idempotent unless the settings say otherwise.

Invariants: everything that was accepted is acknowledged or failed within `delivery.timeout.ms`; a
failure that nobody awaits is raised by the next `flush` or `aclose`; records of one partition keep
their order. A record goes through interceptors and serializers (`pipeline`), is given a partition
(`partitioner`) and appended to a batch (`accumulator`), which goes out by itself (`sender`).

`send` has two ways. The usual record (bytes, no interceptor, a batch with room) takes the short
one, because a call more costs more than the append; everything else takes `_prepare` and `_place`,
which do the same in pieces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import repeat
from typing import Any, Final, Self, Unpack, cast

from moldau.client import common_settings as common_rows
from moldau.client import producer_settings as own_rows
from moldau.client import settings as rows
from moldau.client.accumulator import Accumulator, Clocks, Options
from moldau.client.batches import Batch, PartitionQueue
from moldau.client.cluster import Cluster
from moldau.client.columns import Columns, from_arrow, is_arrow
from moldau.client.common_settings import Given
from moldau.client.delivery import AwaitedBatch, Deliveries, Delivery
from moldau.client.metadata import TopicPartition
from moldau.client.outgoing import OutgoingTopic
from moldau.client.partitioner import Loads, Partitioner, RecordPartitioner, load_partitioner
from moldau.client.pipeline import Pipeline, Prepared, Telling, load_interceptors
from moldau.client.producer_metrics import METADATA_WAIT, ProducerMetrics
from moldau.client.producer_record import (
    OnDelivery,
    ProducerInterceptor,
    ProducerRecord,
    SendOptions,
)
from moldau.client.runs import Rows, Run, Values
from moldau.client.sender import Sender, Turn
from moldau.client.serdes import settings as serde_rows
from moldau.client.world import World, closing_unless_ready
from moldau.config import Settings
from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.metrics import Registry
from moldau.records import Codec, Headers, Row
from moldau.runtime import Runtime

_NO_HEADERS: Final[Headers] = ()
_Parts = list[tuple[Batch, int, int]]


class Producer:
    """Writes records to topics. Belongs to the event loop that it was started in."""

    accumulator_type: type[Accumulator] = Accumulator
    sender_type: type[Sender] = Sender

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        runtime: Runtime | None = None,
        interceptors: Sequence[ProducerInterceptor] = (),
        **options: object,
    ) -> None:
        """`settings` by Kafka's names, `options` the same with underscores: these win. Serializers,
        `partitioner.class` and `interceptor.classes` may be objects as well as names."""
        self._given = Given(
            settings or {},
            options,
            objects=own_rows.OBJECTS,
            without_meaning=own_rows.WITHOUT_MEANING,
        )
        self.settings = rows.resolve(rows.PRODUCER_SETTINGS, self._given.settings, {})
        self._given_interceptors = tuple(interceptors)
        self._world = World(runtime)
        self._options = _accumulator_options(self.settings)
        self._topics: dict[str, OutgoingTopic] = {}
        self._usual: dict[str, OutgoingTopic] = {}  # the same while records go the short way
        self._pipeline = Pipeline()
        self._partitioner: RecordPartitioner | None = None
        self._serdes: list[tuple[object, object]] = []
        self._ignores_keys = self.settings[own_rows.partitioner_ignore_keys]

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.aclose(abort=kind is not None)

    async def start(self) -> None:
        """Connects; KafkaError when no bootstrap server can be reached, ConfigError for a
        serializer, partitioner or interceptor that cannot be had."""
        self._given.tell("producer", self.settings)
        runtime = self._world.enter()
        settings = self.settings
        self._runtime = runtime
        self._clock = runtime.clock
        self._monotonic_ns = runtime.clock.monotonic_ns
        self._metadata_at = runtime.clock.monotonic()
        self._metrics = ProducerMetrics(
            runtime.clock,
            settings[common_rows.metrics_sample_window_ms] / 1000,
            settings[common_rows.metrics_num_samples],
        )
        self._cluster = Cluster(runtime, settings, creates_topics=True)
        self._cluster.on_update = self._metadata_came
        self._accumulator = self.accumulator_type(
            self._options, self._cluster.backoff, runtime.random
        )
        self._accumulator.batch_type = AwaitedBatch
        self._accumulator.on_sealed = self._sealed
        self._accumulator.clocks = Clocks(self._monotonic_ns, runtime.clock.wall_ms)
        self._sender = self.sender_type(
            runtime, self._cluster, self._accumulator, self._metrics, settings
        )
        self._declare_metrics()
        async with closing_unless_ready(partial(self.aclose, abort=True)):
            self._load()
            await self._cluster.refresh()

    def _load(self) -> None:
        """What settings name: partitioner, interceptors, serializers."""
        given, settings = self._given, self.settings
        partitioner = given.of(own_rows.partitioner_class, settings)
        self._partitioner = None if partitioner is None else load_partitioner(partitioner)
        named = given.of(common_rows.interceptor_classes, settings)
        interceptors = [*load_interceptors(named), *load_interceptors(self._given_interceptors)]
        serializers = []
        for row in (serde_rows.key_serializer, serde_rows.value_serializer):
            chosen = given.of(row, settings)
            serializer = None
            if chosen is not None:
                from moldau.client.serdes.resolve import resolve_serializer

                is_key = row is serde_rows.key_serializer
                serializer = resolve_serializer(
                    chosen, settings, is_key=is_key, runtime=self._runtime
                )
                self._serdes.append((chosen, serializer))
            serializers.append(serializer)
        self._pipeline = Pipeline(interceptors, *serializers)

    # Records in

    async def send(
        self,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        headers: Headers = _NO_HEADERS,
        partition: int | None = None,
        **options: Unpack[SendOptions],
    ) -> Delivery:
        """Puts a record on its way. Key and value are bytes or None, unless there is a serializer.

        `timestamp_ms` is now, if not given; `on_delivery(sent, error)` is called with the outcome.
        KafkaError when it cannot be sent: no such topic or partition, too large, no memory within
        `max.block.ms`. SerializationFailed when a serializer refuses it.
        """
        known = self._usual.get(topic)
        if known is not None and partition is None and not options:
            try:
                if key is None:
                    queue = known.sticky
                else:
                    queue = known.queues[known.partitioner.of_key(key)]
                batch = queue.open
                if batch is not None:
                    delivery: Delivery | None = batch.place(key, value, headers)
                    if delivery is not None:
                        return delivery
                    self._accumulator.seal(queue)
                    if self._sender.filled():
                        await asyncio.sleep(0)
            except TypeError as error:
                raise no_bytes(error) from None
        record = ProducerRecord(topic, value, key, headers, options.get("timestamp_ms"), partition)
        return await self._send(record, options.get("on_delivery"))

    async def _send(self, record: ProducerRecord, on_delivery: OnDelivery | None) -> Delivery:
        """The long way, for any record."""
        prepared = self._pipeline.prepare(record, on_delivery)
        if isinstance(prepared, Awaitable):
            prepared = await prepared
        record = prepared.record
        waited: Turn | None = None
        with Telling(self._pipeline, record):
            while True:
                known = self._taken(record.topic, prepared.partition)
                if known is None:
                    known = await self._learn(record.topic, prepared.partition)
                prepared = self._assigned(known, prepared)
                delivery = self._place(known, prepared, waited)
                if delivery is not None:
                    break
                waited = await self._sender.wait_for_room(waited)
        if self._sender.presses:
            await asyncio.sleep(0)
        return delivery

    def _taken(self, topic: str, partition: int | None) -> OutgoingTopic | None:
        """The topic if it is known, with that partition. To be asked for again after each wait: an
        idle one is forgotten."""
        known = self._topics.get(topic)
        if known is None or (partition or 0) >= len(known.queues):
            return None
        known.used_at = self._clock.monotonic()
        return known

    def _assigned(self, known: OutgoingTopic, prepared: Prepared) -> Prepared:
        """With the partition that `partitioner.class` chooses, if it is to choose."""
        if self._partitioner is None or prepared.partition is not None:
            return prepared
        topic = self._cluster.metadata.topics[known.name]
        record, key, value = prepared.record, prepared.key, prepared.value
        chosen = self._partitioner.partition(record, key, value, topic)
        if not 0 <= chosen < len(topic.partitions):
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "partitioner.class chose a partition that there is not",
                topic=known.name,
                partition=chosen,
                partitions=len(topic.partitions),
                partitioner=type(self._partitioner).__name__,
            )
        return prepared._replace(partition=chosen)

    def _place(
        self, known: OutgoingTopic, prepared: Prepared, waited: Turn | None
    ) -> Delivery | None:
        """Appends the record to a batch; None, and nothing has happened, while there is no room."""
        self._sender.check_open()
        stamp = prepared.record.timestamp_ms
        if stamp is None:
            stamp = self._clock.wall_ms()
        key, value, headers = prepared.key, prepared.value, prepared.headers
        try:
            while True:
                queue = self._choose(known, key, prepared.partition)
                batch = queue.open
                index = None if batch is None else batch.append(stamp, key, value, headers)
                if batch is not None and index is not None:
                    break
                if batch is not None:
                    self._accumulator.seal(queue)
                    self._sender.filled()
                    continue
                if not self._sender.may_begin(waited):
                    return None
                now = self._clock.monotonic()
                batch = self._accumulator.begin(queue, now, stamp, key, value, headers)
                index = 0
                self._begun(known, queue, now)
                break
        except TypeError as error:
            raise no_bytes(error) from None
        self._pipeline.watch(prepared, batch, index)
        return Delivery(batch, index)

    def _choose(
        self, known: OutgoingTopic, key: bytes | None, partition: int | None
    ) -> PartitionQueue:
        if partition is None:
            if key is None or self._ignores_keys:
                return known.sticky
            partition = known.partitioner.of_key(key)
        elif not 0 <= partition < len(known.queues):
            self._cluster.metadata.check(TopicPartition(known.name, partition))
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic=known.name, partition=partition
            )
        return known.queues[partition]

    def _begun(self, known: OutgoingTopic, queue: PartitionQueue, now: float) -> None:
        known.used_at = now
        self._sender.begun(queue)

    def _sealed(self, queue: PartitionQueue, batch: Batch) -> None:
        known = self._topics.get(queue.where.topic)
        if known is not None:
            known.sealed(queue, batch)

    # Many records in

    async def send_many(
        self,
        topic: str,
        values: Any,
        *,
        keys: Any = None,
        headers: Sequence[Headers] | None = None,
        timestamps_ms: int | Sequence[int | None] | None = None,
        partition: int | Sequence[int | None] | None = None,
    ) -> Deliveries:
        """As `send` for many records, several times as fast.

        `values` (and what is given beside them) are sequences of one length; or Arrow arrays; or
        one Arrow table that has the columns value and maybe key, headers, timestamp and partition.
        A KafkaError says in `accepted` how many of them are on their way all the same, a TypeError
        in a note.
        """
        columns = Columns(values, keys, headers, timestamps_ms, partition)
        if is_arrow(values) or is_arrow(keys):
            columns = from_arrow(columns)
        parts: _Parts = []
        try:
            if self._partitioner is not None or self._pipeline.interceptors:
                await self._send_each(topic, columns, parts)
            else:
                if not self._pipeline.is_empty:
                    columns = await self._serialized(topic, columns)
                await self._send_columns(topic, columns, parts)
        except MoldauError as error:
            found = copy(error)
            accepted = sum(part[2] for part in parts)
            found.context = {**error.context, "accepted": accepted, "records": len(columns.values)}
            raise found from error.__cause__ or error
        except TypeError as error:
            accepted = sum(part[2] for part in parts)
            error.add_note(f"{accepted} of these records are on their way")
            raise
        return Deliveries(parts)

    async def _send_each(self, topic: str, columns: Columns, parts: _Parts) -> None:
        """For interceptors and partitioners, which want to see every record."""
        columns = columns.as_lists()
        count = len(columns.values)
        rows_ = _zipped(columns, _each(columns.timestamps_ms, count))
        partitions = _each(columns.partition, count)
        for (stamp, key, value, its_headers), partition in zip(rows_, partitions, strict=True):
            record = ProducerRecord(topic, value, key, its_headers, stamp, partition)
            delivery = await self._send(record, None)
            batch, index = delivery.batch, delivery.index
            if parts and parts[-1][0] is batch and sum(parts[-1][1:]) == index:
                parts[-1] = (batch, parts[-1][1], parts[-1][2] + 1)
            else:
                parts.append((batch, index, 1))

    async def _serialized(self, topic: str, columns: Columns) -> Columns:
        serialize = partial(self._pipeline.serialize_many, turn=partial(asyncio.sleep, 0))
        columns = columns.as_lists()
        values = await serialize(topic, cast("Sequence[Any]", columns.values), is_key=False)
        keys = columns.keys
        if keys is not None:
            keys = await serialize(topic, cast("Sequence[Any]", keys), is_key=True)
        return columns._replace(values=values, keys=keys)

    async def _send_columns(self, topic: str, columns: Columns, parts: _Parts) -> None:
        partition = columns.partition
        known = self._topics.get(topic)
        wanted = partition if isinstance(partition, int) else _largest(partition)
        if known is None or wanted >= len(known.queues):
            known = await self._learn(topic, wanted)
        now_ms = self._clock.wall_ms()
        if isinstance(partition, int) or (
            partition is None and (columns.keys is None or self._ignores_keys)
        ):
            queue = None if partition is None else self._choose(known, None, partition)
            for run in _runs(columns, now_ms):
                await self._send_run(known, queue, run, parts)
            return
        rows_ = _rows(columns.as_lists(), now_ms)
        if partition is None:
            await self._send_keyed(known, rows_, parts)
        else:
            await self._send_placed(known, rows_, partition, parts)

    async def _send_placed(
        self,
        topic: OutgoingTopic,
        records: list[Row],
        partitions: Sequence[int | None],
        parts: _Parts,
    ) -> None:
        of_key = topic.partitioner.of_key
        by_partition: dict[int, list[Row]] = {}
        free = []
        try:
            for row, partition in zip(records, partitions, strict=True):
                key = row[1]
                if partition is not None:
                    by_partition.setdefault(partition, []).append(row)
                elif key is None or self._ignores_keys:
                    free.append(row)
                else:
                    by_partition.setdefault(of_key(key), []).append(row)
        except TypeError as error:
            raise no_bytes(error) from None
        for index in by_partition:  # all of them are there before the first is used
            self._choose(topic, None, index)
        for index, chosen in by_partition.items():
            await self._send_run(topic, topic.queues[index], Rows(chosen), parts)
        await self._send_run(topic, None, Rows(free), parts)

    async def _send_keyed(self, topic: OutgoingTopic, records: list[Row], parts: _Parts) -> None:
        of_key = topic.partitioner.of_key
        by_partition: list[list[Row]] = [[] for _ in range(topic.partitioner.count)]
        keyless = []
        try:
            for row in records:
                key = row[1]
                if key is None or self._ignores_keys:
                    keyless.append(row)
                else:
                    by_partition[of_key(key)].append(row)
        except TypeError as error:
            raise no_bytes(error) from None
        for queue, chosen in zip(topic.queues, by_partition, strict=False):
            await self._send_run(topic, queue, Rows(chosen), parts)
        await self._send_run(topic, None, Rows(keyless), parts)

    async def _send_run(
        self, topic: OutgoingTopic, queue: PartitionQueue | None, run: Run, parts: _Parts
    ) -> None:
        """Into one partition's batches; without one, into those where records without key go."""
        start = 0
        while start < len(run):
            part = await self._extend(topic, queue or topic.sticky, run, start)
            parts.append(part)
            start += part[2]

    async def _extend(
        self, topic: OutgoingTopic, queue: PartitionQueue, run: Run, start: int
    ) -> tuple[Batch, int, int]:
        """Appends what one batch takes: the batch, the index of the first, how many."""
        self._sender.check_open()
        now = self._clock.monotonic()
        waited: Turn | None = None
        while (part := self._fill(queue, now, run, start, waited)) is None:
            waited = await self._sender.wait_for_room(waited)
            self._sender.check_open()
            now = topic.used_at = self._clock.monotonic()
        if part[1] == 0:
            self._begun(topic, queue, now)
        if start + part[2] < len(run):  # it is full
            self._accumulator.seal(queue)
            if self._sender.filled():
                await asyncio.sleep(0)
        return part

    def _fill(
        self, queue: PartitionQueue, now: float, run: Run, start: int, waited: Turn | None
    ) -> tuple[Batch, int, int] | None:
        if queue.open is None and not self._sender.may_begin(waited):
            return None
        try:
            return self._accumulator.extend(queue, now, run, start)
        except TypeError as error:
            raise no_bytes(error) from None

    # Topics

    async def partitions(self, topic: str) -> list[TopicPartition]:
        """The partitions that the topic has now; KafkaError if there is no such topic within
        `max.block.ms`."""
        known = await self._learn(topic)
        return [queue.where for queue in known.queues]

    async def _learn(self, name: str, partition: int | None = None) -> OutgoingTopic:
        """The topic, with that partition if it has come into being lately."""
        self._sender.check_open()
        start_ns = self._monotonic_ns()
        try:
            found = await self._cluster.topic(
                name, timeout_s=self.settings[rows.max_block_ms] / 1000
            )
            if partition is not None and partition >= len(found.partitions):
                await self._cluster.refresh()
                found = self._cluster.metadata.topics.get(name, found)
        except KafkaError as error:
            context = {"topic": name, **error.context, "setting": "max.block.ms"}
            raise KafkaError(error.code, error.reason, **context) from error
        finally:
            self._metrics.spent(METADATA_WAIT, start_ns)
        known = self._topics.get(name)
        if known is None:
            known = OutgoingTopic(found, self._accumulator)
            known.choose_by(
                Partitioner(
                    found,
                    max(1, self._options.batch_bytes),
                    self._runtime.random,
                    Loads(known.waiting, self._is_stuck if self._minds_stuck else None),
                    is_adaptive=self.settings[own_rows.partitioner_adaptive],
                )
            )
            self._topics[name] = known
            if self._pipeline.is_empty and self._partitioner is None and not self._ignores_keys:
                self._usual[name] = known
        elif len(known.queues) < len(found.partitions):
            known.update(found)
        known.used_at = self._clock.monotonic()
        return known

    @property
    def _minds_stuck(self) -> bool:
        return self.settings[own_rows.partitioner_availability_timeout_ms] > 0

    def _is_stuck(self, node_id: int) -> bool:
        after_ms = self.settings[own_rows.partitioner_availability_timeout_ms]
        now = self._clock.monotonic()
        return self._accumulator.is_stuck(node_id, now, after_ms / 1000)

    def _metadata_came(self) -> None:
        self._metadata_at = self._clock.monotonic()
        idle_since = self._metadata_at - self.settings[own_rows.metadata_max_idle_ms] / 1000
        for known in list(self._topics.values()):
            found = self._cluster.metadata.topics.get(known.name)
            is_idle = known.used_at < idle_since and not self._sender.waiting
            if is_idle and all(queue.is_empty for queue in known.queues):
                del self._topics[known.name]
                self._usual.pop(known.name, None)
                self._cluster.unwatch([known.name])
            elif found is not None:
                known.update(found)
        self._sender.drain_soon()

    # What is going on

    def troubles(self) -> dict[TopicPartition, KafkaError]:
        """What keeps records from being acknowledged at present: by partition, what its oldest
        batch was refused with and waits to be tried again after, or why its broker cannot be
        reached. Empty when all goes well."""
        return self._sender.troubles()

    def metrics(self) -> dict[str, dict[str, float]]:
        """Kafka's metrics of a producer, by group and name:
        `metrics()["producer-metrics"]["record-send-rate"]`."""
        return self._metrics.kafka_metrics()

    @property
    def registry(self) -> Registry:
        """The same for exporters (`moldau.metrics.render_prometheus`)."""
        return self._metrics.registry

    def _declare_metrics(self) -> None:
        accumulator = self._accumulator
        gauge = self._metrics.gauge
        memory = float(self._options.memory_bytes)
        gauge("buffer-total-bytes", "Bytes that records may take: buffer.memory.", lambda: memory)
        gauge(
            "buffer-available-bytes",
            "Bytes of them that are free.",
            lambda: max(0.0, memory - accumulator.used_bytes),
        )
        sender, clock = self._sender, self._clock
        gauge("waiting-threads", "Sends that wait for memory.", lambda: sender.waiting)
        gauge("requests-in-flight", "Requests without an answer.", lambda: sender.in_flight)
        gauge("connection-count", "Brokers with a connection.", lambda: sender.connections)
        gauge(
            "metadata-age",
            "Seconds since metadata came.",
            lambda: clock.monotonic() - self._metadata_at,
        )

    # The end

    async def flush(self) -> None:
        """Returns when everything sent before is acknowledged. KafkaError for the first record
        that failed since the last flush and whose delivery nobody awaits."""
        await self._sender.flush()

    async def aclose(self, *, abort: bool = False) -> None:
        """Flushes (with `abort`: fails what is not sent) and closes. May be called again."""
        if not hasattr(self, "_sender") or self._sender.is_closed:
            return
        try:
            self._sender.is_closing = True
            if not abort:
                await self.flush()
        finally:
            self._sender.close()
            self._pipeline.close()
            for given, serializer in self._serdes:
                from moldau.client.serdes.resolve import close_serde

                await close_serde(given, serializer)
            await self._cluster.aclose()
            await self._world.aclose()
        if not abort:
            self._sender.raise_failure()


def no_bytes(error: TypeError) -> TypeError:
    """Says what would help."""
    return TypeError(
        f"{error}: give bytes, or set key.serializer and value.serializer (string, json, ...)"
    )


def _largest(partitions: Sequence[int | None] | None) -> int:
    return max((each for each in partitions or () if each is not None), default=0)


def _runs(columns: Columns, now_ms: int) -> Sequence[Run]:
    """The records in the order given, however they are held."""
    runs = columns.in_buffers(now_ms)
    if runs is not None:
        return runs
    columns = columns.as_lists()
    if columns.keys is None and columns.is_even:
        stamp = columns.timestamps_ms if isinstance(columns.timestamps_ms, int) else now_ms
        return [Values(stamp, cast("Sequence[Any]", columns.values))]
    return [Rows(_rows(columns, now_ms))]


def _rows(columns: Columns, now_ms: int) -> list[Row]:
    stamps: Iterable[int | None] = _each(columns.timestamps_ms, len(columns.values))
    if columns.timestamps_ms is None:
        stamps = repeat(now_ms, len(columns.values))
    elif not isinstance(columns.timestamps_ms, int):
        stamps = [now_ms if each is None else each for each in stamps]
    return list(_zipped(columns, stamps))


def _zipped(columns: Columns, stamps: Iterable[Any]) -> Iterable[Any]:
    """Timestamp, key, value and headers of each record."""
    count = len(columns.values)
    keys = repeat(None, count) if columns.keys is None else cast("Sequence[Any]", columns.keys)
    headers = repeat(_NO_HEADERS, count) if columns.headers is None else columns.headers
    return zip(stamps, keys, cast("Sequence[Any]", columns.values), headers, strict=True)


def _each(given: int | Sequence[int | None] | None, count: int) -> Iterable[int | None]:
    """One a record."""
    return repeat(given, count) if given is None or isinstance(given, int) else given


def _accumulator_options(settings: Settings) -> Options:
    codec = Codec[settings[rows.compression_type].upper()]
    levels: dict[Codec, Any] = {
        Codec.GZIP: rows.compression_gzip_level,
        Codec.LZ4: rows.compression_lz4_level,
        Codec.ZSTD: rows.compression_zstd_level,
    }
    return Options(
        batch_bytes=settings[rows.batch_size],
        request_bytes=settings[rows.max_request_size],
        memory_bytes=settings[rows.buffer_memory],
        linger_s=settings[rows.linger_ms] / 1000,
        delivery_timeout_s=settings[rows.delivery_timeout_ms] / 1000,
        in_flight_max=settings[rows.max_in_flight],
        is_idempotent=rows.idempotent(settings),
        codec=codec,
        level=settings[levels[codec]] if codec in levels else None,
        retries_max=settings[own_rows.retries],
    )
