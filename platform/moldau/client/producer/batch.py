"""One batch of a partition: its states, its bytes, and the outcome of its records. No IO.

A batch is OPEN while it takes records and READY when it is complete. It is SENT while a request
with it is pending. After a retriable error it is READY again. A batch that may be stored although
the broker calls it out of order is HELD until the response to a later batch decides. A batch that
is too large is SPLIT: its parts are sent instead, and it ends with the last of them. It ends STORED
or FAILED. A batch whose time runs out while it is SENT or HELD is LATE: its records have failed,
but it keeps its place in the sequence until the broker has answered.

From LATE on the outcome of the records is decided and never changes. `TRANSITIONS` is the whole
table; `Batch.become` checks each step against it.

A failed record must not be lost, so a batch knows which of its records were awaited: one bit a
record, set when a waiting caller gets the error. `failures` counts the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from enum import IntEnum
from typing import Any, Final

from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.metadata import NO_EPOCH, TopicPartition
from moldau.records import NO_PRODUCER, BatchBuilder, stamp_producer

NO_OFFSET: Final = -1
NO_TIMESTAMP: Final = -1
NOT_SENT: Final = -1


class BatchState(IntEnum):
    """The state of a batch; see the module's text. From LATE on, in this order, it is decided."""

    OPEN = 0
    READY = 1
    SENT = 2
    HELD = 3
    SPLIT = 4
    LATE = 5
    STORED = 6
    FAILED = 7


TRANSITIONS: Final[Mapping[BatchState, frozenset[BatchState]]] = {
    BatchState.OPEN: frozenset((BatchState.READY,)),
    BatchState.READY: frozenset((BatchState.SENT, BatchState.SPLIT, BatchState.FAILED)),
    BatchState.SENT: frozenset(
        (
            BatchState.READY,
            BatchState.HELD,
            BatchState.SPLIT,
            BatchState.LATE,
            BatchState.STORED,
            BatchState.FAILED,
        )
    ),
    BatchState.HELD: frozenset((BatchState.READY, BatchState.LATE, BatchState.FAILED)),
    BatchState.SPLIT: frozenset((BatchState.STORED, BatchState.FAILED)),
    BatchState.LATE: frozenset(),
    BatchState.STORED: frozenset(),
    BatchState.FAILED: frozenset(),
}


class Trace(IntEnum):
    """What the broker may have of a batch that it has not acknowledged."""

    NONE = 0
    STORED = 1
    """It may be stored: it was rejected with an error that may come after the append."""
    ARRIVING = 2
    """It was sent and got no response: it may be stored, or may still arrive."""


class Batch:
    """Records of one partition that are sent, and acknowledged or rejected, together."""

    __slots__ = (
        *("append", "attempts", "awaited", "base_offset", "builder", "count", "created", "data"),
        *("error", "is_done", "last_error", "leader_epoch", "number", "on_done", "parts", "place"),
        *("producer", "reserved_bytes", "stamped", "state", "timestamp", "trace", "where", "whole"),
    )

    def __init__(self, where: TopicPartition, builder: BatchBuilder, created: float) -> None:
        self.where = where
        self.builder: BatchBuilder | None = builder
        self.created = created
        self.append: Callable[..., Any] = builder.append
        self.place: Callable[..., Any] = builder.place
        self.state = BatchState.OPEN
        self.is_done = False
        """Whether the outcome of its records is decided."""
        self.data: bytearray | None = None
        self.count = 0
        self.number = NOT_SENT
        """Its place among the batches of the partition that were sent."""
        self.attempts = 0
        self.leader_epoch = NO_EPOCH
        """The epoch of the leader that it was last sent to."""
        self.producer = self.stamped = NO_PRODUCER
        """The producer id, epoch and sequence that it is sent with, and those in its bytes."""
        self.reserved_bytes = 0
        self.trace = Trace.NONE
        self.error: KafkaError | None = None
        self.last_error: KafkaError | None = None
        self.base_offset = NO_OFFSET
        self.timestamp = NO_TIMESTAMP
        """When the broker appended it, if the topic uses that time."""
        self.on_done: list[Callable[[], None]] | None = None
        self.awaited = 0
        """One bit a record, by index: set if a caller got its failure."""
        self.parts: list[Batch] | None = None
        """The parts it was split into, in order."""
        self.whole: Batch | None = None
        """The batch that it is a part of."""

    def __repr__(self) -> str:
        state = self.state.name.lower()
        return f"<Batch of {self.where} {self.error or state}>"

    @property
    def was_sent(self) -> bool:
        """Whether it has a place in the sequence: the broker may have it."""
        return self.number != NOT_SENT

    @property
    def was_tried(self) -> bool:
        """Whether its records were sent before, in a larger batch."""
        return self.whole is not None and (self.whole.was_sent or self.whole.was_tried)

    @property
    def outermost(self) -> Batch:
        """The batch that its records were appended to."""
        return self if self.whole is None else self.whole.outermost

    def become(self, state: BatchState) -> None:
        """Go to another state, as the table allows."""
        assert state in TRANSITIONS[self.state], f"{self.state.name} -> {state.name}"
        self.state = state
        self.is_done = state >= BatchState.LATE  # set last: other threads read it first

    def build(self) -> None:
        """Make the bytes to send, once; after that, only update the sequence in them. Raise
        KafkaError if they cannot be made: then they never can, as the records may be consumed."""
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
        """Free its bytes. A `Delivery` keeps the batch, but needs no records."""
        self.data = self.builder = None
        self.append = self.place = _takes_none

    # The end

    def finish(
        self,
        base_offset: int,
        timestamp: int = NO_TIMESTAMP,
        error: KafkaError | None = None,
        *,
        is_under_way: bool = False,
    ) -> None:
        """Decide the outcome of its records and call all of `on_done`. A failed batch that
        `is_under_way` is LATE. The last part of a split batch ends the whole."""
        assert not self.is_done, "a batch ends once"
        self.base_offset = base_offset
        self.timestamp = timestamp
        self.error = without_frames(error)
        failed = BatchState.LATE if is_under_way else BatchState.FAILED
        self.become(BatchState.STORED if error is None else failed)
        callbacks, self.on_done = self.on_done, None
        if callbacks:
            _call_each(iter(callbacks))
        if self.whole is not None:
            self.whole._part_ended()

    def _part_ended(self) -> None:
        assert self.parts is not None
        if all(each.is_done for each in reversed(self.parts)):
            first = self.parts[0]
            error = next((each.error for each in self.parts if each.error is not None), None)
            self.finish(first.base_offset, first.timestamp, error)

    def when_done(self, call: Callable[[], None]) -> None:
        """Call `call` when it ends."""
        if self.on_done is None:
            self.on_done = []
        self.on_done.append(call)

    # Its records

    def has_become(self, parts: list[Batch]) -> None:
        """Split it: these parts are sent instead."""
        self.become(BatchState.SPLIT)
        self.parts = parts
        for part in parts:
            part.whole = self

    def pieces(self, first: int, count: int) -> Iterator[tuple[Batch, int, int]]:
        """Iterate over where these records are now: batch, index of the first, count."""
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

    def mark_awaited(self, first: int, count: int = 1, *, is_awaited: bool = True) -> None:
        """Note that a caller gets the outcome of these records, or did not get it after all."""
        bits = ((1 << count) - 1) << first
        self.awaited = self.awaited | bits if is_awaited else self.awaited & ~bits

    @property
    def unawaited(self) -> int:
        """The number of records that have failed and were not awaited."""
        failed = place = 0
        for part, _, count in self.pieces(0, self.count):
            if part.error is not None:
                failed |= ((1 << count) - 1) << place
            place += count
        return (failed & ~self.awaited).bit_count()


def _call_each(calls: Iterator[Callable[[], None]]) -> None:
    """Call all, even if one of them raises."""
    with ExitStack() as rest:
        try:
            for call in calls:
                call()
        finally:
            for call in calls:  # those after one that has raised
                rest.callback(call)


def _takes_none(*_: object) -> None:
    """Ignore a record: the batch has ended."""


def unbuilt(batch: Batch, error: Exception) -> KafkaError:
    """Return the error of a batch whose bytes cannot be made: its records, and why."""
    return KafkaError(
        ErrorCode.UNKNOWN_SERVER_ERROR,
        "the producer could not make these records into a batch to send",
        **batch.where._asdict(),
        records=batch.count,
        why=repr(error),
    )
