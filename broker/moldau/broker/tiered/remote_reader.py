"""Reading the remote part of a partition: batches, aborted transactions, offsets by timestamp.

Invariants:
- Only whole batches are returned, from the one that holds the offset. If no batch holds it (it was
  compacted away, or the log start lies in a gap), from the next one.
- Every byte has passed the checks of `segment_objects`; one error, CorruptLog, says that it did
  not. What the store could not do is a StoreError.
- Nothing that can take a millisecond runs on the event loop: checksums, encryption, zstd and files
  are worked on in threads. On the loop there are look-ups, and headers of the few batches between
  two entries of an index.

A reader that goes on from chunk to chunk has the next ones fetched ahead; `prepare` does so across
the end of a segment.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.broker.log.admission import as_kafka_error
from moldau.broker.log.offset_lookup import OffsetAt
from moldau.broker.log.transaction_index import AbortedTransaction
from moldau.broker.tiered.chunk_cache import INDEXES, ChunkCache, ChunkKey
from moldau.broker.tiered.remote_indexes import RemoteIndexes
from moldau.broker.tiered.segment_objects import (
    INDEXES_BYTES_MAX,
    ChunkCodec,
    ObjectKind,
    Section,
    SegmentAccess,
    bound_to_segment,
    decode_indexes,
    object_name,
)
from moldau.errors import ConfigError, CorruptLog, CorruptRecord
from moldau.objects.store_errors import StoreError, StoreReason
from moldau.records import HEADER_BYTES, BatchHeader, Buffer, open_batch, read_header
from moldau.records.codecs import RECORD_BYTES_MAX, LargeRecord
from moldau.records.parts import first_since

if TYPE_CHECKING:
    from moldau.broker.tiered.key_ring import KeyRing
    from moldau.broker.tiered.remote_partition import RemoteRange
    from moldau.broker.tiered.remote_segment import RemoteSegment, SegmentId
    from moldau.objects.object_store import ObjectStore
    from moldau.runtime import Runtime

READ_BYTES_MAX: Final = 8 << 20
"""A read has no more than this, unless its first batch is larger."""
PREFETCHED_CHUNKS: Final = 3
_LOOK_UP_BYTES: Final = 8 << 10
_OPEN_BYTES_MAX: Final = 8 << 20
_RECENT_MAX: Final = 4000


class FetchedBatches(NamedTuple):
    """Whole batches, and the offset at which the next read begins."""

    data: Buffer
    next_offset: int


class _FoundBatch(NamedTuple):
    position: int
    header: BatchHeader


class RemoteReader:
    """Reads the segments of a store through a cache."""

    def __init__(
        self,
        runtime: Runtime,
        store: ObjectStore,
        cache: ChunkCache,
        key_ring: KeyRing | None = None,
    ) -> None:
        self._runtime = runtime
        self._store = store
        self._cache = cache
        self._key_ring = key_ring
        self._open: OrderedDict[SegmentId, RemoteIndexes] = OrderedDict()
        self._open_bytes = 0
        self._recent: OrderedDict[ChunkKey, None] = OrderedDict()
        """The chunks that reads touched last."""

    async def read(
        self,
        segment: RemoteSegment,
        offset: int,
        max_bytes: int,
        upper_offset: int | None = None,
        *,
        min_one_batch: bool = True,
    ) -> FetchedBatches:
        """Return the batches from `offset` on that lie below `upper_offset` (default: the end of
        the segment), `max_bytes` at most. With `min_one_batch` the first one always.

        Without data, `next_offset` says where to go on: at the end of the segment if no batch is
        left in it, else at `offset`, because the bounds leave no room for a batch.
        """
        opened = await self._opened(segment)
        found = await self._find(opened, offset)
        if found is None:
            return FetchedBatches(b"", segment.end_offset)
        start = found.position
        end = min(start + min(max_bytes, READ_BYTES_MAX), await self._end(opened, upper_offset))
        first_end = start + found.header.size_bytes
        if first_end > end:
            is_below = upper_offset is None or found.header.next_offset <= upper_offset
            if not (min_one_batch and is_below):
                return FetchedBatches(b"", offset)
            end = first_end
        self._read_ahead(opened, start, end)
        data = await self._bytes(opened, start, end)
        walk_from = max(start, opened.batch_start_up_to(end - HEADER_BYTES))
        size, next_offset = self._whole(opened, data, walk_from - start)
        self._pass_by(opened, start, start + size)
        return FetchedBatches(memoryview(data)[:size], next_offset)

    async def aborted_transactions(
        self, ranges: Iterable[RemoteRange], offset: int, upper_offset: int
    ) -> tuple[list[AbortedTransaction], bool]:
        """Return the aborted transactions that a read_committed consumer must skip in a read from
        `offset` to `upper_offset`, and whether these are all.

        `ranges` are the one that was read and those after it: the marker of a transaction may
        be far behind its records. If the answer is not complete, the local log has the rest. What
        a segment has behind its range is of a history that the log does not have, and what it has
        before its range is in the range before.
        """
        found: list[AbortedTransaction] = []
        for segment, start_offset, end_offset in ranges:
            if not segment.has_transaction_index:
                continue
            opened = await self._opened(segment)
            # A marker below the range is that of the range before, whose segment overlaps this one.
            since = max(offset, start_offset)
            more, is_complete = opened.transactions.collect(since, upper_offset, end_offset)
            found += more
            if is_complete:
                return found, True
        return found, False

    async def find_offset(
        self,
        segment: RemoteSegment,
        timestamp: int,
        start_offset: int = 0,
        record_bytes_max: int = RECORD_BYTES_MAX,
    ) -> OffsetAt | None:
        """Return the first record of a segment that is of `timestamp` or newer, and not below
        `start_offset`. Raise KafkaError if a compressed record up to there is larger than
        `record_bytes_max`."""
        if segment.max_timestamp_ms < timestamp:
            return None
        opened = await self._opened(segment)
        offset = max(opened.offset_since(timestamp), start_offset)

        def may_have_it(header: BatchHeader) -> bool:
            return header.max_timestamp >= timestamp and header.last_offset >= offset

        position = opened.position_of(offset)
        while (found := await self._find_from(opened, position, may_have_it)) is not None:
            position = found.position + found.header.size_bytes
            data = await self._bytes(opened, found.position, position)
            batch = open_batch(data)
            look = partial(
                first_since, batch, timestamp, start_offset, record_bytes_max=record_bytes_max
            )
            try:
                first = await self._runtime.run_blocking(look)
            except LargeRecord as error:
                raise as_kafka_error(error) from error
            if first is not None:
                return OffsetAt(first.timestamp, first.offset, found.header.partition_leader_epoch)
        return None

    async def section(self, segment: RemoteSegment, kind: Section) -> Buffer | None:
        """Return one of Kafka's files of a segment: what a follower rebuilds its state from."""
        return (await self._opened(segment)).section(kind)

    async def verify(self, segment: RemoteSegment) -> None:
        """Read all of a segment from the store, past the cache. Raise CorruptLog if something is
        damaged, StoreError if it is missing."""
        opened = await self._opened(segment)
        for number in range(opened.indexes.chunk_count):
            await self._load_chunk(opened, number)

    def is_near_end(self, segment: RemoteSegment, offset: int) -> bool:
        """Whether all that a segment has from the offset on is being fetched ahead."""
        opened = self._open.get(segment.id)
        if opened is None:
            return False
        left = opened.log_bytes - opened.position_of(offset)
        return left <= PREFETCHED_CHUNKS * opened.chunk_bytes

    async def prepare(self, segment: RemoteSegment) -> None:
        """Fetch the beginning of a segment ahead."""
        opened = await self._opened(segment)
        self._cache.prefetch(ChunkKey(segment.id, 0), partial(self._load_chunk, opened, 0))

    # Opening.

    async def _opened(self, segment: RemoteSegment) -> RemoteIndexes:
        """Return the indexes of a segment, of those that are open already or from the store."""
        opened = self._open.get(segment.id)
        if opened is not None:
            self._open.move_to_end(segment.id)
            return opened
        access = SegmentAccess.decode(segment)
        codec = codec_of(segment, access, self._key_ring)
        plain = await self._cache.get(
            ChunkKey(segment.id, INDEXES), lambda: self._load_indexes(segment, access, codec)
        )
        opened = RemoteIndexes(segment, codec, decode_indexes(plain, segment), self._runtime.files)
        self._keep_open(opened)
        return opened

    def _keep_open(self, opened: RemoteIndexes) -> None:
        id = opened.segment.id
        before = self._open.pop(id, None)
        self._open_bytes += opened.size_bytes - (before.size_bytes if before else 0)
        self._open[id] = opened
        while self._open_bytes > _OPEN_BYTES_MAX and len(self._open) > 1:
            _, closed = self._open.popitem(last=False)
            self._open_bytes -= closed.size_bytes

    async def _load_indexes(
        self, segment: RemoteSegment, access: SegmentAccess, codec: ChunkCodec
    ) -> Buffer:
        stored = await self._stored(segment, ObjectKind.INDEXES, 0, access.indexes_bytes)
        return await self._runtime.run_blocking(
            codec.decode, ObjectKind.INDEXES, 0, stored, INDEXES_BYTES_MAX
        )

    async def _stored(
        self, segment: RemoteSegment, kind: ObjectKind, start: int, size: int
    ) -> Buffer:
        """Return a range of an object. Fewer bytes are found by the codec."""
        try:
            return await self._store.get_range(object_name(segment, kind), start, size)
        except StoreError as error:
            if error.why is not StoreReason.BAD_RANGE:
                raise
            raise CorruptLog(
                "remote object is cut short",
                segment=str(segment.id),
                object=kind.name.lower(),
                at=start,
            ) from error

    # Bytes of the log.

    async def _load_chunk(self, opened: RemoteIndexes, number: int) -> Buffer:
        start, size = opened.indexes.stored_range(number)
        stored = await self._stored(opened.segment, ObjectKind.LOG, start, size)
        expected = min(opened.chunk_bytes, opened.log_bytes - number * opened.chunk_bytes)
        plain = await self._runtime.run_blocking(
            opened.codec.decode, ObjectKind.LOG, number, stored, expected
        )
        if len(plain) != expected:
            raise CorruptLog(
                "remote chunk has another size", segment=str(opened.segment.id), chunk=number
            )
        return plain

    def _read_ahead(self, opened: RemoteIndexes, start: int, end: int) -> None:
        """Fetch the chunks behind a range, if its reader seems to go on from chunk to chunk."""
        id, size, recent = opened.segment.id, opened.chunk_bytes, self._recent
        first, last = start // size, (end - 1) // size
        goes_on = not first or (id, first) in recent or (id, first - 1) in recent
        for number in range(first, last + 1):
            recent.pop(ChunkKey(id, number), None)
            recent[ChunkKey(id, number)] = None
        while len(recent) > _RECENT_MAX:
            recent.popitem(last=False)
        if goes_on:
            behind = range(last + 1, min(last + 1 + PREFETCHED_CHUNKS, opened.indexes.chunk_count))
            for number in behind:
                self._cache.prefetch(
                    ChunkKey(id, number), partial(self._load_chunk, opened, number)
                )

    def _pass_by(self, opened: RemoteIndexes, start: int, end: int) -> None:
        """Let the chunks go whose end a reader has come to."""
        past = opened.indexes.chunk_count if end == opened.log_bytes else end // opened.chunk_bytes
        for number in range(start // opened.chunk_bytes, past):
            self._cache.pass_by(ChunkKey(opened.segment.id, number))

    async def _bytes(self, opened: RemoteIndexes, start: int, end: int) -> Buffer:
        """Return a range of the log."""
        size = opened.chunk_bytes
        parts = []
        for number in range(start // size, (end - 1) // size + 1):
            chunk = memoryview(
                await self._cache.get(
                    ChunkKey(opened.segment.id, number), partial(self._load_chunk, opened, number)
                )
            )
            base = number * size
            parts.append(chunk[max(start - base, 0) : end - base])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    # Batches.

    async def _find(self, opened: RemoteIndexes, offset: int) -> _FoundBatch | None:
        """Return the first batch that ends at `offset` or later."""
        return await self._find_from(
            opened, opened.position_of(offset), lambda header: header.last_offset >= offset
        )

    async def _find_from(
        self, opened: RemoteIndexes, position: int, is_wanted: Callable[[BatchHeader], bool]
    ) -> _FoundBatch | None:
        """Return the first wanted batch from `position`. It is nearly always near; what lies
        further away is walked in a thread."""
        end = _walk_end(opened, position, position + _LOOK_UP_BYTES)
        is_near = True
        while position < opened.log_bytes:
            piece = await self._bytes(opened, position, end)
            if is_near:
                at, header = _walk(opened.segment, piece, is_wanted)
            else:
                at, header = await self._runtime.run_blocking(
                    _walk, opened.segment, piece, is_wanted
                )
            if header is not None:
                return _FoundBatch(position + at, header)
            position += at
            end = _walk_end(opened, position, opened.log_bytes)
            is_near = False
        return None

    async def _end(self, opened: RemoteIndexes, upper_offset: int | None) -> int:
        """Return the position at which the batches below an offset end."""
        if upper_offset is None or upper_offset >= opened.segment.end_offset:
            return opened.log_bytes
        bound = await self._find(opened, upper_offset)
        return opened.log_bytes if bound is None else bound.position

    def _whole(self, opened: RemoteIndexes, data: Buffer, at: int) -> tuple[int, int]:
        """Return how many bytes of `data` are whole batches, and the offset behind them. A batch
        begins at `at`."""
        while True:
            header = _header(opened.segment, data, at)
            end = at + header.size_bytes
            if end > len(data):
                return at, header.base_offset
            at = end
            if at + HEADER_BYTES > len(data):
                return at, header.next_offset


def codec_of(segment: RemoteSegment, access: SegmentAccess, key_ring: KeyRing | None) -> ChunkCodec:
    """Return what opens the objects of a segment. Raise ConfigError without its key."""
    if access.key_name is None:
        return ChunkCodec(segment.id)
    if key_ring is None:
        raise ConfigError(
            "a remote segment is encrypted: set remote.storage.encryption.keys",
            segment=str(segment.id),
            key=access.key_name,
        )
    place = bound_to_segment(segment.id)
    cipher = key_ring.unwrap(access.key_name, access.wrapped_key, place)
    return ChunkCodec(segment.id, cipher)


def _walk_end(opened: RemoteIndexes, position: int, end_max: int) -> int:
    """Return where a walk from a batch ends: in its chunk, unless its header reaches into the next.
    A batch is found without the chunk behind it, which may have to be loaded."""
    chunk_end = (position // opened.chunk_bytes + 1) * opened.chunk_bytes
    return min(max(chunk_end, position + HEADER_BYTES), end_max, opened.log_bytes)


def _walk(
    segment: RemoteSegment, piece: Buffer, is_wanted: Callable[[BatchHeader], bool]
) -> tuple[int, BatchHeader | None]:
    """Return the place and the header of the first wanted batch in a piece of the log, or where
    the first batch begins whose header is not in the piece."""
    at = 0
    while at + HEADER_BYTES <= len(piece):
        header = _header(segment, piece, at)
        if is_wanted(header):
            return at, header
        at += header.size_bytes
    if not at:
        raise CorruptLog("remote batch is cut short", segment=str(segment.id))
    return at, None


def _header(segment: RemoteSegment, data: Buffer, at: int) -> BatchHeader:
    try:
        return read_header(data, at)
    except CorruptRecord as error:
        raise CorruptLog("there is no batch in the remote log", segment=str(segment.id)) from error
