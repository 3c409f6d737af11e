"""The producer: records in, acknowledged by the cluster or failed with a reason.

    async with Producer(bootstrap_servers="localhost:9092") as producer:
        sent = await (await producer.send("orders", b"value", key=b"key"))
        await producer.send_many("orders", values)
        await producer.flush()

`send` returns when the record is in a batch, which it is at once unless memory or metadata is
missing; what it gives can be awaited for the outcome. Idempotent unless the settings say otherwise.

Invariants: everything that was accepted is acknowledged or failed within `delivery.timeout.ms`; a
failure that nobody awaits is raised by the next `flush` or `aclose`; records of one partition keep
their order. What to send when is decided in `accumulator`; this shell has the clock, the
connections and the timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import repeat
from typing import Any, Final, Self, cast

from moldau.client import settings as rows
from moldau.client.accumulator import Accumulator, Options, ToSend
from moldau.client.batches import Batch, PartitionQueue
from moldau.client.cluster import Cluster
from moldau.client.connection import Connection
from moldau.client.delivery import Deliveries, Delivery, settled
from moldau.client.metadata import TopicPartition
from moldau.client.partitioner import Partitioner
from moldau.client.produce_requests import produce_request, settle_response
from moldau.client.world import World, closing_unless_ready
from moldau.config import Settings
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Response
from moldau.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from moldau.protocol.messages.produce import ProduceResponse
from moldau.records import Codec, Headers, Row
from moldau.records import Producer as Identity
from moldau.runtime import Runtime

_NO_HEADERS: Final[Headers] = ()
_ID_TIMEOUT_MS: Final = 2**31 - 1


class _Topic:
    """A topic that this producer writes to."""

    __slots__ = ("name", "partitioner", "queues")

    def __init__(self, name: str, partitioner: Partitioner) -> None:
        self.name = name
        self.partitioner = partitioner
        self.queues: list[PartitionQueue] = []


class Producer:
    """Writes records to topics. Belongs to the event loop that it was started in."""

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        runtime: Runtime | None = None,
        **options: object,
    ) -> None:
        """`settings` by Kafka's names, `options` the same with underscores: these win."""
        self.settings = rows.resolve(rows.PRODUCER_SETTINGS, settings or {}, options)
        self._world = World(runtime)
        self._acks = {"all": -1, "-1": -1, "1": 1, "0": 0}[self.settings[rows.acks]]
        self._options = _accumulator_options(self.settings)
        self._topics: dict[str, _Topic] = {}
        self._is_closed = False
        self._opening: set[int] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._drain_is_due = False
        self._room: list[asyncio.Future[None]] = []
        self._identifying: asyncio.Task[None] | None = None
        self._failure: KafkaError | None = None
        self._failures = 0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.aclose(abort=kind is not None)

    async def start(self) -> None:
        """Connects; KafkaError when no bootstrap server can be reached."""
        runtime = self._world.enter()
        self._clock = runtime.clock
        self._cluster = Cluster(runtime, self.settings, creates_topics=True)
        self._cluster.on_update = self._metadata_came
        self._accumulator = Accumulator(self._options, self._cluster.backoff, runtime.random)
        self._runtime = runtime
        async with closing_unless_ready(partial(self.aclose, abort=True)):
            await self._cluster.refresh()

    # Records in

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = _NO_HEADERS,
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> Delivery:
        """Puts a record on its way. KafkaError when it cannot be: no such topic or partition, too
        large, or no memory within `max.block.ms`."""
        if timestamp_ms is None:
            timestamp_ms = self._clock.wall_ms()
        known = self._topics.get(topic)
        if known is None:
            known = await self._learn(topic)
        while True:
            queue = self._choose(known, key, partition)
            batch = queue.open
            if batch is not None:
                index = batch.append(timestamp_ms, key, value, headers)
                if index is not None:
                    return Delivery(batch, index)
                self._filled(known, queue, partition is None and key is None)
                if queue.open is None:
                    continue
            if self._accumulator.has_room:
                break
            await self._wait_for_room()
        self._check_open()
        batch = self._accumulator.begin(
            queue, self._clock.monotonic(), timestamp_ms, key, value, headers
        )
        self._begun(queue)
        return Delivery(batch, 0)

    async def send_many(
        self,
        topic: str,
        values: Sequence[bytes | None],
        *,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Headers] | None = None,
        timestamps_ms: int | Sequence[int] | None = None,
        partition: int | None = None,
    ) -> Deliveries:
        """As `send` for many records, from sequences of one length, several times as fast."""
        known = self._topics.get(topic)
        if known is None:
            known = await self._learn(topic)
        if timestamps_ms is None:
            timestamps_ms = self._clock.wall_ms()
        count = len(values)
        records: list[Row] = list(
            zip(
                repeat(timestamps_ms, count) if isinstance(timestamps_ms, int) else timestamps_ms,
                repeat(None, count) if keys is None else keys,
                values,
                repeat(_NO_HEADERS, count) if headers is None else headers,
                strict=True,
            )
        )
        parts: list[tuple[Batch, int, int]] = []
        if partition is not None:
            await self._send_rows(self._choose(known, None, partition), records, parts)
        elif keys is None:
            await self._send_sticky(known, records, parts)
        else:
            await self._send_keyed(known, records, parts)
        return Deliveries(parts)

    async def _send_keyed(
        self, topic: _Topic, records: list[Row], parts: list[tuple[Batch, int, int]]
    ) -> None:
        of_key = topic.partitioner.of_key
        by_partition: dict[int, list[Row]] = {}
        keyless = []
        for row in records:
            key = row[1]
            if key is None:
                keyless.append(row)
            else:
                by_partition.setdefault(of_key(key), []).append(row)
        for index, chosen in by_partition.items():
            await self._send_rows(topic.queues[index], chosen, parts)
        if keyless:
            await self._send_sticky(topic, keyless, parts)

    async def _send_sticky(
        self, topic: _Topic, records: list[Row], parts: list[tuple[Batch, int, int]]
    ) -> None:
        start = 0
        while start < len(records):
            queue = self._choose(topic, None, None)
            start = await self._extend(queue, records, start, parts)
            if start < len(records):
                self._filled(topic, queue, True)

    async def _send_rows(
        self, queue: PartitionQueue, records: list[Row], parts: list[tuple[Batch, int, int]]
    ) -> None:
        start = 0
        while start < len(records):
            start = await self._extend(queue, records, start, parts)

    async def _extend(
        self,
        queue: PartitionQueue,
        records: list[Row],
        start: int,
        parts: list[tuple[Batch, int, int]],
    ) -> int:
        """Appends what one batch takes; the index of the first record that is left."""
        self._check_open()
        now = self._clock.monotonic()
        while (part := self._accumulator.extend(queue, now, records, start)) is None:
            await self._wait_for_room()
            self._check_open()
            now = self._clock.monotonic()
        if part[1] == 0:
            self._begun(queue)
        parts.append(part)
        return start + part[2]

    def _choose(self, topic: _Topic, key: bytes | None, partition: int | None) -> PartitionQueue:
        if partition is None:
            partitioner = topic.partitioner
            partition = partitioner.sticky if key is None else partitioner.of_key(key)
        elif not 0 <= partition < len(topic.queues):
            self._cluster.metadata.check(TopicPartition(topic.name, partition))
            self._update_topic(topic)
        return topic.queues[partition]

    def _filled(self, topic: _Topic, queue: PartitionQueue, is_sticky: bool) -> None:
        """The open batch is full: it goes out, and records without a key may go elsewhere."""
        batch = queue.open
        if batch is None:
            return
        self._accumulator.seal(queue)
        if is_sticky:
            topic.partitioner.filled(batch.reserved_bytes)
        self._drain_soon()

    def _begun(self, queue: PartitionQueue) -> None:
        """A batch was begun: what is complete before it goes now, it itself after the linger."""
        if queue.waiting or self._options.linger_s <= 0 or not self._accumulator.has_room:
            self._drain_soon()
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._options.linger_s, self._drain)

    async def _learn(self, name: str) -> _Topic:
        self._check_open()
        timeout_s = self.settings[rows.max_block_ms] / 1000
        found = await self._cluster.topic(name, timeout_s=timeout_s)
        known = self._topics.get(name)
        if known is None:
            random = self._runtime.random
            partitioner = Partitioner(found, max(1, self._options.batch_bytes), random)
            known = self._topics[name] = _Topic(name, partitioner)
            self._update_topic(known)
        return known

    def _update_topic(self, topic: _Topic) -> None:
        found = self._cluster.metadata.topics.get(topic.name)
        if found is None:
            return
        topic.partitioner.update(found)
        for index in range(len(topic.queues), len(found.partitions)):
            topic.queues.append(self._accumulator.queue(TopicPartition(topic.name, index)))

    async def _wait_for_room(self) -> None:
        self._check_open()
        self._drain_soon()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._room.append(future)
        try:
            async with asyncio.timeout(self.settings[rows.max_block_ms] / 1000):
                await future
        except TimeoutError:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                "no room for a record within max.block.ms: records come faster than they leave",
                buffer_memory=self._options.memory_bytes,
                used_bytes=self._accumulator.used_bytes,
            ) from None

    # Requests out

    def _drain_soon(self) -> None:
        if not self._drain_is_due:
            self._drain_is_due = True
            asyncio.get_running_loop().call_soon(self._drain)

    def _drain(self) -> None:
        """Sends what may be sent, fails what is too late, and sets the timer for what comes."""
        self._drain_is_due = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_closed:
            return
        now = self._clock.monotonic()
        self._note_untold(self._accumulator.expire(now))
        drained = self._accumulator.drain(now, self._cluster.metadata, self._request_room())
        for each in drained.requests:
            self._transmit(each)
        if self._accumulator.needs_identity and self._identifying is None:
            self._identifying = self._runtime.spawn(self._identify(), name="producer id")
        if drained.has_leaderless:
            self._cluster.request_refresh()
        for node_id in drained.unreachable - self._opening:
            if self._cluster.ready_connection(node_id) is None:
                self._opening.add(node_id)
                self._runtime.spawn(self._connect(node_id), name=f"connect to {node_id}")
        self._wake_senders()
        wake = self._accumulator.next_wake(now)
        if wake is not None:
            delay = max(0.001, wake - now)
            self._timer = asyncio.get_running_loop().call_later(delay, self._drain)

    def _request_room(self) -> dict[int, int]:
        limit = self._options.in_flight_max
        room = {}
        for node_id in self._cluster.metadata.brokers:
            connection = self._cluster.ready_connection(node_id)
            if connection is not None:
                room[node_id] = max(0, limit - connection.in_flight)
        return room

    async def _connect(self, node_id: int) -> None:
        try:
            await self._cluster.connection(node_id)
        except KafkaError as error:
            self._accumulator.trouble = error
            self._cluster.request_refresh()
            await asyncio.sleep(self._cluster.backoff.wait_s(1, self._runtime.random))
        finally:
            self._opening.discard(node_id)
            if not self._is_closed:
                self._drain_soon()

    def _transmit(self, each: ToSend) -> None:
        connection = self._cluster.ready_connection(each.node_id)
        assert connection is not None
        timeout_ms = self.settings[rows.request_timeout_ms]
        try:
            request, version = produce_request(
                connection, each.batches, self._cluster.metadata, self._acks, timeout_ms
            )
            if self._acks == 0:
                connection.tell(request, version=version)
                for batch in each.batches:
                    self._accumulator.acknowledged(batch, -1, -1)
                return
            on_answer = partial(self._answered, connection, each.batches)
            connection.ask(request, on_answer, version=version)
        except KafkaError as error:
            self._all_refused(each.batches, error)

    def _answered(
        self, connection: Connection, batches: list[Batch], answer: Response | KafkaError
    ) -> None:
        if isinstance(answer, KafkaError):
            self._all_refused(batches, answer)
        else:
            now = self._clock.monotonic()
            response = cast(ProduceResponse, answer)
            outcome = settle_response(response, batches, self._accumulator, self._cluster, now)
            self._note_untold(outcome)
        if not self._is_closed:
            self._drain_soon()

    def _all_refused(self, batches: list[Batch], error: KafkaError) -> None:
        self._cluster.note(error)
        now = self._clock.monotonic()
        untold = (self._accumulator.refused(batch, error, now) for batch in batches)
        self._note_untold([batch for batch in untold if batch is not None])

    def _note_untold(self, batches: list[Batch]) -> None:
        for batch in batches:
            self._failures += batch.count
            self._failure = self._failure or batch.error

    def _wake_senders(self) -> None:
        if self._room and self._accumulator.has_room:
            waiting, self._room = self._room, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    def _metadata_came(self) -> None:
        for topic in self._topics.values():
            self._update_topic(topic)
        self._drain_soon()

    async def _identify(self) -> None:
        """Gets the producer id; without one nothing is sent."""

        async def ask() -> InitProducerIdResponse:
            request = InitProducerIdRequest(
                transactional_id=None, transaction_timeout_ms=_ID_TIMEOUT_MS
            )
            answer = await self._cluster.call(request, InitProducerIdResponse)
            if answer.error_code:
                raise KafkaError(answer.error_code, api="InitProducerId")
            return answer

        try:
            timeout_s = self._options.delivery_timeout_s
            answer = await self._cluster.retry(ask, timeout_s=timeout_s)
            self._accumulator.identify(Identity(answer.producer_id, answer.producer_epoch))
        except KafkaError as error:
            self._note_untold(self._accumulator.fail_all(error))
        finally:
            self._identifying = None
            if not self._is_closed:
                self._drain_soon()

    # The end

    async def flush(self) -> None:
        """Returns when everything sent before is acknowledged. KafkaError for the first record
        that failed since the last flush and whose delivery nobody awaits."""
        waiting = self._accumulator.unfinished()
        self._accumulator.is_flushing = True
        try:
            self._drain_soon()
            for batch in waiting:
                if not batch.is_done:
                    with suppress(KafkaError):
                        await settled(batch)
                    self._note_untold([batch] if batch.error is not None else [])
        finally:
            self._accumulator.is_flushing = False
        self._raise_failure()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        records, self._failures = self._failures, 0
        if failure is not None:
            raise KafkaError(
                failure.code, failure.reason, **{**failure.context, "failed_records": records}
            )

    async def aclose(self, *, abort: bool = False) -> None:
        """Flushes (with `abort`: fails what is not sent) and closes. May be called again."""
        if self._is_closed:
            return
        try:
            if not abort:
                await self.flush()
        finally:
            self._is_closed = True
            if self._timer is not None:
                self._timer.cancel()
            error = KafkaError(ErrorCode.NETWORK_EXCEPTION, "the producer was closed")
            self._accumulator.fail_all(error)
            waiting, self._room = self._room, []
            for future in waiting:
                if not future.done():
                    future.set_exception(error)
            await self._cluster.aclose()
            await self._world.aclose()

    def _check_open(self) -> None:
        if self._is_closed:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the producer is closed")


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
    )
