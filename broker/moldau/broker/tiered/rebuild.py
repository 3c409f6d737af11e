"""What a replica must know of records that are in remote storage only: their epochs and producers.

A follower whose leader has no records any more at the follower's end begins anew further on. What
lies before that it reads from the objects of the remote segments: the leader epochs, without which
nothing remote could be served, and the producers, without which a repeated batch would be taken for
a new one.

The point at which it begins is named by an offset and the epoch of the record before it, as the
leader has them (`LogPoint`). So the segment that has this record has the leader's history up to
there, whatever it has behind it.

    segments       a--------b--------c--------d
    leader         (remote only)        L------------------
    follower       begins at d, if the leader's chain agrees up to d; else at L

Invariants:
* The epochs end before the point, and the last one is the epoch of the point. Anything else is
  CorruptLog: a replica with another chain would serve other records at an offset.
* The snapshot of a segment is the state at the segment's end, and at no other offset. At a point
  within a segment the state is that at its start, and the batches from there on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from moldau.broker.log.checkpoint import pairs_text, parse_pairs
from moldau.broker.log.leader_epochs import LeaderEpochs, LogPoint
from moldau.broker.log.producer_snapshot import decode_snapshot, encode_snapshot
from moldau.broker.log.producer_state import ProducerState
from moldau.broker.log.recovery import replay
from moldau.broker.log.truncation import LogHistory
from moldau.broker.tiered.remote_traffic import RemoteTraffic
from moldau.broker.tiered.segment_objects import Section
from moldau.errors import CorruptLog, CorruptRecord
from moldau.objects.store_errors import StoreError
from moldau.records import walk

if TYPE_CHECKING:
    from moldau.broker.log.log import PartitionLog
    from moldau.broker.tiered.remote_partition import RemotePartition
    from moldau.broker.tiered.remote_reader import FetchedBatches
    from moldau.broker.tiered.remote_segment import RemoteSegment
    from moldau.records import Buffer

_NEVER: Final = 1 << 62
_READ_BYTES: Final = 4 << 20


class RemoteHistory(Protocol):
    """The remote records of a partition, for a replica that begins behind some of them."""

    @property
    def is_ready(self) -> bool:
        """Whether the topic of the remote segments was read to its end."""

    def segment_end(self, point: LogPoint) -> LogPoint | None:
        """Return the end of the segment that has the record before `point`; None if none has."""

    async def history_at(self, point: LogPoint) -> LogHistory:
        """Return what is to be known of the records before `point`. Raise CorruptLog if that is
        not there or is damaged, StoreError if the store does not give it."""


class SegmentReader(Protocol):
    """The parts of `RemoteReader` that are used here."""

    async def section(self, segment: RemoteSegment, kind: Section) -> Buffer | None: ...

    async def read(
        self, segment: RemoteSegment, offset: int, max_bytes: int, upper_offset: int | None = None
    ) -> FetchedBatches: ...


class RemotePart(Protocol):
    """The remote part of a partition that a node hosts, as `ServedPartition` has it."""

    @property
    def remote(self) -> RemotePartition: ...
    @property
    def reader(self) -> SegmentReader: ...
    @property
    def is_ready(self) -> bool: ...


class SegmentHistory:
    """The history of a partition, out of its remote segments."""

    def __init__(self, part: RemotePart, traffic: RemoteTraffic | None = None) -> None:
        self._part = part
        self._traffic = traffic or RemoteTraffic()
        self._remote = part.remote
        self._reader = part.reader

    @property
    def is_ready(self) -> bool:
        return self._part.is_ready

    def segment_end(self, point: LogPoint) -> LogPoint | None:
        """See `RemoteHistory`."""
        segment = self._remote.segment_for(point.epoch, point.offset - 1)
        if segment is None:
            return None
        *_, last = segment.spans
        return LogPoint(last.epoch, last.end_offset)

    async def epochs_before(self, offset: int) -> LeaderEpochs | None:
        """Return the epochs of the records before `offset`, for a log that has lost them. A record
        is cut from a log only if a segment of the log's own history has it. So if all segments that
        have the last of these records have it in one epoch, they are of this history. None: it is
        not certain which of them are. Raise as of `history_at`."""
        epochs = self._remote.epochs_at(offset - 1)
        if len(epochs) != 1:
            return None
        point = LogPoint(epochs[0], offset)
        segment = self._remote.segment_for(*point._replace(offset=offset - 1))
        assert segment is not None
        return await self._epochs(segment, point)

    async def history_at(self, point: LogPoint) -> LogHistory:
        """See `RemoteHistory`."""
        self._traffic.rebuilds += 1
        try:
            return await self._history_at(point)
        except (CorruptLog, StoreError):
            self._traffic.failed_rebuilds += 1
            raise

    async def _history_at(self, point: LogPoint) -> LogHistory:
        segment = self._remote.segment_for(point.epoch, point.offset - 1)
        if segment is None:
            raise CorruptLog("no remote segment has the record", **point._asdict())
        epochs = await self._epochs(segment, point)
        producers = await self._producers(epochs, point)
        return LogHistory(point.offset, tuple(epochs.entries), tuple(producers.entries.values()))

    async def _epochs(self, segment: RemoteSegment, point: LogPoint) -> LeaderEpochs:
        where = str(segment.id)
        data = await self._reader.section(segment, Section.LEADER_EPOCHS)
        epochs = LeaderEpochs(parse_pairs(bytes(data or b""), where))
        epochs.truncate_from_end(point.offset)
        if epochs.epoch_for_offset(point.offset - 1) != point.epoch:
            raise CorruptLog(
                "the epochs of a remote segment are not those of its records",
                segment=where,
                **point._asdict(),
            )
        return epochs

    async def _producers(self, epochs: LeaderEpochs, point: LogPoint) -> ProducerState:
        """Return the producers at the point: of the snapshot of the segment that ends there, or
        there before, and the batches since then."""
        state = ProducerState(_NEVER)
        state.reset(0)
        since: list[tuple[RemoteSegment, int]] = []
        offset = point.offset
        while (epoch := epochs.epoch_for_offset(offset - 1)) is not None:
            segment = self._remote.segment_for(epoch, offset - 1)
            if segment is None:
                break  # it is deleted: it lies below the start of the log
            if segment.end_offset == offset:
                snapshot = await self._reader.section(segment, Section.PRODUCER_SNAPSHOT)
                if snapshot is None:
                    raise CorruptLog(
                        "a remote segment has no producer snapshot", segment=str(segment.id)
                    )
                state.load(decode_snapshot(bytes(snapshot)), offset, 0)
                break
            since.append((segment, offset))
            offset = segment.start_offset
        state.end_offset = offset
        for segment, end_offset in reversed(since):
            await self._replay(state, segment, end_offset)
        return state

    async def _replay(self, state: ProducerState, segment: RemoteSegment, end_offset: int) -> None:
        offset = state.end_offset
        while offset < end_offset:
            found = await self._reader.read(segment, offset, _READ_BYTES, end_offset)
            if found.next_offset <= offset:
                break
            try:
                replay(state, walk(found.data))
            except CorruptRecord as error:
                raise CorruptLog(error.reason, segment=str(segment.id)) from error
            offset = found.next_offset
        state.advance_to(max(state.end_offset, end_offset))


def producers_section(log: PartitionLog, end_offset: int) -> bytes | None:
    """Return the snapshot that is stored with a segment that ends there: that of the log, or if a
    crash has taken it, one made of an earlier one and the batches since then. None if the log does
    not know its producers at its own start: then a replica that does must copy the segment."""
    if end_offset in log.snapshots.offsets:
        return encode_snapshot(log.snapshots.read(end_offset))
    state = ProducerState(_NEVER)
    log.snapshots.load_latest(state, log.local_log_start_offset, 0, at_most=end_offset)
    is_from_start = state.end_offset == log.local_log_start_offset == log.log_start_offset
    if state.end_offset not in log.snapshots.offsets and not is_from_start:
        return None
    replay(state, log.batches(state.end_offset, end_offset))
    return encode_snapshot(state.entries.values())


def epochs_section(chain: LeaderEpochs, end_offset: int) -> bytes:
    """Return the leader epochs that are stored with a segment: all of the log up to the segment's
    end, from the log's start on, as in Kafka. A replica that begins behind the segment has no other
    source for those of earlier segments."""
    known = LeaderEpochs(chain.entries)
    known.truncate_from_end(end_offset)
    return pairs_text(known.entries).encode()
