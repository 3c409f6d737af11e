"""A producer's state: the queues of its partitions, the memory of their batches, and the failed
records. Records come in and requests go out through `accumulator`; `outcome` decides what a
response means. No IO.

Invariants: each batch gives its memory back exactly once; a queue is `busy` exactly while it has
something to send or in flight.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Final

from moldau.client.producer.batch import NO_OFFSET, NO_TIMESTAMP, Batch
from moldau.client.producer.delivery import again
from moldau.client.producer.queue import PartitionQueue
from moldau.client.producer.splitting import Fit, split
from moldau.client.producer.transaction_core import TransactionCore
from moldau.client.producer.transaction_errors import of_kind
from moldau.deferred import dataclass
from moldau.errors.codes import KafkaError
from moldau.link.metadata import TopicPartition
from moldau.records import Codec, Producer

BATCHES_MAX: Final = 1_000
_STEPS_MAX: Final = 16
"""The most steps in which a batch grows if `batch_bytes` is very small."""


@dataclass(frozen=True, slots=True)
class Options:
    """The producer's settings, in the units used here."""

    batch_bytes: int
    request_bytes: int
    memory_bytes: int
    linger_s: float
    delivery_timeout_s: float
    in_flight_max: int
    is_idempotent: bool
    codec: Codec
    level: int | None
    retries_max: int = 2**31 - 1
    grown_bytes: int = 0
    """The largest size of a batch that has to wait; no effect up to `batch_bytes`."""
    is_transactional: bool = False
    """Whether only the transaction coordinator raises the producer's epoch."""


class Mishap(Enum):
    """What may become of a batch that is not simply acknowledged."""

    FAILED = "it has failed for good"
    SPLIT = "it was too large, and was split"
    GAP = "the broker lacks acknowledged records before it"


class Failures:
    """One producer's failed batches since the last flush, which raises how many records failed
    unawaited, and the first cause.

    A `Delivery` may be awaited after its record has failed, so failed batches are kept until a
    flush. Beyond `BATCHES_MAX` the oldest are only counted: awaiting one of those later changes
    nothing.
    """

    def __init__(self) -> None:
        self._batches: deque[Batch] = deque()
        self._count = 0
        self._cause: KafkaError | None = None

    def add(self, batch: Batch) -> None:
        """Add a batch that has failed, wholly or in part."""
        while self._batches and not self._batches[0].unawaited:
            self._batches.popleft()
        self._batches.append(batch)
        if len(self._batches) > BATCHES_MAX:
            self._settle(self._batches.popleft())

    def _settle(self, batch: Batch) -> None:
        records = batch.unawaited
        if records:
            self._count += records
            self._cause = self._cause or batch.error

    @property
    def count(self) -> int:
        """The number of records that have failed and were not awaited."""
        return self._count + sum(batch.unawaited for batch in self._batches)

    def take(self) -> KafkaError | None:
        """Return the first cause, with the count in its context (`failed_records`). Forget all."""
        while self._batches:
            self._settle(self._batches.popleft())
        cause, self._cause = self._cause, None
        count, self._count = self._count, 0
        if cause is None:
            return None
        found = again(cause)
        found.context = {**cause.context, "failed_records": count}
        return found


class Buffer:
    """All batches of one producer that are not decided yet."""

    def __init__(self, options: Options, transaction: TransactionCore | None = None) -> None:
        """`transaction` is the core that fails with the records."""
        self.options = options
        self.transaction = transaction
        self.builder_bytes = min(options.batch_bytes, options.request_bytes)
        self.grown_bytes = min(options.grown_bytes, options.request_bytes)
        self.step_bytes = max(self.builder_bytes, self.grown_bytes // _STEPS_MAX)
        self.used_bytes = 0
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self.busy: dict[PartitionQueue, None] = {}
        self.fits: dict[PartitionQueue, Fit] = {}
        self.failures = Failures()
        self.trouble: KafkaError | None = None
        """Why a broker could not be reached lately: the cause for batches that were never sent."""
        self.mishaps: list[tuple[Mishap, Batch]] = []
        """What has happened since the sender last looked; it counts them and empties the list."""

    def queue(self, where: TopicPartition) -> PartitionQueue:
        """Return the partition's queue; make it on the first call."""
        queue = self.queues.get(where)
        if queue is None:
            queue = self.queues[where] = PartitionQueue(where)
        return queue

    @property
    def has_room(self) -> bool:
        """Whether another batch may be begun; always if there is none."""
        return (
            self.used_bytes == 0
            or self.used_bytes + self.builder_bytes <= self.options.memory_bytes
        )

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be sent or in flight."""
        return not self.busy

    def resize(self, batch: Batch, size_bytes: int) -> None:
        """Set the memory that the batch takes."""
        self.used_bytes += size_bytes - batch.reserved_bytes
        batch.reserved_bytes = size_bytes

    def end(
        self,
        batch: Batch,
        base_offset: int = NO_OFFSET,
        timestamp: int = NO_TIMESTAMP,
        *,
        error: KafkaError | None = None,
        is_under_way: bool = False,
    ) -> None:
        """Decide the outcome of a batch. A split batch fails when its last part ends."""
        transaction = self.transaction
        if error is not None and transaction is not None:
            error = of_kind(error)
        batch.finish(base_offset, timestamp, error, is_under_way=is_under_way)
        if error is not None:
            self.mishaps.append((Mishap.FAILED, batch))
            if transaction is not None:
                transaction.on_failed(error)
        appended = batch if batch.whole is None else batch.outermost
        if appended.error is not None:
            self.failures.add(appended)

    def release(self, queue: PartitionQueue, batch: Batch) -> None:
        """Free the memory of a batch that is in no list any more."""
        self.used_bytes -= batch.reserved_bytes
        batch.reserved_bytes = 0
        batch.drop()
        if not (queue.in_flight or queue.waiting or queue.open is not None or queue.held):
            self.busy.pop(queue, None)

    def split(self, queue: PartitionQueue, batch: Batch, fit: Fit) -> None:
        """Put parts in the place of a batch. Raise KafkaError if they cannot be made."""
        parts = split(batch, fit.size_bytes_max, self.options.codec, self.options.level)
        queue.replace(batch, parts)
        self.used_bytes += sum(each.reserved_bytes for each in parts)
        self.release(queue, batch)
        self.mishaps.append((Mishap.SPLIT, batch))

    def is_unsure(self, producer: Producer) -> bool:
        """Whether a record of this producer id and epoch may still arrive, or the sequence of a
        partition has a gap."""
        return any(
            queue.must_restart
            and (queue.producer_id, queue.producer_epoch) == (producer.id, producer.epoch)
            for queue in self.queues.values()
        )

    def unfinished(self) -> list[Batch]:
        """Return every undecided batch, oldest first in each partition."""
        found: list[Batch] = []
        for queue in self.busy:
            found += (each for each in (*queue.held, *queue.in_flight) if not each.is_done)
            found += queue.waiting
            found += [queue.open] if queue.open is not None else []
        return found

    def troubles(self) -> dict[TopicPartition, KafkaError]:
        """Return by partition the last error of its oldest batch, or why its broker cannot be
        reached; only of partitions that have one."""
        found = {}
        for queue in self.busy:
            oldest = next(iter((*queue.held, *queue.in_flight, *queue.waiting)), queue.open)
            error = self.trouble if oldest is None else oldest.last_error or self.trouble
            if error is not None:
                found[queue.where] = error
        return found
