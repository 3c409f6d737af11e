"""Outgoing records: collected by partition, sent by broker. No IO: the shell appends, calls `drain`
for the requests to send now, and reports each outcome.

Invariants: within a partition batches are acknowledged in sending order (see queue.py); nothing
waits beyond its delivery timeout. outcome.py decides what a response means for a batch and its
neighbours.

A batch that has to wait for another one of its partition still takes records: past its linger and,
in steps of `batch_bytes`, past that size, up to `grown_bytes`. Closed, it would not be sent sooner,
and a request with more records costs about the same. It is complete as soon as it is first, or
after `WAITS_S`: it expires with its first record, and takes the later ones with it.

Each batch has its own memory, not from a pool as in Kafka's client: allocation costs a fiftieth of
filling it, and pooled memory cannot be reused while its batch is being sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import field
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.client.producer.batch import Batch
from moldau.client.producer.buffer import Buffer, Options
from moldau.client.producer.outcome import Outcomes
from moldau.client.producer.queue import EPOCH_MAX, PartitionQueue
from moldau.client.producer.run import Run
from moldau.client.producer.splitting import Fit
from moldau.client.producer.transaction_core import TransactionCore
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.metadata import NO_LEADER, Metadata, TopicPartition
from moldau.records import NO_PRODUCER, BatchBuilder, Producer
from moldau.runtime.backoff import Backoff

if TYPE_CHECKING:
    from random import Random

_MS_NS: Final = 1_000_000
WAITS_S: Final = 0.1
"""How long a batch takes records behind another one; the linger, if that is longer."""
_BAD_RECORD: Final = (TypeError, ValueError, OverflowError)


class Clocks(NamedTuple):
    """The fastest clock, in nanoseconds, and the wall clock, read for each batch: it may be set."""

    monotonic_ns: Callable[[], int]
    wall_ms: Callable[[], int]


class ToSend(NamedTuple):
    """One request: at most one batch for each of some partitions led by one broker."""

    node_id: int
    batches: list[Batch]


@dataclass(slots=True)
class DrainedBatches:
    """What the shell must do: send requests, connect to brokers, and request metadata."""

    requests: list[ToSend] = field(default_factory=list)
    unreachable: set[int] = field(default_factory=set)
    has_leaderless: bool = False


class Accumulator:
    """All records of a producer that the cluster has not acknowledged."""

    lock: AbstractContextManager[object] = nullcontext()
    """Held by each thread that appends; there is one thread only, unless a subclass says so."""

    def __init__(
        self,
        options: Options,
        backoff: Backoff,
        random: Random,
        transaction: TransactionCore | None = None,
        batch_type: Callable[[TopicPartition, BatchBuilder, float], Batch] = Batch,
        clocks: Clocks | None = None,
    ) -> None:
        """With `transaction`, records are sent only in its transactions. With `clocks`, batches can
        `place` records with the current time."""
        self.options = options
        self.transaction = transaction
        self.buffer = Buffer(options, transaction)
        self.outcomes = Outcomes(self.buffer, backoff, random)
        self.identity = NO_PRODUCER
        self.is_flushing = False
        self.needs_identity = options.is_idempotent
        self.clocks = clocks
        self._batch_type = batch_type
        self._stuck_since: dict[int, float] = {}
        self._none_late_until = 0.0
        """No batch expires before that time: later ones are begun later."""
        self._waits_s = max(options.linger_s, WAITS_S)

    # Records in

    def queue(self, where: TopicPartition) -> PartitionQueue:
        """Return the partition's queue; make it on the first call."""
        return self.buffer.queue(where)

    def waiting(self, queue: PartitionQueue) -> int:
        """Return how many batches wait to be sent; an open batch counts by its memory."""
        if queue.open is None:
            return len(queue.waiting)
        buffer = self.buffer
        steps = queue.open.reserved_bytes // max(1, buffer.step_bytes) if buffer.grown_bytes else 0
        return len(queue.waiting) + max(1, steps)

    def begin(
        self,
        queue: PartitionQueue,
        now: float,
        timestamp: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
    ) -> Batch:
        """Begin a new batch with this record; the one before takes no more. Without a timestamp it
        has the current time.

        Raise KafkaError if the record alone is larger than a request may be.
        """
        options, buffer = self.options, self.buffer
        fit, size = buffer.fits.get(queue), buffer.builder_bytes
        if fit is not None:
            size = min(size, fit.size_bytes_max)
        builder = BatchBuilder(size, codec=options.codec, level=options.level)
        batch = self._batch_type(queue.where, builder, now)
        if self.clocks is not None:
            clock_ns, wall_ms = self.clocks
            builder.open_for(batch, clock_ns, wall_ms() * _MS_NS - clock_ns())
        if timestamp is None:
            batch.place(key, value, headers)
        else:
            batch.append(timestamp, key, value, headers)
        if builder.size_bytes > options.request_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                "a record is larger than max.request.size",
                **queue.where._asdict(),
                setting="max.request.size",
                size_bytes=builder.size_bytes,
                max_request_size=options.request_bytes,
            )
        if queue.open is not None:
            self.seal(queue)
        buffer.resize(batch, max(builder.size_bytes_max, builder.size_bytes))
        queue.open = batch
        buffer.busy[queue] = None
        return batch

    def extend(
        self, queue: PartitionQueue, now: float, run: Run, start: int
    ) -> tuple[Batch, int, int] | None:
        """Append records from `start` on, as many as one batch takes.

        Return the batch, the index of the first record in it, and their number; None if a new batch
        is needed and there is no room for one. Raise TypeError or ValueError for a bad record only
        if it is the first: those before it must be counted.
        """
        batch = queue.open
        if batch is not None:
            assert batch.builder is not None
            first = batch.builder.count
            count = _fill(run, batch.builder, start)
            if count:
                return batch, first, count
        if not self.buffer.has_room:
            return None
        batch = self.begin(queue, now, *run.row(start))
        assert batch.builder is not None
        with suppress(*_BAD_RECORD):
            run.fill(batch.builder, start + 1)
        return batch, 0, batch.builder.count

    def full(self, queue: PartitionQueue) -> None:
        """Handle an open batch without room for the next record: enlarge it if it has to wait
        anyway, else complete it.

        If it waits only for the loop to run (`is_blocked` is false), records without a key stay
        there too: one batch costs less than one for each of several partitions.
        """
        batch, buffer = queue.open, self.buffer
        assert batch is not None
        assert batch.builder is not None
        step = buffer.step_bytes
        if (
            not queue.waiting
            or batch.reserved_bytes + step > buffer.grown_bytes
            or buffer.used_bytes + step > self.options.memory_bytes
            or queue in buffer.fits
        ):
            self.seal(queue)
            return
        batch.builder.widen(step)
        buffer.resize(batch, batch.reserved_bytes + step)
        if queue.is_blocked and queue.on_filled is not None:
            queue.on_filled(queue, step)

    def seal(self, queue: PartitionQueue) -> None:
        """Complete the open batch, and free the memory that it did not need."""
        batch = queue.open
        assert batch is not None
        assert batch.builder is not None
        self.buffer.resize(batch, batch.builder.size_bytes)
        queue.seal()
        if queue.on_filled is not None:
            queue.on_filled(queue, batch.reserved_bytes)

    # Requests out

    def drain(self, now: float, metadata: Metadata, room: dict[int, int]) -> DrainedBatches:
        """Return what to send now. `room` is how many more requests each connected broker takes."""
        drained, transaction = DrainedBatches(), self.transaction
        if transaction is not None and transaction.is_over and self.buffer.busy:
            self.fail_all(transaction.refusal())
        everything = self.is_flushing or not self.buffer.has_room
        for queue in self.buffer.busy:
            if queue.open is not None and (everything or self._is_due(queue, queue.open, now)):
                self.seal(queue)
        if self.needs_identity:
            return drained
        candidates: dict[int, list[PartitionQueue]] = {}
        for queue in list(self.buffer.busy):
            if queue.held:
                self.outcomes.settle_held(queue)
            if now < queue.not_before and _has_another_leader(queue, metadata):
                queue.not_before = 0.0
            if not self._may_send(queue, now):
                continue
            known = metadata.partition(queue.where)
            if known is None or known.leader == NO_LEADER:
                queue.leaderless += 1
                self.outcomes.put_off(queue, queue.leaderless, now)
                _note_leaderless(queue, metadata)
                drained.has_leaderless = True
                continue
            queue.leaderless = 0
            queue.leader_epoch = known.leader_epoch
            if transaction is not None:
                transaction.on_records(queue.where)
                if not transaction.may_send_to(queue.where):
                    continue
            if known.leader not in room:
                drained.unreachable.add(known.leader)
            else:
                candidates.setdefault(known.leader, []).append(queue)
        stuck = set(drained.unreachable)
        for node_id, queues in candidates.items():
            if room[node_id] > 0:
                self._add_requests(drained.requests, now, node_id, queues, room[node_id])
            else:
                stuck.add(node_id)
        for queue in self.buffer.busy:
            queue.is_blocked = bool(queue.waiting)
        if stuck or self._stuck_since:
            self._stuck_since = {node: self._stuck_since.get(node, now) for node in stuck}
        return drained

    def is_stuck(self, node_id: int, now: float, after_s: float) -> bool:
        """Whether batches have waited for `after_s` for this broker to take one."""
        since = self._stuck_since.get(node_id)
        return since is not None and now - since >= after_s

    def _add_requests(
        self,
        found: list[ToSend],
        now: float,
        node_id: int,
        queues: list[PartitionQueue],
        room: int,
    ) -> None:
        """Add up to `room` requests to one broker. Each of the queues may send."""
        may_send = True
        while room > 0:
            batches: list[Batch] = []
            served: list[PartitionQueue] = []
            passed_over: list[PartitionQueue] = []
            size = 0
            for queue in queues:
                batch = None
                if queue.waiting and (may_send or self._may_send(queue, now)):
                    batch = self._take(queue, now, size)
                if batch is None:
                    passed_over.append(queue)
                    continue
                served.append(queue)
                batches.append(batch)
                size += batch.reserved_bytes
                if queue.open is not None and self._is_due(queue, queue.open, now):
                    self.seal(queue)
            if not batches:
                return
            # Other partitions come first in the next request, now or later: each one of a broker
            # waits for one round of the others at most, however many there are.
            busy = self.buffer.busy
            if len(served) < len(busy):
                for queue in served:
                    busy[queue] = busy.pop(queue)
            queues = passed_over + served
            may_send = False
            room -= 1
            found.append(ToSend(node_id, batches))

    def _take(self, queue: PartitionQueue, now: float, size: int) -> Batch | None:
        """Return the first batch of a queue that may send, if it fits into a request of `size`
        bytes, else None. A batch that cannot be built fails, and the next one is tried."""
        while True:
            try:
                if queue in self.buffer.fits:
                    self._fit(queue, self.buffer.fits[queue])
                size_next = queue.waiting[0].reserved_bytes
                if size and size + size_next > self.options.request_bytes:
                    return None
                return queue.take(self.identity)
            except KafkaError as error:
                self.outcomes.fail(queue, queue.waiting.popleft(), error)
                if not self._may_send(queue, now):
                    return None

    def _may_send(self, queue: PartitionQueue, now: float) -> bool:
        """Whether the queue's first batch may be sent now. Restart the sequence if needed."""
        if queue.needs_restart(self.identity) and not self._restart(queue):
            return False
        return queue.may_send(now, self.options.in_flight_max)

    def _fit(self, queue: PartitionQueue, fit: Fit) -> None:
        """Split batches that would be rejected for their size, before they are first sent."""
        while True:
            batch = queue.waiting[0]
            if batch.was_sent or batch.count == 1:
                return
            if batch.data is None:
                batch.build()
                fit.built(batch)
            if not fit.is_too_large(batch):
                return
            self.buffer.split(queue, batch, fit)

    def _is_due(self, queue: PartitionQueue, batch: Batch, now: float) -> bool:
        """Whether the open batch of the queue should be complete by now."""
        is_grown = batch.reserved_bytes > self.buffer.builder_bytes
        waits_s = self._waits_s if queue.waiting else self.options.linger_s
        return batch.created + waits_s <= now or (is_grown and not queue.waiting)

    def _restart(self, queue: PartitionQueue) -> bool:
        """Restart the queue's sequence. Return False if its epochs are used up."""
        is_last = queue.producer_id == self.identity.id and queue.producer_epoch >= EPOCH_MAX
        if is_last and not self.identity.is_transactional:
            self.needs_identity = True
            return False
        queue.restart(self.identity)
        return True

    def identify(self, producer: Producer) -> None:
        """Use this producer id from now on, for queues that start or restart."""
        self.identity = producer
        self.needs_identity = False

    # Answers and time

    def acknowledged(self, batch: Batch, base_offset: int, timestamp: int) -> None:
        self.outcomes.acknowledged(batch, base_offset, timestamp)

    def refused(self, batch: Batch, error: KafkaError, now: float) -> None:
        self.outcomes.refused(batch, error, now)

    def expire(self, now: float) -> None:
        """Fail batches past the delivery timeout; open ones too, as a linger may be that long."""
        if now < self._none_late_until:
            return
        created_by = now - self.options.delivery_timeout_s
        for queue in self.buffer.busy:
            if queue.open is not None and queue.open.created <= created_by:
                self.seal(queue)
        self.outcomes.expire(now)

    def fail_all(self, error: KafkaError) -> None:
        """Fail everything: the producer cannot continue."""
        for queue in self.buffer.busy:
            if queue.open is not None:
                self.seal(queue)
        self.outcomes.fail_all(error)

    def next_wake(self, now: float) -> float | None:
        """Return when `drain` or `expire` next has something to do, if nothing else happens."""
        found: list[float] = []
        timeout_s = self.options.delivery_timeout_s
        self._none_late_until = now + timeout_s
        for queue in self.buffer.busy:
            if queue.open is not None:
                waits_s = self._waits_s if queue.waiting else self.options.linger_s
                found.append(queue.open.created + waits_s)
            if queue.waiting and queue.not_before > now:
                found.append(queue.not_before)
            oldest = queue.oldest_created
            if oldest is not None:
                found.append(oldest + timeout_s)
                self._none_late_until = min(self._none_late_until, oldest + timeout_s)
        return min(found, default=None)

    def troubles(self) -> dict[TopicPartition, KafkaError]:
        return self.buffer.troubles()

    def unfinished(self) -> list[Batch]:
        return self.buffer.unfinished()


def _fill(run: Run, builder: BatchBuilder, start: int) -> int:
    """Return how many records from `start` on fitted. Raise only for a bad first record."""
    count = builder.count
    try:
        return run.fill(builder, start)
    except _BAD_RECORD:
        if builder.count == count:
            raise
        return builder.count - count


def _has_another_leader(queue: PartitionQueue, metadata: Metadata) -> bool:
    """Whether the first waiting batch was not yet sent to the partition's present leader."""
    known = metadata.partition(queue.where)
    return (
        known is not None
        and known.leader != NO_LEADER
        and bool(queue.waiting)
        and known.leader_epoch != queue.waiting[0].leader_epoch
    )


def _note_leaderless(queue: PartitionQueue, metadata: Metadata) -> None:
    """Record why the first batch waits, unless it has an error already."""
    batch = queue.waiting[0]
    if batch.last_error is None:
        batch.last_error = KafkaError(
            metadata.refused.get(queue.where.topic, ErrorCode.LEADER_NOT_AVAILABLE),
            "the partition has no leader at present",
            **queue.where._asdict(),
        )
