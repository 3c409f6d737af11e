"""A partition's batches on their way: the order that they keep, and their sequence numbers. No IO.

Order. Batches are numbered when they are first sent. A batch that has to be sent again goes back to
its place before those that were never sent, and until the last such is under way again, the
partition has one batch under way at a time. So the broker sees the sequence that it expects, or
what it refused is sent again in order.

A gap. A batch that failed for good leaves a gap in the sequence, which the broker refuses to step
over. The partition goes on with the next producer epoch from sequence 0, as Kafka's producer does:
the broker takes that as a new beginning, and refuses whatever of the old epoch may still arrive. An
idempotent producer has no coordinator, so the epoch can be raised for one partition alone.

A beginning. A broker that does not know a producer takes any sequence from it. So the first batch
of an epoch goes alone: if it were refused, the batches behind it would be stored before it. So does
the first batch after a long silence, in which a broker forgets.

A new beginning must not repeat what is stored. So it waits until nothing is under way, and until
each batch that may be stored has been sent again as it was: if the broker has it, the answer says
so. If the answer is that the sequence is out of order, the broker may have it all the same: after a
crash it knows the last batch of each producer and none before. Such a batch is held, and those
behind it are sent again as they were. If the broker has one of them, the held batch fails: it is
stored, or was overtaken (outcome.py). When none is left to ask about, the held batches are not
stored, and go on in another epoch; unless one of those behind failed for another reason and took
the answer with it: then they fail too, because they could be stored twice.

A batch that is too large for the broker gives its place, its numbers and its sequence to its parts.
They are sent again as any other batch, so what was under way behind them is refused and comes after
them. If the whole may be stored, so may each part, and none may go on under another epoch.

A batch is built before it is numbered, so one that cannot be built leaves no gap.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from moldau.client.producer.batch import NOT_SENT, Batch, BatchState
from moldau.ids import ZERO_UUID, Uuid
from moldau.link.metadata import NO_EPOCH, TopicPartition
from moldau.records import NO_PRODUCER, Producer

EPOCH_MAX: Final = 2**15 - 1
_SEQUENCE_MASK: Final = 2**31 - 1


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
    """The last batch that has failed and may be stored all the same."""
    hung_number: int = NOT_SENT
    """The last that has failed and was sent without an answer."""
    topic_id: Uuid = ZERO_UUID
    numbered: int = 0
    next_sequence: int = 0
    producer_id: int = NO_PRODUCER.id
    producer_epoch: int = NO_PRODUCER.epoch
    must_restart: bool = False
    is_known: bool = False
    """Whether the broker is known to know this producer; see `forget`."""
    is_blocked: bool = False
    """Whether more was complete at the last turn than could be sent."""
    leader_epoch: int = NO_EPOCH
    """Of the leader that its batches go to."""
    leaderless: int = 0
    """How often in a row it had no known leader."""
    not_before: float = 0.0
    """Until when the first batch that waits is put off."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to send and nothing under way."""
        return not (self.open is not None or self.waiting or self.in_flight or self.held)

    @property
    def is_retrying(self) -> bool:
        """Whether something that was sent has to be sent again."""
        return bool(self.waiting) and self.waiting[0].was_sent

    @property
    def has_unsure(self) -> bool:
        """Whether the broker may have something that waits to be sent again, or is under way."""
        again = (each for each in self.waiting if each.was_sent)
        return bool(self.in_flight) or any(each.trace for each in again)

    @property
    def has_hung(self) -> bool:
        """Whether a batch that has failed may arrive yet and be stored: not once one behind it
        is."""
        return self.hung_number > self.stored_number

    def may_send(self, now: float, in_flight_max: int) -> bool:
        """Whether the first batch that waits may go out now."""
        if not self.waiting or now < self.not_before:
            return False
        if self.is_retrying:
            return not self.in_flight
        if self.must_restart or self.held:
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
        batch.become(BatchState.READY)
        self.waiting.append(batch)

    def take(self, identity: Producer) -> Batch:
        """The next batch to send, sequenced (if `identity` is one), built and numbered. KafkaError
        when it cannot be built: then nothing has changed, and it is the first still."""
        batch = self.waiting[0]
        if batch.was_sent:
            batch.build()
        else:
            batch.producer = self._next_producer(identity)
            batch.build()
            batch.number = self.numbered
            self.numbered += 1
            self._count(batch)
        self.waiting.popleft()
        batch.become(BatchState.SENT)
        self.in_flight.append(batch)
        batch.leader_epoch = self.leader_epoch
        batch.attempts += 1
        return batch

    def _next_producer(self, identity: Producer) -> Producer:
        """The id, epoch and sequence of the next batch."""
        if identity.id == NO_PRODUCER.id:
            self.is_known = True
            return NO_PRODUCER
        if self.producer_id == NO_PRODUCER.id:
            self.producer_id, self.producer_epoch = identity.id, identity.epoch
        return Producer(self.producer_id, self.producer_epoch, self.next_sequence)

    def _count(self, batch: Batch) -> None:
        """The sequence goes on behind this one."""
        self.next_sequence = (self.next_sequence + batch.count) & _SEQUENCE_MASK

    def belongs_to(self, topic_id: Uuid) -> None:
        """Its topic has this id. If it had another, it was deleted and made again: what is under
        way is through before anything else goes there. The new log knows no producer, so it takes
        whatever batch comes first."""
        if topic_id == self.topic_id:
            return
        if self.topic_id != ZERO_UUID and self.producer_id != NO_PRODUCER.id:
            self.must_restart = True
        self.topic_id = topic_id

    def forget(self) -> None:
        """Nothing was sent for long, so a broker may have forgotten the producer: as at the
        beginning, the next batch goes alone."""
        self.is_known = False

    def needs_restart(self, identity: Producer) -> bool:
        """Whether the sequence has to begin anew, and can: see above."""
        if self.producer_id not in (NO_PRODUCER.id, identity.id):
            self.must_restart = True
        return self.must_restart and not self.held and not self.has_unsure

    def restart(self, identity: Producer) -> None:
        """Goes on under the next epoch, or under another id, from sequence 0."""
        assert not self.in_flight
        if identity.id == self.producer_id:
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
                self._count(batch)

    @property
    def oldest_created(self) -> float | None:
        """When the oldest batch was begun of those that are not decided."""
        under_way = [each.created for each in (*self.held, *self.in_flight) if not each.is_done]
        if self.waiting:
            under_way.append(self.waiting[0].created)
        if self.open is not None:
            under_way.append(self.open.created)
        return min(under_way, default=None)

    def is_first_under_way(self, batch: Batch) -> bool:
        """Whether no earlier batch of the partition is still to be acknowledged."""
        others = (*self.held, *self.in_flight, *self.waiting)
        earlier = (each.number for each in others if each.was_sent)
        return min(earlier, default=batch.number) >= batch.number

    def is_next_to_ask(self, batch: Batch) -> bool:
        """Whether no earlier batch is to be acknowledged, but for those that are held."""
        others = (*self.in_flight, *self.waiting)
        earlier = (each.number for each in others if each.was_sent)
        return min(earlier, default=batch.number) >= batch.number

    def hold(self, batch: Batch) -> None:
        """Whether it is stored shows when those behind it are answered."""
        if not batch.is_done:
            batch.become(BatchState.HELD)
        self.held.append(batch)

    def put_back(self, batch: Batch) -> None:
        """It has to be sent again, before all that was sent after it."""
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
        """`parts` stand where the batch stood: one that was sent is in no list any more, any other
        is the first that waits."""
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
