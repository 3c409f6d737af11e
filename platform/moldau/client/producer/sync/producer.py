"""The producer for threads: takes records, and delivers each to the cluster or fails it with a
reason.

    with Producer(bootstrap_servers="localhost:9092") as producer:
        producer.send("orders", b"value", key=b"key").result()
        producer.send_many("orders", values)
        producer.flush()

Any number of threads may send at the same time. `send` serializes, chooses a partition and appends
to a batch in the calling thread, and returns at once a `Delivery` for the outcome. The loop's
thread sends batches when they are full or `linger.ms` old. `send` waits, up to `max.block.ms`, only
for an unknown topic and while `buffer.memory` is full.

Invariants: every accepted record is acknowledged or failed within `delivery.timeout.ms`; a failure
that no caller has got is raised by the next `flush` or `close`; records that one thread sends to
one partition keep their order; a program that ends without closing delivers first.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, Unpack

from moldau.client.base.arguments import PartitionGiven, flag
from moldau.client.base.user_code import LOG
from moldau.client.producer.columns import RecordColumns
from moldau.client.producer.delivery import Delivery as Place
from moldau.client.producer.delivery import Sent
from moldau.client.producer.options import ProducerOptions
from moldau.client.producer.producer import Producer as AsyncProducer
from moldau.client.producer.record import ProducerInterceptor, ProducerRecord, SendOptions
from moldau.client.producer.sync.delivery import Deliveries, Delivery
from moldau.client.producer.sync.producer_calls import ProducerCalls
from moldau.client.producer.sync.shared_producer import SharedProducer
from moldau.client.producer.transaction_block import WORK_AGAIN
from moldau.client.producer.transaction_block import Transaction as AsyncTransaction
from moldau.client.producer.transaction_errors import AbortableTransactionError
from moldau.client.serdes.contract import SerializerFrom
from moldau.link.arguments import seconds_at_most
from moldau.link.lifetime import ClientClosed
from moldau.records import HeadersGiven, K, V
from moldau.runtime import Runtime

if TYPE_CHECKING:
    from moldau.client.consumer.sync.consumer import Consumer

T = TypeVar("T")
Append = Callable[[str, Any, Any, HeadersGiven], Place | None]

_NO_HEADERS: Final[HeadersGiven] = ()


class Producer(ProducerCalls, Generic[K, V], twin_of=AsyncProducer):
    """A Kafka producer for any number of threads.

    `K` and `V` are the types that its serializers take, as in the asyncio client.
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
        """Take `settings` by Kafka's names; `options` (underscores for dots) override them.
        Serializers, `partitioner.class` and `interceptor.classes` may be objects as well as names.
        They are called by the sending threads, several at a time; for `send_many` by the loop's
        thread."""
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
        """Flush (with `abort`: fail all records that are left) and close.

        `timeout_s` limits the flush: records that are not delivered by then fail with an error that
        says so, and their number is logged.

        May be called again, also by several threads at once: each returns when it is closed. The
        `timeout_s` of the first caller counts for all: records that are not delivered by then fail,
        even if other callers would wait longer. A caller whose own timeout is shorter gets a
        KafkaError. An `abort` counts for all.
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
        """Deliver the accepted records at the program's end, unless a `close` does that."""
        if self._thread is not None:
            with suppress(ClientClosed):
                self.flush()

    def forked(self) -> None:
        """Adapt to a forked process."""
        super().forked()
        self._append = _nothing

    def _on_loop(self, function: Callable[[], object]) -> bool:
        """Run the function on the loop. Return False if the loop has ended: then all is decided."""
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
        """Put a record into a batch and return its delivery. Key and value are bytes or None,
        unless there is a serializer.

        `timestamp_ms` is now by default. `on_delivery(sent, error)` is called with the outcome, on
        the loop's thread, where it must not wait. Raise KafkaError if the topic or partition does
        not exist, the record is too large, or no memory is free within `max.block.ms`;
        SerializationFailed if a serializer fails.
        """
        if partition is timestamp_ms is None and not options:
            placed = self._append(topic, value, key, headers)
        else:
            placed = None
        if placed is None:
            if self._thread is None:
                raise self._refusal()
            given = ProducerRecord(topic, value, key, headers, timestamp_ms, partition)
            placed = self._client.send_here(given, options, self._call)
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
        return Deliveries(self._call(self._client.send_many(topic, values, **more)), self)

    def send_batch(self, partition: PartitionGiven, columns: object) -> Deliveries:
        return Deliveries(self._call(self._client.send_batch(partition, columns)), self)

    # Transactions

    def transaction(self, consumer: Consumer[Any, Any] | None = None) -> Transaction:
        """Return a transaction to use in `with`: committed at the block's end, aborted if the block
        raises.

        With a consumer the offsets of all that it has returned are committed too, so that each
        record counts once; after an abort it reads the same records again. The consumer must have
        a group, and leaves all commits to the transactions. An AbortableTransactionError means that
        it was aborted, by a rebalance for example: begin the next one.
        """
        reader = None if consumer is None else consumer._client
        return Transaction(self._run(lambda: self._client.transaction(reader)), self._call)

    def run_transaction(
        self,
        work: Work[T],
        consumer: Consumer[Any, Any] | None = None,
    ) -> T:
        """Call `work(transaction)` in a transaction, again after each AbortableTransactionError
        that may pass, and return its result when one is committed."""
        failures = 0
        while True:
            try:
                with self.transaction(consumer) as opened:
                    return work(opened)
            except AbortableTransactionError as error:
                if not error.may_pass:
                    raise
                LOG.warning(WORK_AGAIN, error)
            failures += 1
            self._call(self._client._cluster.pause(failures))


Work = Callable[["Transaction"], T]
"""What is done in a transaction, maybe several times."""


class Transaction:
    """One transaction: `with producer.transaction(consumer):`."""

    def __init__(self, block: AsyncTransaction, call: Callable[[Coroutine[Any, Any, None]], None]):
        self._block = block
        self._call = call

    def abort(self) -> None:
        """Abort at the end of the block, instead of a commit, and read the same records again."""
        self._block.abort()

    def __enter__(self) -> Self:
        self._call(self._block.begin())
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._call(self._block.__aexit__(kind))


def _nothing(topic: str, value: Any, key: Any, headers: HeadersGiven) -> None:
    """Append nothing, as the producer is not open."""
