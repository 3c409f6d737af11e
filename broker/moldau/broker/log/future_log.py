"""A copy of a log that moves to another directory of this node (`-future`, KIP-113).

    open        create the copy, or take over one from an earlier run               thread
    next_piece  return what the log has and the copy has not                        loop
    copy        append the piece                                                    thread
    sync        make it durable so far, so that little is left at the end           thread
    catch_up    copy the rest, and the log's other state                            loop
    settle      make it durable, and mark it as the one that counts                 thread
    rename      give it the log's own name                                          thread
    take_over   copy what came meanwhile; from now on the copy is the log           loop
    clear_mark  remove the mark once the old log has lost its name                  thread

Invariants:
* The copy holds the log's batches unchanged, in order, from the log's start (or from the batch that
  contains it). No other code uses the copy before `take_over`, so threads may work on it.
* Between `catch_up` and `take_over` the log acknowledges nothing more. So everything that it ever
  acknowledged is durable in the copy before the copy has the log's name.

Two directories cannot be renamed at once, so a crash may leave a log of the same name in both. The
mark tells which one counts. It is a file in the copy with a number: the greater one wins, and no
file means 0. The mark is durable before the copy's name. It is removed when the old log's new name
is durable (`LogDirectories.load`). A copy from an earlier run is cut to where the log ended when it
was opened: behind that, a power loss may have made the two differ.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from moldau.broker.log import names
from moldau.broker.log.gaplessness import move_mark
from moldau.broker.log.leader_epochs import LeaderEpochs
from moldau.broker.log.log import Owner, PartitionLog
from moldau.broker.log.partition_metadata import read_partition_metadata, write_partition_metadata
from moldau.broker.log.recovery import Opening
from moldau.broker.log.slice import LogSlice
from moldau.deferred import dataclass
from moldau.errors import CorruptLog, without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid
from moldau.runtime.files import Files

PIECE_BYTES: Final = 1 << 20


class CopyPart(NamedTuple):
    """The next part to copy."""

    records: LogSlice
    begin_anew_at: int | None
    """The offset at which the copy must restart, because the log has lost records that the copy
    holds; otherwise None."""

    is_last: bool
    """Whether the piece ends at the log's end."""


@dataclass(frozen=True, slots=True)
class CopyLocation:
    """The path of a copy and its topic's id. `opening` has the known facts about a copy from an
    earlier run."""

    path: str
    topic_id: Uuid
    opening: Opening | None = None


class FutureLog:
    """The copy of `source`; see the module."""

    def __init__(self, source: PartitionLog, place: CopyLocation) -> None:
        """Call it on the event loop, before the source grows in this run."""
        self.source = source
        self.path = place.path
        self.unreadable: OSError | None = None
        """The error of the source's disk in `copy`."""
        self._files: Files = source.files
        self._place = place
        self._limit = source.log_end_offset
        self._start = source.reading.batch_start(source.local_log_start_offset)
        self._truncations = source.truncation_count
        self._log: PartitionLog | None = None

    @property
    def log(self) -> PartitionLog:
        assert self._log is not None, "not opened"
        return self._log

    @property
    def is_open(self) -> bool:
        return self._log is not None

    @property
    def lag(self) -> int:
        """The number of offsets that the copy is behind the log."""
        end = 0 if self._log is None else self._log.log_end_offset
        return max(0, self.source.log_end_offset - end)

    @property
    def size_bytes(self) -> int:
        return 0 if self._log is None else self._log.size_bytes

    @property
    def failure(self) -> Exception | None:
        """The failure of the copy's own log."""
        return None if self._log is None else self._log.failure

    # In a thread.

    def open(self, now_ms: int) -> None:
        """Create the copy, or continue an existing one, unless that belongs to another topic."""
        files, place = self._files, self._place
        opening = place.opening
        if opening is None:
            self._make(now_ms)
            return
        try:
            is_ours = read_partition_metadata(files, self.path) == place.topic_id
            log = PartitionLog.open(files, place.path, self.source.config, opening)
        except CorruptLog:
            is_ours = False
        if not is_ours:
            files.remove_tree(place.path)
            self._make(now_ms)
            return
        self._log = log
        if not log.segments[0].base_offset <= self._start <= log.log_end_offset:
            log.truncate_fully_and_start_at(self._start)
        log.truncate_to(self._limit)

    def _make(self, now_ms: int) -> None:
        files, place = self._files, self._place
        files.make_dirs(place.path)
        write_partition_metadata(files, place.path, place.topic_id)
        opening = Opening(now_ms, is_there=True, log_start_offset=self._start)
        self._log = PartitionLog.open(files, place.path, self.source.config, opening)

    def copy(self, piece: CopyPart, now_ms: int) -> None:
        """Append a piece from `next_piece`. Raise KafkaError if the copy cannot be written
        (`failure`), the source cannot be read (`unreadable`), or the records are damaged."""
        try:
            data = piece.records.read()
        except OSError as error:
            self.unreadable = without_frames(error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, error=str(error)) from error
        if piece.begin_anew_at is not None:
            self.log.truncate_fully_and_start_at(piece.begin_anew_at)
        if data:
            self.log.append_as_follower(data, now_ms)

    def sync(self) -> None:
        """Make everything in the copy durable."""
        self.log.flush()

    def settle(self) -> None:
        """Make the copy durable, accept its gaps, and mark it as the log that counts while both
        logs have the same name."""
        self.log.flush()
        move_mark(self._files, self.log.directory, self.log.log_end_offset)
        number = generation(self._files, self.source.directory) + 1
        self._files.write_text_atomic(f"{self.log.directory}/{names.TAKES_OVER}", f"{number}\n")

    def rename(self, directory: str) -> None:
        """Give the copy the name of a log in service. Durable on return."""
        self.log.move(directory)
        self.path = directory

    def clear_mark(self) -> None:
        """Remove the mark. Call it when the old log has lost the name, durably."""
        path = f"{self.log.directory}/{names.TAKES_OVER}"
        if self._files.exists(path):
            self._files.remove(path)

    def discard(self) -> None:
        """Remove the copy: it is not needed any more."""
        if self._log is not None:
            self._log.abandon()
        self._files.remove_tree(self.path)

    def close(self) -> None:
        """Close the copy, durably: a later run may continue it."""
        if self._log is not None:
            self._log.close()

    # On the event loop.

    def next_piece(self) -> CopyPart | None:
        """Return the next piece, or None if the copy has reached the log's end."""
        source, end = self.source, self.log.log_end_offset
        begin_anew_at = None
        if source.truncation_count != self._truncations or end < source.local_log_start_offset:
            self._truncations = source.truncation_count
            begin_anew_at = end = source.reading.batch_start(source.local_log_start_offset)
        elif end >= source.log_end_offset:
            return None
        start = max(end, source.local_log_start_offset)
        records = source.read(start, PIECE_BYTES)
        if not len(records) and begin_anew_at is None:
            return None
        active = source.segments.active
        is_active = records.source is None or active.log_file.is_opened_as(records.source)
        reaches_end = records.position + len(records) >= active.size_bytes
        return CopyPart(records, begin_anew_at, reaches_end and is_active)

    def catch_up(self, now_ms: int) -> None:
        """Copy the rest at once, and the state that is not in the batches: producers whose batches
        are gone, epochs that began before the log's start, and the start itself."""
        source, log = self.source, self.log
        self._copy_rest(now_ms)
        log.state.log_end_offset = source.log_end_offset
        log.rolling.roll(now_ms)
        if source.state.is_history_known:
            log.snapshots.write(
                source.log_end_offset, dict(source.producers.entries).values(), sync=False
            )
        log.adopt_epochs(LeaderEpochs(source.leader_epochs.entries), source)

    def take_over(self, owner: Owner, now_ms: int) -> None:
        """Become the log, with all its state."""
        source, log = self.source, self.log
        self._copy_rest(now_ms)
        log.state.log_end_offset = source.log_end_offset
        log.adopt(source, owner)

    def _copy_rest(self, now_ms: int) -> None:
        while (piece := self.next_piece()) is not None:
            self.copy(piece, now_ms)


def generation(files: Files, directory: str) -> int:
    """Return how often the log in this directory has moved since its mark was last cleared."""
    path = f"{directory}/{names.TAKES_OVER}"
    try:
        return int(files.read_text(path))
    except FileNotFoundError:
        return 0
    except ValueError as error:
        raise CorruptLog("the mark of a moved log is malformed", path=path) from error
