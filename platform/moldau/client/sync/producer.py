"""The producer for threads: records in, acknowledged by the cluster or failed with a reason.

    with Producer(bootstrap_servers="localhost:9092") as producer:
        producer.send("orders", b"value", key=b"key").result()
        producer.send_many("orders", values)
        producer.flush()

Any number of threads may send at a time. `send` serializes, chooses a partition and appends to a
batch in the thread that calls it, and gives at once what can be asked for the outcome; the loop's
thread sends batches when they are full or `linger.ms` old. It waits, up to `max.block.ms`, only for
a topic that is not known yet and while `buffer.memory` is full.

Invariants: everything that was accepted is acknowledged or failed within `delivery.timeout.ms`; a
failure that was not asked for is raised by the next `flush` or `close`; records that one thread
sends to one partition keep their order; a program that ends without closing delivers first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, Unpack

from moldau.client.producer.columns import RecordColumns
from moldau.client.producer.delivery import Delivery as Place
from moldau.client.producer.delivery import Sent
from moldau.client.producer.options import ProducerOptions
from moldau.client.producer.record import ProducerInterceptor, ProducerRecord, SendOptions, checked
from moldau.client.serdes.contract import SerializerFrom
from moldau.client.settings.arguments import PartitionGiven, flag
from moldau.client.sync.delivery import Deliveries, Delivery
from moldau.client.sync.producer_calls import ProducerCalls
from moldau.client.sync.shared_producer import SharedProducer
from moldau.link.arguments import seconds_at_most
from moldau.link.lifetime import ClientClosed
from moldau.records import HeadersGiven, K, V
from moldau.runtime import Runtime

Append = Callable[[str, Any, Any, HeadersGiven], Place | None]

_NO_HEADERS: Final[HeadersGiven] = ()


class Producer(ProducerCalls, Generic[K, V]):
    """Writes records to topics. For any number of threads.

    `K` and `V` are what its serializers take, as with the asyncio client.
    """

    kind = "producer"
    _client: SharedProducer

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        interceptors: Sequence[ProducerInterceptor] = (),
        key_serializer: SerializerFrom[K] = None,
        value_serializer: SerializerFrom[V] = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        """`settings` by Kafka's names, `options` the same with underscores: these win. Serializers,
        `partitioner.class` and `interceptor.classes` may be objects as well as names. They are
        called by the threads that send, several at a time; for `send_many` by the loop's thread."""
        objects = {
            "interceptors": tuple(interceptors),
            "key_serializer": key_serializer,
            "value_serializer": value_serializer,
        }
        super().__init__(settings, {**objects, **options})
        self._client = self._make()
        self.settings = self._client.settings
        self._append: Append = _nothing

    def _make(self, runtime: Runtime | None = None) -> SharedProducer:
        settings, options = self._given
        return SharedProducer(settings, runtime=runtime, **options)

    async def _begin(self, runtime: Runtime) -> None:
        self._client = self._make(runtime)
        await self._client.start()
        self._append = self._client.append

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop_taking()
        self._end(self._client.__aexit__(kind))

    def close(self, timeout_s: float | None = None, *, abort: bool = False) -> None:
        """Flushes (with `abort`: fails what is not sent) and closes.

        `timeout_s` bounds the flush: what is not delivered by then fails, each record with an
        error that says so, and the log tells how many.

        May be called again, also by several threads at once: each returns when it is closed. The
        `timeout_s` of the one that came first is for all: what is not delivered by then fails, also
        for callers that would wait longer. A caller whose own is over earlier gets a KafkaError; an
        `abort` is for all.
        """
        timeout_s, abort = seconds_at_most(timeout_s, "timeout_s"), flag(abort, "abort")
        self._stop_taking()
        self._end(self._client.aclose(timeout_s, abort=abort))

    def _stop_taking(self) -> None:
        self._check_may_close()
        if self._thread is not None:
            self._client.stop_taking()
        self._append = _nothing

    async def _drop(self) -> None:
        await self._client.drop()

    def finish(self) -> None:
        """The program ends: what was accepted goes out, unless a `close` does that already."""
        if self._thread is not None:
            with suppress(ClientClosed):
                self.flush()

    def forked(self) -> None:
        """This is another process."""
        super().forked()
        self._append = _nothing

    def _on_loop(self, function: Callable[[], object]) -> bool:
        """Runs this on the loop; whether there is one still, without which all is decided."""
        thread = self._thread
        if self.is_forked:
            raise self._refusal()
        return thread is not None and thread.soon(function)

    # Records in

    def send(
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
        """Puts a record on its way. Key and value are bytes or None, unless there is a serializer.

        `timestamp_ms` is now, if not given; `on_delivery(sent, error)` is called with the outcome,
        on the loop's thread, where it must not wait. KafkaError when it cannot be sent: no such
        topic or partition, too large, no memory within `max.block.ms`. SerializationFailed when a
        serializer refuses it.
        """
        if partition is timestamp_ms is None and not options:
            placed = self._append(topic, value, key, headers)
        else:
            placed = None
        if placed is None:
            if self._thread is None:
                raise self._refusal()
            given = checked(
                ProducerRecord(topic, value, key, headers, timestamp_ms, partition), options
            )
            placed = self._client.send_here(*given, self._call)
        delivery = Delivery()
        delivery.place = placed
        delivery.producer = self
        return delivery

    def send_and_wait(
        self,
        topic: str,
        value: V | None,
        *,
        key: K | None = None,
        headers: HeadersGiven = _NO_HEADERS,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Sent:
        """Sends a record and returns where it is, once the broker has acknowledged it."""
        delivery = self.send(
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
        )
        return delivery.result()

    def send_many(
        self,
        topic: str,
        values: Any,
        **more: Unpack[RecordColumns],
    ) -> Deliveries:
        """As `send` for many records, several times as fast.

        `values` (and what is given beside them) are sequences of one length; or Arrow arrays; or
        one Arrow table that has the columns value and maybe key, headers, timestamp and partition.
        A KafkaError says in `accepted` how many of them are on their way all the same.
        """
        return Deliveries(self._call(self._client.send_many(topic, values, **more)), self)

    def send_batch(self, partition: PartitionGiven, columns: object) -> Deliveries:
        """Sends columns in buffers to one partition, with their timestamps and headers: what
        `Consumer.poll_batches` gave, or an Arrow table with the columns value and maybe key,
        headers and timestamp (others that a polled table has are not looked at).

        Keys and values go as they are, no serializer sees them. Errors are as `send_many` has them;
        ValueError if the producer has interceptors, which look at records.
        """
        return Deliveries(self._call(self._client.send_batch(partition, columns)), self)


def _nothing(topic: str, value: Any, key: Any, headers: HeadersGiven) -> None:
    """While it is not open, nothing is appended."""
