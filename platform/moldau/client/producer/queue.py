"""A partition's outgoing batches: their order, and their sequence numbers. No IO.

Order. Batches are numbered when they are first sent. A batch to be retried goes back to its place
before those never sent; until the last such batch is sent again, the partition has one batch in
flight at a time. So the broker gets the sequence it expects, or retries come in order.

A gap. A batch that failed for good leaves a gap in the sequence, and brokers accept no gap. The
partition continues with the next producer epoch from sequence 0, as Kafka's producer does: the
broker accepts that as a new start, and rejects late batches of the old epoch. An idempotent
producer has no coordinator, so the epoch can be raised for one partition alone. A transactional one
has: its transaction is aborted, and the partition waits for the epoch of the next one.

A start. A broker that does not know a producer accepts any sequence from it. So the first batch of
an epoch is sent alone: if it were rejected, the batches behind it would be stored before it. The
same holds for the first batch after a long silence, in which a broker forgets producers.

A restart must not repeat stored records. So it waits until nothing is in flight and each batch that
may be stored has been sent again unchanged: if the broker has it, the response says so. If the
response is that the sequence is out of order, the broker may still have it: after a crash it knows
the last batch of each producer and none before. Such a batch is held, and those behind it are sent
again unchanged. If the broker has one of them, the held batch fails: it is stored, or was overtaken
(outcome.py). If none is left to ask about, the held batches are not stored, and go on in another
epoch; unless one of those behind failed for another reason and left the question open: then they
fail too, because they could be stored twice.

A batch that is too large for the broker gives its place, numbers and sequence to its parts. They
are retried as any other batch, so batches in flight behind it are rejected and come after them. If
the whole may be stored, so may each part, and none may go on under another epoch.

A batch is built before it is numbered, so one that cannot be built leaves no gap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import field
from itertools import islice
from operator import attrgetter
from typing import Final

from moldau.client.producer.batch import NOT_SENT, Batch, BatchState
from moldau.deferred import dataclass
from moldau.ids import ZERO_UUID, Uuid
from moldau.link.metadata import NO_EPOCH, TopicPartition
from moldau.records import NO_PRODUCER, Producer

EPOCH_MAX: Final = 2**15 - 1
_SEQUENCE_MASK: Final = 2**31 - 1
_created: Final = attrgetter("created")


@dataclass(slots=True, eq=False, repr=False)
class PartitionQueue:
    """A partition's batches. `open` takes records; `waiting` are complete and in order."""

    where: TopicPartition
    open: Batch | None = None
    waiting: deque[Batch] = field(default_factory=deque)
    in_flight: list[Batch] = field(default_factory=list)
    held: list[Batch] = field(default_factory=list)
    stored_number: int = NOT_SENT
    """The last batch of this epoch that a broker has."""
    lost_number: int = NOT_SENT
    """The last batch that has failed but may be stored."""
    hung_number: int = NOT_SENT
    """The last batch that has failed and was sent without a response."""
    topic_id: Uuid = ZERO_UUID
    numbered: int = 0
    next_sequence: int = 0
    producer_id: int = NO_PRODUCER.id
    producer_epoch: int = NO_PRODUCER.epoch
    must_restart: bool = False
    is_known: bool = False
    """Whether the broker surely knows this producer; see `forget`."""
    is_blocked: bool = False
    """Whether the last drain had more complete batches than it could send."""
    leader_epoch: int = NO_EPOCH
    """The epoch of the leader that its batches go to."""
    on_filled: Callable[[PartitionQueue, int], None] | None = None
    """Called with the queue and its new bytes: other partitions should get their share."""
    leaderless: int = 0
    """How many times in a row it had no known leader."""
    not_before: float = 0.0
    """Until when the first waiting batch is put off."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be sent or in flight."""
        return not (self.open is not None or self.waiting or self.in_flight or self.held)

    @property
    def has_unsure(self) -> bool:
        """Whether a batch is in flight, or waits to be sent again and may be stored."""
        again = (each for each in self.waiting if each.was_sent)
        return bool(self.in_flight) or any(each.trace for each in again)

    @property
    def has_hung(self) -> bool:
        """Whether a failed batch may still arrive and be stored; not after a later one is."""
        return self.hung_number > self.stored_number

    def may_send(self, now: float, in_flight_max: int) -> bool:
        """Whether the first waiting batch may be sent now."""
        if not self.waiting or now < self.not_before:
            return False
        if self.waiting[0].number != NOT_SENT:  # it has to be sent again
            return not self.in_flight
        if self.must_restart or self.held:
            return False
        if not self.is_known and self.in_flight:
            return False
        return len(self.in_flight) < in_flight_max

    def seal(self) -> None:
        """Complete the open batch: it takes no more records."""
        batch, self.open = self.open, None
        assert batch is not None
        assert batch.builder is not None
        batch.count = batch.builder.count
        batch.become(BatchState.READY)
        self.waiting.append(batch)

    def take(self, identity: Producer) -> Batch:
        """Return the next batch to send, with its sequence (if `identity` is one), built and
        numbered. Raise KafkaError if it cannot be built: then nothing has changed."""
        batch = self.waiting[0]
        is_new = batch.number == NOT_SENT
        if is_new:
            batch.producer = self._next_producer(identity)
        batch.build()
        if is_new:
            batch.number = self.numbered
            self.numbered += 1
            self.next_sequence = (self.next_sequence + batch.count) & _SEQUENCE_MASK
        self.waiting.popleft()
        batch.become(BatchState.SENT)
        self.in_flight.append(batch)
        batch.leader_epoch = self.leader_epoch
        batch.attempts += 1
        return batch

    def _next_producer(self, identity: Producer) -> Producer:
        """Return the id, epoch and sequence of the next batch."""
        if identity.id == NO_PRODUCER.id:
            self.is_known = True
            return NO_PRODUCER
        if self.producer_id == NO_PRODUCER.id:
            self.producer_id, self.producer_epoch = identity.id, identity.epoch
        return Producer(
            self.producer_id, self.producer_epoch, self.next_sequence, identity.is_transactional
        )

    def belongs_to(self, topic_id: Uuid) -> None:
        """Set the topic's id. Another id than before means that the topic was deleted and created
        again: batches in flight must end before others are sent, as the new log knows no producer
        and would take whatever batch comes first."""
        if topic_id == self.topic_id:
            return
        if self.topic_id != ZERO_UUID and self.producer_id != NO_PRODUCER.id:
            self.must_restart = True
        self.topic_id = topic_id

    def forget(self) -> None:
        """Send the next batch alone, as at the start: after a long silence a broker may have
        forgotten the producer."""
        self.is_known = False

    def needs_restart(self, identity: Producer) -> bool:
        """Whether the sequence has to restart, and can; see the module's text."""
        if identity.is_transactional:  # only its coordinator raises the epoch
            is_same = (self.producer_id, self.producer_epoch) == (identity.id, identity.epoch)
            is_new = self.producer_id == NO_PRODUCER.id
            return not (is_same or is_new or self.held or self.has_unsure)
        if self.producer_id not in (NO_PRODUCER.id, identity.id):
            self.must_restart = True
        return self.must_restart and not self.held and not self.has_unsure

    def restart(self, identity: Producer) -> None:
        """Continue with the next epoch, or another id, from sequence 0."""
        assert not self.in_flight
        if identity.id == self.producer_id and not identity.is_transactional:
            assert self.producer_epoch < EPOCH_MAX
            self.producer_epoch += 1
        else:
            self.producer_id, self.producer_epoch = identity.id, identity.epoch
        self.must_restart = False
        self.stored_number = NOT_SENT
        self.lost_number = self.hung_number = NOT_SENT
        self.is_known = False
        self.next_sequence = 0
        for batch in self.waiting:
            if batch.was_sent:
                batch.producer = self._next_producer(identity)
                self.next_sequence = (self.next_sequence + batch.count) & _SEQUENCE_MASK

    @property
    def oldest_created(self) -> float | None:
        """When the oldest undecided batch was begun."""
        found = list(islice(self.waiting, 1))
        if self.open is not None:
            found.append(self.open)
        for batch in (*self.held, *self.in_flight):
            if not batch.is_done:
                found.append(batch)
        return min(map(_created, found), default=None)

    def is_first_under_way(self, batch: Batch) -> bool:
        """Whether no earlier batch of the partition is still to be acknowledged."""
        others = (*self.held, *self.in_flight, *self.waiting)
        earlier = (each.number for each in others if each.was_sent)
        return min(earlier, default=batch.number) >= batch.number

    def is_next_to_ask(self, batch: Batch) -> bool:
        """Whether no earlier batch is to be acknowledged, except held ones."""
        others = (*self.in_flight, *self.waiting)
        earlier = (each.number for each in others if each.was_sent)
        return min(earlier, default=batch.number) >= batch.number

    def hold(self, batch: Batch) -> None:
        """Hold the batch: the responses to later ones show whether it is stored."""
        if not batch.is_done:
            batch.become(BatchState.HELD)
        self.held.append(batch)

    def put_back(self, batch: Batch) -> None:
        """Retry the batch, before all that were sent after it."""
        batch.become(BatchState.READY)
        self._insert(batch)

    def _insert(self, batch: Batch) -> None:
        place = 0
        for other in self.waiting:
            if not other.was_sent or other.number > batch.number:
                break
            place += 1
        self.waiting.insert(place, batch)

    def replace(self, batch: Batch, parts: list[Batch]) -> None:
        """Put `parts` in the place of the batch. A batch that was sent is in no list any more; any
        other is the first waiting one."""
        if not batch.was_sent:
            first = self.waiting.popleft()
            assert first is batch
            self.waiting.extendleft(reversed(parts))
            return
        more = len(parts) - 1
        for other in (*self.held, *self.in_flight, *self.waiting):
            if other.number > batch.number:
                other.number += more
        self.numbered += more
        self.stored_number += more if self.stored_number > batch.number else 0
        self.lost_number += more if self.lost_number > batch.number else 0
        self.hung_number += more if self.hung_number > batch.number else 0
        producer = batch.producer
        for number, part in enumerate(parts, batch.number):
            part.number = number
            part.producer = producer
            if producer.id != NO_PRODUCER.id:
                sequence = (producer.base_sequence + part.count) & _SEQUENCE_MASK
                producer = producer._replace(base_sequence=sequence)
            self._insert(part)
        if batch.trace and producer.id != NO_PRODUCER.id:
            self.lost_number = max(self.lost_number, batch.number + len(parts))
