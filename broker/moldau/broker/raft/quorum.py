"""A replica of the metadata log on files: the storage under the core of Raft (`replica`).

Invariants: the epoch is durable in `quorum-state` before a record of it is written; records are
committed when they are durable on a majority of voters; a snapshot is made of committed records
only, and the log deletes only records that a durable snapshot holds; snapshots and log together
always reach back to the first record. The log begins where its oldest snapshot ends, or before: the
deletion of an old snapshot is durable before the log after it is deleted.

`replica` and `leader` decide about leadership and commitment; this class owns the files, and is the
`LogView` that the core reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
    Snapshot,
    SnapshotFile,
    SnapshotHeader,
    SnapshotId,
    list_snapshots,
    read_last_timestamp,
    read_snapshot,
    remove_leftovers,
    remove_snapshots,
    store_snapshot,
)
from moldau.broker.raft.voters import STATIC, Voter, Voters, voters_after
from moldau.deferred import dataclass
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
    """This node, and the voters that its settings name (empty if the log names them)."""

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
    """The bytes of the log without a snapshot when this snapshot was begun."""


class Quorum:
    """The metadata log of this node."""

    def __init__(
        self, files: Files, log: PartitionLog, membership: Membership, voters: Voters
    ) -> None:
        self.files = files
        self.log = log
        self._told: list[tuple[int, Voters]] = [(0, voters)]
        """The sets of voters in the log, oldest first, each with the offset after its record."""
        self.state = read_quorum_state(files, log.directory)
        self.snapshots = list_snapshots(files, log.directory)
        self.bytes_since_snapshot = 0
        """The approximate size of the part of the log that no snapshot holds."""
        self.retention = FEWEST
        """The rule for which snapshots are kept; an argument of `open`."""
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
        """Open the metadata log in the log directory, which is created if it is missing. Recover
        the log if that is needed."""
        directory = f"{log_dir}/{DIRECTORY}"
        files.make_dirs(directory)
        remove_leftovers(files, directory)
        if membership.votes_with_others and holds_nothing(files, directory):
            write_mark(files, directory)
        _check_topic(files, directory)
        # Open the log from its oldest snapshot on: after a loss of power, some of the deleted files
        # before it may be back, and the gaps between them would be mistaken for a lost tail.
        kept = list_snapshots(files, directory)
        start = kept[0].end_offset if kept else 0
        log = PartitionLog.open(files, directory, config, Opening(now_ms, log_start_offset=start))
        static = Voters(STATIC, tuple(Voter(each) for each in membership.static_voters))
        quorum = cls(files, log, membership, static)
        quorum.retention = retention
        quorum._join_snapshot_and_log()
        return quorum

    def _join_snapshot_and_log(self) -> None:
        """Make the log continue from the newest snapshot, and read the voters."""
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
        """Read the voters from the newest snapshot and the log after it."""
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
        """The voters that the log names at its end, committed or not."""
        return self._told[-1][1]

    @property
    def voters_end(self) -> int:
        """The offset after the record that names the voters; 0 if they are not in the log."""
        return self._told[-1][0]

    def voters_before(self, end_offset: int) -> Voters:
        """Return the voters that the log names below this offset."""
        return next(voters for end, voters in reversed(self._told) if end <= end_offset)

    @property
    def has_empty_disk(self) -> bool:
        """Whether this voter started with an empty disk, and has not caught up since."""
        return is_marked(self.files, self.log.directory)

    def end_empty_disk(self) -> None:
        """Remove the empty-disk mark: all committed records are durable. Durable on return."""
        remove_mark(self.files, self.log.directory)

    # Read by the core.

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
        """The state of the other replicas; only while leading."""
        assert self._leader is not None, "not leading"
        return self._leader

    @property
    def is_leading(self) -> bool:
        return self._leader is not None

    @property
    def high_watermark(self) -> int:
        """The offset below which everything is committed."""
        leader = self._leader
        if leader is None or leader.high_watermark is None:
            return self.log.high_watermark
        return leader.high_watermark

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        return self.log.log_end_offset

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record; without records, of the newest snapshot; 0 at the start."""
        latest = self.log.leader_epochs.latest_epoch
        snapshot_epoch = self.snapshots[-1].epoch if self.snapshots else 0
        return max(latest or 0, snapshot_epoch)

    @property
    def newest_snapshot(self) -> SnapshotId | None:
        return self.snapshots[-1] if self.snapshots else None

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """Return the largest epoch that is not above `epoch`, and its end; -1 and -1 if unknown."""
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
        """Save epoch and vote. Durable on return. Raise OSError if the disk fails."""
        static = self.voters.ids if self.voters.kraft_version == STATIC else None
        write_quorum_state(self.files, self.log.directory, state, static)
        self.state = state

    def begin_epoch(self, leader: Leader, granting: Iterable[int], now_ms: int) -> None:
        """Begin to lead: write the first record of the epoch, durably. This replica was elected,
        and its state is saved."""
        records = [self.voters.leader_change(self.node_id, granting)]
        if self.log.log_end_offset == 0:
            records.extend(self.voters.control_records())  # until now only in snapshot 0
        self._leader = leader
        self._append(encode_control_batch(records, now_ms), now_ms)
        self.flush()

    def end_epoch(self) -> None:
        """Stop leading: another replica leads, or none."""
        self._leader = None

    def append(self, batch: bytearray, now_ms: int) -> int:
        """Append one batch, and return the offset of its last record. It can be committed only
        after a flush that begins later."""
        assert self._leader is not None, "not leading"
        return self._append(batch, now_ms)

    def append_voters(self, voters: Voters, now_ms: int) -> None:
        """Append other voters, which count from now on. The previous change must be committed. A
        higher kraft.version comes with the same voters, and stands before them."""
        assert self.voters_end <= self.high_watermark, "two sets of voters would not overlap"
        version, record = voters.control_records()
        records = [record]
        if voters.kraft_version != self.voters.kraft_version:
            assert voters.ids == self.voters.ids, "two sets of voters would not overlap"
            records.insert(0, version)
        batch = encode_control_batch(records, now_ms)
        self._append(batch, now_ms)
        self._told.append((self.log.log_end_offset, voters))

    def _append(self, batch: bytearray, now_ms: int) -> int:
        appended = self.log.append_as_leader(batch, self.epoch, now_ms, origin=Origin.COORDINATOR)
        self.bytes_since_snapshot += len(batch)
        return appended.last_offset

    def begin_flush(self) -> FlushJob:
        """Return a job that makes all records appended so far durable. It may run on a thread."""
        return self.log.flushing.begin()

    def end_flush(self, job: FlushJob, error: OSError | None = None) -> bool:
        """Note that the job has run. Return whether more is committed now. An error takes the log
        out of service."""
        self.log.flushing.end(job, error)
        leader = self._leader
        if leader is None or not leader.on_durable(self.node_id, self.log.flushed_end_offset):
            return False
        self.log.update_high_watermark(self.high_watermark)
        return True

    @property
    def is_durable(self) -> bool:
        """Whether all appended records are on the disk."""
        return self.log.flushed_end_offset >= self.log.log_end_offset

    def flush(self) -> bool:
        """Make all appended records durable, now. Return whether more is committed."""
        job = self.begin_flush()
        try:
            job.run()
        except OSError as error:
            return self.end_flush(job, error)
        return self.end_flush(job)

    # Following.

    def append_as_follower(self, records: Buffer, now_ms: int) -> int:
        """Append the leader's batches, and return the new log end. An incomplete batch at the end
        is left out. Raise KafkaError if they are damaged or do not continue this log."""
        whole = memoryview(records)[: whole_bytes(records)]
        if len(whole):
            self.log.append_as_follower(whole, now_ms)
            self.bytes_since_snapshot += len(whole)
            for batch in walk(whole):
                self._note_voters(batch)
        return self.log.log_end_offset

    def advance(self, high_watermark: int) -> bool:
        """Apply the leader's high watermark. Return whether it moved."""
        return self.log.update_high_watermark(high_watermark)

    def truncate_to(self, offset: int) -> None:
        """Drop the records from `offset` on, which the leader does not have. Durable on return."""
        self.log.truncate_to(offset)
        self._learn_voters()

    def store_snapshot(self, snapshot_id: SnapshotId, data: bytes) -> None:
        """Write a snapshot of the leader beside this log. Durable on return, but it does not count
        before `install_snapshot`. Raise CorruptLog if a byte of it is damaged or missing."""
        store_snapshot(self.files, self.path_of(snapshot_id), data)

    def install_snapshot(self, snapshot_id: SnapshotId) -> None:
        """Replace this log by a stored snapshot, which contains it."""
        self.snapshots.append(snapshot_id)
        self.log.truncate_fully_and_start_at(snapshot_id.end_offset)
        self._learn_voters()

    # Reading.

    def snapshot(self, snapshot_id: SnapshotId) -> Snapshot:
        """Read and return one of `snapshots`."""
        return read_snapshot(self.files, self.path_of(snapshot_id), self._settings_voters)

    def read_snapshot_piece(
        self, snapshot_id: SnapshotId, position: int, bytes_max: int
    ) -> tuple[int, bytes]:
        """Return the size of one of `snapshots`, and its bytes from `position` on. Raise OSError if
        the disk fails."""
        with self.files.open(self.path_of(snapshot_id)) as file:
            return file.size, file.read_at(max(position, 0), max(bytes_max, 0))

    def committed(self, offset: int) -> Iterator[Batch]:
        """Yield the batches with records from `offset` up to the high watermark."""
        for batch in self.log.batches(offset, self.high_watermark):
            if batch.header.base_offset >= offset and not batch.header.is_control:
                yield batch

    def batches(self) -> Iterator[Batch]:
        """Yield all batches with records, from the newest snapshot, then from the log."""
        start = self.log.log_start_offset
        if self.snapshots:
            newest = self.snapshots[-1]
            yield from self.snapshot(newest).batches
            start = newest.end_offset
        for batch in self.log.batches(start):
            if batch.header.base_offset >= start and not batch.header.is_control:
                yield batch

    def history(self) -> Iterator[Batch]:
        """Yield all batches that are left in the log, including those that the newest snapshot
        replaces: at least everything since the snapshot before it."""
        for batch in self.log.batches(self.log.log_start_offset):
            if not batch.header.is_control:
                yield batch

    # Snapshots. Work that waits for the disk is separate, so that it can run off the event loop.

    def path_of(self, snapshot_id: SnapshotId) -> str:
        """Return the file path of a snapshot."""
        return f"{self.log.directory}/{snapshot_id.file_name}"

    def begin_snapshot(self, end_offset: int, now_ms: int) -> SnapshotJob | None:
        """Begin a snapshot of all records below `end_offset`, which is committed and begins a
        batch. Return None if a snapshot as new exists. Append its records, finish its file, then
        call `end_snapshot`. Raise OSError if the disk fails, BadData if the log is damaged."""
        assert end_offset <= self.high_watermark, "a snapshot holds committed records only"
        assert end_offset > 0
        epoch = self.log.leader_epochs.epoch_for_offset(end_offset - 1)
        if self._snapshot_end() >= end_offset:
            return None
        snapshot_id = SnapshotId(end_offset, 0 if epoch is None else epoch)
        heading = SnapshotHeader(
            snapshot_id.epoch,
            self._timestamp_before(end_offset),
            now_ms,
            self.voters_before(end_offset),
        )
        file = SnapshotFile(self.files, self.path_of(snapshot_id), heading)
        return SnapshotJob(snapshot_id, file, self.bytes_since_snapshot)

    def is_superseded(self, job: SnapshotJob) -> bool:
        """Whether a newer snapshot of the leader has replaced the log meanwhile."""
        return self._snapshot_end() >= job.snapshot_id.end_offset

    def end_snapshot(self, job: SnapshotJob) -> None:
        """Count the job's snapshot from now on: its file is complete and durable."""
        assert not self.is_superseded(job)
        self.snapshots.append(job.snapshot_id)
        self.bytes_since_snapshot -= job.bytes_before

    def time_since_snapshot_ms(self, now_ms: int) -> int | None:
        """Return the age of the oldest record that no snapshot holds; None if there is none."""
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
        """Remove and return the snapshots that are too old or too large. They do not count any
        more: `remove` their files, then `trim`."""
        known = [self._known(each) for each in self.snapshots]
        count = self.retention.count_needless(known, self.log.size_bytes, now_ms)
        needless = tuple(self.snapshots[:count])
        del self.snapshots[:count]
        for gone in needless:
            del self._kept[gone]
        return needless

    def remove(self, snapshots: Sequence[SnapshotId]) -> None:
        """Remove the files of snapshots that do not count. Durable on return."""
        remove_snapshots(self.files, self.log.directory, snapshots)

    def put_back(self, snapshots: Sequence[SnapshotId]) -> None:
        """Count these snapshots again, if their files still exist: the disk failed to remove
        them."""
        there = [each for each in snapshots if self.files.exists(self.path_of(each))]
        self.snapshots[:0] = there

    def trim(self, now_ms: int) -> None:
        """Delete the log before the oldest snapshot, and free the files that were deleted long
        enough ago. No older snapshot may be left on the disk. Raise OSError if the disk fails."""
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
        """Make everything durable, and close the files."""
        self.log.close()


def _check_topic(files: Files, directory: str) -> None:
    topic_id = read_partition_metadata(files, directory)
    if topic_id is None:
        write_partition_metadata(files, directory, METADATA_TOPIC_ID)
    elif topic_id != METADATA_TOPIC_ID:
        raise CorruptLog("the metadata log's directory belongs to a topic", directory=directory)
