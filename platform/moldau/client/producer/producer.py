"""The producer: takes records, and delivers each to the cluster or fails it with a reason.

    async with Producer(bootstrap_servers="localhost:9092") as producer:
        sent = await (await producer.send("orders", b"value", key=b"key"))
        await producer.send_many("orders", values)
        await producer.flush()

`send` returns when the record is in a batch: at once, unless memory or metadata is missing. Await
its return value for the outcome. The producer is idempotent unless the settings say otherwise.

Invariants: every accepted record is acknowledged or failed within `delivery.timeout.ms`; a failure
that is not awaited is raised by the next `flush` or `aclose`; records of one partition keep their
order. A record goes through interceptors and serializers (`pipeline`), gets a partition
(`partitioner`) and is appended to a batch (`accumulator`), which `sender` sends.

`send` has two paths. The usual record (bytes, no interceptor, a batch with room) takes the short
one, because one more call would cost more than the append. Everything else takes `_send` and
`_place`, which do the same in steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Self, SupportsIndex, TypeVar, Unpack, cast

from moldau.client.base.arguments import (
    ByPartition,
    OffsetAndMetadata,
    PartitionGiven,
    flag,
    name_of,
    offsets_to_store,
    partition_of,
)
from moldau.client.base.coordinator import GroupMetadata
from moldau.client.base.given import GivenSettings, resolve
from moldau.client.base.lifecycle import Lifecycle, comes_with_start, reach
from moldau.client.base.notices import not_hiding
from moldau.client.base.user_code import LOG, load_interceptors
from moldau.client.producer.accumulator import Accumulator, Clocks
from moldau.client.producer.buffer import Options
from moldau.client.producer.bulk import BulkSend
from moldau.client.producer.column_buffers import ColumnRun, buffers_in
from moldau.client.producer.columns import Columns, RecordColumns, from_arrow, is_arrow
from moldau.client.producer.delivery import AwaitedBatch, Deliveries, Delivery, Sent
from moldau.client.producer.metrics import ProducerMetrics
from moldau.client.producer.options import ProducerOptions
from moldau.client.producer.partitioner import RecordPartitioner, load_partitioner
from moldau.client.producer.pipeline import ErrorReport, Pipeline, PreparedRecord
from moldau.client.producer.queue import PartitionQueue
from moldau.client.producer.record import (
    NO_RECORD,
    ProducerInterceptor,
    ProducerRecord,
    SendOptions,
    checked,
    no_record,
)
from moldau.client.producer.sender import Sender, Turn
from moldau.client.producer.topics import OutgoingTopic, OutgoingTopics
from moldau.client.producer.transaction_block import WORK_AGAIN, Transaction, Work
from moldau.client.producer.transaction_errors import AbortableTransactionError
from moldau.client.producer.transactions import (
    Transactions,
    core_of,
    group_of,
    needed,
    sending,
)
from moldau.client.serdes.contract import SerializerFrom
from moldau.client.settings import every_client as common_rows
from moldau.client.settings import producer as own_rows
from moldau.client.settings import rows
from moldau.client.settings import serdes as serde_rows
from moldau.config import Settings
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.arguments import seconds_at_most, told
from moldau.link.cluster import Cluster
from moldau.link.metadata import TopicPartition
from moldau.metrics import Registry
from moldau.records import Codec, HeadersGiven, K, V
from moldau.runtime import Runtime

if TYPE_CHECKING:
    from moldau.client.consumer.consumer import Consumer

T = TypeVar("T")

_NO_HEADERS: Final[HeadersGiven] = ()
_IN_A_HURRY: Final = (asyncio.CancelledError, KeyboardInterrupt)
"""The exceptions that end a block without waiting for its records."""


class Producer(Generic[K, V]):
    """A Kafka producer, bound to the event loop that starts it.

    `K` and `V` are the types that its serializers take. A type checker infers them from the
    serializers. Write `Producer[str, Order]` if a name selects one.
    """

    _accumulator_type: type[Accumulator] = Accumulator
    _sender_type: type[Sender] = Sender

    _accumulator: Accumulator = comes_with_start("producer")
    _cluster: Cluster = comes_with_start("producer")
    _metrics: ProducerMetrics = comes_with_start("producer")
    _sender: Sender = comes_with_start("producer")

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        runtime: Runtime | None = None,
        interceptors: Sequence[ProducerInterceptor] = (),
        key_serializer: SerializerFrom[K] = None,
        value_serializer: SerializerFrom[V] = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        """Take `settings` by Kafka's names; `options` (underscores for dots) override them.

        A serializer is an object (`moldau.client.serdes`), a function that takes the value, or a
        name as in the settings `key.serializer` and `value.serializer`. By default keys and values
        are bytes. `partitioner.class` and `interceptor.classes` may be objects as well as names.
        """
        serializers = {"key_serializer": key_serializer, "value_serializer": value_serializer}
        self._given = GivenSettings(
            settings or {},
            {**options, **{name: each for name, each in serializers.items() if each is not None}},
            objects=own_rows.OBJECTS,
            without_meaning={**own_rows.WITHOUT_MEANING, **serde_rows.WITHOUT_MEANING},
        )
        self.settings = resolve(rows.PRODUCER_SETTINGS, self._given.settings, {})
        self._given_interceptors = tuple(interceptors)
        self._world = Lifecycle(
            "producer", runtime, lambda: self._sender.unsettled, self._end_short_way
        )
        self._options = _accumulator_options(self.settings)
        self._usual: dict[str, OutgoingTopic] = {}
        self._pipeline = Pipeline()
        self._partitioner: RecordPartitioner | None = None
        self._serdes: list[tuple[object, object]] = []
        self._begun: Sender | None = None
        """Its sender, from `start` on."""
        self._is_given_up = False
        self._transactions: Transactions | None = None

    def __repr__(self) -> str:
        return self._world.shown(self, self.settings)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Deliver the accepted records, then close.

        The same happens if an exception, `sys.exit()` or a generator's end ends the block, as
        with Java's try-with-resources; a delivery that fails then is only logged, so that it does
        not hide that exception. After a cancellation or Ctrl-C nothing is waited for: the records
        that are left fail, and their number is logged.
        """
        with not_hiding(kind, "producer"):
            try:
                await self.aclose(abort=kind is not None and issubclass(kind, _IN_A_HURRY))
            except KafkaError as error:
                if kind is None:
                    raise
                words = "producer: closed by %s, not all was delivered: %s"
                LOG.warning(words, kind.__name__, error)

    async def start(self) -> None:
        """Connect. Raise KafkaError if no bootstrap server can be reached, ConfigError if a
        serializer, partitioner or interceptor cannot be loaded, ClientClosed after a close. A
        second call does nothing."""
        async with self._world.opening(partial(self._close, abort=True)) as is_new:
            if is_new:
                _tell(self._given, self.settings)
                self._begin()
                self._load()
                await reach(self._cluster, "producer")
                if self._transactions is not None:
                    await self._transactions.open()

    def _begin(self) -> None:
        runtime = self._world.enter()
        settings = self.settings
        self._runtime = runtime
        self._clock = runtime.clock
        self._metrics = ProducerMetrics(
            runtime.clock,
            settings[common_rows.metrics_sample_window_ms] / 1000,
            settings[common_rows.metrics_num_samples],
        )
        self._cluster = self._world.cluster = Cluster(
            runtime, settings, creates_topics=True, tokens=self._given.objects.get("oauth")
        )
        core = core_of(settings, self._cluster)
        batch_type = partial(AwaitedBatch, asyncio.get_running_loop())
        clocks = Clocks(runtime.clock.monotonic_ns, runtime.clock.wall_ms)
        self._accumulator = self._accumulator_type(
            self._options, self._cluster.backoff, runtime.random, core, batch_type, clocks
        )
        on_step = None if core is None else self._on_step
        self._sender = self._sender_type(
            runtime, self._cluster, self._accumulator, self._metrics, settings, on_step
        )
        self._begun = self._sender
        self._topics = OutgoingTopics(
            settings, runtime, self._cluster, self._accumulator, self._sender, self._metrics
        )
        self._bulk = partial(
            BulkSend,
            topics=self._topics,
            accumulator=self._accumulator,
            sender=self._sender,
            clock=self._clock,
        )
        self._cluster.on_update = self._topics.on_metadata
        self._usual = self._topics.usual
        if core is not None:
            self._transactions = Transactions(
                runtime,
                self._cluster,
                self._accumulator,
                self._sender,
                self._on_gate,
                settings[own_rows.max_block_ms] / 1000,
            )
            self._on_gate()
        _declare_metrics(self._metrics, self._accumulator, self._sender, self._topics)
        self._is_given_up = False

    def _on_gate(self) -> None:
        """Let `send` take the short path in a transaction only. The long one raises the error."""
        assert self._transactions is not None
        self._usual = self._topics.usual if self._transactions.core.takes_records else {}

    def _on_step(self) -> None:
        """The sender has done a step."""
        assert self._transactions is not None
        self._transactions.on_step()

    def _end_short_way(self) -> None:
        """Make every `send` take the long path, which raises the error of an ended producer."""
        self._usual = {}

    def _load(self) -> None:
        """Load the partitioner, the interceptors and the serializers that settings name."""
        given, settings = self._given, self.settings
        partitioner = given.of(own_rows.partitioner_class, settings)
        self._partitioner = None if partitioner is None else load_partitioner(partitioner)
        named = given.of(common_rows.interceptor_classes, settings)
        interceptors = [*named, *self._given_interceptors]
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
        made = load_interceptors(interceptors, ProducerInterceptor)
        self._pipeline = Pipeline(made, *serializers, lent=interceptors)
        is_plain = self._pipeline.is_empty and self._partitioner is None
        self._topics.has_short_way = is_plain and not self._topics.ignores_keys

    # Records in

    async def send(
        self,
        topic: str,
        value: V | None,
        *,
        key: K | None = None,
        headers: HeadersGiven = _NO_HEADERS,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        **options: Unpack[SendOptions],
    ) -> Delivery:
        """Put a record into a batch and return its delivery. Key and value are bytes or None,
        unless there is a serializer.

        `timestamp_ms` is now by default. `on_delivery(sent, error)` is called with the outcome.
        Raise KafkaError if the topic or partition does not exist, the record is too large, or no
        memory is free within `max.block.ms`; SerializationFailed if a serializer fails.
        """
        try:
            known = self._usual.get(topic)
            if known is not None and partition is timestamp_ms is None and not options:
                if key is None:
                    queue = known.sticky
                else:
                    index = known.partitioner.of_key(key)  # type: ignore[arg-type]  # it is bytes
                    queue = known.queues[index]
                batch = queue.open
                if batch is None:
                    self._cluster.check_loop()
                    if not self._sender.presses and self._sender.may_begin(None):
                        return self._place_first(known, queue, None, key, value, headers)
                else:
                    place = batch.place  # an attribute: to call it as a method takes longer
                    delivery: Delivery | None = place(key, value, headers)
                    if delivery is not None:
                        return delivery
                    self._accumulator.full(queue)
                    if self._sender.filled():
                        await asyncio.sleep(0)  # it is not placed yet: this may be cancelled
                    elif queue.open is batch and (key is not None or queue is known.sticky):
                        delivery = batch.place(key, value, headers)
                        if delivery is not None:
                            return delivery
        except NO_RECORD as error:
            name_of(topic, "topic")
            found = no_record(error, topic, (0, key, value, headers))
            if self._transactions is not None:
                raise self._transactions.refused(found) from None
            raise found from None
        return await self._send(
            ProducerRecord(topic, value, key, headers, timestamp_ms, partition), options
        )

    async def send_and_wait(
        self,
        topic: str,
        value: V | None,
        *,
        key: K | None = None,
        headers: HeadersGiven = _NO_HEADERS,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Sent:
        """Send a record, and return its place in the log after the broker has acknowledged it."""
        delivery = await self.send(
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
        )
        return await delivery

    def _send(self, record: ProducerRecord, options: SendOptions) -> Coroutine[Any, Any, Delivery]:
        """Send any record, by the long path."""
        if self._transactions is None:
            return self._deliver(record, options)
        return self._transactions.during(self._deliver(record, options))

    async def _deliver(self, record: ProducerRecord, options: SendOptions) -> Delivery:
        record, on_delivery = checked(record, options)
        self._cluster.check_loop()
        prepared = self._pipeline.prepare(record, on_delivery)
        if isinstance(prepared, Awaitable):
            prepared = await prepared
        record = prepared.record
        waited: Turn | None = None
        until = self._sender.patience()
        with ErrorReport(self._pipeline, record):
            if self._sender.presses:
                await asyncio.sleep(0)
            while True:
                known = self._topics.find(record.topic, prepared.partition)
                if known is None:
                    known = await self._topics.learn(record.topic, prepared.partition, until)
                prepared = self._assigned(known, prepared)
                delivery = self._place(known, prepared, waited)
                if delivery is not None:
                    return delivery
                where = self._topics.choose(known, prepared.key, prepared.partition).where
                size_bytes = prepared.size_bytes
                waited = await self._sender.wait_for_room(where, waited, until, size_bytes)

    def _assigned(self, known: OutgoingTopic, prepared: PreparedRecord) -> PreparedRecord:
        """Return the record with the partition from `partitioner.class`, if it has none yet."""
        if self._partitioner is None or prepared.partition is not None:
            return prepared
        topic = known.topic
        record, key, value = prepared.record, prepared.key, prepared.value
        try:
            chosen = self._partitioner.partition(record, key, value, topic)
        except asyncio.CancelledError as error:  # not a cancellation: the call is not awaited
            what = f"{type(self._partitioner).__name__}.partition"
            raise RuntimeError(f"{what} raised CancelledError") from error
        if not isinstance(chosen, SupportsIndex):
            raise TypeError(
                f"{type(self._partitioner).__name__}.partition must give the number of a "
                f"partition, an int, not {told(chosen)}"
            )
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
        self, known: OutgoingTopic, prepared: PreparedRecord, waited: Turn | None
    ) -> Delivery | None:
        """Append the record to a batch. Return None, with nothing changed, if there is no room."""
        self._sender.check_open()
        stamp = prepared.record.timestamp_ms
        if stamp is None:
            stamp = self._clock.wall_ms()
        key = prepared.key
        row = (stamp, key, prepared.value, prepared.headers)
        try:
            while True:
                queue = self._topics.choose(known, key, prepared.partition)
                batch = queue.open
                if batch is None:
                    if not self._sender.may_begin(waited):
                        return None
                    delivery = self._place_first(known, queue, *row)
                    break
                index = batch.append(*row)
                if index is not None:
                    delivery = Delivery(batch, index, stamp)
                    break
                self._accumulator.full(queue)
                self._sender.filled()
        except NO_RECORD as error:
            raise no_record(error, known.name, row) from None
        self._pipeline.watch(prepared, delivery)
        return delivery

    def _place_first(self, known: OutgoingTopic, queue: PartitionQueue, *row: Any) -> Delivery:
        """Begin a new batch with this record: its timestamp (None: now), key, value, headers."""
        self._sender.check_open()
        now = self._clock.monotonic()
        batch = self._accumulator.begin(queue, now, *row)
        known.used_at = now
        self._sender.begun(queue)
        assert batch.builder is not None
        return Delivery(batch, 0, batch.builder.base_timestamp)

    # Many records in

    async def send_many(
        self,
        topic: str,
        values: Any,
        **more: Unpack[RecordColumns],
    ) -> Deliveries:
        """Send many records like `send`, several times as fast.

        `values` and the columns beside them are sequences of one length, or Arrow arrays; or
        `values` is one Arrow table with the column value and optionally key, headers, timestamp and
        partition. The context of a KafkaError has the number of records that are still sent
        (`accepted`), the index of the record that failed (`at`), and the indices of all that are
        not sent (`left`); a TypeError has them in a note.
        """
        self._cluster.check_loop()
        with sending(self._transactions):
            name_of(topic, "topic")
            columns = Columns(values, **more)
            if any(map(is_arrow, columns)):
                columns = from_arrow(columns)
            columns.check()
            many = self._bulk(len(columns.values))
            with many.named_in_errors():
                if self._partitioner is not None or self._pipeline.interceptors:
                    await self._send_each(topic, columns, many)
                    return Deliveries(many.parts)
                if not self._pipeline.is_empty:
                    columns = await _serialized(self._pipeline, topic, columns)
                await many.send_columns(await self._topics.of(topic, columns.partitions), columns)
        return Deliveries(many.parts)

    async def send_batch(self, partition: PartitionGiven, columns: object) -> Deliveries:
        """Send columns in buffers to one partition, with their timestamps and headers.

        They come from `Consumer.poll_batches`, or are an Arrow table with the column value and
        optionally key, headers and timestamp; other columns of a polled table are ignored. Keys and
        values are sent as they are, without a serializer. Errors are as in `send_many`; ValueError
        if the producer has interceptors, which need records.
        """
        self._cluster.check_loop()
        with sending(self._transactions):
            where = partition_of(partition)
            if self._pipeline.interceptors:
                raise ValueError(
                    "interceptors look at records, and send_batch has none: use send_many"
                )
            runs = list(map(ColumnRun, buffers_in(columns, self._clock.wall_ms())))
            many = self._bulk(sum(map(len, runs)))
            with many.named_in_errors():
                topic = self._topics.find(*where) or await self._topics.learn(*where)
                queue = self._topics.choose(topic, None, where.partition)
                await many.send_runs(topic, queue, runs)
        return Deliveries(many.parts)

    async def _send_each(self, topic: str, columns: Columns, many: BulkSend) -> None:
        """Send one by one, for interceptors and partitioners, which need every record. An unknown
        partition is an error before the first record, unless interceptors may change it."""
        if columns.partition is not None and not self._pipeline.interceptors:
            many.check_partitions(await self._topics.of(topic, columns.partitions), columns)
        for stamp, key, value, its_headers, partition in columns.as_lists().each():
            record = ProducerRecord(topic, value, key, its_headers, stamp, partition)
            many.add(await self._send(record, {}))

    # Transactions

    async def begin_transaction(self) -> None:
        """Begin a transaction: what is sent until its end is committed or aborted as one.

        Raise TransactionError, as all calls of this kind: a `RetriableTransactionError` means to
        make the same call again, an `AbortableTransactionError` to call `abort_transaction`, a
        `FatalTransactionError` to close the producer.
        """
        await needed(self._transactions, "begin_transaction").begin()

    async def send_offsets(
        self, offsets: ByPartition[int | OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        """Commit a group's offsets with the transaction: by partition the offset of the record that
        is to be read next. `group` is `Consumer.group_metadata()`: a member that has lost its
        partitions is rejected. Return when the group's coordinator has the offsets."""
        await needed(self._transactions, "send_offsets").send_offsets(
            offsets_to_store(offsets), group_of(group)
        )

    async def commit_transaction(self) -> None:
        """Wait until every record is acknowledged, then commit the transaction.

        Raise AbortableTransactionError if a record or offset has failed. After a cancellation or a
        RetriableTransactionError call it again: it may be committed.
        """
        await needed(self._transactions, "commit_transaction").commit()

    async def abort_transaction(self) -> None:
        """Drop the records that are not sent yet, and abort the transaction."""
        await needed(self._transactions, "abort_transaction").abort()

    def transaction(self, consumer: Consumer[Any, Any] | None = None) -> Transaction:
        """Return a transaction to use in `async with`: committed at the block's end, aborted if the
        block raises.

        With a consumer the offsets of all that it has returned are committed too, so that each
        record counts once; after an abort it reads the same records again. The consumer must have
        a group, and leaves all commits to the transactions. An AbortableTransactionError means that
        it was aborted, by a rebalance for example: begin the next one.
        """
        return Transaction(needed(self._transactions, "transaction"), consumer)

    async def run_transaction(
        self,
        work: Work[T],
        consumer: Consumer[Any, Any] | None = None,
    ) -> T:
        """Await `work(transaction)` in a transaction, again after each AbortableTransactionError
        that may pass, and return its result when one is committed."""
        failures = 0
        while True:
            try:
                async with self.transaction(consumer) as opened:
                    return await work(opened)
            except AbortableTransactionError as error:
                if not error.may_pass:
                    raise
                LOG.warning(WORK_AGAIN, error)
            failures += 1
            await self._cluster.pause(failures)

    # What is going on

    async def partitions(self, topic: str) -> list[TopicPartition]:
        """Return the topic's partitions. KafkaError if it is not found in `max.block.ms`."""
        self._cluster.check_loop()
        known = await self._topics.learn(topic)
        return [queue.where for queue in known.queues[: known.count]]

    @property
    def blind_for(self) -> KafkaError | None:
        """The error of the last metadata request; None if a broker has answered."""
        return self._cluster.blind_for

    def troubles(self) -> dict[TopicPartition, KafkaError]:
        """Return why records cannot be acknowledged at present: by partition the error that its
        oldest batch is to be retried after, or why its broker is unreachable. Empty if all is
        well."""
        return self._accumulator.troubles()

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return Kafka's producer metrics by group and name:
        `metrics()["producer-metrics"]["record-send-rate"]`."""
        return self._metrics.kafka_metrics()

    @property
    def registry(self) -> Registry:
        """The same metrics for exporters (`moldau.metrics.render_prometheus`)."""
        return self._metrics.registry

    # The end

    async def flush(self, timeout_s: float | None = None) -> None:
        """Wait until everything sent before is acknowledged.

        Raise KafkaError if records failed since the last flush whose `Delivery` was not awaited,
        with their number and the first cause. Raise it too if this takes longer than `timeout_s`,
        with the number of records that are left; they are still sent.
        """
        self._cluster.check_loop()
        await self._sender.flush(timeout_s)

    async def aclose(self, timeout_s: float | None = None, *, abort: bool = False) -> None:
        """Flush (with `abort`: fail all records that are left) and close. May be called again.

        `timeout_s` limits the flush: records that are not delivered by then fail with an error that
        says so, and their number is logged. The same happens if the call is cancelled: the next
        call closes what is still open, and raises the KafkaError of the failed records.
        """
        timeout_s, abort = seconds_at_most(timeout_s, "timeout_s"), flag(abort, "abort")
        self._world.check_loop()
        self._world.is_closed = True
        await self._close(timeout_s, abort=abort)

    async def _close(self, timeout_s: float | None = None, *, abort: bool = False) -> None:
        """Close as `aclose` does. After a failed start the producer can be started again."""
        sender = self._begun
        if sender is None:
            return
        is_given_up = self._is_given_up = self._is_given_up or abort
        cut_off_by = None
        try:
            if not sender.is_closed:
                if self._transactions is not None and not abort and not sender.is_closing:
                    await self._transactions.close(timeout_s)
                sender.is_closing = True
                if not abort:
                    await sender.settle_or_give_up(timeout_s)
        except (asyncio.CancelledError, KafkaError) as error:
            cut_off_by = without_frames(error)
            raise
        finally:
            if cut_off_by is None or not sender.is_waited_for:
                sender.close()
                has_failed = self._accumulator.buffer.failures.count and not is_given_up
                kind = KafkaError if has_failed else None
                with not_hiding(type(cut_off_by) if cut_off_by else kind, "producer"):
                    await self._end()
        if not is_given_up:
            sender.raise_failure()

    async def _end(self) -> None:
        """Close the interceptors, then serializers, connections and the runtime, each even if
        another raises. May be called again, to continue after a cancelled call."""
        await asyncio.sleep(0)  # interceptors may get the last outcomes in the next iteration
        self._pipeline.close(is_for_good=self._world.is_closed)
        async with AsyncExitStack() as left:
            left.push_async_callback(self._world.aclose)
            left.push_async_callback(self._cluster.aclose)
            if self._transactions is not None:
                left.push_async_callback(self._transactions.aclose)
            while self._serdes:
                from moldau.client.serdes.resolve import close_serde

                left.push_async_callback(close_serde, *self._serdes.pop(0))


def _accumulator_options(settings: Settings) -> Options:
    codec = Codec[settings[own_rows.compression_type].upper()]
    levels: dict[Codec, Any] = {
        Codec.GZIP: own_rows.compression_gzip_level,
        Codec.LZ4: own_rows.compression_lz4_level,
        Codec.ZSTD: own_rows.compression_zstd_level,
    }
    return Options(
        batch_bytes=settings[own_rows.batch_size],
        request_bytes=settings[own_rows.max_request_size],
        memory_bytes=settings[own_rows.buffer_memory],
        linger_s=own_rows.linger_s(settings[own_rows.linger_ms]),
        delivery_timeout_s=own_rows.longest_delivery_ms(settings) / 1000,
        in_flight_max=settings[own_rows.max_in_flight],
        is_idempotent=own_rows.idempotent(settings),
        is_transactional=settings[own_rows.transactional_id] is not None,
        codec=codec,
        level=settings[levels[codec]] if codec in levels else None,
        retries_max=settings[own_rows.retries],
        grown_bytes=own_rows.grown_bytes(settings),
    )


def _declare_metrics(
    metrics: ProducerMetrics, accumulator: Accumulator, sender: Sender, topics: OutgoingTopics
) -> None:
    buffer, gauge = accumulator.buffer, metrics.gauge
    memory = float(accumulator.options.memory_bytes)
    gauge("buffer-total-bytes", "Bytes that records may take: buffer.memory.", lambda: memory)
    free = "buffer-available-bytes"
    gauge(free, "Bytes of them that are free.", lambda: max(0.0, memory - buffer.used_bytes))
    gauge("waiting-threads", "Sends that wait for memory.", lambda: sender.waiting)
    gauge("requests-in-flight", "Requests without an answer.", lambda: sender.in_flight)
    gauge("connection-count", "Brokers with a connection.", lambda: sender.connections)
    gauge("metadata-age", "Seconds since metadata came.", topics.metadata_age_s)


def _tell(given: GivenSettings, settings: Settings) -> None:
    """Log which settings do not have the effect that they seem to have."""
    given.log_notices("producer", settings)
    raised = own_rows.raised_delivery(settings)
    if raised is not None:
        LOG.warning("producer: %s", raised)
    ruled_out = own_rows.idempotence_ruled_out(settings)
    if ruled_out is not None:
        LOG.info("producer: %s", ruled_out)


async def _serialized(pipeline: Pipeline, topic: str, columns: Columns) -> Columns:
    serialize = partial(pipeline.serialize_many, turn=partial(asyncio.sleep, 0))
    columns = columns.as_lists()
    values = await serialize(topic, cast("Sequence[Any]", columns.values), is_key=False)
    keys = columns.keys
    if keys is not None:
        keys = await serialize(topic, cast("Sequence[Any]", keys), is_key=True)
    return columns._replace(values=values, keys=keys)
