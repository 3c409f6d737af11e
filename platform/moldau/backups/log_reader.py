"""Reads the batches of one partition as its leader has them, and stores them as chunks.

Records are never opened: batches pass as they came, and only their headers are read. Memory is one
chunk and one fetch a partition. Below the local log of a tiered topic the leader reads its remote
segments, so these are stored like all others, unless the store copies them itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from moldau.backups.manifest import BackupFailed, Chunk, LogBackup, max_given_id
from moldau.backups.remote_segments import CopiedSegments
from moldau.errors.codes import ErrorCode, KafkaError, error_from
from moldau.link.metadata import TopicPartition
from moldau.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from moldau.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from moldau.records import Batch, walk, whole_bytes
from moldau.records.checksum import crc32c

if TYPE_CHECKING:
    from moldau.backups.backup_store import BackupStore
    from moldau.backups.remote_segments import RemoteCopies
    from moldau.ids import Uuid
    from moldau.link.cluster import Cluster
    from moldau.records import Buffer

CHUNK_BYTES: Final = 8 << 20
_FETCH_BYTES: Final = 4 << 20
_WAIT_MS: Final = 500
_EMPTY_MAX: Final = 20


class LogReader:
    """Reads one partition up to an offset, which consumers can read."""

    def __init__(
        self, cluster: Cluster, store: BackupStore, topic_id: Uuid, where: TopicPartition
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._topic_id = topic_id
        self._where = where
        self._epoch_ends: dict[int, int] = {}
        self.copied_bytes = 0
        self.copied_chunks = 0
        """The same of segments that the store has copied."""
        self.new_bytes = 0
        self.new_chunks = 0
        """The bytes and the number of chunks that were stored."""

    async def read(
        self,
        start_offset: int,
        end_offset: int,
        leader_epoch: int,
        known: LogBackup | None,
        copies: RemoteCopies | None = None,
    ) -> LogBackup:
        """Store what is not in `known`, an earlier backup of the partition, and return the whole
        log. Segments of `copies` are not read."""
        segments = CopiedSegments(None, (), self._holds)
        if copies is not None:
            partition = self._where.partition
            segments = copies.of_log(self._topic_id, partition, end_offset, self._holds)
        chunks = await self._still_true(known, start_offset, end_offset)
        position = chunks[-1].next_offset if chunks else start_offset
        pending: list[Batch] = []
        empty = size = 0
        while position < end_offset:
            copied = await segments.chunk_at(position)
            if copied is not None:
                if pending:
                    chunks.append(await self._stored(pending))
                chunks.append(copied)
                pending, size, position = [], 0, copied.next_offset
                self.copied_bytes += copied.size_bytes
                self.copied_chunks += 1
                continue
            stop = segments.next_start(position, end_offset)
            try:
                records = await self.fetch(position)
                batches = _between(records, position, stop)
            except KafkaError as error:
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                start_offset = await self._raised_start(position, error)
                chunks = [each for each in chunks if each.next_offset > start_offset]
                pending, size, position = [], 0, max(position, start_offset)
                continue
            if not batches and stop < end_offset and whole_bytes(records):
                position = stop  # there is a gap before the segment
                continue
            if not batches:
                empty += 1
                if empty > _EMPTY_MAX:
                    raise BackupFailed(f"{self._where} cannot be read at offset {position}")
                continue
            empty = 0
            for batch in batches:
                pending.append(batch)
                size += batch.header.size_bytes
                if size >= CHUNK_BYTES:
                    chunks.append(await self._stored(pending))
                    pending, size = [], 0
            position = batches[-1].header.next_offset
        if pending:
            chunks.append(await self._stored(pending))
        return LogBackup(min(start_offset, end_offset), end_offset, leader_epoch, tuple(chunks))

    async def _still_true(
        self, known: LogBackup | None, start_offset: int, end_offset: int
    ) -> list[Chunk]:
        """Return the chunks of an earlier backup that the log still has. It has none of them if it
        was cut below their end by an unclean election."""
        if known is None or not known.chunks:
            return []
        last = known.chunks[-1]
        if last.next_offset > end_offset:
            return []
        if await self._end_of_epoch(last.max_epoch) < last.next_offset:
            return []
        return [each for each in known.chunks if each.next_offset > start_offset]

    async def _holds(self, epoch: int, end_offset: int) -> bool:
        """Whether the log has the record before an offset, in this leader epoch."""
        if epoch not in self._epoch_ends:
            self._epoch_ends[epoch] = await self._end_of_epoch(epoch)
        return self._epoch_ends[epoch] >= end_offset

    async def _end_of_epoch(self, epoch: int) -> int:
        row = OffsetForLeaderPartition(partition=self._where.partition, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[OffsetForLeaderTopic(topic=self._where.topic, partitions=[row])],
        )

        async def attempt() -> int:
            leader = await self._cluster.leader(self._where)
            answer = await self._cluster.call(request, OffsetForLeaderEpochResponse, node_id=leader)
            found = answer.topics[0].partitions[0]
            self._check("OffsetForLeaderEpoch", found.error_code)
            return found.end_offset if found.leader_epoch == epoch else -1

        return await self._cluster.retry(attempt)

    async def fetch(self, offset: int) -> Buffer:
        """Return batches from the one with this offset on, as far as consumers can read."""
        row = FetchPartition(
            partition=self._where.partition,
            fetch_offset=offset,
            partition_max_bytes=_FETCH_BYTES,
        )
        topic = FetchTopic(topic=self._where.topic, topic_id=self._topic_id, partitions=[row])
        request = FetchRequest(
            max_wait_ms=_WAIT_MS, min_bytes=1, max_bytes=_FETCH_BYTES, topics=[topic]
        )

        async def attempt() -> Buffer:
            leader = await self._cluster.leader(self._where)
            answer = await self._cluster.call(request, FetchResponse, node_id=leader)
            self._check("Fetch", answer.error_code)
            found = answer.responses[0].partitions[0]
            self._check("Fetch", found.error_code)
            return found.records or b""

        return await self._cluster.retry(attempt)

    def _check(self, api: str, code: int) -> None:
        if code:
            error = error_from(api, code, **self._where._asdict())
            self._cluster.note(error)
            raise error

    async def _raised_start(self, position: int, error: KafkaError) -> int:
        """Return where the log begins now, if that is why a position is out of range."""
        from moldau.client.base.offsets import EARLIEST, list_offsets

        found = await list_offsets(self._cluster, {self._where: EARLIEST})
        start = found[self._where].offset
        if start <= position:
            raise error
        return start

    async def _stored(self, batches: list[Batch]) -> Chunk:
        data = b"".join(each.data for each in batches)
        chunk = chunk_of(batches, crc32c(data))
        await self._store.put_chunk(self._topic_id, self._where.partition, chunk, data)
        self.new_bytes += len(data)
        self.new_chunks += 1
        return chunk


def chunk_of(batches: list[Batch], checksum: int) -> Chunk:
    """Return the chunk of consecutive batches."""
    headers = [each.header for each in batches]
    return Chunk(
        headers[0].base_offset,
        headers[-1].next_offset,
        sum(each.size_bytes for each in headers),
        checksum,
        max(each.max_timestamp for each in headers),
        max(each.partition_leader_epoch for each in headers),
        max_given_id(each.producer_id for each in headers),
    )


def _between(records: Buffer, start_offset: int, end_offset: int) -> list[Batch]:
    """Return the batches that end after `start_offset` and begin before `end_offset`."""

    def whole() -> Iterable[Batch]:
        for batch in walk(records):
            if batch.header.base_offset >= end_offset:
                return
            if batch.header.next_offset > start_offset:
                yield batch

    return list(whole())
