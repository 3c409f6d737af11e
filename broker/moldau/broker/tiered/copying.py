"""What to copy next to the remote tier, and how far the copy of a log reaches.

Invariants: only what cannot change any more is copied: whole segments, not the active one, below
the last stable offset, so that each comes with the index of its aborted transactions. `copied_end`
never passes a record that is not served from the remote tier in the epoch that this log has for it.
So it is also the point up to which local segments may go.

Kafka takes the highest offset that was ever copied of an epoch (findHighestRemoteOffset), and for
an epoch that ended earlier after an unclean election, its end. It does not look for holes and keeps
offsets of segments that are deleted. Here the chain of epochs is walked from segment to segment: a
hole is copied again, and what a deposed leader copied of a lost history does not count.

KIP-1241: `remote.copy.lag.ms` and `.bytes` hold a copy back while the records are local anyway.
A segment is due if one of the two lags is reached; 0 in either copies at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from moldau.broker.log.leader_epochs import LeaderEpochs
from moldau.broker.tiered.remote_partition import RemotePartition
from moldau.broker.tiered.remote_segment import RemoteSegment, SegmentId
from moldau.deferred import dataclass
from moldau.ids import Uuid

UNLIMITED: Final = -1


class LocalSegment(NamedTuple):
    """What decisions know of a segment on the local disk. `end_offset` is exclusive."""

    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    size_bytes: int
    has_transaction_index: bool = False


@dataclass(frozen=True, slots=True)
class LocalLog:
    """What decisions know of a partition's log on this node."""

    chain: LeaderEpochs
    segments: Sequence[LocalSegment]
    """In order and without a gap; the last one is the active one."""
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int

    @property
    def log_end_offset(self) -> int:
        return self.segments[-1].end_offset

    @property
    def local_start_offset(self) -> int:
        """The first offset that is still wanted and that the local disk has."""
        return max(self.log_start_offset, self.segments[0].start_offset)


class CopyLag(NamedTuple):
    """How long a segment stays local only; -1 is without limit, 0 is not at all."""

    ms: int = 0
    size_bytes: int = 0


class SegmentOrigin(NamedTuple):
    """The partition whose segments are copied, and the broker that copies them."""

    topic: str
    topic_id: Uuid
    partition: int
    broker_id: int


def copied_end(remote: RemotePartition, log: LocalLog) -> int:
    """Return the offset up to which all records of the local log are remote, without a hole."""
    return remote.end_without_hole(log.chain, log.local_start_offset, log.log_end_offset)


def next_copy(
    remote: RemotePartition, log: LocalLog, lag: CopyLag, now_ms: int
) -> LocalSegment | None:
    """Return the local segment to copy next; None if there is nothing to copy yet.

    A leader calls it again when the last copy is finished and read back. A log without an epoch for
    its first record is not copied: no copy of it could be served, so each would be followed by
    another one.
    """
    if log.chain.epoch_for_offset(log.local_start_offset) is None:
        return None
    copied = copied_end(remote, log)
    behind = sum(each.size_bytes for each in log.segments)
    for segment in log.segments[:-1]:
        behind -= segment.size_bytes
        if segment.end_offset > copied:
            is_ready = segment.end_offset <= log.last_stable_offset
            return segment if is_ready and _is_due(segment, behind, lag, now_ms) else None
    return None


def _is_due(segment: LocalSegment, behind_bytes: int, lag: CopyLag, now_ms: int) -> bool:
    """A timestamp in the future says nothing about the age of a segment, so it is copied."""
    if 0 in lag:
        return True
    age_ms = now_ms - segment.max_timestamp_ms
    is_old = lag.ms != UNLIMITED and not 0 <= age_ms < lag.ms
    return is_old or (lag.size_bytes != UNLIMITED and behind_bytes >= lag.size_bytes)


def begin_copy(
    origin: SegmentOrigin, segment: LocalSegment, chain: LeaderEpochs, new_id: Uuid, now_ms: int
) -> RemoteSegment:
    """Return the record that announces a copy, in COPY_STARTED. `new_id` was never used before."""
    return RemoteSegment(
        SegmentId(origin.topic_id, origin.partition, new_id),
        origin.topic,
        segment.start_offset,
        segment.end_offset,
        segment.max_timestamp_ms,
        segment.size_bytes,
        tuple(chain.in_range(segment.start_offset, segment.end_offset)),
        origin.broker_id,
        now_ms,
        has_transaction_index=segment.has_transaction_index,
    )
