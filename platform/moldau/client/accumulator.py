"""Records on their way out: gathered by partition, sent by broker, kept until acknowledged. No IO:
the shell appends, asks `drain` what to send now, and reports each outcome.

Invariants: a batch ends exactly once, acknowledged or failed, and gives its memory back then;
within a partition batches are acknowledged in the order of sending (batches.py says how); with
idempotence nothing is stored twice, whatever is sent again; nothing waits beyond its delivery
timeout; a batch whose time ran out while it was under way is failed, but keeps its place until the
broker's answer says what became of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.client.backoff import Backoff
from moldau.client.batches import EPOCH_MAX, NO_OFFSET, Batch, PartitionQueue
from moldau.client.metadata import NO_LEADER, Metadata, TopicPartition
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.records import NO_PRODUCER, BatchBuilder, Codec, Producer, Row

if TYPE_CHECKING:
    from random import Random

_LOST_STATE: Final = frozenset(
    (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    )
)
# After these the broker may have the batch all the same.
_UNSURE: Final = frozenset(
    (
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    )
)


@dataclass(frozen=True, slots=True)
class Options:
    """What the settings say, in the units used here."""

    batch_bytes: int
    request_bytes: int
    memory_bytes: int
    linger_s: float
    delivery_timeout_s: float
    in_flight_max: int
    is_idempotent: bool
    codec: Codec
    level: int | None


class ToSend(NamedTuple):
    """One request's worth: a batch each of some partitions that one broker leads."""

    node_id: int
    batches: list[Batch]


@dataclass(slots=True)
class Drained:
    """What the shell must do: send, and connect to or find what is missing."""

    requests: list[ToSend] = field(default_factory=list)
    unreachable: set[int] = field(default_factory=set)
    has_leaderless: bool = False


class Accumulator:
    """All records that a producer has and the cluster has not acknowledged."""

    def __init__(self, options: Options, backoff: Backoff, random: Random) -> None:
        self.options = options
        self.identity = NO_PRODUCER
        self.used_bytes = 0
        self.is_flushing = False
        self.needs_identity = options.is_idempotent
        self.trouble: KafkaError | None = None
        """Why a broker could not be reached lately: for batches that were never sent."""
        self._backoff = backoff
        self._random = random
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._busy: dict[PartitionQueue, None] = {}
        self._builder_bytes = min(options.batch_bytes, options.request_bytes)

    # Records in

    def queue(self, where: TopicPartition) -> PartitionQueue:
        """The partition's queue, made when first asked for."""
        queue = self._queues.get(where)
        if queue is None:
            queue = self._queues[where] = PartitionQueue(where)
        return queue

    @property
    def has_room(self) -> bool:
        """Whether another batch may be begun. One always may when there is none."""
        return (
            self.used_bytes == 0
            or self.used_bytes + self._builder_bytes <= self.options.memory_bytes
        )

    def begin(
        self,
        queue: PartitionQueue,
        now: float,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
    ) -> Batch:
        """A new batch with its first record; the one before takes no more.

        KafkaError when the record alone is larger than a request may be.
        """
        batch = Batch(queue.where, self._builder(), now)
        assert batch.builder is not None
        batch.append(timestamp, key, value, headers)
        if batch.builder.size_bytes > self.options.request_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                "a record is larger than max.request.size",
                topic=queue.where.topic,
                size_bytes=batch.builder.size_bytes,
                max_request_size=self.options.request_bytes,
            )
        self._open(queue, batch)
        return batch

    def extend(
        self, queue: PartitionQueue, now: float, rows: Sequence[Row], start: int
    ) -> tuple[Batch, int, int] | None:
        """Appends rows from `start` on, as many as one batch takes: (batch, index of the first in
        it, how many); None when a new batch is needed and there is no room for one."""
        batch = queue.open
        if batch is not None:
            assert batch.builder is not None
            first = batch.builder.count
            count = batch.builder.extend(rows, start)
            if count:
                return batch, first, count
        if not self.has_room:
            return None
        batch = self.begin(queue, now, *rows[start])
        assert batch.builder is not None
        return batch, 0, 1 + batch.builder.extend(rows, start + 1)

    def _builder(self) -> BatchBuilder:
        return BatchBuilder(self._builder_bytes, codec=self.options.codec, level=self.options.level)

    def _open(self, queue: PartitionQueue, batch: Batch) -> None:
        if queue.open is not None:
            self.seal(queue)
        assert batch.builder is not None
        batch.reserved_bytes = max(self._builder_bytes, batch.builder.size_bytes)
        self.used_bytes += batch.reserved_bytes
        queue.open = batch
        self._busy[queue] = None

    def seal(self, queue: PartitionQueue) -> None:
        """The open batch is complete: what it did not need of its memory is free again."""
        batch = queue.open
        assert batch is not None
        assert batch.builder is not None
        self.used_bytes += batch.builder.size_bytes - batch.reserved_bytes
        batch.reserved_bytes = batch.builder.size_bytes
        queue.seal()

    # Requests out

    def drain(self, now: float, metadata: Metadata, room: dict[int, int]) -> Drained:
        """What may be sent now. `room`: how many more requests each connected broker takes."""
        drained = Drained()
        self._seal_what_is_due(now)
        if self.needs_identity:
            return drained
        candidates: dict[int, list[PartitionQueue]] = {}
        for queue in self._busy:
            if queue.needs_restart(self.identity) and not self._restart(queue):
                continue
            if not queue.may_send(now, self.options.in_flight_max):
                continue
            leader = metadata.leader_of(queue.where)
            if leader == NO_LEADER:
                self._put_off(queue, now)
                drained.has_leaderless = True
            elif leader not in room:
                drained.unreachable.add(leader)
            else:
                candidates.setdefault(leader, []).append(queue)
        for node_id, queues in candidates.items():
            drained.requests += self._requests(now, node_id, queues, room[node_id])
        return drained

    def _requests(
        self, now: float, node_id: int, queues: list[PartitionQueue], room: int
    ) -> Iterator[ToSend]:
        while room > 0:
            batches: list[Batch] = []
            size = 0
            for queue in queues:
                if not queue.may_send(now, self.options.in_flight_max):
                    continue
                size_next = queue.waiting[0].reserved_bytes
                if batches and size + size_next > self.options.request_bytes:
                    continue
                batches.append(queue.take(self.identity))
                size += size_next
            if not batches:
                return
            queues.append(queues.pop(0))  # another one is first in the next request
            room -= 1
            yield ToSend(node_id, batches)

    def _seal_what_is_due(self, now: float) -> None:
        everything = self.is_flushing or not self.has_room
        due = now - self.options.linger_s
        for queue in self._busy:
            if queue.open is not None and (everything or queue.open.created <= due):
                self.seal(queue)

    def _restart(self, queue: PartitionQueue) -> bool:
        """Whether the queue could begin anew; not when its epochs are used up."""
        if queue.producer_id == self.identity.id and queue.producer_epoch >= EPOCH_MAX:
            self.needs_identity = True
            return False
        queue.restart(self.identity)
        return True

    def _put_off(self, queue: PartitionQueue, now: float) -> None:
        queue.failures += 1
        queue.not_before = now + self._backoff.wait_s(queue.failures, self._random)

    def next_wake(self, now: float) -> float | None:
        """When `drain` or `expire` would have something to do, if nothing else happens."""
        earliest: float | None = None
        for queue in self._busy:
            oldest = queue.open
            if oldest is not None:
                at = oldest.created + self.options.linger_s
                earliest = at if earliest is None or at < earliest else earliest
            if queue.waiting:
                oldest = queue.waiting[0]
                if queue.not_before > now:
                    earliest = (
                        queue.not_before if earliest is None else min(earliest, queue.not_before)
                    )
            if queue.in_flight and not queue.in_flight[0].is_done:
                oldest = queue.in_flight[0]
            if oldest is not None:
                at = oldest.created + self.options.delivery_timeout_s
                earliest = at if earliest is None or at < earliest else earliest
        return earliest

    # Outcomes

    def acknowledged(self, batch: Batch, base_offset: int, timestamp: int) -> None:
        """The broker has it."""
        queue = self._queues[batch.where]
        queue.in_flight.remove(batch)
        self.trouble = None
        queue.is_known = True
        queue.failures = 0
        queue.not_before = 0.0
        if not batch.is_done:
            batch.finish(base_offset, timestamp)
        self._release(queue, batch)

    def refused(self, batch: Batch, error: KafkaError, now: float) -> Batch | None:
        """The broker refused it, or nobody knows whether it has it. The batch is returned when it
        has failed for good and nobody was told."""
        queue = self._queues[batch.where]
        queue.in_flight.remove(batch)
        batch.last_error = error
        if error.code in _UNSURE:
            batch.is_unsure = True
        if error.code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER and not batch.is_done:
            batch.finish(NO_OFFSET)
            self._release(queue, batch)
            return None
        if not batch.is_done and self._may_retry(queue, batch, error):
            queue.put_back(batch)
            self._put_off(queue, now)
            return None
        return self._fail(queue, batch, error)

    def _may_retry(self, queue: PartitionQueue, batch: Batch, error: KafkaError) -> bool:
        if error.code not in _LOST_STATE or not self.options.is_idempotent:
            return error.retriable
        if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            batch.is_unsure = False  # were it stored, it would be called a duplicate
            if not queue.is_first_under_way(batch) or queue.must_restart:
                return True  # what should have come before it did not: no surprise
            queue.must_restart = True
            return False  # records that were acknowledged are gone: the user should hear of it
        queue.must_restart = True
        return batch.attempts == 1

    def expire(self, now: float) -> list[Batch]:
        """Fails what is over its time; those batches that nobody was told of."""
        untold = []
        created_by = now - self.options.delivery_timeout_s
        for queue in list(self._busy):
            for batch in queue.in_flight:
                if batch.is_done or batch.created > created_by:
                    continue
                if not batch.finish(NO_OFFSET, error=self._too_late(batch)):
                    untold.append(batch)
            while queue.waiting and queue.waiting[0].created <= created_by:
                batch = queue.waiting.popleft()
                failed = self._fail(queue, batch, self._too_late(batch))
                untold += [failed] if failed is not None else []
        return untold

    def _too_late(self, batch: Batch) -> KafkaError:
        context: dict[str, object] = {
            "topic": batch.where.topic,
            "partition": batch.where.partition,
            "records": batch.count,
            "attempts": batch.attempts,
        }
        last_error = batch.last_error or self.trouble
        if last_error is not None:
            context["last_error"] = str(last_error)
        return KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"not delivered within delivery.timeout.ms ({self.options.delivery_timeout_s:g} s)",
            **context,
        )

    def fail_all(self, error: KafkaError) -> list[Batch]:
        """The producer cannot go on: everything that waits fails; those nobody was told of."""
        untold = []
        for queue in list(self._busy):
            if queue.open is not None:
                self.seal(queue)
            for batch in queue.in_flight:
                if not batch.is_done and not batch.finish(NO_OFFSET, error=error):
                    untold.append(batch)
            while queue.waiting:
                failed = self._fail(queue, queue.waiting.popleft(), error)
                untold += [failed] if failed is not None else []
        return untold

    def _fail(self, queue: PartitionQueue, batch: Batch, error: KafkaError) -> Batch | None:
        if batch.was_sent and batch.producer.id != NO_PRODUCER.id:
            queue.must_restart = True
        was_told = True
        if not batch.is_done:
            was_told = batch.finish(NO_OFFSET, error=error)
        self._release(queue, batch)
        return None if was_told else batch

    def _release(self, queue: PartitionQueue, batch: Batch) -> None:
        self.used_bytes -= batch.reserved_bytes
        batch.data = None
        if queue.is_empty:
            self._busy.pop(queue, None)

    def identify(self, producer: Producer) -> None:
        """The id to write with from now on, for queues that begin or begin anew."""
        self.identity = producer
        self.needs_identity = False

    def unfinished(self) -> list[Batch]:
        """Every batch that is neither acknowledged nor failed, oldest first in each partition."""
        found: list[Batch] = []
        for queue in self._busy:
            found += (each for each in queue.in_flight if not each.is_done)
            found += queue.waiting
            found += [queue.open] if queue.open is not None else []
        return found
