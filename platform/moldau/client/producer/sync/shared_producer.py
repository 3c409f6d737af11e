"""The asyncio producer in a form in which threads may append to its batches.

The loop's thread owns everything else: connections, timers, requests, responses. A thread needs
only the known topics and the accumulator. One lock guards these; it is held for one record, or for
one step of the loop.

Invariants: a thread that appends to a batch holds the lock, and the loop takes it to seal a batch,
so no record is added after its batch was counted. Every public method of the accumulator holds it
(a test knows their names). A batch ends on the loop, which also runs its callbacks.

Why not a queue that the loop empties into the producer: each record would pass through two threads
and need a future of its own. This way a record costs a lock and an append, and the loop is woken
once for each batch.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from moldau.client.producer.accumulator import Accumulator
from moldau.client.producer.batch import Batch
from moldau.client.producer.delivery import AwaitedBatch, Delivery
from moldau.client.producer.pipeline import ErrorReport, PreparedRecord, RecordPreparation
from moldau.client.producer.producer import Producer
from moldau.client.producer.queue import PartitionQueue
from moldau.client.producer.record import (
    NO_RECORD,
    OnDelivery,
    ProducerRecord,
    SendOptions,
    checked,
)
from moldau.client.producer.sender import Sender, Turn
from moldau.client.producer.topics import OutgoingTopic
from moldau.client.producer.transactions import sending
from moldau.records import HeadersGiven
from moldau.runtime.loop_thread import new_shared_lock

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Wait(Protocol):
    """Waits for a coroutine on the loop."""

    def __call__(self, coroutine: Coroutine[Any, Any, T], /) -> T: ...


def _locked(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    @wraps(method)
    def locked(self: LockedAccumulator, /, *arguments: P.args, **named: P.kwargs) -> R:
        with self.lock:
            return method(self, *arguments, **named)

    return locked


class Calls(list[Callable[[], None]]):
    """Callbacks for the end of a batch. They run right after it, not in the step that ends it: that
    step holds the lock, and a thread waiting for the lock may hold one that a callback needs."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon

    def append(self, tell: Callable[[], None], /) -> None:
        """Add a callback that is called later, on the loop."""
        super().append(partial(self._later, tell))

    def _later(self, tell: Callable[[], None]) -> None:
        self._call_soon(tell)


class LockedAccumulator(Accumulator):
    """An accumulator for several threads."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.lock = new_shared_lock()

    acknowledged = _locked(Accumulator.acknowledged)
    drain = _locked(Accumulator.drain)
    expire = _locked(Accumulator.expire)
    extend = _locked(Accumulator.extend)
    fail_all = _locked(Accumulator.fail_all)
    identify = _locked(Accumulator.identify)
    is_stuck = _locked(Accumulator.is_stuck)
    next_wake = _locked(Accumulator.next_wake)
    queue = _locked(Accumulator.queue)
    refused = _locked(Accumulator.refused)
    troubles = _locked(Accumulator.troubles)
    unfinished = _locked(Accumulator.unfinished)
    waiting = _locked(Accumulator.waiting)

    def begin(self, queue: PartitionQueue, *arguments: Any) -> Batch:
        """Begin a batch that has its list of callbacks from the start: appending to a list is
        atomic, making one is not."""
        with self.lock:
            batch = super().begin(queue, *arguments)
            assert isinstance(batch, AwaitedBatch)
            batch.on_done = Calls(batch.home.call_soon)
            return batch

    def full(self, queue: PartitionQueue) -> None:
        """Handle a full batch; do nothing if another thread has sealed it since."""
        with self.lock:
            if queue.open is not None:
                super().full(queue)

    def seal(self, queue: PartitionQueue) -> None:
        """Seal the batch; do nothing if another thread has sealed it since."""
        with self.lock:
            if queue.open is not None:
                super().seal(queue)


class ThreadSafeSender(Sender):
    """A sender that other threads may notify of records."""

    _look_is_due = False

    def drain_soon(self) -> None:
        """Schedule a drain: there may be something to send."""
        if not self._drain_is_due:
            self._drain_is_due = True  # the loop resets this before it drains
            self._loop.call_soon_threadsafe(self._drain)

    def begun(self, queue: PartitionQueue) -> None:
        """Note that a batch was begun, by any thread."""
        linger_s = self._accumulator.options.linger_s
        if queue.waiting or linger_s <= 0 or not self._accumulator.buffer.has_room:
            self.drain_soon()
            return
        if not self._look_is_due:
            self._look_is_due = True
            self._loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        self._look_is_due = False
        self._wake_at(self._loop.time() + self._accumulator.options.linger_s)


class SharedProducer(Producer):
    """The producer on the loop. Any thread may call `append`, `send_here` and `stop_taking`."""

    _accumulator_type = LockedAccumulator
    _sender_type = ThreadSafeSender

    _accumulator: LockedAccumulator

    @property
    def _lock(self) -> AbstractContextManager[object]:
        return self._accumulator.lock

    def append(self, topic: str, value: Any, key: Any, headers: HeadersGiven) -> Delivery | None:
        """Append a usual record to the open batch, and do nothing else. Return None if the record
        needs more than that."""
        try:
            known = self._usual.get(topic)
        except TypeError:
            return None
        if known is None:
            return None
        with self._accumulator.lock:
            try:
                queue = known.sticky if key is None else known.queues[known.partitioner.of_key(key)]
                batch = queue.open
                if batch is None:
                    return None
                placed: Delivery | None = batch.place(key, value, headers)
            except NO_RECORD:
                return None  # `send_here` raises the error
            return placed

    def send_here(self, record: ProducerRecord, options: SendOptions, wait: Wait) -> Delivery:
        """Send any record, as `_send` does, in the calling thread; `wait` waits for the loop."""
        with sending(self._transactions):
            return self._send_here(*checked(record, options), wait)

    def _send_here(
        self, record: ProducerRecord, on_delivery: OnDelivery | None, wait: Wait
    ) -> Delivery:
        prepared = self._pipeline.prepare(record, on_delivery)
        if isinstance(prepared, RecordPreparation):
            with prepared:
                prepared = wait(_awaited(prepared))
        record = prepared.record
        waited: Turn | None = None
        until = self._sender.patience()
        with ErrorReport(self._pipeline, record):
            while True:
                known = self._topics.find(record.topic, prepared.partition)
                if known is None:
                    known = wait(self._topics.learn(record.topic, prepared.partition, until))
                prepared = self._assigned(known, prepared)
                placed = self._place(known, prepared, waited)
                if placed is not None:
                    return placed
                where = self._topics.choose(known, prepared.key, prepared.partition).where
                size_bytes = prepared.size_bytes
                waited = wait(self._sender.wait_for_room(where, waited, until, size_bytes))

    def _place(
        self, known: OutgoingTopic, prepared: PreparedRecord, waited: Turn | None
    ) -> Delivery | None:
        with self._lock:
            return super()._place(known, prepared, waited)

    def stop_taking(self) -> None:
        """Accept no more records. Those accepted before are in batches, and a flush sees them."""
        with self._lock:
            self._sender.is_closing = True
            self._end_short_way()

    async def drop(self) -> None:
        """Close without a flush."""
        self._sender.close()
        await self._end()

    def _begin(self) -> None:
        super()._begin()
        self._cluster.on_update = self._on_metadata

    def _on_metadata(self) -> None:
        with self._lock:
            self._topics.on_metadata()


async def _awaited(preparing: RecordPreparation) -> PreparedRecord:
    return await preparing
