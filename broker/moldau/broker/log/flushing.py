"""Flushing a log, and closing it so that the next start has nothing to check.

The one step that may stall is in a `FlushJob`, for a thread; see `flush`. The job's `run` is called
between `begin` and `end`, which belong to the log's own thread.

Invariant: an offset is reported as durable (`flushed_end_offset`, `recovery_point`) only after a
job that covers it has ended, in a log that was not truncated meanwhile.
"""

from __future__ import annotations

from moldau.broker.log.flush import FlushJob
from moldau.broker.log.state import LogState


class LogFlusher:
    """The part of a log that makes it durable."""

    __slots__ = ("_found_end", "_state")

    def __init__(self, state: LogState) -> None:
        self._state = state
        self._found_end = state.log_end_offset

    def is_due(self, now_ms: int) -> bool:
        """Whether a flush is due, because of a sealed segment, the flush settings, or leader epochs
        that are wanted (`Retention.raise_local_start`)."""
        state = self._state
        if state.durability.are_epochs_wanted:
            return True
        config = state.config
        if state.log_end_offset - state.flushed_end_offset >= config.flush_messages:
            return True
        oldest = state.oldest_unflushed_ms
        if oldest is not None and now_ms - oldest >= config.flush_ms:
            return True
        sealed = state.segments.newest_sealed
        return sealed is not None and not sealed.are_indexes_durable

    def begin(self) -> FlushJob:
        """Return the job that makes all current records of the log durable."""
        state = self._state
        if state.failure is not None:
            state.refuse_failed()
        state.owner.files.make_room()
        flushed = state.flushed_end_offset
        unsynced = [
            each
            for each in state.segments
            if each.next_offset > flushed or (each.is_sealed and not each.are_indexes_durable)
        ]
        paths: list[str] = []
        if not state.durability.are_names_durable:
            # Of an active segment without records too: no later flush would sync its snapshot.
            bases = {each.base_offset for each in (*unsynced, state.segments.active)}
            paths = [state.snapshots.path(base) for base in sorted(bases)]
        state.oldest_unflushed_ms = None
        job = FlushJob(state.files, state.log_end_offset, unsynced, paths)
        job.truncations = state.truncation_count
        job.head_offset = state.segments.active.base_offset
        state.durability.begin(job, state.directory, state.leader_epochs)
        return job

    def end(self, job: FlushJob, error: OSError | None = None) -> None:
        """Note that the job has run, or that it failed with `error`, which takes the log out of
        service."""
        state = self._state
        if error is not None:
            state.fail(error)
        if job.truncations != state.truncation_count:
            return
        try:
            state.durability.end(job, state.directory)
        except OSError as failure:
            state.fail(failure)
        state.flushed_end_offset = max(state.flushed_end_offset, job.end_offset)
        if job.epochs is None:
            for segment in job.sealed:
                segment.are_indexes_durable = True

    def flush(self, *, is_last: bool = False) -> None:
        """Make everything in the log durable now, which raises the recovery point over its sealed
        segments. With `is_last`, do not sync the name of its directory."""
        is_over = False
        while not is_over:
            job = self.begin()
            job.is_last = is_last
            try:
                job.run()
            except OSError as error:
                self._state.fail(error)
            self.end(job)
            is_over = job.epochs is None

    def settle(self) -> None:
        """Make everything durable except the name of the directory, before the files are closed. Do
        nothing after a failure."""
        state = self._state
        if state.failure is not None:
            return
        if self._is_as_found:
            state.segments.active.are_indexes_durable = True
            return
        try:
            snapshot = state.snapshots.latest_offset or 0
            if state.producers.end_offset > max(state.log_start_offset, snapshot):
                state.snapshots.take(state.producers, sync=True)
            state.segments.active.seal()
            state.durability.names_changed()
            if state.log_end_offset:  # the leader of an empty log creates it again
                self.flush(is_last=True)
        except OSError as error:
            state.fail(error)

    @property
    def _is_as_found(self) -> bool:
        """Whether the log was closed cleanly the last time and not written since. Rebuilt indexes
        are durable already."""
        state = self._state
        is_grown = state.log_end_offset != self._found_end or state.truncation_count
        return state.durability.is_settled and not is_grown
