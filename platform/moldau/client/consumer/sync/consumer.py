"""The consumer for threads: reads the partitions that you assign, or that its group assigns to it.

    with Consumer(bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        consumer.subscribe(["orders"])
        for record in consumer:
            ...                       # or: for part in consumer.poll(1.0): part.records

It fetches ahead and sends heartbeats on the loop's thread while your thread works. Your part of a
rebalance happens inside your `poll`, in your thread, so a listener may commit and seek. Iterating
takes all records of a poll at once: one hop to the loop for all of them.

Invariants: one thread at a time reads, any thread may close. While a thread iterates over records
or parts, until it leaves the loop or ends, no other may read (checked when another thread begins
and at every poll, so single records need no check). Records of an interrupted poll are returned by
the next one, and are not committed before.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, Unpack

from moldau.client.base.arguments import PartitionGiven, flag_or_none
from moldau.client.base.blocking import ClientState
from moldau.client.base.columns import PartitionColumns
from moldau.client.base.interceptor import ConsumerInterceptor
from moldau.client.base.notices import not_hiding
from moldau.client.consumer.commits import OffsetsGiven
from moldau.client.consumer.consumer import Consumer as AsyncConsumer
from moldau.client.consumer.options import ConsumerOptions
from moldau.client.consumer.records import PartitionRecords
from moldau.client.consumer.sync.consumer_calls import ConsumerCalls
from moldau.client.group.listener import RebalanceListener, check_listener
from moldau.client.group.subscription import Pattern
from moldau.client.serdes.contract import DeserializerTo
from moldau.link.arguments import seconds
from moldau.link.lifetime import ClientClosed, closed
from moldau.link.metadata import TopicPartition
from moldau.records import ConsumerRecord, K, V
from moldau.runtime import Runtime
from moldau.runtime.loop_thread import (
    Errands,
    WrongThread,
    new_lock,
    new_shared_lock,
    this_thread,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")

_CLOSE_S: Final = 30.0
_COLUMNS_MAX: Final = 100_000
_ITERATION_S: Final = 60.0
_READ_ELSEWHERE: Final = (
    "another thread reads with this consumer: give each thread a consumer of its own, and commit "
    "here with offsets, or there"
)


class _ReadElsewhere(AsyncConsumer):
    """The consumer on the loop, whose records are processed by a thread."""

    _new_lock = staticmethod(new_shared_lock)

    def records(self) -> Iterator[ConsumerRecord]:
        """Iterate over the records that `fill` has fetched and that were not returned yet."""
        return self._core.progress.records()

    async def fill(self, timeout_s: float) -> None:
        """Poll for `records`."""
        self._core.progress.add(await self.poll(timeout_s))

    def fail(self) -> None:
        """Do not commit what is at hand: the thread stopped in the middle of it."""
        self._has_failed = True

    async def drop(self) -> None:
        """Close without an auto commit."""
        self.fail()
        await self._close(0.0)

    def take_back(self, parts: list[PartitionRecords]) -> None:
        """Put records that were polled and not returned back in front."""
        self._core.progress.take_back(parts)

    def take_back_columns(self, parts: list[PartitionColumns]) -> None:
        """Fetch columns that were polled and not returned again."""
        self._reader.fetch_again(parts)


class _ListenerInThread(RebalanceListener):
    """A listener that is called in the thread that polls."""

    def __init__(
        self, listener: RebalanceListener, errands: Errands, listening: list[object]
    ) -> None:
        self._listener = listener
        self._errands = errands
        self._listening = listening

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await self._tell(partial(self._listener.on_partitions_revoked, partitions))

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        await self._tell(partial(self._listener.on_partitions_assigned, partitions))

    async def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        await self._tell(partial(self._listener.on_partitions_lost, partitions))

    async def _tell(self, method: Callable[[], object]) -> None:
        # Keep this task's context, by which the session recognizes the listener's calls.
        told = copy_context()
        result = await self._errands.run(lambda: told.run(self._listen, method))
        if inspect.isawaitable(result):
            await result

    def _listen(self, method: Callable[[], object]) -> object:
        thread = this_thread()
        self._listening.append(thread)
        try:
            return method()
        finally:
            self._listening.remove(thread)


class Consumer(ConsumerCalls, Generic[K, V], twin_of=AsyncConsumer):
    """A Kafka consumer for threads. One thread at a time may use it. Methods without a text have
    that of the asyncio client. A listener is called by the thread that polls, in its `poll`."""

    kind = "consumer"
    is_shareable = False
    _client: _ReadElsewhere

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        interceptors: Sequence[ConsumerInterceptor] = (),
        key_deserializer: DeserializerTo[K] = None,
        value_deserializer: DeserializerTo[V] = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        """Take `settings` by Kafka's names; `options` (underscores for dots) override them.

        A deserializer is an object (`moldau.client.serdes`), a function that takes bytes, or a name
        as in the settings `key.deserializer` and `value.deserializer`. By default keys and values
        are bytes. Deserializers and interceptors are called on the loop's thread.
        """
        objects = {
            "interceptors": tuple(interceptors),
            "key_deserializer": key_deserializer,
            "value_deserializer": value_deserializer,
        }
        super().__init__(settings, {**objects, **options})
        self._client = self._make()
        self.settings = self._client.settings
        self._errands = Errands()
        self._reader = new_lock()
        self._reads: object = None
        self._inside: list[object] = []
        """The threads that iterate over records or parts, once for each loop."""
        self._listening: list[object] = []
        """The threads that a listener runs in."""

    def _make(self, runtime: Runtime | None = None) -> _ReadElsewhere:
        settings, options = self._given
        return _ReadElsewhere(settings, runtime=runtime, **options)

    async def _begin(self, runtime: Runtime) -> None:
        self._client = self._make(runtime)
        await self._client.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._client.fail()
        with not_hiding(kind):
            self.close()

    def close(self, timeout_s: float = _CLOSE_S, *, leave_group: bool | None = None) -> None:
        """Commit (with auto commit), call the listener, leave the group and close the connections.
        A waiting poll fails.

        May be called again, by any thread, also by several at once: each returns when it is closed.
        But a call from a listener returns at once, as the close may wait for the listener.

        Nothing is committed automatically if an exception ends the `with`: the records of the last
        poll are not processed yet, so they are read again. The same holds for a close by another
        thread than the one that read last, which may still be processing its records.

        Without `leave_group`, a static member stays in its group until its session ends, so that it
        gets its partitions again, and any other member leaves (KIP-1092).
        """
        timeout_s = seconds(timeout_s, "timeout_s")
        leave_group = flag_or_none(leave_group, "leave_group")
        self._check_may_close()
        if self._reads not in (None, this_thread()):
            self._client.fail()
        waits = this_thread() not in self._listening
        closing = self._client.aclose(timeout_s, leave_group=leave_group)
        self._end(closing, self._errands, waits=waits)

    async def _drop(self) -> None:
        await self._client.drop()

    def forked(self) -> None:
        """Adapt to a forked process: the child does not poll."""
        super().forked()
        self._reader = new_lock()
        self._inside = []

    # Which partitions

    def subscribe(
        self,
        topics: Iterable[str] | str | None = None,
        *,
        pattern: Pattern | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        check_listener(listener)
        told = (
            None
            if listener is None
            else _ListenerInThread(listener, self._errands, self._listening)
        )
        subscribing = self._client.subscribe(topics, pattern=pattern, listener=told)
        self._call(subscribing, errands=self._errands)

    def unsubscribe(self) -> None:
        self._read(self._client.unsubscribe())

    # Records out

    def poll(
        self,
        timeout_s: float = 0.0,
        *,
        max_records: int | None = None,
        partitions: Iterable[PartitionGiven] | None = None,
    ) -> list[PartitionRecords[K, V]]:
        found = self._client.poll(timeout_s, max_records=max_records, partitions=partitions)
        return self._read(found, self._client.take_back)

    def poll_batches(
        self,
        timeout_s: float = 0.0,
        *,
        max_records: int = _COLUMNS_MAX,
        partitions: Iterable[PartitionGiven] | None = None,
    ) -> list[PartitionColumns]:
        found = self._client.poll_batches(timeout_s, max_records=max_records, partitions=partitions)
        return self._read(found, self._client.take_back_columns)

    def getone(self, partitions: Iterable[PartitionGiven] | None = None) -> ConsumerRecord[K, V]:
        for part in self.batches(max_records=1, partitions=partitions):
            return part.records[0]
        raise closed(self.kind)

    def getmany(
        self,
        partitions: Iterable[PartitionGiven] | None = None,
        *,
        timeout_s: float = 0.0,
        max_records: int | None = None,
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        found = self._client.getmany(partitions, timeout_s=timeout_s, max_records=max_records)
        return self._read(found)

    def batches(
        self, *, max_records: int | None = None, partitions: Iterable[PartitionGiven] | None = None
    ) -> Iterator[PartitionRecords[K, V]]:
        with self._going_through():
            if self.is_over:
                return
            parts = self._client.batches(max_records=max_records, partitions=partitions)
            while not self.is_over:
                self._reads = this_thread()
                part = parts.at_hand()
                if part is None:
                    self._fill(parts.fill())
                else:
                    yield part

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        """Iterate over single records until the consumer is closed. You may leave the loop and
        start again. A commit inside covers the current record and those before it."""
        is_open = ClientState.OPEN  # looked up once, not for every record
        with self._going_through():
            while not self.is_over:
                client = self._client
                self._reads = this_thread()
                for record in client.records():
                    yield record
                    if self._state is not is_open:
                        return
                self._fill(client.fill(_ITERATION_S))

    def _fill(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Poll for more. If the consumer was closed meanwhile, do nothing: the loop then ends."""
        try:
            self._read(coroutine)
        except ClientClosed:
            if not self.is_over:
                raise

    @contextmanager
    def _going_through(self) -> Iterator[None]:
        """Keep other threads from reading until this thread has left its loop, even with an
        iterator that another one began. In a forked process, raise WrongProcess at the end."""
        thread = this_thread()
        self._take_turn()
        try:
            self._inside.append(thread)
        finally:
            self._reader.release()
        try:
            yield
        finally:
            if thread in self._inside:  # not after a fork
                self._inside.remove(thread)
        if self.is_forked:
            raise self._refusal()

    def _read(
        self, coroutine: Coroutine[Any, Any, T], salvage: Callable[[T], None] | None = None
    ) -> T:
        """Return the coroutine's result, while this thread does its part of a rebalance."""
        try:
            self._take_turn()
        except WrongThread:
            coroutine.close()
            raise
        self._reads = this_thread()
        try:
            return self._call(coroutine, errands=self._errands, salvage=salvage)
        finally:
            self._reader.release()

    def _take_turn(self) -> None:
        """Acquire the reader lock. Raise WrongThread while another thread polls or iterates. During
        a close, wait for it, as it may be about to leave."""
        wait_s = _CLOSE_S if self._state is ClientState.CLOSING else 0.0
        if not self._reader.acquire(timeout=wait_s):
            raise WrongThread(_READ_ELSEWHERE)
        if self._inside and self._state is not ClientState.CLOSING:
            mine = this_thread()
            if any(each is not mine and _is_alive(each) for each in self._inside):
                self._reader.release()
                raise WrongThread(_READ_ELSEWHERE)

    # Offsets

    def commit(
        self, offsets: OffsetsGiven | None = None, *, timeout_s: float | None = None
    ) -> None:
        """Store the group's offsets: after all returned records, or these offsets (each a number or
        an `OffsetAndMetadata`: the offset of the next record to read).

        Returns when the offsets are stored. KafkaError names the partition, and says if this
        consumer is no longer a member. WrongThread without `offsets` while another thread polls or
        iterates: the commit would cover records that it is still processing.
        """
        if offsets is not None:
            self._call(self._client.commit(offsets, timeout_s=timeout_s))
            return
        self._take_turn()
        try:
            self._call(self._client.commit(timeout_s=timeout_s))
        finally:
            self._reader.release()

    def commit_soon(self, offsets: OffsetsGiven | None = None) -> Future[None]:
        if offsets is None:
            self._take_turn()
        try:
            task = self._run(lambda: self._client.commit_soon(offsets))
        finally:
            if offsets is None:
                self._reader.release()
        return self._spawn(_outcome(task))


async def _outcome(begun: Awaitable[None]) -> None:
    await begun


def _is_alive(thread: Any) -> bool:
    """Whether the thread may still be processing its records."""
    return bool(thread.is_alive())
