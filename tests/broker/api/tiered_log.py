"""A partition whose oldest records are in a store: a store in memory with faults, in virtual time.

    tier = await tiered(at, "t")
    await tier.copy(0, 40)
    tier.cut(40)

The fold is filled by hand, as the topic of remote segments would.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from moldau.broker.log import names
from moldau.broker.log.leader_epochs import EpochEntry
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.segment import Segment
from moldau.broker.log.transaction_index import AbortedTransaction
from moldau.broker.replication.partition import Partition
from moldau.broker.tiered.chunk_cache import CacheLimits, ChunkCache
from moldau.broker.tiered.remote_partition import RemotePartition
from moldau.broker.tiered.remote_reader import RemoteReader
from moldau.broker.tiered.remote_reads import FetchQuota, ReadLimits, RemoteReads
from moldau.broker.tiered.remote_segment import (
    RemoteSegment,
    SegmentId,
    SegmentState,
    update,
)
from moldau.broker.tiered.segment_objects import Section
from moldau.broker.tiered.segment_upload import SegmentFiles, SegmentUpload
from moldau.broker.tiered.served_partition import ServedPartition
from moldau.logging import Loggers
from moldau.objects.object_store import ObjectStore, StoredObject, StoreLimits
from moldau.objects.store_errors import StoreReason, store_error
from moldau.records import Buffer, Producer, encode_batch
from tests.broker.api.requests import NOW
from tests.broker.api.serving import Serving

CHUNK: Final = 2 << 10
"""Small chunks, so that batches lie across two, and segments have many."""
LIMITS: Final = StoreLimits(attempt_s=5, deadline_s=10)
LOST_EPOCH: Final = 90
"""A leader epoch that the log never had."""
_CONFIG: Final = LogConfig(segment_index_bytes=1 << 20, index_interval_bytes=300)
_KINDS: Final = {
    Section.OFFSET_INDEX: names.INDEX,
    Section.TIME_INDEX: names.TIME_INDEX,
    Section.TRANSACTION_INDEX: names.TRANSACTION_INDEX,
}


class WrittenBatch(NamedTuple):
    """A batch of the log before it was cut."""

    data: bytes
    base_offset: int
    next_offset: int
    max_timestamp: int
    epoch: int


class MemoryBucket:
    """Objects in memory. `faults` go to the next reads, one each; a read takes `delay_ms`."""

    where = "memory://bucket"

    def __init__(self, at: Serving) -> None:
        self._at = at
        self.objects: dict[str, bytes] = {}
        self.faults: deque[StoreReason] = deque()
        self.delay_ms = 0
        self.reads: list[str] = []

    async def put(self, name: str, data: Buffer) -> None:
        self.objects[name] = bytes(data)

    async def put_parts(self, name: str, parts: AsyncIterator[Buffer]) -> None:
        self.objects[name] = b"".join([bytes(part) async for part in parts])

    async def get_range(self, name: str, start: int, size: int) -> Buffer:
        self.reads.append(name)
        if self.delay_ms:
            await self._at.pass_ms(self.delay_ms)
        if self.faults:
            raise store_error(self.faults.popleft(), "get", name)
        if name not in self.objects:
            raise store_error(StoreReason.NOT_FOUND, "get", name)
        return self.objects[name][start : start + size]

    async def size_of(self, name: str) -> int:
        if name not in self.objects:
            raise store_error(StoreReason.NOT_FOUND, "head", name)
        return len(self.objects[name])

    async def copy(self, path: str, name: str) -> None:
        raise store_error(StoreReason.REFUSED, "copy", name)

    async def delete(self, name: str) -> None:
        self.objects.pop(name, None)

    async def list(self, prefix: str, after: str | None) -> Sequence[StoredObject]:
        return [
            StoredObject(name, len(data), 0)
            for name, data in sorted(self.objects.items())
            if name.startswith(prefix) and (after is None or name > after)
        ]

    def damage(self) -> None:
        """Flip a bit in each object."""
        for name, data in self.objects.items():
            middle = len(data) // 2
            self.objects[name] = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


class Tier:
    """A partition in two tiers."""

    def __init__(
        self,
        at: Serving,
        partition: Partition,
        *,
        store: ObjectStore | None = None,
        limits: ReadLimits | None = None,
        quota: FetchQuota | None = None,
    ) -> None:
        """Note all that the log has. It is in no second tier yet."""
        runtime = at.runtime
        self.at = at
        self.partition = partition
        self.bucket = MemoryBucket(at)
        self.store = store or ObjectStore(runtime, self.bucket, LIMITS)
        self.upload = SegmentUpload(runtime, self.store, None, CHUNK)
        self._folder = f"{partition.log.directory}-outside"
        self.cache = ChunkCache(runtime, f"{self._folder}/cache", CacheLimits(disk_bytes=0))
        self.reader = RemoteReader(runtime, self.store, self.cache)
        log = Loggers(runtime.clock, at.lines.append).get("tier")
        self.reads = RemoteReads(runtime, log, limits, quota)
        self.remote = RemotePartition()
        self.served = ServedPartition(self.remote, self.reader, self.reads, is_ready=True)
        self.batches = [
            WrittenBatch(
                bytes(each.data),
                each.header.base_offset,
                each.header.next_offset,
                each.header.max_timestamp,
                each.header.partition_leader_epoch,
            )
            for each in partition.log.batches(0)
        ]
        self.aborted: list[AbortedTransaction] = []
        for segment in partition.log.segments:
            self.aborted += segment.transaction_index.all()
        self._count = 0

    async def copy(
        self, start: int, end: int, *, batches: Sequence[WrittenBatch] | None = None
    ) -> RemoteSegment:
        """Copy a part of the log, whose bounds are those of batches, and note that it is there.
        With `batches` the segment has those instead: it is of another history."""
        given = self.batches if batches is None else batches
        inside = [each for each in given if start <= each.base_offset < end]
        aborted = (
            []
            if batches is not None
            else [each for each in self.aborted if start <= each.last_offset < end]
        )
        self._count += 1
        segment, files = self._segment(start, end, inside, aborted)
        self.remote.replay(segment)
        custom = await self.upload.upload(segment, files)
        done = update(
            segment, SegmentState.COPY_FINISHED, broker_id=1, now_ms=NOW, custom_metadata=custom
        )
        self.remote.replay(done)
        found = self.remote.get(segment.id)
        assert found is not None
        return found

    def _segment(
        self,
        start: int,
        end: int,
        inside: Sequence[WrittenBatch],
        aborted: Sequence[AbortedTransaction],
    ) -> tuple[RemoteSegment, SegmentFiles]:
        files = self.at.runtime.files
        directory = f"{self._folder}/{self._count}"
        files.make_dirs(directory)
        local = Segment.create(files, directory, start, _CONFIG)
        epochs: list[EpochEntry] = []
        for each in inside:
            local.append(each.data, each.next_offset - 1, each.max_timestamp)
            if not epochs or epochs[-1].epoch != each.epoch:
                epochs.append(EpochEntry(each.epoch, max(each.base_offset, start)))
        if aborted:
            local.transaction_index.append(*aborted)
        local.seal()
        sections = {
            section: local.path(kind)
            for section, kind in _KINDS.items()
            if files.exists(local.path(kind))
        }
        described = RemoteSegment(
            SegmentId(self.partition.topic_id, self.partition.index, bytes([self._count]) * 16),
            self.partition.topic,
            start,
            end,
            local.max_timestamp,
            local.size_bytes,
            tuple(epochs),
            broker_id=1,
            event_ms=NOW,
            has_transaction_index=bool(aborted),
        )
        paths = SegmentFiles(local.log_path, sections, b"")
        local.forget()
        return described, paths

    def delete(self, segment: RemoteSegment) -> None:
        """Let the deletion of a segment begin: it is not served any more."""
        self.remote.replay(update(segment, SegmentState.DELETE_STARTED, broker_id=1, now_ms=NOW))

    def cut(self, offset: int, *, is_attached: bool = True) -> int:
        """Delete the local segments below the one with the offset, and serve the remote part.
        Return the local start."""
        log = self.partition.log
        log.configure(replace(log.config, is_tiered=True))
        if is_attached:
            self.partition.attach_remote(self.served)
        log.flush()
        log.retention.raise_local_start(offset)
        log.retention.drop_expired(self.at.wall_ms)
        return log.local_log_start_offset

    async def close(self) -> None:
        """End what runs."""
        self.reads.close()
        await self.cache.close()


def write(partition: Partition, count: int = 3, *, at_ms: int = NOW, size: int = 100) -> None:
    """Append a batch."""
    rows = [(at_ms + number, b"key", b"v" * size, ()) for number in range(count)]
    partition.append(encode_batch(rows), -1, NOW)


def write_in_transaction(
    partition: Partition, producer_id: int, sequence: int, count: int = 2, *, at_ms: int = NOW
) -> None:
    """Append a batch of a transaction."""
    rows = [(at_ms + number, b"key", b"t" * 50, ()) for number in range(count)]
    producer = Producer(producer_id, 0, sequence, is_transactional=True)
    partition.append(encode_batch(rows, producer=producer), -1, NOW)


def roll(partition: Partition) -> None:
    """Begin another local segment."""
    partition.log.rolling.roll(NOW)


def lost_batch(written: WrittenBatch, time: int) -> WrittenBatch:
    """Return another batch with the same offsets."""
    count = written.next_offset - written.base_offset
    rows = [(time + number, b"lost", b"lost", ()) for number in range(count)]
    data = bytes(encode_batch(rows, written.base_offset, leader_epoch=LOST_EPOCH))
    last = time + count - 1
    return WrittenBatch(data, written.base_offset, written.next_offset, last, LOST_EPOCH)
