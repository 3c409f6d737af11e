"""Log compaction: of each key only the newest record stays.

Invariants:
* Order, offsets and timestamps of the records that stay do not change, nor does the state in the
  last batch of each producer. A consumer at the log's end never notices.
* Segments are read, never written. New ones are complete and durable before they are returned in a
  `Replacement`. The log puts them into place with it (`replacement.py` survives any crash).
* A batch with a wrong checksum ends the round (CorruptRecord). Cleaning would give it a valid one.

1. Put the keys of the dirty part and their newest offsets into a map, up to the first batch that
   does not fit. The log behind that batch is left for the next round.
2. Read all segments up to there again from the start, and copy the records that have no newer
   record in the map. Several small segments become one.

The work is done in steps of about a megabyte. So the caller can run it in a thread, limit its rate,
and stop between any two steps. A batch is one step, however many records it has; they are read in
parts, between which other threads run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from moldau.broker.log import names
from moldau.broker.log.compaction_choice import Cleanable
from moldau.broker.log.compaction_filter import BatchFilter, Round
from moldau.broker.log.compaction_offsets import OffsetMap
from moldau.broker.log.compaction_transactions import CleanedTransactions
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.producer_state import ProducerStateEntry
from moldau.broker.log.replacement import Swap
from moldau.broker.log.segment import RELATIVE_OFFSET_MAX, Segment
from moldau.broker.log.transaction_index import AbortedTransaction, collect_aborted
from moldau.deferred import dataclass
from moldau.records import Batch, Buffer, read_header
from moldau.records.parts import entries_by_part
from moldau.runtime.files import Files

STEP_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class LogToClean:
    """A log in its state at the beginning of a round. Made in the log's own thread, read in any
    thread.

    `segments` are all segments, the active one last. `producers` is a copy of its producer state.
    """

    files: Files
    directory: str
    config: LogConfig
    segments: Sequence[Segment]
    producers: Mapping[int, ProducerStateEntry]
    first_dirty_offset: int
    first_uncleanable_offset: int
    delete_retention_ms: int
    is_everywhere: bool


@dataclass(frozen=True, slots=True)
class Replacement:
    """Sealed and synced `new` segments with `.cleaned` names, to replace the `old` ones of the
    log."""

    new: tuple[Segment, ...]
    old: tuple[Segment, ...]


@dataclass(slots=True)
class CompactionStatistics:
    """The statistics of a round."""

    bytes_read: int = 0
    bytes_kept: int = 0


class Compaction:
    """One round over one log."""

    def __init__(self, log: LogToClean, offsets: OffsetMap, now_ms: int) -> None:
        """`offsets` is an empty map, which the round fills."""
        assert not len(offsets)
        self.end_offset = log.first_dirty_offset
        """The log is clean below this offset once all replacements are done: its new checkpoint."""
        self.statistics = CompactionStatistics()
        self._log = log
        self._offsets = offsets
        self._now_ms = now_ms
        self._dirty_at = _position_of(log, log.first_dirty_offset)
        self._unfinished: list[Segment] = []

    def steps(self) -> Iterator[int | Replacement]:
        """Do the round. Yield the numbers of bytes that were read or written, and replacements.

        The caller must make a replacement before it takes the next step. It calls `abandon` if it
        stops.
        """
        yield from self._map_keys()
        old = [each for each in self._cleanable() if each.base_offset < self.end_offset]
        groups = group_segments(old, self._log.config.segment_bytes)
        round = Round(
            latest_offset=self.end_offset - 1,
            end_offset=self._log.first_uncleanable_offset,
            producers=self._log.producers,
            delete_retention_ms=self._log.delete_retention_ms,
            now_ms=self._now_ms,
            is_everywhere=self._log.is_everywhere,
            record_bytes_max=self._log.config.max_decompressed_message_bytes,
        )
        transactions = CleanedTransactions(self._aborted_from(0))
        batch_filter = BatchFilter(round, self._offsets, transactions)
        for group in groups:
            yield from self._clean(group, batch_filter, transactions)

    def abandon(self) -> None:
        """Remove the new segments that were not returned in a replacement."""
        for segment in self._unfinished:
            segment.remove()
        self._unfinished.clear()

    def _cleanable(self) -> list[Segment]:
        limit = self._log.first_uncleanable_offset
        return [each for each in self._log.segments[:-1] if each.base_offset < limit]

    def _aborted_from(self, offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions between `offset` and the first uncleanable offset. Their
        markers may lie beyond it."""
        indexes = (segment.transaction_index for segment in self._log.segments)
        return collect_aborted(indexes, offset, self._log.first_uncleanable_offset)

    def _map_keys(self) -> Iterator[int]:
        """Fill the map from the dirty part, as far as there is room."""
        log = self._log
        transactions = CleanedTransactions(self._aborted_from(log.first_dirty_offset))
        pending = 0
        for index, segment in enumerate(self._cleanable()):
            following = log.segments[index + 1].base_offset
            if following <= log.first_dirty_offset:
                continue
            is_first = segment.base_offset < log.first_dirty_offset
            for batch in segment.batches(self._dirty_at if is_first else 0):
                if batch.header.last_offset < log.first_dirty_offset:
                    continue
                batch.check_crc()
                if not self._map_batch(batch, transactions):
                    return
                self.end_offset = max(self.end_offset, batch.header.next_offset)
                pending += len(batch.data)
                if pending >= STEP_BYTES:
                    yield pending
                    pending = 0
            self.end_offset = max(self.end_offset, following)
        if pending:
            yield pending

    def _map_batch(self, batch: Batch, transactions: CleanedTransactions) -> bool:
        """Add a batch's keys to the map. Return False, and add none, if there may not be room for
        all."""
        header = batch.header
        if header.is_control:
            transactions.on_marker(batch)
            return True
        if transactions.on_batch(header):
            return True
        if not self._offsets.has_room_for(header.record_count):
            if len(self._offsets):
                return False
            self._offsets.grow(header.record_count)  # otherwise no round could get past this batch
        put, first = self._offsets.put, self._log.first_dirty_offset
        most = self._log.config.max_decompressed_message_bytes
        for _, entries in entries_by_part(batch, record_bytes_max=most):
            for entry in entries:
                if entry.key is not None and entry.offset >= first:
                    put(entry.key, entry.offset)
        return True

    def _clean(
        self,
        group: Sequence[Segment],
        batch_filter: BatchFilter,
        transactions: CleanedTransactions,
    ) -> Iterator[int | Replacement]:
        """Copy the records that stay from a group of segments, and yield the replacement."""
        new = [self._create(group[0].base_offset)]
        statistics = self.statistics
        last = max((each for each in group if each.size_bytes), key=_base_offset, default=None)
        pending = 0
        for segment in group:
            for batch in segment.batches():
                batch.check_crc()
                statistics.bytes_read += len(batch.data)
                pending += len(batch.data)
                is_end = segment is last and batch.end == segment.size_bytes
                kept = batch_filter.filter(batch, is_end=is_end)
                if kept is not None:
                    statistics.bytes_kept += len(kept)
                    pending += len(kept)
                    self._append(new, kept, transactions.kept)
                if pending >= STEP_BYTES:
                    yield pending
                    pending = 0
        for segment in new:
            segment.seal()
            segment.sync()
        self._log.files.sync_dir(self._log.directory)
        yield pending
        self._unfinished.clear()
        yield Replacement(tuple(new), tuple(group))

    def _append(self, new: list[Segment], kept: Buffer, aborted: list[AbortedTransaction]) -> None:
        """Write a batch to the newest segment, or to another new one if that has no room."""
        header = read_header(kept)
        segment = new[-1]
        if not segment.has_room_for(len(kept), header.last_offset):
            segment = self._create(segment.next_offset)
            new.append(segment)
        segment.append(kept, header.last_offset, header.max_timestamp)
        segment.transaction_index.append(*aborted)
        aborted.clear()

    def _create(self, base_offset: int) -> Segment:
        log = self._log
        made = Segment.create(log.files, log.directory, base_offset, log.config, names.CLEANED)
        self._unfinished.append(made)
        return made


def log_to_clean(log: PartitionLog, cleanable: Cleanable, delete_retention_ms: int) -> LogToClean:
    """Collect the state of `log` that a round needs. Call it in the log's own thread.

    The segments to clean must be durable: see `PartitionLog.begin_replacing`.
    """
    return LogToClean(
        files=log.files,
        directory=log.directory,
        config=log.config,
        segments=tuple(log.segments),
        producers=dict(log.producers.entries),
        first_dirty_offset=cleanable.first_dirty_offset,
        first_uncleanable_offset=cleanable.first_uncleanable_offset,
        delete_retention_ms=delete_retention_ms,
        is_everywhere=log.state.is_everywhere,
    )


def begin_to_put_in_place(log: PartitionLog, replacement: Replacement, now_ms: int) -> Swap | None:
    """Begin to use the new segments. If one of the old ones has left the log meanwhile (by
    retention, a truncation, or another round), remove the new ones and return None: the round is
    over."""
    present = set(map(id, log.segments))
    if all(id(segment) in present for segment in replacement.old):
        return log.replacing.begin(replacement.new, replacement.old, now_ms)
    for segment in replacement.new:
        segment.remove()
    return None


def group_segments(segments: Sequence[Segment], segment_bytes: int) -> list[list[Segment]]:
    """Group adjacent segments that fit into one segment, by their current sizes. The records of a
    group fit into new segments that follow one another without a gap."""
    groups: list[list[Segment]] = []
    size_bytes = 0
    for segment in segments:
        size_bytes += segment.size_bytes
        is_near = groups and segment.next_offset - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX
        if is_near and size_bytes <= segment_bytes:
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size_bytes = segment.size_bytes
    return groups


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def _position_of(log: LogToClean, offset: int) -> int:
    """Return the position of a batch at or before `offset`, in the segment that holds it."""
    for segment in reversed(log.segments):
        if segment.base_offset <= offset:
            return segment.offset_index.look_up(offset).position
    return 0
