"""The checkpoints of a log directory: files with one offset for each of its logs.

    recovery points, log starts     where recovery begins, and where a log begins   `POINTS`
    local log starts                where the segments of a tiered log begin; one of `POINTS`
    high watermarks
    cleaned offsets                 how far each compacted log is clean

Invariants: recovery points and log starts on disk are never ahead of the logs. Older contents never
replace newer ones. A new log never gets the points of an earlier log of its name.

`write` and `persist_points` write on the event loop, for callers that cannot wait. `begin`, `put`
and `end` are the steps of a `CheckpointJob`, which writes in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from moldau.broker.log import names
from moldau.broker.log.checkpoint import read_offsets, write_offsets
from moldau.broker.log.checkpoint_job import POINTS, CheckpointJob
from moldau.broker.log.open_files import is_shortage
from moldau.errors import CorruptLog

if TYPE_CHECKING:
    from moldau.broker.log.directory_state import DirectoryState
    from moldau.broker.log.log import PartitionLog
    from moldau.broker.log.names import TopicPartition

Points: TypeAlias = "dict[str, dict[TopicPartition, int]]"
"""The contents of all checkpoints, by file name."""

_CHECKPOINTS: Final = (*POINTS, names.HIGH_WATERMARKS, names.CLEANED_OFFSETS)


class Checkpoints:
    """The checkpoints of one directory; see the module."""

    def __init__(self, state: DirectoryState) -> None:
        self._state = state
        self.are_stale = False
        """Whether the checkpoints may hold points of logs that are gone."""
        self.departures = 0
        """How often `are_stale` was set: logs that left, and copies that were cancelled."""
        self._generations = dict.fromkeys(_CHECKPOINTS, 0)
        """How often each checkpoint was written, or became outdated because a log left."""
        self._has_local_starts = False
        """Whether there is a file of local log starts, or has to be one."""

    # Reading.

    def read(self) -> Points:
        """Read all checkpoints. A damaged one counts as empty: logs are then checked from their
        start."""
        points = {name: self._read(name) for name in _CHECKPOINTS}
        self._has_local_starts = bool(points[names.LOCAL_STARTS])
        return points

    def _read(self, name: str) -> dict[TopicPartition, int]:
        state = self._state
        try:
            return read_offsets(state.files, state.path_of(name))
        except CorruptLog as error:
            state.notes.append(str(error))
            return {}

    def adopt(self, points: Points) -> None:
        """Compare the points that were read with the logs, now that they are open. Points that
        would become wrong as soon as a log grows are written again, durably."""
        logs = self._state.logs
        self.are_stale = any(each.keys() - logs.keys() for each in points.values())
        self._take_cleaned_offsets(points[names.CLEANED_OFFSETS])
        if any(log.persisted_recovery_point > log.log_end_offset for log in logs.values()):
            self.persist_points()  # otherwise they would later declare records durable that are not

    def _take_cleaned_offsets(self, found: Mapping[TopicPartition, int]) -> None:
        """Set the offset up to which each log is clean. Drop the offset of a log that ends before
        it, durably: it would be valid again as soon as the log has grown."""
        state = self._state
        known = {each: found[each] for each in found if each in state.logs}
        for each, offset in known.items():
            if offset <= state.logs[each].log_end_offset:
                state.cleaned_offsets[each] = offset
        if state.cleaned_offsets != known:
            self._write_now(names.CLEANED_OFFSETS)

    # Writing on the event loop.

    def persist_points(self) -> None:
        """Make the recovery points and log starts durable. Raise OSError if that fails."""
        recovery_points = self._offsets(names.RECOVERY_POINTS)
        for checkpoint in self._used(POINTS):
            self._write_now(checkpoint)
        for each, point in recovery_points.items():
            self._known(each).state.checkpoint_holds(point)

    def write(self) -> None:
        """Write all checkpoints. An error takes the directory out of service."""
        if self._state.failure is None:
            try:
                self._write_all()
            except OSError as error:
                self._state.fail(error)

    def become_stale(self) -> None:
        """Note that the checkpoints may hold the points of a cancelled copy."""
        self.departures += 1
        self.are_stale = True

    def on_departure(self) -> None:
        """Note that a log has left: the checkpoints hold its points, and so do running jobs."""
        self.become_stale()
        for checkpoint in self._generations:
            self._generations[checkpoint] += 1

    def forget_departed(self) -> None:
        """Rewrite the checkpoints if they hold points of logs that are gone: after a crash a new
        log of the same name would get these points. Raise KafkaError if too many files are open."""
        state = self._state
        if not self.are_stale or state.failure is not None:
            return
        try:
            self._write_all()
        except OSError as error:
            if is_shortage(error):
                state.refuse_short(error)
            state.fail(error)

    def on_rewritten(self, departures: int) -> None:
        """Note that all checkpoints in use were written since there were so many departures."""
        if departures == self.departures:
            self.are_stale = False

    def in_use(self) -> tuple[str, ...]:
        """Return all checkpoints that hold points, or have to hold them."""
        state = self._state
        if state.cleaned_offsets or state.files.exists(state.path_of(names.CLEANED_OFFSETS)):
            return _CHECKPOINTS
        return tuple(each for each in _CHECKPOINTS if each != names.CLEANED_OFFSETS)

    def _write_all(self) -> None:
        self.persist_points()
        for checkpoint in self.in_use():
            if checkpoint not in POINTS:
                self._write_now(checkpoint)
        self.are_stale = False

    def _write_now(self, checkpoint: str) -> None:
        self._generations[checkpoint] += 1
        path = self._state.path_of(checkpoint)
        write_offsets(self._state.files, path, self._offsets(checkpoint))

    # Writing in a thread.

    def begin(self, checkpoints: Iterable[str]) -> CheckpointJob:
        """Begin to write some of the checkpoints, in the steps of `checkpoint_job`."""
        checkpoints = self._used(checkpoints)
        return CheckpointJob(
            self._state.files,
            self._state.path,
            {each: self._offsets(each) for each in checkpoints},
            {each: self._generations[each] for each in checkpoints},
        )

    def put(self, job: CheckpointJob) -> bool:
        """Put the written files in place of the old ones, unless newer ones were written meanwhile.
        Return whether it did. Raise OSError if that fails."""
        if any(self._generations[each] != known for each, known in job.generations.items()):
            job.drop()
            return False
        for each, point in job.offsets(names.RECOVERY_POINTS).items():
            self._known(each).state.checkpoint_claims(point)
        job.rename()
        return True

    def end(self, job: CheckpointJob) -> None:
        """Note that the job's checkpoints are durable. If a newer one was written meanwhile, that
        one counts."""
        generations = self._generations
        if generations[names.RECOVERY_POINTS] == job.generations.get(names.RECOVERY_POINTS):
            for each, point in job.offsets(names.RECOVERY_POINTS).items():
                self._known(each).state.checkpoint_holds(point)

    # Contents.

    def _used(self, checkpoints: Iterable[str]) -> tuple[str, ...]:
        """Leave out the local log starts while no log has ever had one."""
        if not self._has_local_starts:
            self._has_local_starts = bool(self._offsets(names.LOCAL_STARTS))
        return tuple(
            each for each in checkpoints if each != names.LOCAL_STARTS or self._has_local_starts
        )

    def _offsets(self, checkpoint: str) -> dict[TopicPartition, int]:
        """Return the current contents for a checkpoint."""
        state = self._state
        logs = (state.logs | state.arriving if state.arriving else state.logs).items()
        if checkpoint == names.RECOVERY_POINTS:
            return {each: log.recovery_point for each, log in logs}
        if checkpoint == names.HIGH_WATERMARKS:
            return {each: log.high_watermark for each, log in logs}
        if checkpoint == names.CLEANED_OFFSETS:
            return dict(state.cleaned_offsets)
        if checkpoint == names.LOCAL_STARTS:
            starts = ((each, log.state) for each, log in logs)
            return {
                each: log.local_log_start_offset
                for each, log in starts
                if log.local_log_start_offset != log.log_start_offset
            }
        # Include logs whose first segment begins at the start: segments before it may come back.
        return {each: log.log_start_offset for each, log in logs if log.log_start_offset}

    def _known(self, partition: TopicPartition) -> PartitionLog:
        state = self._state
        log = state.logs.get(partition)
        return state.arriving[partition] if log is None else log
