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
goes alone: were it refused, what is behind it would be stored before it. So does the first one
after a long silence, in which a broker forgets.

A new beginning must not repeat what is stored already. So it waits until nothing is under way, and
until no batch is left of which nobody knows whether the broker has it: such a one is sent again as
it was. If the broker has it, it says so.

If it says that the sequence is out of order, it may have it all the same: a broker that comes back
after a crash knows the last batch of each producer and none before. So a batch of which nobody
knows is held then, and those behind it are sent again as they were. If the broker has one of them,
it has what is held, or it had forgotten the producer and took them without it (outcomes.py): what
is held fails. When none is left to ask about, those that are held are not there, and are sent in
another epoch; unless one of those behind failed for another reason, and took the answer with it:
then what is held fails too, for it could be stored twice.

A batch that is too large for the broker gives its place, its numbers and its sequence to its parts.
They are sent again as any other is, so what was under way behind them is refused, and comes after
them. If nobody knows whether the broker has the whole, nobody does of the parts either, and none
may go on under another epoch.

A batch has its bytes before it has its number and its place in the sequence. So one that cannot be
built, which fails, leaves no gap behind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Final

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID, Uuid
from moldau.link.metadata import NO_EPOCH, TopicPartition
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
        "heard",
        "is_done",
        "is_unanswered",
        "is_unsure",
        "last_error",
        "leader_epoch",
        "number",
        "on_done",
        "parts",
        "place",
        "producer",
        "reserved_bytes",
        "stamped",
        "timestamp",
        "told",
        "was_tried",
        "where",
        "whole",
    )

    def __init__(self, where: TopicPartition, builder: BatchBuilder, created: float) -> None:
        self.where = where
        self.builder: BatchBuilder | None = builder
        self.append: Callable[..., Any] = builder.append
        self.place: Callable[..., Any] = builder.place
        self.created = created
        self.data: bytearray | None = None
        self.count = 0
        self.number = _NOT_SENT
        self.attempts = 0
        self.leader_epoch = NO_EPOCH
        """Of the leader that it was sent to last."""
        self.producer = NO_PRODUCER
        """Who sends it, and where in the sequence."""
        self.stamped = NO_PRODUCER
        """The same as its bytes say it."""
        self.reserved_bytes = 0
        self.is_done = False
        self.is_unsure = False
        """Whether the broker may have it, since it was refused so or not answered."""
        self.is_unanswered = False
        """Whether it was sent without an answer, and so may yet arrive."""
        self.error: KafkaError | None = None
        self.last_error: KafkaError | None = None
        self.base_offset = NO_OFFSET
        self.timestamp = NO_TIMESTAMP
        """When the broker appended it, if it goes by that."""
        self.on_done: list[Callable[[], None]] | None = None
        self.told = 0
        """How many of its records somebody waits for, who will hear of their failure."""
        self.heard: set[int] | None = None
        """Those that have failed and of which somebody has heard so, by index."""
        self.parts: list[Batch] | None = None
        """What it was split into, in order. It ends with the last of them."""
        self.was_tried = False
        """Whether its records were sent before in a larger batch."""
        self.whole: Batch | None = None
        """What it is a part of. It may itself have parts."""

    def __repr__(self) -> str:
        state = "waits" if not self.is_done else str(self.error or "is acknowledged")
        return f"<Batch of {self.where} {state}>"

    @property
    def was_sent(self) -> bool:
        """Whether the broker may have it."""
        return self.number != _NOT_SENT

    def build(self) -> None:
        """Makes the bytes to send: once, and stamps them anew if its sequence moved. KafkaError if
        they cannot be made; then they never can, for the records may be spent."""
        try:
            if self.data is None:
                assert self.builder is not None
                self.data = self.builder.build(producer=self.producer)
                self.builder = None
            elif self.stamped != self.producer:
                stamp_producer(self.data, self.producer)
        except Exception as error:
            raise unbuilt(self, error) from error
        self.stamped = self.producer

    def drop(self) -> None:
        """Its records are not needed any more. Who waits for one keeps the batch, not these."""
        self.data = self.builder = None
        self.append = self.place = _takes_none

    def finish(
        self, base_offset: int, timestamp: int = NO_TIMESTAMP, error: KafkaError | None = None
    ) -> Batch | None:
        """It is acknowledged, or has failed for good. What has ended with it is returned if there
        are records of it that have failed and that nobody has heard of: it, or what it is part of.
        Who waits for some of them may yet be cancelled, or wait for the same one as another."""
        assert not self.is_done, "a batch ends once"
        self.is_done = True
        self.base_offset = base_offset
        self.timestamp = timestamp
        self.error = error
        callbacks, self.on_done = self.on_done, None
        if callbacks:
            _tell_each(iter(callbacks))
        if self.whole is not None:
            return self.whole._part_ended()
        return self if error is not None and self.unheard else None

    def _part_ended(self) -> Batch | None:
        assert self.parts is not None
        if not all(each.is_done for each in reversed(self.parts)):
            return None
        first = self.parts[0]
        error = next((each.error for each in self.parts if each.error is not None), None)
        return self.finish(first.base_offset, first.timestamp, error)

    @property
    def untold(self) -> int:
        """How many records have failed, or may, and nobody waits for them. Of parts some of which
        have failed it is not known which records are waited for: rather too many than too few."""
        sound = 0 if self.parts is None else self.count - self._failed
        return max(0, self.unheard - max(0, self.told - sound))

    @property
    def unheard(self) -> int:
        """How many have failed, or may, and nobody has heard of it, those who wait not counted."""
        failed = self.count if self.parts is None else self._failed
        return failed - (0 if self.heard is None else len(self.heard))

    @property
    def _failed(self) -> int:
        """How many records have failed."""
        if self.parts is not None:
            return sum(each._failed for each in self.parts)
        return 0 if self.error is None else self.count

    def has_become(self, parts: list[Batch]) -> None:
        """It is sent as these from now on."""
        self.parts = parts
        for part in parts:
            part.whole = self

    def pieces(self, first: int, count: int) -> Iterator[tuple[Batch, int, int]]:
        """Where some of its records are, now that it is done: batch, index of the first, count."""
        if self.parts is None:
            yield self, first, count
            return
        for part in self.parts:
            here = min(count, part.count - first)
            if here > 0:
                yield from part.pieces(first, here)
                first, count = 0, count - here
            else:
                first -= part.count
            if not count:
                return

    def hear(self, first: int, count: int = 1) -> None:
        """Somebody hears what became of these records, now that it is done. However often he asks,
        he answers for none but those that have failed of them."""
        for part, _, here in self.pieces(first, count):
            if part.error is not None:
                self.heard = self.heard or set()
                self.heard.update(range(first, first + here))
            first += here

    def waiter_hears(self, first: int, count: int = 1) -> None:
        """As `hear`, by somebody who was counted in `told` until now."""
        self.told -= count
        self.hear(first, count)

    def when_done(self, tell: Callable[[], None], records: int) -> None:
        """Calls `tell` at its end, for somebody who so hears of this many of its records."""
        self.told += records
        if self.on_done is None:
            self.on_done = []
        self.on_done.append(tell)


def _tell_each(telling: Iterator[Callable[[], None]]) -> None:
    """Whatever one of them raises, the others are told."""
    with ExitStack() as rest:
        try:
            for tell in telling:
                tell()
        finally:
            for tell in telling:  # behind one that has raised
                rest.callback(tell)


def _takes_none(*_: object) -> None:
    """A batch that has ended."""


def unbuilt(batch: Batch, error: Exception) -> KafkaError:
    """Whatever went wrong, want of memory say: which records it was about."""
    return KafkaError(
        ErrorCode.UNKNOWN_SERVER_ERROR,
        "the producer could not make these records into a batch to send",
        topic=batch.where.topic,
        partition=batch.where.partition,
        records=batch.count,
        why=repr(error),
    )


class PartitionQueue:
    """A partition's batches. `open` takes records; `waiting` are complete and in order."""

    __slots__ = (
        "held",
        "hung_number",
        "in_flight",
        "is_blocked",
        "is_known",
        "leader_epoch",
        "leaderless",
        "lost_number",
        "must_restart",
        "next_sequence",
        "not_before",
        "numbered",
        "open",
        "producer_epoch",
        "producer_id",
        "stored_number",
        "topic_id",
        "waiting",
        "where",
    )

    def __init__(self, where: TopicPartition) -> None:
        self.where = where
        self.open: Batch | None = None
        self.waiting: deque[Batch] = deque()
        self.in_flight: list[Batch] = []
        self.held: list[Batch] = []
        self.stored_number = _NOT_SENT
        """The last batch of this epoch that a broker has."""
        self.topic_id = ZERO_UUID
        self.lost_number = _NOT_SENT
        """The last batch that has failed and may be stored all the same."""
        self.hung_number = _NOT_SENT
        """The last that has failed and was sent without an answer."""
        self.numbered = 0
        self.next_sequence = 0
        self.producer_id = NO_PRODUCER.id
        self.producer_epoch = NO_PRODUCER.epoch
        self.must_restart = False
        self.is_known = False
        """Whether the broker is known to know this producer; see `forget`."""
        self.is_blocked = False
        """Whether more was complete at the last turn than could be sent."""
        self.leader_epoch = NO_EPOCH
        """Of the leader that its batches go to."""
        self.leaderless = 0
        """How often in a row nobody was known to lead it."""
        self.not_before = 0.0
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
        return bool(self.in_flight) or any(each.is_unsure for each in again)

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
        self.in_flight.append(batch)
        batch.leader_epoch = self.leader_epoch
        batch.attempts += 1
        return batch

    def _next_producer(self, identity: Producer) -> Producer:
        """Who sends what comes next in the sequence."""
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
        self.stored_number = _NOT_SENT
        self.lost_number = self.hung_number = _NOT_SENT
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

    def put_back(self, batch: Batch) -> None:
        """It has to be sent again, before all that was sent after it."""
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
            self.put_back(part)
        if batch.is_unsure and producer.id != NO_PRODUCER.id:
            self.lost_number = max(self.lost_number, batch.number + len(parts))
