"""What a producer has for one partition: the batch that takes records, those that wait, those under
way, and the sequence numbers that keep them in order. No IO.

Order is kept like this. Batches are numbered when they are first sent. One that has to be sent
again goes back to its place before those that were never sent, and until the last such is under
way again, the partition has one batch under way at a time. So the broker sees the sequence it
expects, or what it refused is sent again in order.

A batch that failed for good leaves a gap in the sequence, which the broker refuses to step over.
The partition goes on with the next producer epoch from sequence 0, as Kafka's producer does: the
broker takes that as a new beginning, and refuses whatever of the old epoch may still arrive. An
idempotent producer has no coordinator, so the epoch can be raised for one partition alone.

A broker that does not know a producer takes any sequence from it. So the first batch of an epoch
goes alone: were it refused, what is behind it would be stored before it.

A new beginning must not repeat what is stored already. So it waits until nothing is under way, and
until no batch is left of which nobody knows whether the broker has it: such a one is sent again as
it was. If the broker has it, it says so; if it says that the sequence has a gap, then it does not
have it, nor anything behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from moldau.client.metadata import TopicPartition
from moldau.errors.codes import KafkaError
from moldau.records import NO_PRODUCER, BatchBuilder, Producer, stamp_producer

EPOCH_MAX: Final = 2**15 - 1
NO_OFFSET: Final = -1
NO_TIMESTAMP: Final = -1
_SEQUENCE_MASK: Final = 2**31 - 1
_NOT_SENT: Final = -1


class Batch:
    """Records of one partition that are sent, acknowledged or refused together."""

    __slots__ = (
        "append",
        "attempts",
        "base_offset",
        "builder",
        "count",
        "created",
        "data",
        "error",
        "is_done",
        "is_unsure",
        "last_error",
        "number",
        "on_done",
        "producer",
        "reserved_bytes",
        "timestamp",
        "where",
    )

    def __init__(self, where: TopicPartition, builder: BatchBuilder, created: float) -> None:
        self.where = where
        self.builder: BatchBuilder | None = builder
        self.append = builder.append
        self.created = created
        self.data: bytearray | None = None
        self.count = 0
        self.number = _NOT_SENT
        self.attempts = 0
        self.producer = NO_PRODUCER
        self.reserved_bytes = 0
        self.is_done = False
        self.is_unsure = False
        self.error: KafkaError | None = None
        self.last_error: KafkaError | None = None
        self.base_offset = NO_OFFSET
        self.timestamp = NO_TIMESTAMP
        self.on_done: list[Callable[[], None]] | None = None

    @property
    def was_sent(self) -> bool:
        """Whether the broker may have it."""
        return self.number != _NOT_SENT

    def build(self, producer: Producer) -> bytearray:
        """The bytes to send, with these sequence numbers; made once, stamped anew if they moved."""
        if self.data is None:
            assert self.builder is not None
            self.data = self.builder.build(producer=producer)
            self.builder = None
        elif producer != self.producer:
            stamp_producer(self.data, producer)
        self.producer = producer
        return self.data

    def finish(
        self, base_offset: int, timestamp: int = NO_TIMESTAMP, error: KafkaError | None = None
    ) -> bool:
        """It is acknowledged, or has failed for good; whether anybody was told."""
        assert not self.is_done, "a batch ends once"
        self.is_done = True
        self.base_offset = base_offset
        self.timestamp = timestamp
        self.error = error
        callbacks, self.on_done = self.on_done, None
        for tell in callbacks or ():
            tell()
        return bool(callbacks)


class PartitionQueue:
    """A partition's batches. `open` takes records; `waiting` are complete and in order."""

    __slots__ = (
        "failures",
        "in_flight",
        "is_known",
        "must_restart",
        "next_sequence",
        "not_before",
        "numbered",
        "open",
        "producer_epoch",
        "producer_id",
        "waiting",
        "where",
    )

    def __init__(self, where: TopicPartition) -> None:
        self.where = where
        self.open: Batch | None = None
        self.waiting: deque[Batch] = deque()
        self.in_flight: list[Batch] = []
        self.numbered = 0
        self.next_sequence = 0
        self.producer_id = NO_PRODUCER.id
        self.producer_epoch = NO_PRODUCER.epoch
        self.must_restart = False
        self.is_known = False
        self.failures = 0
        self.not_before = 0.0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to send and nothing under way."""
        return self.open is None and not self.waiting and not self.in_flight

    @property
    def is_retrying(self) -> bool:
        """Whether something that was sent has to be sent again."""
        return bool(self.waiting) and self.waiting[0].was_sent

    def may_send(self, now: float, in_flight_max: int) -> bool:
        """Whether the first batch that waits may go out now."""
        if not self.waiting or now < self.not_before:
            return False
        if self.is_retrying:
            return not self.in_flight
        if self.must_restart:
            return False
        if not self.is_known and self.in_flight:
            return False
        return len(self.in_flight) < in_flight_max

    def seal(self) -> None:
        """The open batch takes no more records."""
        batch, self.open = self.open, None
        assert batch is not None
        assert batch.builder is not None
        batch.count = batch.builder.count
        self.waiting.append(batch)

    def take(self, identity: Producer) -> Batch:
        """The next batch to send, numbered, sequenced (if `identity` is one) and built."""
        batch = self.waiting.popleft()
        if not batch.was_sent:
            batch.number = self.numbered
            self.numbered += 1
            batch.build(self._sequence(identity, batch.count))
        self.in_flight.append(batch)
        batch.attempts += 1
        return batch

    def _sequence(self, identity: Producer, count: int) -> Producer:
        if identity.id == NO_PRODUCER.id:
            self.is_known = True
            return NO_PRODUCER
        if self.producer_id == NO_PRODUCER.id:
            self.producer_id, self.producer_epoch = identity.id, identity.epoch
        sequence = self.next_sequence
        self.next_sequence = (sequence + count) & _SEQUENCE_MASK
        return Producer(self.producer_id, self.producer_epoch, sequence)

    def needs_restart(self, identity: Producer) -> bool:
        """Whether the sequence has to begin anew, and can: see above."""
        if self.producer_id not in (NO_PRODUCER.id, identity.id):
            self.must_restart = True
        if not self.must_restart or self.in_flight:
            return False
        return not (self.is_retrying and self.waiting[0].is_unsure)

    def restart(self, identity: Producer) -> None:
        """Goes on under the next epoch, or under another id, from sequence 0."""
        assert not self.in_flight
        if identity.id == self.producer_id:
            assert self.producer_epoch < EPOCH_MAX
            self.producer_epoch += 1
        else:
            self.producer_id, self.producer_epoch = identity.id, identity.epoch
        self.must_restart = False
        self.is_known = False
        self.next_sequence = 0
        for batch in self.waiting:
            if batch.was_sent:
                batch.build(self._sequence(identity, batch.count))

    def is_first_under_way(self, batch: Batch) -> bool:
        """Whether no earlier batch of the partition is still to be acknowledged."""
        earlier = (each.number for each in (*self.in_flight, *self.waiting) if each.was_sent)
        return min(earlier, default=batch.number) >= batch.number

    def put_back(self, batch: Batch) -> None:
        """It has to be sent again, before all that was sent after it."""
        place = 0
        for other in self.waiting:
            if not other.was_sent or other.number > batch.number:
                break
            place += 1
        self.waiting.insert(place, batch)
