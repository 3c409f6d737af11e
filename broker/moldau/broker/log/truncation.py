"""Truncation: moving a log's end back, and beginning a log anew elsewhere.

Invariants: everything is durable on return. The checkpoint's recovery point is lowered before the
segments are cut, so recovery checks the batches that replace the removed ones. Segments are removed
from the newest on, so a crash leaves no hole.

A tiered log that has lost all its own segments does not know its producers any more: the batches
that say so are in remote storage. Its epochs may be those of another history. Such a log says so
(`LogState.is_history_known`) until `begin_behind` gives it what it lacks. There the snapshot of the
producers is written last, and it is what a later start looks for. So a crash at any step leaves a
log that is as it was, or one that asks for its history again.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.broker.log import names
from moldau.broker.log.checkpoint import write_pairs
from moldau.broker.log.gaplessness import lower_mark
from moldau.broker.log.leader_epochs import EpochEntry, LeaderEpochs
from moldau.broker.log.producer_state import ProducerStateEntry
from moldau.broker.log.reading import SegmentsReader
from moldau.broker.log.recovery import recall_batches, replay
from moldau.broker.log.replacing import SegmentReplacer
from moldau.broker.log.segment import Segment
from moldau.broker.log.state import LogState
from moldau.deferred import dataclass
from moldau.errors import CorruptLog


@dataclass(frozen=True, slots=True)
class LogHistory:
    """What a log must know of the records below `offset`, if they are in remote storage only."""

    offset: int
    epochs: tuple[EpochEntry, ...]
    """The leader epochs of these records."""
    producers: tuple[ProducerStateEntry, ...]
    """The producers as these records leave them."""

    def covers(self, log_start_offset: int) -> bool:
        """Whether each of the records from there on has its epoch."""
        return bool(self.epochs) and self.epochs[0].start_offset <= log_start_offset


class Truncation:
    """The part of a log that drops batches from its end."""

    __slots__ = ("_reading", "_replacing", "_state")

    def __init__(
        self, state: LogState, reading: SegmentsReader, replacing: SegmentReplacer
    ) -> None:
        self._state = state
        self._reading = reading
        self._replacing = replacing

    def truncate_to(self, offset: int) -> bool:
        """Drop everything from `offset`, and the whole batch that holds it. Return whether there
        was anything to drop. Durable on return."""
        state = self._state
        if offset >= state.log_end_offset:
            return False
        self._replacing.finish()
        segments = state.segments
        if offset <= segments[0].base_offset:
            self._begin_anew_at(offset, min(offset, state.log_start_offset))
            return True
        index = segments.index_of(offset)
        target = segments[index]
        try:
            self._lower_recovery_point(index)
            self._remove_from(index + 1)
            target.truncate_to(offset)
        except OSError as error:
            state.fail(error)
        segments.replace_all(list(segments)[: index + 1])
        is_epoch_gone = state.leader_epochs.truncate_from_end(target.next_offset)
        self._end_at(target.next_offset, is_epoch_gone=is_epoch_gone)
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop all records and let the next one have `offset`. Durable on return."""
        self._begin_anew_at(offset, offset)

    def begin_behind(self, history: LogHistory, log_start_offset: int, now_ms: int) -> None:
        """Drop all records, and let the next one follow those that `history` is about: they are in
        remote storage, from `log_start_offset` on. Durable on return.

        A replica calls it when the leader no longer has the records that come next here.
        """
        state = self._state
        assert state.config.is_tiered, "what is below would be lost"
        assert log_start_offset < history.offset
        self._begin_anew_at(history.offset, log_start_offset, history.epochs)
        try:
            producers = history.producers
            state.snapshots.write(history.offset, producers, sync=True)
        except OSError as error:
            state.fail(error)
        state.producers.load(producers, history.offset, now_ms)

    def learn_epochs(self, earlier: Iterable[EpochEntry]) -> None:
        """Add the epochs of the records that are in remote storage only, to a log that has lost
        them. Durable on return. Raise CorruptLog, without effect, if its own batches contradict
        them."""
        state = self._state
        epochs, own = LeaderEpochs(earlier), state.leader_epochs.entries
        remote = epochs.entries
        for entry in own:
            epochs.assign(*entry)
        if epochs.entries[: len(remote)] != remote:
            raise CorruptLog(
                "the epochs of remote records contradict the log",
                directory=state.directory,
                remote=[tuple(each) for each in remote],
                local=[tuple(each) for each in own],
            )
        epochs.truncate_from_start(state.log_start_offset)
        try:
            path = f"{state.directory}/{names.LEADER_EPOCHS}"
            write_pairs(state.files, path, epochs.entries)
        except OSError as error:
            state.fail(error)
        state.leader_epochs = epochs
        state.durability.epochs_saved()

    def _begin_anew_at(
        self, offset: int, log_start_offset: int, history: Iterable[EpochEntry] | None = None
    ) -> None:
        """Drop all segments and let the next record have `offset`. What a tiered log has below it
        stays in remote storage; `history` are its epochs, if they are others than the log's."""
        state = self._state
        if not state.config.is_tiered:
            log_start_offset = offset
        self._replacing.finish()
        try:
            if offset < state.local_log_start_offset:
                # A crash from here on must not leave a start above the new end.
                state.log_start_offset = log_start_offset
                state.local_log_start_offset = offset
                state.owner.persist_points()
            self._lower_recovery_point(0)
            self._remove_from(0)
            self._forget_producers(offset, log_start_offset, is_other=history is not None)
            if history is not None:
                state.leader_epochs = LeaderEpochs(history)
                path = f"{state.directory}/{names.LEADER_EPOCHS}"
                write_pairs(state.files, path, state.leader_epochs.entries)
                state.durability.epochs_saved()
            segment = Segment.create(state.files, state.directory, offset, state.config)
            state.files.sync_dir(state.directory)
        except OSError as error:
            state.fail(error)
        state.segments.replace_all([segment])
        state.log_start_offset = log_start_offset
        state.local_log_start_offset = state.high_watermark = offset
        epochs = state.leader_epochs
        is_tiered = log_start_offset < offset
        self._end_at(
            offset,
            is_epoch_gone=epochs.truncate_from_end(offset) if is_tiered else epochs.clear(),
        )
        state.persist_points()

    def _forget_producers(self, offset: int, log_start_offset: int, *, is_other: bool) -> None:
        """Remove the snapshots of a log that begins anew. One at the new end stays if the records
        below it do, and with it the log knows its producers."""
        is_kept = log_start_offset < offset and not is_other
        if is_kept and offset in self._state.snapshots.offsets:
            self._state.snapshots.truncate(offset - 1, offset)
        else:
            self._state.snapshots.remove_all()

    def _lower_recovery_point(self, index: int) -> None:
        state = self._state
        for number in range(index, len(state.segments)):
            state.segments[number].are_indexes_durable = False
        claimed = max(state.persisted_recovery_point, state.claimed_recovery_point)
        if claimed > state.segments[index].base_offset:
            state.owner.persist_points()

    def _remove_from(self, index: int) -> None:
        segments = self._state.segments
        for number in range(len(segments) - 1, index - 1, -1):
            segments[number].remove()
        self._state.files.sync_dir(self._state.directory)

    def _end_at(self, end: int, *, is_epoch_gone: bool) -> None:
        """Update everything except the segments: the log now ends at `end`."""
        state = self._state
        state.truncation_count += 1
        state.durability.cut(state.segments.active.base_offset)
        state.log_end_offset = end
        state.flushed_end_offset = min(state.flushed_end_offset, end)
        state.log_start_offset = min(state.log_start_offset, end)
        state.local_log_start_offset = min(state.local_log_start_offset, end)
        state.high_watermark = min(state.high_watermark, end)
        try:
            lower_mark(state.files, state.directory, end)
            if is_epoch_gone:
                path = f"{state.directory}/{names.LEADER_EPOCHS}"
                save_epochs(state, is_file_there=state.files.exists(path))
            state.snapshots.truncate(state.log_start_offset, end)
            unreplicated = state.producers.unreplicated
            state.snapshots.load_latest(state.producers, state.local_log_start_offset, 0)
            state.producers.keep_unreplicated(unreplicated)
            recall_batches(state.producers, state.segments)
            replay(state.producers, self._reading.batches(state.producers.end_offset))
        except OSError as error:
            state.fail(error)
        state.producers.on_high_watermark(state.high_watermark)
        state.leader_epoch = state.leader_epochs.latest_epoch


def save_epochs(state: LogState, *, is_file_there: bool) -> None:
    """Write the epochs before anything is appended: recovery could not distinguish an epoch that
    was cut off from one whose batches were cleaned. If there is no file yet, a flush writes it."""
    state.durability.epochs_changed()
    if is_file_there:
        path = f"{state.directory}/{names.LEADER_EPOCHS}"
        write_pairs(state.files, path, state.leader_epochs.entries)
        state.durability.epochs_saved()
