"""Open a log directory: find the segments, decide which to trust, and recover the others.

Invariants, after any crash:
* Durable records are kept: all below the recovery point, and all that a finished flush covered.
* Nothing damaged is kept. Above the recovery point each batch's checksum is checked, and offsets
  and leader epochs must continue those before. The log ends where a check fails.
* No hole made by a power loss remains: when a segment lost its tail and a later one did not, the
  later one goes. A hole from compaction removes nothing.
* Indexes, producer state and transaction indexes follow from the log. Leader epochs are those of
  their file, unless the log contradicts it: compaction removes the batches with which epochs began.

A cut is durable before anything is appended. Otherwise old batches could follow new ones after the
next power loss.

These prove damage: inside a segment, a batch that is not whole or does not continue those before.
Between two segments, a second one that begins before the first ends. A second one that begins later
is, if it begins

    below the recovery point                            durable: not checked
    behind the mark                                     damage
    before the mark                                     cleaned earlier: it stays
    without a mark, in a log that is never compacted    damage
    without a mark, in one that may be compacted        perhaps cleaned by Kafka: it stays

A log gets the broker's mark the first time that it is opened, and a new log when it is made.

Kafka itself keeps such a segment in every case. A replica that lost a tail and kept what follows
would never fetch the records in between. If it became leader, acknowledged records would be
missing. So a log of this broker is cut there, and a log that Kafka has cleaned or copied loses no
record (see `gaplessness`).

Segments that do not stay are set aside under names that end in `.lost`, for an operator to look at
(`moldau log dump`). Those files go with the directory, when the partition is deleted or moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from itertools import count
from typing import Final

from moldau.broker.log import names
from moldau.broker.log.checkpoint import read_pairs
from moldau.broker.log.gaplessness import gapless_from, mark_gapless, move_mark
from moldau.broker.log.leader_epochs import LeaderEpochs
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.producer_snapshot import ProducerSnapshots
from moldau.broker.log.producer_state import Origin, ProducerState
from moldau.broker.log.replacement import finish_replacements
from moldau.broker.log.segment import INDEX_KINDS, Segment
from moldau.broker.log.transaction_index import AbortedTransaction
from moldau.deferred import dataclass
from moldau.errors import CorruptLog, CorruptRecord
from moldau.errors.amounts import counted
from moldau.errors.codes import KafkaError
from moldau.records import Batch, BatchHeader
from moldau.runtime.files import Files

_RECALLED_BYTES: Final = 1 << 20
"""How far back in the log the last batches of producers are looked for."""
_RECALLED_MS: Final = 600_000
"""How old the last write to a log is, at most, for that: no producer repeats a batch after that."""
_RECENT_SEGMENTS_MAX: Final = 2
"""The segments, at most, in which markers above the high watermark are looked for."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The facts about a log that are known before it is opened."""

    now_ms: int
    is_there: bool = False
    """Whether its directory certainly exists."""
    is_clean: bool = False
    """Whether the log was closed cleanly, so that nothing needs to be checked."""
    recovery_point: int = 0
    log_start_offset: int = 0
    local_log_start_offset: int = 0
    """The start of what a tiered log holds itself; segments before it may have come back."""
    high_watermark: int = 0
    cleaned_offset: int = 0
    """The offset below which compaction has cleaned."""
    jitter: float = 0.0
    """This log's share, 0 to 1, of `segment.jitter.ms`."""
    distrust: Callable[[], None] = lambda: None
    """Drops the recovery point from the checkpoint, durably: the indexes below it are about to be
    rebuilt."""


@dataclass(slots=True)
class RecoveredLog:
    """The contents of an opened directory."""

    segments: list[Segment]
    log_start_offset: int
    local_log_start_offset: int
    flushed_end_offset: int
    producers: ProducerState
    snapshots: ProducerSnapshots
    epochs: LeaderEpochs
    epochs_changed: bool
    is_epochs_file_there: bool
    is_clean: bool
    """Whether the log was closed cleanly and found complete."""
    recovery_point: int
    """The recovery point in the checkpoint now."""
    notes: list[str] = field(default_factory=list)
    """The repairs that were made, in words, for the log of the process."""


def open_directory(
    files: Files, directory: str, config: LogConfig, opening: Opening
) -> RecoveredLog:
    """Open the log and, if it was not closed cleanly, recover it. The directory must exist."""
    opener = _Opener(files, directory, config, opening)
    try:
        return opener.open()
    except (CorruptLog, CorruptRecord) as error:
        opener.forget()
        # The checkpoint or the marker says that the log is complete, but it is not. Check all of
        # it.
        if not (opening.is_clean or opening.recovery_point):
            raise
        opening = _distrusted(opening)
        found = _Opener(files, directory, config, opening).open()
        found.notes.insert(0, str(error))
        return found


def _distrusted(opening: Opening) -> Opening:
    """Drop the clean shutdown and the recovery point, also for a later crash. Indexes that recovery
    rebuilds are not durable, and a recovery point above them would declare them so."""
    if opening.recovery_point:
        opening.distrust()
    elif not opening.is_clean:
        return opening
    return replace(opening, is_clean=False, recovery_point=0)


class _Opener:
    """One opening of a log, in steps."""

    def __init__(self, files: Files, directory: str, config: LogConfig, opening: Opening) -> None:
        self._files = files
        self._directory = directory
        self._config = config
        self._opening = opening
        self._notes: list[str] = []
        self._listed: list[str] = []
        self._gapless_from: int | None = None
        self._producers = ProducerState(config.producer_expiration_ms)
        self._opened: list[Segment] = []
        self._trusted = 0
        """The number of segments that need no check."""

    def forget(self) -> None:
        """Close the files of an opening that failed: the next one cuts them."""
        for segment in self._opened:
            segment.forget()

    def open(self) -> RecoveredLog:
        self._listed = finish_replacements(self._files, self._directory)
        self._gapless_from = gapless_from(self._listed)
        bases = self._bases()
        log_start = self._opening.log_start_offset
        start = max(log_start, self._opening.local_log_start_offset)
        bases = self._drop_before_start(bases, start)
        segments = [
            Segment(self._files, self._directory, base, self._config) for base in bases
        ] or [Segment.create(self._files, self._directory, start, self._config)]
        self._opened = segments
        start = max(start, segments[0].base_offset)
        if not self._config.is_tiered:
            log_start = start
        is_empty = not any(each.size_bytes for each in segments)
        epochs, are_epochs_known = self._read_epochs(is_empty=is_empty)
        before = list(epochs.entries)
        if not are_epochs_known:
            self._opening = _distrusted(self._opening)
        self._trusted = self._count_trusted(segments)
        self._trust(segments)
        self._load_producers(segments, log_start, start)
        segments = self._recover(segments, epochs)
        active = segments[-1]
        if active.next_offset < start:
            self._notes.append(f"log ends at {active.next_offset}, before its start {start}")
            self._drop(segments)
            active = Segment.create(self._files, self._directory, start, self._config)
            segments = [active]
            self._producers.reset(start)
        active.is_sealed = False
        active.are_indexes_durable = False
        epochs.truncate_from_end(active.next_offset)
        epochs.truncate_from_start(log_start)
        snapshots = self._snapshots
        snapshots.truncate(-1, active.next_offset)
        snapshots.remove_strays([each.base_offset for each in segments], self._listed)
        self._mark(segments)
        unsure = [each.base_offset for each in segments if not each.are_indexes_durable]
        return RecoveredLog(
            segments,
            log_start,
            start,
            active.next_offset if self._opening.is_clean else unsure[0],
            self._producers,
            snapshots,
            epochs,
            list(epochs.entries) != before,
            names.LEADER_EPOCHS in self._listed,
            self._opening.is_clean,
            self._opening.recovery_point,
            self._notes,
        )

    def _mark(self, segments: Sequence[Segment]) -> None:
        """Accept the gaps that exist now: write the mark if there is none, after syncing the
        segments. If the log was cut before the mark, move the mark to the new end: what follows is
        written by this broker."""
        end = segments[-1].next_offset
        if self._gapless_from is not None and self._gapless_from <= end:
            return
        for segment in segments[self._trusted :]:
            if segment.size_bytes:
                segment.log_file.file.sync()
        if self._gapless_from is not None:
            move_mark(self._files, self._directory, end)
            return
        mark_gapless(self._files, self._directory, end)
        if self._opening.is_clean:  # no flush would sync the names of such a log
            self._files.sync_dir(self._directory)

    def _bases(self) -> list[int]:
        """Return the base offsets of the segments. Remove index files without a log."""
        found: dict[int, set[str]] = {}
        for name in self._listed:
            parsed = names.parse_segment_file(name)
            if parsed is not None and parsed[1] != names.SNAPSHOT:
                found.setdefault(parsed[0], set()).add(parsed[1])
            elif names.parse_segment_file(name, names.DELETED) is not None:
                self._files.remove(f"{self._directory}/{name}")
        for base, kinds in found.items():
            if names.LOG not in kinds:
                for kind in kinds:
                    name = names.segment_file_name(base, kind)
                    self._files.remove(f"{self._directory}/{name}")
                    self._listed.remove(name)
        return sorted(base for base, kinds in found.items() if names.LOG in kinds)

    def _drop_before_start(self, bases: list[int], start: int) -> list[int]:
        """Remove the segments whose deletion a crash interrupted: all that end at or before the
        log's start."""
        while len(bases) > 1 and bases[1] <= start:
            for kind in (names.LOG, *INDEX_KINDS, names.SNAPSHOT):
                path = f"{self._directory}/{names.segment_file_name(bases[0], kind)}"
                if self._files.exists(path):
                    self._files.remove(path)
            del bases[0]
        return bases

    def _read_epochs(self, *, is_empty: bool) -> tuple[LeaderEpochs, bool]:
        """Return the leader epochs, and whether they are known. If not, recovery takes them from
        the log."""
        path = f"{self._directory}/{names.LEADER_EPOCHS}"
        try:
            if names.LEADER_EPOCHS not in self._listed:
                return LeaderEpochs(), is_empty
            return LeaderEpochs(read_pairs(self._files, path)), True
        except CorruptLog as error:
            if not is_empty:  # Kafka leaves an empty file beside an empty log
                self._notes.append(str(error))
            return LeaderEpochs(), False

    def _count_trusted(self, segments: list[Segment]) -> int:
        """Count the segments that lie below the recovery point as a whole."""
        if self._opening.is_clean:
            return len(segments)
        point = self._opening.recovery_point
        ends = [each.base_offset for each in segments[1:]]
        return sum(1 for end in ends if end <= point)

    def _trust(self, segments: list[Segment]) -> None:
        """Accept the trusted segments without a check."""
        for number, segment in enumerate(segments[: self._trusted]):
            if number + 1 < len(segments):
                segment.next_offset = segments[number + 1].base_offset
                segment.is_sealed = True
                segment.are_indexes_durable = True
            else:
                segment.load_end()

    def _recover(self, segments: list[Segment], epochs: LeaderEpochs) -> list[Segment]:
        """Check every batch of the segments that are not trusted. Return the segments that stay.
        Each but the first begins with a snapshot of its producers again, as after a roll: a tiered
        log needs it when the segments before are in remote storage only."""
        kept = segments[: self._trusted]
        epoch = None
        if self._trusted < len(segments):
            epoch = epochs.epoch_for_offset(segments[self._trusted].base_offset - 1)
        for segment in segments[self._trusted :]:
            if not self._follows(kept, segment):
                break
            if kept and not kept[-1].is_sealed:
                kept[-1].seal()
            if kept and self._producers.end_offset == segment.base_offset:
                self._snapshots.take(self._producers, sync=False)
            segment.begin_recovery(self._listed)
            walk = _Walk(segment, self._producers, epochs, epoch)
            is_whole = walk.run()
            epoch = walk.epoch
            kept.append(segment)
            if not is_whole:
                # The segments behind go first: a crash in between must not leave a gap.
                self._drop(segments[len(kept) :])
                segments = segments[: len(kept)]
                segment.cut(walk.position)
                end = segment.next_offset
                self._notes.append(f"{segment.log_path} cut at offset {end}: {walk.reason}")
                break
        self._drop(segments[len(kept) :])
        return kept

    def _load_producers(self, segments: list[Segment], log_start: int, start: int) -> None:
        """Set the producer state to its value at the end of the trusted segments. The records from
        `log_start` to `start` are in remote storage only."""
        snapshots = self._snapshots = ProducerSnapshots(self._files, self._directory, self._listed)
        if self._trusted < len(segments):
            end = max(start, segments[self._trusted].base_offset)
        else:
            end = segments[-1].next_offset
        snapshots.truncate(log_start, end)
        refused = snapshots.load_latest(self._producers, start, self._opening.now_ms)
        self._notes += [str(error) for error in refused]
        recall_batches(self._producers, segments[: self._trusted], self._opening.now_ms)
        self._keep_unreplicated(segments[: self._trusted], start)
        for segment in segments[: self._trusted]:
            if segment.next_offset > self._producers.end_offset:
                replay(self._producers, _batches_from(segment, self._producers.end_offset))
        if self._producers.end_offset < end:
            self._producers.advance_to(end)

    def _keep_unreplicated(self, trusted: list[Segment], start: int) -> None:
        """Find the transactions that ended below the snapshot, but above the high watermark. They
        stay unstable until their markers are replicated. This looks back one segment at most."""
        mark, end = self._opening.high_watermark, self._producers.end_offset
        recent = [each for each in trusted if mark < each.next_offset and each.base_offset < end]
        if mark >= end or len(recent) > _RECENT_SEGMENTS_MAX:
            return
        tail = (header for each in recent for header in _headers(each, mark, end))
        if not any(header.is_control for header in tail):
            return
        earlier = ProducerState(self._config.producer_expiration_ms)
        self._snapshots.load_latest(earlier, start, self._opening.now_ms, at_most=mark)
        for segment in trusted:
            if earlier.end_offset < segment.next_offset and segment.base_offset < end:
                replay(earlier, _batches_from(segment, earlier.end_offset))
        earlier.on_high_watermark(mark)
        self._producers.keep_unreplicated(earlier.unreplicated)

    def _follows(self, kept: list[Segment], segment: Segment) -> bool:
        """Whether `segment` may follow the one before it."""
        if not kept or segment.base_offset == kept[-1].next_offset:
            return True
        end = kept[-1].next_offset
        if segment.base_offset > end and self._may_follow_a_gap(segment):
            return True
        self._notes.append(f"{segment.log_path} does not go on at offset {end}")
        return False

    def _may_follow_a_gap(self, segment: Segment) -> bool:
        if self._gapless_from is not None:
            return segment.base_offset <= self._gapless_from
        return self._config.is_compacted or self._opening.cleaned_offset > 0

    def _drop(self, segments: list[Segment]) -> None:
        """Set aside segments that cannot stay. Durable on return."""
        if not segments:
            return
        for segment in reversed(segments):
            segment.rename(self._unused_suffix(segment))
            segment.forget()
        self._files.sync_dir(self._directory)
        aside = f"{segments[0].log_path} to {segments[-1].log_path}"
        self._notes.append(f"set aside {counted(len(segments), 'segment')}: {aside}")

    def _unused_suffix(self, segment: Segment) -> str:
        """Return an ending not in use yet: files that were set aside under this name before stay as
        well."""
        paths = [segment.path(kind) for kind in (names.LOG, *INDEX_KINDS)]
        suffixes = map(names.lost_suffix, count(1))
        return next(
            suffix
            for suffix in suffixes
            if not any(self._files.exists(path + suffix) for path in paths)
        )


class _Walk:
    """A walk through a segment that may be damaged, to find where the damage begins."""

    def __init__(
        self,
        segment: Segment,
        producers: ProducerState,
        epochs: LeaderEpochs,
        epoch: int | None,
    ) -> None:
        self._segment = segment
        self._producers = producers
        self._epochs = epochs
        self.epoch = epoch
        self.position = 0
        """The position up to which the segment is valid."""
        self.reason = ""

    def run(self) -> bool:
        """Check all batches. Return whether the segment is valid to its end."""
        segment = self._segment
        try:
            for batch in segment.batches():
                self._check(batch)
                self._take(batch)
                self.position = batch.end
        except CorruptRecord as error:
            self.reason = str(error)
        return self.position == segment.size_bytes

    def _check(self, batch: Batch) -> None:
        header = batch.header
        batch.check_crc()
        self._segment.check_next(header)
        if self.epoch is not None and header.partition_leader_epoch < self.epoch:
            raise CorruptRecord(
                "leader epoch goes back",
                base_offset=header.base_offset,
                epoch=header.partition_leader_epoch,
                after=self.epoch,
            )

    def _take(self, batch: Batch) -> None:
        header = batch.header
        if header.last_offset >= self._producers.end_offset:
            aborted = _fold(self._producers, batch)
            if aborted:
                self._segment.transaction_index.append(*aborted)
        self._segment.recover_batch(batch)
        epoch = header.partition_leader_epoch
        if epoch >= 0:
            self._epochs.confirm(epoch, header.base_offset)
            self.epoch = epoch


def recall_batches(
    producers: ProducerState, segments: Sequence[Segment], now_ms: int | None = None
) -> None:
    """Complete a snapshot that was loaded by the batches before its end; see
    `ProducerState.recall`. With `now_ms`, only if the log was written to lately."""
    end = producers.end_offset
    segment = next((each for each in reversed(segments) if each.base_offset < end), None)
    if segment is None or not any(each.batches for each in producers.entries.values()):
        return
    if now_ms is not None and now_ms - segment.modified_ms > _RECALLED_MS:
        return
    index = segment.offset_index
    reached = segment.size_bytes if end >= segment.next_offset else index.look_up(end).position
    position = index.position_before(max(0, reached - _RECALLED_BYTES))
    producers.recall(_headers_until(segment, position, end))


def _headers_until(segment: Segment, position: int, end: int) -> Iterator[BatchHeader]:
    for batch in segment.batches(position):
        if batch.header.base_offset >= end:
            return
        yield batch.header


def _batches_from(segment: Segment, offset: int) -> Iterator[Batch]:
    """Return the batches of a trusted segment from about `offset`."""
    return segment.batches(segment.offset_index.look_up(offset).position)


def _headers(segment: Segment, start: int, end: int) -> Iterator[BatchHeader]:
    """Return the headers of the batches from `start` to `end`."""
    for batch in _batches_from(segment, start):
        if batch.header.base_offset >= end:
            return
        if batch.header.last_offset >= start:
            yield batch.header


def replay(producers: ProducerState, batches: Iterable[Batch]) -> None:
    """Fold the batches into the producer state, except those that it has seen already."""
    offset = producers.end_offset
    for batch in batches:
        if batch.header.last_offset >= offset:
            _fold(producers, batch)


def _fold(producers: ProducerState, batch: Batch) -> list[AbortedTransaction]:
    """Fold a batch of the log into the producer state. Raise CorruptRecord if the batch is
    invalid."""
    append = producers.prepare(Origin.REPLICATION)
    try:
        append.add(batch)
    except KafkaError as error:
        raise CorruptRecord(error.reason, **error.context) from error
    return producers.commit(append)
