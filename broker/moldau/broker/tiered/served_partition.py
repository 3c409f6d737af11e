"""The remote part of one partition that this node hosts, as readers of the partition see it.

Invariants:
- Nothing is served before `is_ready`: until the topic of remote segments was read to its end, a
  segment that is missing may only be unknown, and a deleted one may still be known.
- Records come from a segment only as far as its epochs agree with those of the log (`range_at`).
  What is kept of a read is checked against that again before it is given to another request.
- Aborted transactions are exactly those of the log as if it were uncut: each marker counts once,
  from the remote tier below the local start and from the local log behind it, wherever segments
  overlap.
- A failure of the store, and a damaged object, is an error after which clients try again, and a
  line in the log. It never is OFFSET_OUT_OF_RANGE, which would cost a consumer its position.

A hole, which two unclean elections may leave, has no records in any tier. A leader goes on behind
it. A follower may only not know the segment yet, so it sends the reader to the leader.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.broker.log.offset_lookup import OffsetAt
from moldau.broker.tiered.fetched_file import fetched_slice
from moldau.broker.tiered.remote_reads import FetchedRecords, ReadKey
from moldau.broker.tiered.remote_segment import SegmentState
from moldau.broker.tiered.remote_traffic import RemoteTraffic
from moldau.errors import ConfigError, CorruptLog, CorruptRecord
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.objects.store_errors import StoreError, StoreReason
from moldau.records.header import NO_TIMESTAMP

if TYPE_CHECKING:
    from moldau.broker.log.log import PartitionLog
    from moldau.broker.log.transaction_index import AbortedTransaction
    from moldau.broker.tiered.remote_partition import RemotePartition, RemoteRange
    from moldau.broker.tiered.remote_reader import FetchedBatches, RemoteReader
    from moldau.broker.tiered.remote_reads import Receiver, RemoteReads
    from moldau.broker.tiered.remote_segment import RemoteSegment, SegmentId

NO_OFFSET: Final = -1
READ_BYTES_MIN: Final = 64 << 10
"""A read has at least this, so that what is kept for the next request is of use. A request with
less room gets a part of it."""
STORE_FAILURES: Final = (StoreError, CorruptLog, CorruptRecord, ConfigError)


class RemoteRequest(NamedTuple):
    """What a reader wants of the remote part."""

    offset: int
    max_bytes: int
    upper: int
    """The offset before which the reader may read."""
    is_committed: bool
    """Whether the reader needs the aborted transactions."""
    may_skip_holes: bool
    """Whether this node knows all remote segments, because it leads the partition."""


class ServedPartition:
    """The remote part of one partition; see the module."""

    def __init__(
        self,
        remote: RemotePartition,
        reader: RemoteReader,
        reads: RemoteReads,
        traffic: RemoteTraffic | None = None,
        *,
        is_ready: bool = False,
    ) -> None:
        self.remote = remote
        self.traffic = traffic or RemoteTraffic()
        self.reader = reader
        self.reads = reads
        self.is_ready = is_ready
        """Whether the topic of remote segments was read to its end. Set it to False again if the
        log may begin behind segments that `remote` does not know yet."""
        self._prepared: SegmentId | None = None
        """The segment that was fetched ahead last."""

    def close(self) -> None:
        """End the reads of the partition."""
        self.is_ready = False
        self.reads.end_of_partition(self)

    # Reading.

    def read(self, log: PartitionLog, request: RemoteRequest, receiver: Receiver) -> bool:
        """Let `receiver` have the records at the offset, perhaps before this returns. It may never
        be called: then the reader asks again after a while.

        Return False, and do nothing, if the local log has the next records. Raise KafkaError if
        this replica does not know where they are.
        """
        found = self.part_at(log, request)
        if found is None:
            return False
        key = ReadKey(self, request.offset, request.is_committed)
        read = self.reads.find(key)
        if read is None or not _is_fit(read.result, read.upper, found, request.upper):
            work = partial(self._fetch, log, request)
            read = self.reads.begin(key, request.upper, work)
        if read is not None:
            read.give_to(receiver)
        return True

    def part_at(self, log: PartitionLog, request: RemoteRequest) -> RemoteRange | None:
        """Return the part of the log that is to be read first. None: the local log has the next
        records. Raise KafkaError if this replica does not know."""
        state, offset = log.state, request.offset
        bound = min(request.upper, state.local_log_start_offset)
        if offset >= bound:
            return None
        if not (self.is_ready and state.are_epochs_known):
            raise KafkaError(
                ErrorCode.REPLICA_NOT_AVAILABLE, "remote segments are not known yet", offset=offset
            )
        found = self.remote.range_at(log.leader_epochs, offset, request.upper)
        if found is not None:
            return found
        if not request.may_skip_holes:
            raise KafkaError(
                ErrorCode.REPLICA_NOT_AVAILABLE, "this follower knows no segment", offset=offset
            )
        found = self.remote.next_range(log.leader_epochs, offset, bound)
        self.reads.warn(
            "records of a partition are in no tier, so readers go on behind them",
            directory=log.directory,
            offset=offset,
            next_offset=state.local_log_start_offset if found is None else found.start_offset,
        )
        return found

    async def _fetch(self, log: PartitionLog, request: RemoteRequest) -> FetchedRecords:
        """Read, and count it."""
        self.traffic.fetches += 1
        try:
            found = await self._found(log, request)
        except KafkaError:
            self.traffic.failed_fetches += 1
            raise
        self.traffic.fetched_bytes += len(found.records)
        return found

    async def _found(self, log: PartitionLog, request: RemoteRequest) -> FetchedRecords:
        """Read, segment by segment until one has a record."""
        max_bytes = max(request.max_bytes, READ_BYTES_MIN)
        at, upper = request.offset, request.upper
        while (found := self.part_at(log, request._replace(offset=at))) is not None:
            segment, start_offset, end_offset = found
            with self.failures_of(segment, start_offset):
                batches = await self.reader.read(segment, start_offset, max_bytes, end_offset)
                if batches.data:
                    return await self._fetched(log, request, found, batches)
            at = end_offset
        if at >= upper:
            return FetchedRecords(fetched_slice("", b""), (), at, None)
        # No segment has a record from there on: the local log goes on.
        offset = max(at, log.local_log_start_offset)
        records = log.read(offset, max_bytes, upper)
        aborted = log.reading.aborted_transactions(offset, records) if request.is_committed else []
        return FetchedRecords(records, _ordered(aborted), offset, None)

    async def _fetched(
        self,
        log: PartitionLog,
        request: RemoteRequest,
        found: RemoteRange,
        batches: FetchedBatches,
    ) -> FetchedRecords:
        data, next_offset = memoryview(batches.data), batches.next_offset
        if 2 * len(data) < memoryview(data.obj).nbytes:
            data = memoryview(bytes(data))  # what is kept of a chunk must not keep all of it
        self._prepare_next(log, found, next_offset)
        aborted: list[AbortedTransaction] = []
        if request.is_committed:
            aborted = await self._aborted(log, request.offset, next_offset)
        records = fetched_slice(str(found.segment.id), data)
        return FetchedRecords(records, _ordered(aborted), next_offset, found.segment.id)

    def _prepare_next(self, log: PartitionLog, found: RemoteRange, offset: int) -> None:
        """Fetch the next segment ahead, if a reader comes to the end of this one."""
        local = log.local_log_start_offset
        if found.end_offset >= local or not self.reader.is_near_end(found.segment, offset):
            return
        behind = self.remote.range_at(log.leader_epochs, found.end_offset, local)
        if behind is None or behind.segment.id == self._prepared:
            return
        if self.reads.fetch_ahead(partial(self.reader.prepare, behind.segment)):
            self._prepared = behind.segment.id

    async def _aborted(
        self, log: PartitionLog, offset: int, upper_offset: int
    ) -> list[AbortedTransaction]:
        """Return the aborted transactions that a reader of committed records must skip in what it
        gets from `offset` to `upper_offset`."""
        found: list[AbortedTransaction] = []
        at = offset
        # The local start may rise meanwhile.
        while at < (local := log.local_log_start_offset):
            ranges = self.remote.ranges_with_transaction_index(log.leader_epochs, at, local)
            more, is_complete = await self.reader.aborted_transactions(ranges, at, upper_offset)
            found += more
            if is_complete:
                return found
            at = local
        return found + log.reading.aborted_since(at, upper_offset)

    # Offsets.

    def tiered_end(self, log: PartitionLog) -> int | None:
        """Return the end of what the remote tier has of the log; None if it has nothing."""
        chain = log.leader_epochs
        for epoch, _ in reversed(chain.entries):
            end_offset = self.remote.end_offset_of(epoch)
            if end_offset is not None:
                return min(end_offset, chain.end_offset_for(epoch, log.log_end_offset).end_offset)
        return None

    def last_tiered(self, log: PartitionLog) -> OffsetAt:
        """Answer ListOffsets for the last offset in the remote tier; -1 if there is none."""
        end_offset = self.tiered_end(log)
        if end_offset is None or not self.is_ready:
            return OffsetAt(NO_TIMESTAMP, NO_OFFSET, None)
        offset = end_offset - 1
        return OffsetAt(NO_TIMESTAMP, offset, log.leader_epochs.epoch_for_offset(offset))

    def first_pending(self, log: PartitionLog) -> OffsetAt:
        """Answer ListOffsets for the first offset that waits for its copy; -1 if it is unknown."""
        offset, is_cut = (
            log.local_log_start_offset,
            log.local_log_start_offset > log.log_start_offset,
        )
        if not self.is_ready or (is_cut and self.tiered_end(log) is None):
            return OffsetAt(NO_TIMESTAMP, NO_OFFSET, None)
        for part in self.remote.ranges(log.leader_epochs, offset, log.log_end_offset):
            offset = part.end_offset
        return OffsetAt(NO_TIMESTAMP, offset, log.leader_epochs.epoch_for_offset(offset))

    # Failures.

    @contextmanager
    def failures_of(self, segment: RemoteSegment, offset: int) -> Iterator[None]:
        """Turn what goes wrong with a segment into an error after which clients try again."""
        try:
            yield
        except STORE_FAILURES as error:
            is_gone = isinstance(error, StoreError) and error.why is StoreReason.NOT_FOUND
            if not (is_gone and not self._serves(segment)):  # it was deleted meanwhile
                self.reads.warn(
                    "remote records cannot be read, and clients try again",
                    topic=segment.topic,
                    partition=segment.id.partition,
                    offset=offset,
                    segment=str(segment.id),
                    error=str(error),
                )
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                "remote records cannot be read",
                topic=segment.topic,
                partition=segment.id.partition,
                offset=offset,
            ) from error

    def _serves(self, segment: RemoteSegment) -> bool:
        known = self.remote.get(segment.id)
        return known is not None and known.state is SegmentState.COPY_FINISHED


def _is_fit(
    result: FetchedRecords | KafkaError | None, read_upper: int, found: RemoteRange, upper: int
) -> bool:
    """Whether a read serves a request whose records are to come from the range `found`."""
    if not isinstance(result, FetchedRecords):
        return result is None and read_upper <= upper
    is_of_it = result.segment_id == found.segment.id
    return is_of_it and result.next_offset <= min(upper, found.end_offset)


def _ordered(aborted: list[AbortedTransaction]) -> list[AbortedTransaction]:
    """Order by first offset. Clients may rely on that."""
    return sorted(aborted, key=attrgetter("first_offset"))
