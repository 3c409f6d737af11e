"""Bugs on purpose, of the kind that people really write. The simulation must find them all, each by
the promise that it breaks.

Each is a context in which the broker has the bug; what is patched is told by its name, so a part
that is renamed fails here and not silently.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NoReturn
from unittest.mock import Mock, patch

from moldau.broker.log import clean_shutdown, loading, names, producer_state
from moldau.broker.log.checkpoints import Checkpoints
from moldau.broker.log.compaction_filter import BatchFilter
from moldau.broker.log.directory import LogDirectory
from moldau.broker.log.flush import FlushJob
from moldau.broker.log.names import TopicPartition
from moldau.broker.log.recovery import _Walk
from moldau.broker.log.segment import Segment
from moldau.broker.log.state import LogState
from moldau.broker.raft import snapshots
from moldau.broker.raft.quorum import Quorum
from moldau.broker.raft.snapshots import SnapshotFile
from moldau.broker.replication.partition import Partition
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime.files import Files
from tests.broker.simulation.promises import Promise
from tests.broker.simulation.search import Hunt, Mutant


def answers_before_the_sync() -> AbstractContextManager[object]:
    return patch.object(Partition, "is_acknowledged", lambda *_: True)


@contextmanager
def shows_before_the_sync() -> Iterator[None]:
    """The high watermark moves when a reader comes; who wrote still waits."""
    bound = Partition.fetch_bound

    def fetch_bound(self: Partition, isolation_level: int, is_follower: bool) -> int:
        self.log.update_high_watermark(self.log.log_end_offset)
        return bound(self, isolation_level, is_follower)

    with patch.object(Partition, "fetch_bound", fetch_bound):
        yield


def syncs_nothing() -> AbstractContextManager[object]:
    return patch.object(FlushJob, "run", lambda self: None)


@contextmanager
def syncs_bytes_and_no_names() -> Iterator[None]:
    run = FlushJob.run

    def without_names(self: FlushJob) -> None:
        self.directory = self.home = None
        run(self)

    with patch.object(FlushJob, "run", without_names):
        yield


def leaves_the_torn_tail() -> AbstractContextManager[object]:
    """Recovery knows where the log ends, and the file goes on behind it."""

    def cut(self: Segment, position: int) -> None:
        self.size_bytes = position

    return patch.object(Segment, "cut", cut)


@contextmanager
def recovers_without_checksums() -> Iterator[None]:
    """What else recovery looks at stays."""
    check = _Walk._check

    def without_checksum(self: _Walk, batch: Any) -> None:
        check(self, Mock(header=batch.header))

    with patch.object(_Walk, "_check", without_checksum):
        yield


def checkpoints_what_is_not_durable() -> AbstractContextManager[object]:
    """The recovery point runs ahead of the flush."""
    return patch.object(LogState, "recovery_point", property(lambda self: self.log_end_offset))


def keeps_the_clean_marker() -> AbstractContextManager[object]:
    """One clean shutdown, and every later life believes in it."""
    take = clean_shutdown.take_clean_shutdown

    def leave(files: Files, path: str) -> int | None:
        epoch = take(files, path)
        if epoch is not None:
            clean_shutdown.write_clean_shutdown(files, path, epoch)
        return epoch

    return patch.object(loading, "take_clean_shutdown", leave)


@contextmanager
def forgets_producers_at_start() -> Iterator[None]:
    load = LogDirectory.load

    def loaded(self: LogDirectory, *arguments: Any) -> None:
        load(self, *arguments)
        for log in self.logs.values():
            log.producers.reset(log.log_end_offset)

    with patch.object(LogDirectory, "load", loaded):
        yield


def knows_only_two_batches() -> AbstractContextManager[object]:
    return patch.object(producer_state, "BATCHES_KEPT", 2)


def commits_metadata_before_the_sync() -> AbstractContextManager[object]:
    return patch.object(Quorum, "high_watermark", property(lambda self: self.log.log_end_offset))


@contextmanager
def writes_snapshots_in_place() -> Iterator[None]:
    """No other name and no sync: half of one is taken for the newest."""

    def begin(
        self: SnapshotFile, files: Files, path: str, heading: snapshots.SnapshotHeader
    ) -> None:
        self._files, self._path, self._heading, self._offset = files, path, heading, 0
        self._file = files.open(path, "write")
        self._file.truncate(0)
        self.append(snapshots._opening(heading))

    def finish(self: SnapshotFile) -> None:
        with self._file:
            self.append(snapshots._closing(self._heading))

    with (
        patch.object(SnapshotFile, "__init__", begin),
        patch.object(SnapshotFile, "finish", finish),
    ):
        yield


def forgets_log_starts() -> AbstractContextManager[object]:
    """Records are deleted in memory; the next life has them again."""
    offsets = Checkpoints._offsets

    def without_starts(self: Checkpoints, checkpoint: str) -> dict[TopicPartition, int]:
        return {} if checkpoint == names.LOG_STARTS else offsets(self, checkpoint)

    return patch.object(Checkpoints, "_offsets", without_starts)


def goes_on_after_an_error() -> AbstractContextManager[object]:
    """A write or sync that failed is told to who asked, and tried again."""

    def fail(self: LogState, error: OSError) -> NoReturn:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from error

    return patch.object(LogState, "fail", fail)


def cleans_away_what_producers_need() -> AbstractContextManager[object]:
    return patch.object(
        BatchFilter,
        "_is_needed_empty",
        lambda self, header: header.next_offset == self._round.end_offset,
    )


MUTANTS: dict[Mutant, Hunt] = {
    answers_before_the_sync: Hunt(range(40), {Promise.ACKNOWLEDGED_KEPT}),
    shows_before_the_sync: Hunt(range(40), {Promise.SEEN_KEPT}),
    syncs_nothing: Hunt(range(40), {Promise.ACKNOWLEDGED_KEPT, Promise.LOST_TAIL}),
    syncs_bytes_and_no_names: Hunt(range(40), {Promise.ACKNOWLEDGED_KEPT, Promise.LOST_TAIL}),
    leaves_the_torn_tail: Hunt(range(40), {Promise.ONLY_SENT, Promise.ACKNOWLEDGED_KEPT}),
    recovers_without_checksums: Hunt(range(40), {Promise.ONLY_SENT}),
    checkpoints_what_is_not_durable: Hunt(range(40), {Promise.LOST_TAIL, Promise.DENSE}),
    keeps_the_clean_marker: Hunt(range(40), {Promise.LOST_TAIL, Promise.ONLY_SENT, Promise.DENSE}),
    forgets_producers_at_start: Hunt(range(40), {Promise.STANDS_ONCE}),
    knows_only_two_batches: Hunt(range(40), {Promise.WRITER_GOES_ON}),
    commits_metadata_before_the_sync: Hunt(range(40), {Promise.METADATA_KEPT}),
    writes_snapshots_in_place: Hunt(range(40), {Promise.LIVES_ON}),
    forgets_log_starts: Hunt(range(40), {Promise.LOG_START_KEPT}),
    goes_on_after_an_error: Hunt(
        range(100), {Promise.ACKNOWLEDGED_KEPT, Promise.ONE_RECORD, Promise.BELOW_HIGH_WATERMARK}
    ),
    cleans_away_what_producers_need: Hunt(range(100), {Promise.LAST_SEQUENCE}),
}
"""Each with what must find it, and seeds enough for that; several times what it took."""
