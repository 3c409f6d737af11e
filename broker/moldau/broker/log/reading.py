"""Reading: slices for consumers and replicas, batches for a fold, offsets by timestamp.

Invariants: nothing here changes the log. A slice names a file and a range of it, and stays valid
even if the log changes afterwards. A disk error takes the log out of service; damaged bytes reject
only the request.
"""

from __future__ import annotations

from collections.abc import Iterator

from moldau.broker.log.admission import as_kafka_error
from moldau.broker.log.offset_lookup import LargeLookup, OffsetAt, find_offset
from moldau.broker.log.segment import Segment
from moldau.broker.log.slice import LogSlice
from moldau.broker.log.state import LogState
from moldau.broker.log.transaction_index import AbortedTransaction, collect_aborted
from moldau.errors import CorruptRecord
from moldau.records import Batch


class SegmentsReader:
    """The part of a log that reads."""

    __slots__ = ("_bound", "_state")

    def __init__(self, state: LogState) -> None:
        self._state = state
        self._bound = (-1, -1, -1, 0)
        """The last bound that was looked up: the offset, the base offset of its segment, the
        version of the segments, and the position."""

    def read(
        self,
        offset: int,
        max_bytes: int,
        upper_offset: int | None = None,
        *,
        min_one_batch: bool = True,
    ) -> LogSlice:
        """Return the slice from the batch that holds `offset` up to `upper_offset` (default: the
        log's end).

        Raise OFFSET_OUT_OF_RANGE also for records that are in remote storage only.
        `max_bytes` may cut the last batch short. With `min_one_batch` the first batch is always
        whole, whatever its size. Without it, a first batch that does not fit gives an empty slice.
        """
        state = self._state
        upper = state.log_end_offset
        if not state.local_log_start_offset <= offset <= upper:
            state.refuse_offset(offset)
        if upper_offset is not None and upper_offset < upper:
            upper = upper_offset
        segments = state.segments
        active = segments.active
        if offset >= upper:
            return LogSlice(None, active.size_bytes, 0)
        state.owner.files.make_room()
        try:
            is_active = offset >= active.base_offset
            index = len(segments) - 1 if is_active else segments.index_of(offset)
            segment = active if is_active else segments[index]
            found = segment.find(offset)
            while found is None and segment is not active:
                index += 1
                segment = segments[index]
                found = segment.find(offset)
            if found is None or found.base_offset >= upper:
                return LogSlice(None, active.size_bytes, 0)
            size = segment.size_bytes - found.position
            if upper < segment.next_offset:
                size = self._position_of_bound(segment, upper) - found.position
        except OSError as error:
            state.fail(error)
        except CorruptRecord as error:
            raise as_kafka_error(error) from error
        if found.size_bytes > max_bytes:
            size = min(size, found.size_bytes) if min_one_batch else 0
        elif size > max_bytes:
            size = max_bytes
        return LogSlice(segment.log_file.source(), found.position, size, segment is active)

    def _position_of_bound(self, segment: Segment, upper: int) -> int:
        """Return the position in a segment where the batches below the offset `upper` end."""
        bound, base, version = self._bound, segment.base_offset, self._state.segments.version
        if bound[0] == upper and bound[1] == base and bound[2] == version:
            return bound[3]
        found = segment.find(upper)
        position = segment.size_bytes if found is None else found.position
        self._bound = (upper, base, version, position)
        return position

    def batches(self, offset: int, upper_offset: int | None = None) -> Iterator[Batch]:
        """Iterate over the batches from the one that holds `offset`, to fold over the log."""
        segments = self._state.segments
        upper = self._state.log_end_offset if upper_offset is None else upper_offset
        for index in range(segments.index_of(offset), len(segments)):
            segment = segments[index]
            found = segment.find(offset)
            if found is None:
                continue
            for batch in segment.batches(found.position):
                if batch.header.base_offset >= upper:
                    return
                yield batch

    def batch_start(self, offset: int) -> int:
        """Return the first offset of the batch that holds `offset`, which may be lower. Return
        `offset` itself if no batch holds it."""
        segments = self._state.segments
        try:
            found = segments[segments.index_of(offset)].find(offset)
        except OSError as error:
            self._state.fail(error)
        except CorruptRecord as error:
            raise as_kafka_error(error) from error
        return offset if found is None else min(offset, found.base_offset)

    def aborted_transactions(self, offset: int, read: LogSlice) -> list[AbortedTransaction]:
        """Return the aborted transactions that a read_committed consumer must skip in a slice that
        was read from `offset`."""
        segments = self._state.segments
        index = self._index_of_source(offset, read)
        indexes = (segments[number].transaction_index for number in range(index, len(segments)))
        try:
            bound = segments[index].offset_index.upper_bound(read.position + len(read))
            upper = segments.end_of(index) if bound is None else bound
            return collect_aborted(indexes, offset, upper)
        except OSError as error:
            self._state.fail(error)

    def aborted_since(self, offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions whose markers are here, at `offset` or behind it, and
        that begin below `upper_offset`. A reader that comes from remote storage asks for them."""
        segments = self._state.segments
        numbers = range(segments.index_of(offset), len(segments))
        try:
            return collect_aborted(
                (segments[number].transaction_index for number in numbers), offset, upper_offset
            )
        except OSError as error:
            self._state.fail(error)

    def _index_of_source(self, offset: int, read: LogSlice) -> int:
        """Return the number of the segment that was read from `offset`. It is a later segment than
        the one that holds the offset if that one ends before it, as cleaned segments do."""
        segments = self._state.segments
        index = segments.index_of(offset)
        for number in range(index, len(segments)):
            if segments[number].log_file.is_opened_as(read.source):
                return number
        return index  # nothing was read, or the segment was replaced meanwhile

    def find_offset(self, timestamp: int, upper_offset: int | None = None) -> OffsetAt | None:
        """Answer ListOffsets at once, however long that takes."""
        upper = self._state.log_end_offset if upper_offset is None else upper_offset
        found = self.look_up(timestamp, upper)
        while isinstance(found, LargeLookup):
            at = found.run()
            if at is not None:
                return at if at.offset < upper else None
            found = self.look_up(timestamp, upper, found.next_offset)
        return found

    def look_up(
        self, timestamp: int, upper_offset: int | None = None, start_offset: int = 0
    ) -> OffsetAt | LargeLookup | None:
        """Answer ListOffsets; see `offset_lookup`."""
        state = self._state
        upper = state.log_end_offset if upper_offset is None else upper_offset
        state.owner.files.make_room()
        try:
            return find_offset(state, timestamp, upper, start_offset)
        except OSError as error:
            state.fail(error)
        except CorruptRecord as error:
            raise as_kafka_error(error) from error
