"""A segment in the remote tier, and the states of its life.

Invariants: a segment's id is never used again, also not by a second attempt to copy the same
records. `leader_epochs` is not empty, and epochs and offsets both rise strictly. Only the part of a
segment that `spans` names can be served: with a raised log start its first epoch starts behind
`start_offset`.

COPY_STARTED -> COPY_FINISHED -> DELETE_STARTED -> DELETE_FINISHED. A copy that never finishes goes
from the first to the third. The table is Kafka's (RemoteLogSegmentState.isValidTransition), and
none leads back: after DELETE_STARTED a late COPY_FINISHED of a deposed leader changes nothing. That
is what makes it safe to delete a copy which another broker may still be making.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import IntEnum
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from moldau.broker.log.leader_epochs import EpochEntry
from moldau.deferred import dataclass
from moldau.errors import MalformedMessage
from moldau.ids import Uuid, format_uuid


class SegmentState(IntEnum):
    """The state of a remote segment, by Kafka's numbers."""

    COPY_STARTED = 0
    COPY_FINISHED = 1
    DELETE_STARTED = 2
    DELETE_FINISHED = 3


SEGMENT_TRANSITIONS: Final[Mapping[SegmentState | None, frozenset[SegmentState]]] = {
    None: frozenset((SegmentState.COPY_STARTED,)),
    SegmentState.COPY_STARTED: frozenset((SegmentState.COPY_FINISHED, SegmentState.DELETE_STARTED)),
    SegmentState.COPY_FINISHED: frozenset((SegmentState.DELETE_STARTED,)),
    SegmentState.DELETE_STARTED: frozenset((SegmentState.DELETE_FINISHED,)),
    SegmentState.DELETE_FINISHED: frozenset(),
}
"""From each state, and from no record at all, to the next ones."""


class DeletionState(IntEnum):
    """How far the deletion of a whole partition has come, by Kafka's numbers."""

    MARKED = 0
    STARTED = 1
    FINISHED = 2


DELETION_TRANSITIONS: Final[Mapping[DeletionState | None, frozenset[DeletionState]]] = {
    None: frozenset((DeletionState.MARKED,)),
    DeletionState.MARKED: frozenset((DeletionState.STARTED,)),
    DeletionState.STARTED: frozenset((DeletionState.FINISHED,)),
    DeletionState.FINISHED: frozenset(),
}


class SegmentId(NamedTuple):
    """A remote segment: its partition, and an id that no other segment ever has."""

    topic_id: Uuid
    partition: int
    id: Uuid

    def __str__(self) -> str:
        return f"{format_uuid(self.topic_id)}-{self.partition}:{format_uuid(self.id)}"


class EpochSpan(NamedTuple):
    """The part of a segment that one leader epoch wrote."""

    epoch: int
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class RemoteSegment:
    """A segment as its records describe it. `end_offset` is exclusive."""

    id: SegmentId
    topic: str
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    size_bytes: int
    leader_epochs: tuple[EpochEntry, ...]
    broker_id: int
    event_ms: int
    state: SegmentState = SegmentState.COPY_STARTED
    custom_metadata: bytes | None = None
    """What the store needs to open the segment (KIP-917)."""
    has_transaction_index: bool = True

    @property
    def spans(self) -> Iterator[EpochSpan]:
        """The parts that can be served, in order."""
        epochs = self.leader_epochs
        ends = (*(entry.start_offset for entry in epochs[1:]), self.end_offset)
        for (epoch, start), end in zip(epochs, ends, strict=True):
            span = EpochSpan(epoch, max(start, self.start_offset), min(end, self.end_offset))
            if span.start_offset < span.end_offset:
                yield span

    def check(self) -> None:
        """Raise MalformedMessage for facts that no segment has."""
        if not 0 <= self.start_offset < self.end_offset or self.size_bytes < 0:
            raise MalformedMessage(
                "a remote segment without records",
                segment=str(self.id),
                start_offset=self.start_offset,
                end_offset=self.end_offset,
                size_bytes=self.size_bytes,
            )
        rises = all(
            before.epoch < after.epoch and before.start_offset < after.start_offset
            for before, after in pairwise(self.leader_epochs)
        )
        if not self.leader_epochs or not rises:
            raise MalformedMessage(
                "leader epochs of a remote segment that do not rise",
                segment=str(self.id),
                leader_epochs=[tuple(entry) for entry in self.leader_epochs],
            )


class SegmentUpdate(NamedTuple):
    """A new state of a segment."""

    id: SegmentId
    topic: str
    state: SegmentState
    broker_id: int
    event_ms: int
    custom_metadata: bytes | None = None

    def applied_to(self, segment: RemoteSegment) -> RemoteSegment:
        """Return the segment in the new state. It keeps what the update does not name."""
        custom = self.custom_metadata
        return replace(
            segment,
            state=self.state,
            broker_id=self.broker_id,
            event_ms=self.event_ms,
            custom_metadata=segment.custom_metadata if custom is None else custom,
        )


class PartitionDeletion(NamedTuple):
    """A step of the deletion of a whole partition."""

    topic_id: Uuid
    partition: int
    topic: str
    state: DeletionState
    broker_id: int
    event_ms: int


RemoteEvent: TypeAlias = RemoteSegment | SegmentUpdate | PartitionDeletion
"""What a record of `__remote_log_metadata` says."""


def update(
    segment: RemoteSegment,
    state: SegmentState,
    *,
    broker_id: int,
    now_ms: int,
    custom_metadata: bytes | None = None,
) -> SegmentUpdate:
    """Return the event that takes a segment to the next state."""
    assert state in SEGMENT_TRANSITIONS[segment.state], (segment, state)
    custom = segment.custom_metadata if custom_metadata is None else custom_metadata
    return SegmentUpdate(segment.id, segment.topic, state, broker_id, now_ms, custom)
