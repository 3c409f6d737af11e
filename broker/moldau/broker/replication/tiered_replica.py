"""A replica as the remote work of its partition sees it: facts about its log, files, and starts.

Invariant: local segments go only from a tiered log, and by the log's own retention.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.broker.log import names
from moldau.broker.tiered.copying import LocalLog, LocalSegment
from moldau.broker.tiered.rebuild import epochs_section, producers_section
from moldau.broker.tiered.segment_objects import Section
from moldau.broker.tiered.segment_upload import SegmentFiles
from moldau.deferred import dataclass

if TYPE_CHECKING:
    from moldau.broker.log.leader_epochs import LeaderEpochs
    from moldau.broker.log.log import PartitionLog
    from moldau.broker.log.segment import Segment
    from moldau.broker.replication.partition import Partition
    from moldau.broker.tiered.remote_segment import RemoteSegment
    from moldau.ids import Uuid

_FILES: Final = {
    Section.OFFSET_INDEX: names.INDEX,
    Section.TIME_INDEX: names.TIME_INDEX,
    Section.TRANSACTION_INDEX: names.TRANSACTION_INDEX,
}


@dataclass(frozen=True, slots=True)
class TieredReplica:
    """Satisfies `tiered.partition_tier.HostedPartition`. Two of one partition are equal."""

    partition: Partition

    @property
    def topic(self) -> str:
        return self.partition.topic

    @property
    def index(self) -> int:
        return self.partition.index

    @property
    def topic_id(self) -> Uuid:
        return self.partition.topic_id

    @property
    def leader_epoch(self) -> int:
        return self.partition.leader_epoch

    @property
    def is_leader(self) -> bool:
        return self.partition.is_leader

    @property
    def is_in_service(self) -> bool:
        state = self.partition.log.state
        return state.failure is None and state.are_epochs_known

    @property
    def are_epochs_known(self) -> bool:
        return self.partition.log.state.are_epochs_known

    def learn_epochs(self, earlier: LeaderEpochs) -> None:
        self.partition.log.truncation.learn_epochs(earlier.entries)

    def local_log(self) -> LocalLog:
        return _local_log(self.partition.log)

    def end_active_segment(self, now_ms: int) -> None:
        self.partition.log.rolling.roll(now_ms)

    def segment_files(self, segment: RemoteSegment) -> SegmentFiles | None:
        return _segment_files(self.partition.log, segment) if self.is_in_service else None

    def low_watermark(self) -> int:
        partition = self.partition
        if not partition.is_leader:
            return partition.log_start_offset
        return partition.leadership.low_watermark(partition.log_start_offset)

    def raise_log_start(self, offset: int) -> bool:
        before = self.partition.log_start_offset
        return self.partition.delete_records(offset) > before

    def raise_local_start(self, offset: int) -> bool:
        log = self.partition.log
        return log.config.is_tiered and log.retention.raise_local_start(offset)


def _local_log(log: PartitionLog) -> LocalLog:
    """Return what decisions know of a log: its segments from the local start on."""
    state = log.state
    segments = state.segments
    first = segments.index_of(state.local_log_start_offset)
    return LocalLog(
        state.leader_epochs,
        [
            _local_segment(segments[number], segments.end_of(number))
            for number in range(first, len(segments))
        ],
        state.log_start_offset,
        state.high_watermark,
        state.last_stable_offset,
    )


def _local_segment(segment: Segment, end_offset: int) -> LocalSegment:
    newest = segment.max_timestamp
    return LocalSegment(
        segment.base_offset,
        end_offset,
        newest if newest >= 0 else segment.modified_ms,
        segment.size_bytes,
        not segment.transaction_index.is_empty,
    )


def _segment_files(log: PartitionLog, segment: RemoteSegment) -> SegmentFiles | None:
    """Return the files of a local segment that is to be copied. None: the log has it no more, or
    does not know its producers."""
    segments = log.segments
    number = segments.index_of(segment.start_offset)
    found = segments[number]
    is_same = (
        found.base_offset == segment.start_offset
        and segments.end_of(number) == segment.end_offset
        and found.size_bytes == segment.size_bytes
    )
    if not is_same or found is segments.active:
        return None
    paths = {section: found.path(ending) for section, ending in _FILES.items()}
    producers = producers_section(log, segment.end_offset)
    if producers is None:
        return None
    return SegmentFiles(
        found.log_path,
        {section: path for section, path in paths.items() if log.files.exists(path)},
        epochs_section(log.leader_epochs, segment.end_offset),
        producers,
    )
