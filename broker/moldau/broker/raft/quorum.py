"""A replica of the metadata log on files: the storage under the core of Raft (`replica`).

Invariants: the epoch is durable in `quorum-state` before a record of it is written; records are
committed when they are durable on a majority of voters; a snapshot is made of committed records
only, and the log lets go only of what a durable snapshot holds; snapshots and log together always
reach back to the first record. The log begins where its oldest snapshot ends, or before: an old
snapshot is gone for good before anything of the log behind it goes.

What is decided about leadership and commitment is in `replica` and `leader`; this owns the files,
and is the `LogView` that the core reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moldau.broker.log.leader_epochs import EpochEnd
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.partition_metadata import (
    read_partition_metadata,
    write_partition_metadata,
)
from moldau.broker.log.producer_state import Origin
from moldau.broker.log.recovery import Opening
from moldau.broker.raft.empty_disk_mark import (
    holds_nothing,
    is_marked,
    remove_mark,
    write_mark,
)
from moldau.broker.raft.leader import Leader
from moldau.broker.raft.quorum_state import (
    QuorumState,
    read_quorum_state,
    write_quorum_state,
)
from moldau.broker.raft.snapshot_retention import FEWEST, KeptSnapshot, SnapshotRetention
from moldau.broker.raft.snapshots import (
    Heading,
    Snapshot,
    SnapshotFile,
    SnapshotId,
    list_snapshots,
    read_last_timestamp,
    read_snapshot,
    remove_leftovers,
    remove_snapshots,
    store_snapshot,
)
from moldau.broker.raft.voters import STATIC, Voter, Voters, voters_after
from moldau.errors import CorruptLog
from moldau.ids import METADATA_TOPIC_ID
from moldau.records import Batch, Buffer, encode_control_batch, walk, whole_bytes

if TYPE_CHECKING:
    from moldau.broker.log.flush import FlushJob
    from moldau.runtime.files import Files

DIRECTORY: Final = "__cluster_metadata-0"
METADATA_LOG_CONFIG: Final = LogConfig(
    retention_ms=-1, retention_bytes=-1, max_message_bytes=8 << 20
)


@dataclass(frozen=True, slots=True)
class Membership:
    """This node, and the voters that its settings name (empty where the log has them)."""

    node_id: int
    static_voters: tuple[int, ...] = ()

    @property
    def votes_with_others(self) -> bool:
        """Whether the settings name this node as one of several voters."""
        return self.node_id in self.static_voters and len(self.static_voters) > 1


@dataclass(frozen=True, slots=True)
class SnapshotJob:
    """A snapshot that is being written; see `Quorum.begin_snapshot`."""

    snapshot_id: SnapshotId
    file: SnapshotFile
    bytes_before: int
    """The log's bytes without a snapshot when this one was begun."""


class Quorum:
    """The metadata log of this node."""

    def __init__(
        self, files: Files, log: PartitionLog, membership: Membership, voters: Voters
    ) -> None:
        self.files = files
        self.log = log
        self._told: list[tuple[int, Voters]] = [(0, voters)]
        """What the log says of the voters, oldest first: where its record ends, and the voters."""
        self.state = read_quorum_state(files, log.directory)
        self.snapshots = list_snapshots(files, log.directory)
        self.bytes_since_snapshot = 0
        """About how much of the log no snapshot holds."""
        self.retention = FEWEST
        """Which snapshots are kept; what `open` was given."""
        self._kept: dict[SnapshotId, KeptSnapshot] = {}
        self._membership = membership
        self._settings_voters = voters
        self._leader: Leader | None = None

    @classmethod
    def open(
        cls,
        files: Files,
        log_dir: str,
        membership: Membership,
        now_ms: int,
        config: LogConfig = METADATA_LOG_CONFIG,
        retention: SnapshotRetention = FEWEST,
    ) -> Quorum:
        """Open what is in the log directory, made when it is missing; recovers what needs it."""
        directory = f"{log_dir}/{DIRECTORY}"
        files.make_dirs(directory)
        remove_leftovers(files, directory)
        if membership.votes_with_others and holds_nothing(files, directory):
            write_mark(files, directory)
        _check_topic(files, directory)
        # Where `clean` made the log begin: files before that may have come back with the power,
        # some of them, and what they leave between them would be taken for a lost tail.
        kept = list_snapshots(files, directory)
        start = kept[0].end_offset if kept else 0
        log = PartitionLog.open(files, directory, config, Opening(now_ms, log_start_offset=start))
        static = Voters(STATIC, tuple(Voter(each) for each in membership.static_voters))
        quorum = cls(files, log, membership, static)
        quorum.retention = retention
        quorum._join_snapshot_and_log()
        return quorum

    def _join_snapshot_and_log(self) -> None:
        """Make the log go on from the newest snapshot, and learn the voters."""
        newest = self.snapshots[-1] if self.snapshots else None
        start = self.log.log_start_offset
        if newest is not None and newest.end_offset > self.log.log_end_offset:
            self.log.truncate_fully_and_start_at(newest.end_offset)
        elif start > 0 and (newest is None or newest.end_offset < start):
            raise CorruptLog(
                "no snapshot holds what is missing before the log",
                directory=self.log.directory,
                log_start_offset=start,
            )
        self._learn_voters()

    def _learn_voters(self) -> None:
        """As the newest snapshot and the log after it say."""
        newest = self.newest_snapshot
        voters = self._settings_voters if newest is None else self.snapshot(newest).voters
        self._told = [(0, voters)]
        self.bytes_since_snapshot = 0
        for batch in self.log.batches(self._snapshot_end()):
            self.bytes_since_snapshot += batch.header.size_bytes
            self._note_voters(batch)

    def _note_voters(self, batch: Batch) -> None:
        voters = voters_after(self.voters, batch)
        if voters != self.voters:
            self._told.append((batch.header.next_offset, voters))

    @property
    def voters(self) -> Voters:
        """As the log says at its end, committed or not."""
        return self._told[-1][1]

    @property
    def voters_end(self) -> int:
        """The offset after the record that names them; 0: it is in a snapshot, or in none."""
        return self._told[-1][0]

    def voters_before(self, end_offset: int) -> Voters:
        """As the log says of all below that offset."""
        return next(voters for end, voters in reversed(self._told) if end <= end_offset)

    @property
    def has_empty_disk(self) -> bool:
        """Whether this voter started with an empty disk, and has not caught up since."""
        return is_marked(self.files, self.log.directory)

    def end_empty_disk(self) -> None:
        """All that is committed is durable here. The mark is gone for good on return."""
        remove_mark(self.files, self.log.directory)

    # What the core reads.

    @property
    def node_id(self) -> int:
        return self._membership.node_id

    @property
    def epoch(self) -> int:
        """The epoch of the leadership; only while leading."""
        assert self._leader is not None, "not leading"
        return self._leader.epoch

    @property
    def leader(self) -> Leader:
        """What is known of the others; only while leading."""
        assert self._leader is not None, "not leading"
        return self._leader

    @property
    def is_leading(self) -> bool:
        return self._leader is not None

    @property
    def high_watermark(self) -> int:
        """Everything below it is committed."""
        leader = self._leader
        if leader is None or leader.high_watermark is None:
            return self.log.high_watermark
        return leader.high_watermark

    @property
    def log_end_offset(self) -> int:
        """Where the next record will stand."""
        return self.log.log_end_offset

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def last_epoch(self) -> int:
        """Of the last record, or of the newest snapshot where there is none; 0 at the start."""
        latest = self.log.leader_epochs.latest_epoch
        snapshot_epoch = self.snapshots[-1].epoch if self.snapshots else 0
        return max(latest or 0, snapshot_epoch)

    @property
    def newest_snapshot(self) -> SnapshotId | None:
        return self.snapshots[-1] if self.snapshots else None

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """The largest epoch that is not above `epoch`, and where it ends; -1 and -1 if unknown."""
        end = self.log.log_end_offset
        found = self.log.leader_epochs.end_offset_for(epoch, end)
        newest = self.newest_snapshot
        if (
            found.epoch < 0
            and newest is not None
            and (newest.end_offset, newest.epoch)
            == (
                end,
                epoch,
            )
        ):
            return EpochEnd(epoch, end)
        return found

    # Leading.

    def save_state(self, state: QuorumState) -> None:
        """Epoch and vote are durable when this returns. OSError: the disk."""
        static = self.voters.ids if self.voters.kraft_version == STATIC else None
        write_quorum_state(self.files, self.log.directory, state, static)
        self.state = state

    def begin_epoch(self, leader: Leader, granting: Iterable[int], now_ms: int) -> None:
        """This replica was elected, and its state is saved: write the first record of the epoch,
        durably."""
        records = [self.voters.leader_change(self.node_id, granting)]
        if self.log.log_end_offset == 0:
            records.extend(self.voters.control_records())  # until now only in snapshot 0
        self._leader = leader
        self._append(encode_control_batch(records, now_ms), now_ms)
        self.flush()

    def end_epoch(self) -> None:
        """Another replica leads, or none."""
        self._leader = None

    def append(self, batch: bytearray, now_ms: int) -> int:
        """Write one batch at the log's end; the offset of its last record. Committed after a flush
        that begins later."""
        assert self._leader is not None, "not leading"
        return self._append(batch, now_ms)

    def append_voters(self, voters: Voters, now_ms: int) -> None:
        """These vote from now on. One change at a time: the last one is committed."""
        assert self.voters_end <= self.high_watermark, "two sets of voters would not overlap"
        _, record = voters.control_records()
        batch = encode_control_batch([record], now_ms)
        self._append(batch, now_ms)
        self._told.append((self.log.log_end_offset, voters))

    def _append(self, batch: bytearray, now_ms: int) -> int:
        appended = self.log.append_as_leader(batch, self.epoch, now_ms, origin=Origin.COORDINATOR)
        self.bytes_since_snapshot += len(batch)
        return appended.last_offset

    def begin_flush(self) -> FlushJob:
        """What to run, on a thread if wanted, so that all appended so far is durable."""
        return self.log.flushing.begin()

    def end_flush(self, job: FlushJob, error: OSError | None = None) -> bool:
        """The job has run; whether more is committed now. An error takes the log out of service."""
        self.log.flushing.end(job, error)
        leader = self._leader
        if leader is None or not leader.on_durable(self.node_id, self.log.flushed_end_offset):
            return False
        self.log.update_high_watermark(self.high_watermark)
        return True

    @property
    def is_durable(self) -> bool:
        """Whether all that was appended is on the disk."""
        return self.log.flushed_end_offset >= self.log.log_end_offset

    def flush(self) -> bool:
        """Make all that was appended durable, now; whether more is committed."""
        job = self.begin_flush()
        try:
            job.run()
        except OSError as error:
            return self.end_flush(job, error)
        return self.end_flush(job)

    # Following.

    def append_as_follower(self, records: Buffer, now_ms: int) -> int:
        """Write batches as the leader has them; where the log ends now. A batch that is cut short
        at the end is left out. KafkaError when they are damaged or do not go on here."""
        whole = memoryview(records)[: whole_bytes(records)]
        if len(whole):
            self.log.append_as_follower(whole, now_ms)
            self.bytes_since_snapshot += len(whole)
            for batch in walk(whole):
                self._note_voters(batch)
        return self.log.log_end_offset

    def advance(self, high_watermark: int) -> bool:
        """The leader says that all below is committed; whether that is news."""
        return self.log.update_high_watermark(high_watermark)

    def truncate_to(self, offset: int) -> None:
        """Drop what the leader never had. Durable on return."""
        self.log.truncate_to(offset)
        self._learn_voters()

    def store_snapshot(self, snapshot_id: SnapshotId, data: bytes) -> None:
        """Write a snapshot of the leader beside this log. Durable on return, and it does not count
        before `install_snapshot`. CorruptLog unless every byte of it is what was written."""
        store_snapshot(self.files, self.path_of(snapshot_id), data)

    def install_snapshot(self, snapshot_id: SnapshotId) -> None:
        """Take a snapshot that was stored in the place of this log, which it contains."""
        self.snapshots.append(snapshot_id)
        self.log.truncate_fully_and_start_at(snapshot_id.end_offset)
        self._learn_voters()

    # Reading.

    def snapshot(self, snapshot_id: SnapshotId) -> Snapshot:
        """Read one of `snapshots`."""
        return read_snapshot(self.files, self.path_of(snapshot_id), self._settings_voters)

    def read_snapshot_piece(
        self, snapshot_id: SnapshotId, position: int, bytes_max: int
    ) -> tuple[int, bytes]:
        """The size of one of `snapshots`, and its bytes from `position` on. OSError: the disk."""
        with self.files.open(self.path_of(snapshot_id)) as file:
            return file.size, file.read_at(max(position, 0), max(bytes_max, 0))

    def committed(self, offset: int) -> Iterator[Batch]:
        """The batches with records from `offset` up to the high watermark."""
        for batch in self.log.batches(offset, self.high_watermark):
            if batch.header.base_offset >= offset and not batch.header.is_control:
                yield batch

    def batches(self) -> Iterator[Batch]:
        """All that the log tells, from the newest snapshot on to the log's end."""
        start = self.log.log_start_offset
        if self.snapshots:
            newest = self.snapshots[-1]
            yield from self.snapshot(newest).batches
            start = newest.end_offset
        for batch in self.log.batches(start):
            if batch.header.base_offset >= start and not batch.header.is_control:
                yield batch

    def history(self) -> Iterator[Batch]:
        """All that is left of the log, also what the newest snapshot has summed up: at least
        everything since the snapshot before it."""
        for batch in self.log.batches(self.log.log_start_offset):
            if not batch.header.is_control:
                yield batch

    # Snapshots. Whatever waits for the disk is apart, so that it can be done off the event loop.

    def path_of(self, snapshot_id: SnapshotId) -> str:
        """The file of a snapshot."""
        return f"{self.log.directory}/{snapshot_id.file_name}"

    def begin_snapshot(self, end_offset: int, now_ms: int) -> SnapshotJob | None:
        """Begin a snapshot of all below `end_offset`, which is committed and where a batch begins.
        None if there is one as new. Append its records and finish its file, then `end_snapshot`.

        OSError: the disk. BadData: the log is damaged."""
        assert end_offset <= self.high_watermark, "a snapshot holds committed records only"
        assert end_offset > 0
        epoch = self.log.leader_epochs.epoch_for_offset(end_offset - 1)
        if self._snapshot_end() >= end_offset:
            return None
        snapshot_id = SnapshotId(end_offset, 0 if epoch is None else epoch)
        heading = Heading(
            snapshot_id.epoch,
            self._timestamp_before(end_offset),
            now_ms,
            self.voters_before(end_offset),
        )
        file = SnapshotFile(self.files, self.path_of(snapshot_id), heading)
        return SnapshotJob(snapshot_id, file, self.bytes_since_snapshot)

    def is_superseded(self, job: SnapshotJob) -> bool:
        """Whether a newer snapshot of the leader took the place of the log meanwhile."""
        return self._snapshot_end() >= job.snapshot_id.end_offset

    def end_snapshot(self, job: SnapshotJob) -> None:
        """The job's file is whole and durable: it counts from now on."""
        assert not self.is_superseded(job)
        self.snapshots.append(job.snapshot_id)
        self.bytes_since_snapshot -= job.bytes_before

    def time_since_snapshot_ms(self, now_ms: int) -> int | None:
        """How long the oldest record that no snapshot holds has been there; None if there is
        none."""
        for batch in self.log.batches(self._snapshot_end()):
            return max(0, now_ms - batch.header.max_timestamp)
        return None

    def _snapshot_end(self) -> int:
        newest = self.snapshots[-1].end_offset if self.snapshots else 0
        return max(newest, self.log.log_start_offset)

    def _timestamp_before(self, end_offset: int) -> int:
        for batch in self.log.batches(end_offset - 1):
            return batch.header.max_timestamp
        return -1

    def take_needless(self, now_ms: int) -> tuple[SnapshotId, ...]:
        """The snapshots that are too old or take too much. They count no more: `remove` them, then
        `trim`."""
        known = [self._known(each) for each in self.snapshots]
        count = self.retention.count_needless(known, self.log.size_bytes, now_ms)
        needless = tuple(self.snapshots[:count])
        del self.snapshots[:count]
        for gone in needless:
            del self._kept[gone]
        return needless

    def remove(self, snapshots: Sequence[SnapshotId]) -> None:
        """Remove the files of snapshots that do not count. They are gone for good on return."""
        remove_snapshots(self.files, self.log.directory, snapshots)

    def put_back(self, snapshots: Sequence[SnapshotId]) -> None:
        """The disk did not remove these, or not all: what is left of them counts."""
        there = [each for each in snapshots if self.files.exists(self.path_of(each))]
        self.snapshots[:0] = there

    def trim(self, now_ms: int) -> None:
        """Let go of the log before the oldest snapshot, and free what was let go of long enough
        ago. No older snapshot is left on the disk. OSError: the disk."""
        if self.snapshots:
            self.log.increment_log_start_offset(self.snapshots[0].end_offset)
            self.log.delete_old_segments(now_ms)
        self.log.retention.remove_deleted(now_ms)

    def _known(self, snapshot_id: SnapshotId) -> KeptSnapshot:
        known = self._kept.get(snapshot_id)
        if known is None:
            path = self.path_of(snapshot_id)
            size, last = self.files.stat(path).size_bytes, read_last_timestamp(self.files, path)
            known = self._kept[snapshot_id] = KeptSnapshot(size, last)
        return known

    def close(self) -> None:
        """Make everything durable and let go of the files."""
        self.log.close()


def _check_topic(files: Files, directory: str) -> None:
    topic_id = read_partition_metadata(files, directory)
    if topic_id is None:
        write_partition_metadata(files, directory, METADATA_TOPIC_ID)
    elif topic_id != METADATA_TOPIC_ID:
        raise CorruptLog("the metadata log's directory belongs to a topic", directory=directory)
