"""The part of ListOffsets that looks into the remote tier: offsets by time, and the newest record.

Invariants: the answer is that of the log as if it were uncut. What is local is left to the local
log, from `next_offset` on. The first record that is new enough is in the first part of the log that
has one, so the parts are asked in the order of their offsets; those whose segments are too old are
passed over without a read.

The newest record (-3) is remote only if no local one is as new: Kafka looks at the local log alone.
The largest timestamp of a segment may lie outside of the part that the log has of it. Then the
headers of the part are read.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from moldau.broker.log.offset_lookup import MAX_TIMESTAMP, OffsetAt
from moldau.errors import without_frames
from moldau.errors.codes import KafkaError
from moldau.records import HEADER_BYTES, read_header

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from moldau.broker.log.log import PartitionLog
    from moldau.broker.tiered.remote_partition import RemoteRange
    from moldau.broker.tiered.served_partition import ServedPartition
    from moldau.records import BatchHeader, Buffer

_SCAN_BYTES: Final = 4 << 20
_PARTS_A_TURN: Final = 100
"""After so many parts other requests have a turn."""


class RemoteLookup:
    """One look into the remote part of a log. As of a `LargeLookup`, the caller goes on with the
    local log from `next_offset` if `run` finds nothing."""

    def __init__(
        self, served: ServedPartition, log: PartitionLog, timestamp: int, start_offset: int
    ) -> None:
        self._served = served
        self._log = log
        self._timestamp = timestamp
        self._start_offset = max(start_offset, log.log_start_offset)
        self.next_offset = log.local_log_start_offset

    async def run(self) -> OffsetAt | None:
        """Look. Raise KafkaError if the store fails."""
        if self._timestamp == MAX_TIMESTAMP:
            return await self._newest()
        async for part in self._parts(self._timestamp):
            found = await self._first_since(part, self._timestamp)
            if found is not None:
                return found
        return None

    def begin(self, then: Callable[[OffsetAt | KafkaError | None], None]) -> None:
        """Look in a task, and call `then` once."""
        self._served.reads.runtime.spawn(self._answer(then), name="remote lookup")

    async def _answer(self, then: Callable[[OffsetAt | KafkaError | None], None]) -> None:
        try:
            found: OffsetAt | KafkaError | None = await self.run()
        except KafkaError as error:
            found = without_frames(error)
        then(found)

    async def _parts(self, timestamp: int) -> AsyncIterator[RemoteRange]:
        """Yield the parts below the local start whose segments are new enough."""
        remote, log = self._served.remote, self._log
        at = self._start_offset
        count = 0
        while True:
            part = remote.next_range(log.leader_epochs, at, self.next_offset)
            if part is None:
                return
            at = part.end_offset
            if part.segment.max_timestamp_ms >= timestamp:
                yield part
            count += 1
            if not count % _PARTS_A_TURN:
                await self._served.reads.runtime.run_blocking(_nothing)

    async def _first_since(self, part: RemoteRange, timestamp: int) -> OffsetAt | None:
        """Return the first record of a part that is new enough."""
        segment, start_offset, end_offset = part
        with self._served.failures_of(segment, start_offset):
            found = await self._served.reader.find_offset(
                segment,
                timestamp,
                start_offset,
                self._log.config.max_decompressed_message_bytes,
            )
        return found if found is not None and found.offset < end_offset else None

    # The newest record.

    async def _newest(self) -> OffsetAt | None:
        """Return the first of the newest records, unless the local log has a newer one."""
        of_local = max(each.max_timestamp for each in self._log.segments)
        parts = [part async for part in self._parts(of_local)]
        left = [(-part.segment.max_timestamp_ms, part.start_offset) for part in parts]
        heapify(left)
        by_start = {part.start_offset: part for part in parts}
        scanned: dict[int, OffsetAt] = {}
        while left:
            negative, start_offset = heappop(left)
            known = scanned.get(start_offset)
            if known is not None:
                return known
            part = by_start[start_offset]
            found = await self._first_since(part, -negative)
            if found is not None:
                return found
            found = await self._scan(part)
            if found is not None and found.timestamp >= of_local:
                scanned[start_offset] = found
                heappush(left, (-found.timestamp, start_offset))
        return None

    async def _scan(self, part: RemoteRange) -> OffsetAt | None:
        """Return the first of the newest records of a part, by a read of all its batches."""
        segment, at, end_offset = part
        reader, runtime = self._served.reader, self._served.reads.runtime
        headers: list[tuple[int, int]] = []
        with self._served.failures_of(segment, at):
            while at < end_offset:
                batches = await reader.read(segment, at, _SCAN_BYTES, end_offset)
                if not batches.data:
                    break
                headers += await runtime.run_blocking(_timestamps, batches.data)
                at = batches.next_offset
        for negative, base_offset in sorted(headers):
            since = part._replace(start_offset=max(base_offset, part.start_offset))
            found = await self._first_since(since, -negative)
            if found is not None:
                return found
        return None


def _timestamps(data: Buffer) -> list[tuple[int, int]]:
    """Return the negative largest timestamp and the base offset of each batch."""
    return [(-header.max_timestamp, header.base_offset) for header in _headers(data)]


def _headers(data: Buffer) -> Iterator[BatchHeader]:
    at = 0
    while at + HEADER_BYTES <= len(data):
        header = read_header(data, at)
        yield header
        at += header.size_bytes


def _nothing() -> None:
    """Take a turn of a thread."""
