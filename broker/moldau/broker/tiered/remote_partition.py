"""The remote tier of one partition: the fold of its records in `__remote_log_metadata`.

Invariants: only `replay` changes it, and the same records give the same state on every node. A
segment is served between COPY_FINISHED and DELETE_STARTED, and never else. A record that the table
of states does not have changes nothing: a deposed leader may write one late, and so may a retry.

A deletion of a copy that looked unfinished must not meet one that was finished meanwhile:
1. broker 1 is deposed while it copies; all objects are there. 2. Broker 2 leads, finds the segment
in COPY_STARTED, and writes DELETE_STARTED, which is late. 3. COPY_FINISHED of broker 1 comes first.
4. A node reads that, and cuts its local log. 5. DELETE_STARTED comes: the records are in no tier.
Records have no condition, but a finished copy has custom metadata, which each later record names.
So DELETE_STARTED without it, of a segment that has it, was decided before the copy was finished,
and changes nothing.

A record of the log is named by its leader epoch and its offset: two segments that both have the
pair have the same bytes there. So a look-up takes an epoch and an offset, and a part of the log is
served from a segment only as far as the chain of epochs of the reader's log agrees with the
segment's (`range_at`). After an unclean election a segment may have records behind that point which
the log has no more; Kafka's look-up (RemoteLogMetadataCache) knows the segment's epochs alone, and
would serve them.

Segments may overlap, because a new leader copies what it does not know to be copied, in segments
that end elsewhere. For each epoch there is a row of spans of which none lies within another, so
both starts and ends rise: the last one that starts at an offset or before it is also the one that
reaches furthest. Spans within others are kept aside, and come back when what covers them is
deleted.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import attrgetter
from typing import Final, NamedTuple

from moldau.broker.log.leader_epochs import LeaderEpochs
from moldau.broker.tiered.remote_segment import (
    DELETION_TRANSITIONS,
    SEGMENT_TRANSITIONS,
    DeletionState,
    PartitionDeletion,
    RemoteEvent,
    RemoteSegment,
    SegmentId,
    SegmentState,
    SegmentUpdate,
)

_ORDER: Final = attrgetter("start_offset", "end_offset", "id")
_START: Final = attrgetter("start_offset")
_END: Final = attrgetter("end_offset")


class RemoteRange(NamedTuple):
    """A part of the log, and the segment that has it."""

    segment: RemoteSegment
    start_offset: int
    end_offset: int


class RemotePartition:
    """The remote segments of one partition."""

    def __init__(self) -> None:
        self._segments: dict[SegmentId, RemoteSegment] = {}
        self._rows: dict[int, _Row] = {}
        self._indexed: dict[int, _Row] = {}
        """The spans of the segments that have aborted transactions."""
        self._apart: set[SegmentId] = set()
        """The segments without a span: those that are not served, and malformed ones."""
        self.deletion: DeletionState | None = None
        """How far the deletion of the whole partition has come."""
        self.size_bytes = 0
        """The size of the segments that are served."""
        self.deleting_bytes = 0
        """The size of the segments that are being deleted."""
        self.deleting_count = 0

    def replay(self, event: RemoteEvent) -> None:
        """Take a record of the topic."""
        match event:
            case RemoteSegment():
                self._enter(event.id, event)
            case SegmentUpdate():
                known = self._segments.get(event.id)
                if known is not None and not self._is_outdated(event, known):
                    self._enter(event.id, event.applied_to(known))
            case PartitionDeletion():
                if event.state in DELETION_TRANSITIONS[self.deletion]:
                    self.deletion = event.state

    def _is_outdated(self, event: SegmentUpdate, known: RemoteSegment) -> bool:
        """Whether it deletes a copy that its writer did not know to be finished."""
        return (
            event.state is SegmentState.DELETE_STARTED
            and event.custom_metadata is None
            and known.custom_metadata is not None
        )

    def _enter(self, segment_id: SegmentId, segment: RemoteSegment) -> None:
        known = self._segments.get(segment_id)
        if segment.state not in SEGMENT_TRANSITIONS[None if known is None else known.state]:
            return
        if segment.state is SegmentState.DELETE_FINISHED:
            del self._segments[segment_id]
            self._apart.discard(segment_id)
            self.deleting_bytes -= segment.size_bytes
            self.deleting_count -= 1
            return
        self._segments[segment_id] = segment
        if segment.state is SegmentState.COPY_FINISHED and any(segment.spans):
            self._apart.discard(segment_id)
        else:
            self._apart.add(segment_id)
        if segment.state is SegmentState.DELETE_STARTED:
            self.deleting_bytes += segment.size_bytes
            self.deleting_count += 1
        if segment.state is SegmentState.COPY_FINISHED:
            self.size_bytes += segment.size_bytes
            for rows in self._rows_of(segment):
                for epoch, start_offset, end_offset in segment.spans:
                    row = rows.setdefault(epoch, _Row())
                    row.add(_Span(start_offset, end_offset, segment_id))
        elif known is not None and known.state is SegmentState.COPY_FINISHED:
            self.size_bytes -= known.size_bytes
            for rows in self._rows_of(known):
                for epoch, start_offset, end_offset in known.spans:
                    rows[epoch].remove(_Span(start_offset, end_offset, segment_id))

    def _rows_of(self, segment: RemoteSegment) -> tuple[dict[int, _Row], ...]:
        return (self._rows, self._indexed) if segment.has_transaction_index else (self._rows,)

    def __len__(self) -> int:
        return len(self._segments)

    def __contains__(self, segment_id: SegmentId) -> bool:
        return segment_id in self._segments

    def get(self, segment_id: SegmentId) -> RemoteSegment | None:
        """Return a segment that is known and not deleted, whatever its state."""
        return self._segments.get(segment_id)

    def segments(self) -> list[RemoteSegment]:
        """Return all segments that are known and not deleted, in the order of their offsets."""
        return sorted(self._segments.values(), key=_ORDER)

    def segments_outside(
        self, chain: LeaderEpochs, start_offset: int, log_end_offset: int
    ) -> list[RemoteSegment]:
        """Return, in their order, all segments that a log from `start_offset` on has no record of,
        and perhaps some others: so a caller need not look at those that are certainly a part of it.

        Among the spans of an epoch, which rise, what is outside lies at the ends.
        """
        found = set(self._apart)
        for epoch, row in self._rows.items():
            known = chain.end_offset_for(epoch, log_end_offset)
            before = chain.previous_epoch(epoch)
            starts = 0 if before is None else chain.end_offset_for(before, 0).end_offset
            ends = known.end_offset if known.epoch == epoch else starts
            found.update(each.segment_id for each in row.outside(max(starts, start_offset), ends))
        return sorted((self._segments[each] for each in found), key=_ORDER)

    def segments_from(self, offset: int) -> list[RemoteSegment]:
        """Return the served segments that begin at the offset or later. Some that lie within others
        may be missing."""
        found = {
            each.segment_id
            for row in self._rows.values()
            for each in row.spans[bisect_left(row.spans, offset, key=_START) :]
        }
        segments = (self._segments[each] for each in found)
        return [each for each in segments if each.start_offset >= offset]

    def end_without_hole(self, chain: LeaderEpochs, offset: int, log_end_offset: int) -> int:
        """Return the end of what is remote of this log from `offset` on, up to the first hole: the
        end of the last one of `ranges`, found without making them."""
        while offset < log_end_offset:
            epoch = chain.epoch_for_offset(offset)
            row = None if epoch is None else self._rows.get(epoch)
            if epoch is None or row is None:
                break
            end_offset = chain.end_offset_for(epoch, log_end_offset).end_offset
            limit = min(end_offset, log_end_offset)
            offset = row.end_without_hole(offset, limit)
            if offset < limit:
                break
        return offset

    def segment_for(self, epoch: int, offset: int) -> RemoteSegment | None:
        """Return the segment that has the record of this epoch and offset, and reaches furthest."""
        row = self._rows.get(epoch)
        span = None if row is None else row.at(offset)
        return None if span is None else self._segments[span.segment_id]

    def epochs_at(self, offset: int) -> list[int]:
        """Return the epochs in which segments have the offset: more than one if histories were
        lost, and are not deleted yet."""
        return sorted(epoch for epoch, row in self._rows.items() if row.at(offset) is not None)

    def end_offset_of(self, epoch: int) -> int | None:
        """Return the end of what is served of an epoch; None if nothing is.

        It falls when a segment is deleted. Kafka's highest offset of an epoch never does: after two
        unclean elections it takes for remote what was deleted between them.
        """
        row = self._rows.get(epoch)
        return row.spans[-1].end_offset if row is not None and row.spans else None

    def range_at(self, chain: LeaderEpochs, offset: int, log_end_offset: int) -> RemoteRange | None:
        """Return what one segment has of this log from `offset` on, as far as the epochs agree.

        `chain` is that of the log that is read, and `log_end_offset` its end, or where the reader
        is to stop before that. None if no segment has the offset in the epoch that the log has
        there.
        """
        epoch = chain.epoch_for_offset(offset)
        segment = None if epoch is None else self.segment_for(epoch, offset)
        if segment is None or offset >= log_end_offset:
            return None
        return _agreed(segment, chain, offset, log_end_offset)

    def next_range(
        self, chain: LeaderEpochs, offset: int, log_end_offset: int
    ) -> RemoteRange | None:
        """Return the first part of this log that is remote, at `offset` or behind it.

        Two unclean elections may leave a hole that no tier fills: a reader goes on behind it.
        """
        return self._next(self._rows, chain, offset, log_end_offset)

    def _next(
        self, rows: dict[int, _Row], chain: LeaderEpochs, offset: int, log_end_offset: int
    ) -> RemoteRange | None:
        for epoch, start_offset in chain.entries:
            of_log = chain.end_offset_for(epoch, log_end_offset).end_offset
            end_offset = min(of_log, log_end_offset)
            row = rows.get(epoch)
            at = max(offset, start_offset)
            span = None if row is None or at >= end_offset else row.from_offset(at)
            if row is not None and span is not None and span.start_offset < end_offset:
                at = max(at, span.start_offset)
                furthest = row.at(at)
                assert furthest is not None
                return _agreed(self._segments[furthest.segment_id], chain, at, log_end_offset)
        return None

    def ranges(
        self, chain: LeaderEpochs, offset: int, log_end_offset: int, *, over_holes: bool = False
    ) -> Iterator[RemoteRange]:
        """Yield what is remote of this log from `offset` on, up to the first hole, or over all."""
        find = self.next_range if over_holes else self.range_at
        while (found := find(chain, offset, log_end_offset)) is not None:
            yield found
            offset = found.end_offset

    def ranges_with_transaction_index(
        self, chain: LeaderEpochs, offset: int, log_end_offset: int
    ) -> Iterator[RemoteRange]:
        """Yield the parts from `offset` on whose segments have aborted transactions. Segments
        without any are passed over, however many they are.

        A reader of committed records needs the index of the segment that it reads, and of later
        ones until all transactions that were open in it are decided. An entry of the index whose
        transaction ends behind the part is of another history, in which it may end otherwise.
        """
        while (found := self._next(self._indexed, chain, offset, log_end_offset)) is not None:
            yield found
            offset = found.end_offset


def _agreed(
    segment: RemoteSegment, chain: LeaderEpochs, offset: int, log_end_offset: int
) -> RemoteRange:
    """Return what a segment has of the log from `offset` on, as far as the epochs agree."""
    end_offset = offset
    for span in segment.spans:
        if span.end_offset <= offset:
            continue
        if chain.epoch_for_offset(end_offset) != span.epoch or span.start_offset > end_offset:
            break
        of_log = chain.end_offset_for(span.epoch, log_end_offset).end_offset
        end_offset = min(span.end_offset, of_log, log_end_offset)
        if end_offset < span.end_offset:
            break
    return RemoteRange(segment, offset, end_offset)


class _Span(NamedTuple):
    """What a segment has of an epoch."""

    start_offset: int
    end_offset: int
    segment_id: SegmentId

    def lies_within(self, other: _Span) -> bool:
        return other.start_offset <= self.start_offset and self.end_offset <= other.end_offset


class _Row:
    """The spans of one epoch: `spans` rise in starts and ends, `covered` lie within those."""

    __slots__ = ("covered", "spans")

    def __init__(self) -> None:
        self.spans: list[_Span] = []
        self.covered: set[_Span] = set()

    def at(self, offset: int) -> _Span | None:
        number = bisect_right(self.spans, offset, key=_START)
        span = self.spans[number - 1] if number else None
        return span if span is not None and offset < span.end_offset else None

    def from_offset(self, offset: int) -> _Span | None:
        """Return the first span that reaches behind the offset."""
        number = bisect_right(self.spans, offset, key=_END)
        return self.spans[number] if number < len(self.spans) else None

    def end_without_hole(self, offset: int, limit: int) -> int:
        """Return how far spans without a hole between them reach from the offset on."""
        spans = self.spans
        number = max(0, bisect_right(spans, offset, key=_START) - 1)
        while number < len(spans) and offset < limit and spans[number].start_offset <= offset:
            offset = max(offset, spans[number].end_offset)
            number += 1
        return min(offset, limit)

    def outside(self, start_offset: int, end_offset: int) -> Iterator[_Span]:
        """Yield the spans without an offset of this range, and those within others."""
        spans = self.spans
        is_empty = end_offset <= start_offset
        first = 0 if is_empty else bisect_right(spans, start_offset, key=_END)
        last = first if is_empty else bisect_left(spans, end_offset, lo=first, key=_START)
        yield from spans[:first]
        yield from spans[last:]
        yield from self.covered

    def add(self, span: _Span) -> None:
        """Of two equal spans the older one stays."""
        spans = self.spans
        number = bisect_right(spans, span.start_offset, key=_START)
        if number and span.lies_within(spans[number - 1]):
            self.covered.add(span)
            return
        first = bisect_left(spans, span.start_offset, key=_START)
        last = bisect_right(spans, span.end_offset, lo=first, key=_END)
        self.covered.update(spans[first:last])
        spans[first:last] = (span,)

    def remove(self, span: _Span) -> None:
        if span in self.covered:
            self.covered.remove(span)
            return
        self.spans.remove(span)
        uncovered = sorted(each for each in self.covered if each.lies_within(span))
        self.covered.difference_update(uncovered)
        for each in uncovered:
            self.add(each)
