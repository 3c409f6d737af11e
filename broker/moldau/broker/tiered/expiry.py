"""What goes: the start of the log, remote segments, and local ones that are remote.

Invariants: a remote segment that is served goes only when no in-sync replica serves its records
any more, which is what `low_watermark` says: the lowest log start among them. (Kafka deletes when
the leader alone has raised its start: a follower that has not heard of it and is elected serves
offsets whose objects are gone.) A deposed leader therefore deletes nothing that its successor has.
The local log is never cut above `copied_end`, or above the high watermark, and the active segment
stays.

Retention is counted over both tiers and raises the start of the log, from the oldest record on
without a gap. Deletions follow from the start; so do those that DeleteRecords asks for.

Some segments are never served or never again, and go at once:
- one whose deletion has begun, by whichever broker;
- one that is being copied by none: its broker died, lost the leadership, or gave the attempt up.
  Another broker that still copies it finds COPY_FINISHED refused, so this takes nothing from it;
- one that has no record in common with the leader's chain of epochs: copied by a leader whose
  history was lost in an unclean election. A segment of the leader's own epoch or a later one is
  none of these: it may be of a successor that this leader has not heard of yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from typing import NamedTuple

from moldau.broker.log.leader_epochs import LeaderEpochs
from moldau.broker.tiered.copying import UNLIMITED, LocalLog, LocalSegment, copied_end
from moldau.broker.tiered.remote_partition import RemotePartition
from moldau.broker.tiered.remote_segment import RemoteSegment, SegmentId, SegmentState
from moldau.deferred import dataclass


class Retention(NamedTuple):
    """How much of a partition is kept, by Kafka's settings; -1 is without limit."""

    ms: int = UNLIMITED
    size_bytes: int = UNLIMITED


class DeletionReason(Enum):
    """Why a remote segment goes."""

    BEGUN = "its deletion has begun"
    UNFINISHED = "its copy never finished"
    BELOW_START = "it lies below the start of the log"
    LOST_HISTORY = "the log has no epoch of it"
    PARTITION_GONE = "the partition is no longer remote"


class Deletion(NamedTuple):
    """A remote segment that goes."""

    segment: RemoteSegment
    reason: DeletionReason


@dataclass(frozen=True, slots=True)
class Leadership:
    """What a leader knows beyond its log."""

    leader_epoch: int
    low_watermark: int
    """The lowest log start among the in-sync replicas, this one included."""
    copying: Collection[SegmentId] = ()
    """The copies of this broker that are under way."""


def first_offset(remote: RemotePartition, log: LocalLog) -> int:
    """Return the lowest offset of the log that a tier has, from its start on.

    A new leader raises its start to it: it may have missed that its predecessor raised the start.
    A hole further on, which two unclean elections can leave, is no reason to give up what is before
    it.
    """
    of_local = log.local_start_offset
    found = remote.next_range(log.chain, log.log_start_offset, log.log_end_offset)
    return of_local if found is None else min(of_local, found.start_offset)


def recovered_start(remote: RemotePartition, history: LeaderEpochs, log: LocalLog) -> int | None:
    """Return the start of a log that does not know its own any more. `history` are the epochs that
    a segment of the log has: they begin at the start that the log had when that was copied, and a
    start never falls. None if that says nothing, or if a segment is served that ends before it: its
    records are not given up by a conclusion.
    """
    earliest = history.earliest
    if earliest is None or earliest.start_offset <= log.log_start_offset:
        return None
    start_offset = earliest.start_offset
    is_served = any(
        each.state is SegmentState.COPY_FINISHED and each.end_offset <= start_offset
        for each in remote.segments()
    )
    return None if is_served or start_offset > log.local_start_offset else start_offset


def retained_start(
    remote: RemotePartition, log: LocalLog, retention: Retention, now_ms: int
) -> int:
    """Return the start that retention gives the log: the end of the oldest parts that are too old
    or too many. The active segment counts, and stays.

    A leader calls it often, so it does not walk over all parts unless there may be too many."""
    parts: Iterable[LocalSegment] = _parts(remote, log)
    first = next(_parts(remote, log), None)
    surplus = 0
    if first is None:
        return log.log_start_offset
    if retention.size_bytes != UNLIMITED:
        surplus = _size_bytes_max(remote, log) - retention.size_bytes
        if surplus >= first.size_bytes:
            parts = list(parts)
            sizes = (part.size_bytes for part in (*parts, log.segments[-1]))
            surplus = sum(sizes) - retention.size_bytes
    start_offset = log.log_start_offset
    for part in parts:
        is_old = retention.ms != UNLIMITED and now_ms - part.max_timestamp_ms > retention.ms
        is_too_much = retention.size_bytes != UNLIMITED and surplus >= part.size_bytes
        if not (is_old or is_too_much) or part.end_offset > log.high_watermark:
            break
        surplus -= part.size_bytes
        start_offset = part.end_offset
    return start_offset


def _size_bytes_max(remote: RemotePartition, log: LocalLog) -> int:
    """Return the size of the log, or more if remote segments overlap or are of other histories."""
    start_offset, local_start = log.log_start_offset, log.segments[0].start_offset
    outside = remote.segments_outside(log.chain, start_offset, log.log_end_offset)
    below = (
        each
        for each in outside
        if each.state is SegmentState.COPY_FINISHED and each.end_offset <= start_offset
    )
    also_local = remote.segments_from(max(start_offset, local_start))
    of_remote = remote.size_bytes - sum(each.size_bytes for each in (*below, *also_local))
    return of_remote + sum(each.size_bytes for each in log.segments)


def _parts(remote: RemotePartition, log: LocalLog) -> Iterator[LocalSegment]:
    """Yield what the log consists of from its start on: remote parts up to the local ones, and
    those without the active one. So what is in both tiers counts once."""
    end_offset = log.log_start_offset
    local_start_offset = log.segments[0].start_offset
    for found in remote.ranges(log.chain, end_offset, log.log_end_offset, over_holes=True):
        if found.start_offset >= local_start_offset:
            break
        segment, start_offset, end_offset = found
        yield LocalSegment(start_offset, end_offset, segment.max_timestamp_ms, segment.size_bytes)
    for local in log.segments[:-1]:
        if local.end_offset > end_offset:
            yield local


def deletions(
    remote: RemotePartition, log: LocalLog, leadership: Leadership, *, is_remote: bool = True
) -> list[Deletion]:
    """Return the remote segments that the leader deletes now, in the order of their offsets.

    Without `is_remote` all of them go: the partition is deleted, or keeps nothing remote any more.
    """
    found = []
    outside = partial(
        remote.segments_outside, log.chain, leadership.low_watermark, log.log_end_offset
    )
    for segment in outside() if is_remote else remote.segments():
        reason = _reason(segment, log, leadership)
        if reason is None and not is_remote and segment.id not in leadership.copying:
            reason = DeletionReason.PARTITION_GONE
        if reason is not None:
            found.append(Deletion(segment, reason))
    return found


def _reason(segment: RemoteSegment, log: LocalLog, leadership: Leadership) -> DeletionReason | None:
    if segment.state is SegmentState.DELETE_STARTED:
        return DeletionReason.BEGUN
    if segment.state is SegmentState.COPY_STARTED:
        is_copied = segment.id in leadership.copying
        return None if is_copied else DeletionReason.UNFINISHED
    if segment.end_offset <= leadership.low_watermark:
        return DeletionReason.BELOW_START
    is_older = segment.leader_epochs[-1].epoch < leadership.leader_epoch
    return DeletionReason.LOST_HISTORY if is_older and not _is_of(log, segment) else None


def _is_of(log: LocalLog, segment: RemoteSegment) -> bool:
    """Return whether the log has a record of the segment: the same offset in the same epoch."""
    chain = log.chain
    for epoch, start_offset, end_offset in segment.spans:
        known = chain.end_offset_for(epoch, log.log_end_offset)
        if known.epoch != epoch:
            continue
        before = chain.previous_epoch(epoch)
        starts = 0 if before is None else chain.end_offset_for(before, 0).end_offset
        if max(starts, start_offset) < min(known.end_offset, end_offset):
            return True
    return False


def unreferenced(
    stored: Mapping[SegmentId, int], remote: RemotePartition, stored_before_ms: int
) -> list[SegmentId]:
    """Return the segments whose objects are in the store and that the topic does not know.
    `stored` has the time of the newest object of each, by the clock of the store.

    List the store first, and then read the topic to the end that it has after that: COPY_STARTED is
    committed before the first object, so a segment that is listed and not known was deleted. Its
    object came late, from a broker that did not know it yet. The end that a deposed leader of the
    topic's partition names is an earlier one:

    1. The leader of the metadata partition is cut off, and does not know it.
    2. COPY_STARTED goes to its successor, and the objects are put.
    3. This node asks the deposed leader for the end, and reads to it.

    So an object is left alone as long as the view may be as old as the object.
    """
    return sorted(
        each
        for each, modified_ms in stored.items()
        if each not in remote and modified_ms <= stored_before_ms
    )


def local_start(
    remote: RemotePartition, log: LocalLog, local_retention: Retention, now_ms: int
) -> int:
    """Return up to where local segments may go: below the log's start, or remote and older or more
    than is kept on the local disk."""
    copied = min(copied_end(remote, log), log.high_watermark)
    surplus = sum(each.size_bytes for each in log.segments) - local_retention.size_bytes
    offset = log.segments[0].start_offset
    for segment in log.segments[:-1]:
        is_old = (
            local_retention.ms != UNLIMITED
            and now_ms - segment.max_timestamp_ms > local_retention.ms
        )
        is_too_much = local_retention.size_bytes != UNLIMITED and surplus >= segment.size_bytes
        is_spare = segment.end_offset <= copied and (is_old or is_too_much)
        if not is_spare and segment.end_offset > log.log_start_offset:
            break
        surplus -= segment.size_bytes
        offset = segment.end_offset
    return offset
