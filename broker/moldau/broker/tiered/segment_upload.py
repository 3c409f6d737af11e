"""Copying a local segment into the store, and removing it from there.

Invariants: a segment is never in memory as a whole: chunks are read, compressed and encrypted one
by one, in threads, each in the memory from which it is sent. The log's object is stored before that
of the indexes, and `upload` returns when both are. If it raises, any of the two may be there, under
names that are never used again: the caller removes them through DELETE_STARTED.

The local files belong to a sealed segment: nothing changes them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Final

from moldau.broker.tiered.key_ring import KeyRing, SegmentCipher
from moldau.broker.tiered.segment_objects import (
    CHUNK_BYTES,
    INDEXES_BYTES_MAX,
    ChunkCodec,
    ObjectKind,
    Section,
    SegmentAccess,
    SegmentManifest,
    are_batches_compressed,
    bound_to_segment,
    encode_indexes,
    object_name,
)
from moldau.deferred import dataclass
from moldau.errors import CorruptLog
from moldau.records import Buffer

if TYPE_CHECKING:
    from moldau.broker.tiered.remote_segment import RemoteSegment
    from moldau.objects.object_store import ObjectStore
    from moldau.runtime import Runtime

Pace = Callable[[int], Awaitable[None]]
"""Waits until this many bytes may be sent: the quota of copies."""

UPLOAD_BYTES: Final = 12 << 20
"""What an upload has in memory at the most: a part of 8 MiB, and a chunk behind it."""
_SAMPLE_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class SegmentFiles:
    """The files of a sealed segment. Of the indexes, those that there are."""

    log_path: str
    sections: dict[Section, str]
    """The paths of the indexes, and of the producers' snapshot if that is a file."""
    leader_epochs: bytes
    """The epochs of the log up to here, as a checkpoint file has them."""
    producers: bytes | None = None
    """The producers' snapshot, if it is no file."""


class SegmentUpload:
    """Copies segments into a store."""

    def __init__(
        self,
        runtime: Runtime,
        store: ObjectStore,
        key_ring: KeyRing | None = None,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self._runtime = runtime
        self.store: Final = store
        self._key_ring = key_ring
        self._chunk_bytes = chunk_bytes

    async def upload(
        self, segment: RemoteSegment, files: SegmentFiles, pace: Pace | None = None
    ) -> bytes:
        """Store both objects. Return the segment's custom metadata for COPY_FINISHED."""
        cipher, key_name, wrapped = self._new_key(segment)
        codec = ChunkCodec(segment.id, cipher)
        stored_sizes: list[int] = []

        async def chunks() -> AsyncIterator[Buffer]:
            # A list of its own: an attempt that was given up may still add to the one before.
            nonlocal stored_sizes
            mine = stored_sizes = []
            try_zstd = await self._runtime.run_blocking(self._pays, files.log_path)
            for number in range(-(-segment.size_bytes // self._chunk_bytes)):
                stored = await self._runtime.run_blocking(
                    self._stored_chunk, codec, segment, files.log_path, number, try_zstd
                )
                if pace is not None:
                    await pace(len(stored))
                mine.append(len(stored))
                yield stored
                del stored  # the store has it; the next one is made meanwhile

        log_name = object_name(segment, ObjectKind.LOG)
        await self.store.put_parts(log_name, chunks, segment.size_bytes)
        manifest = SegmentManifest(
            segment.start_offset, segment.size_bytes, tuple(stored_sizes), self._chunk_bytes
        )
        indexes = await self._runtime.run_blocking(self._stored_indexes, codec, manifest, files)
        await self.store.put(object_name(segment, ObjectKind.INDEXES), indexes)
        return SegmentAccess(len(indexes), key_name, wrapped).encode()

    async def remove(self, segment: RemoteSegment) -> None:
        """Remove both objects. They may be gone already."""
        for kind in (ObjectKind.INDEXES, ObjectKind.LOG):
            await self.store.delete(object_name(segment, kind))

    def _new_key(self, segment: RemoteSegment) -> tuple[SegmentCipher | None, str | None, bytes]:
        if self._key_ring is None:
            return None, None, b""
        place = bound_to_segment(segment.id)
        cipher, wrapped = self._key_ring.new_key(self._runtime.random, place)
        return cipher, self._key_ring.active, wrapped

    def _pays(self, log_path: str) -> bool:
        with self._runtime.files.open(log_path) as file:
            return not are_batches_compressed(file.read_at(0, _SAMPLE_BYTES))

    def _stored_chunk(
        self, codec: ChunkCodec, segment: RemoteSegment, log_path: str, number: int, try_zstd: bool
    ) -> Buffer:
        start = number * self._chunk_bytes
        size = min(self._chunk_bytes, segment.size_bytes - start)

        def fill(memory: memoryview) -> None:
            with self._runtime.files.open(log_path) as file:
                read_bytes = file.read_into(start, memory)
            assert read_bytes == size, "a sealed segment has become shorter"

        return codec.encode_filled(ObjectKind.LOG, number, size, fill, try_zstd=try_zstd)

    def _stored_indexes(
        self, codec: ChunkCodec, manifest: SegmentManifest, files: SegmentFiles
    ) -> Buffer:
        sections: dict[Section, Buffer] = {
            kind: self._runtime.files.read_whole(path) for kind, path in files.sections.items()
        }
        sections[Section.LEADER_EPOCHS] = files.leader_epochs
        if files.producers is not None:
            sections[Section.PRODUCER_SNAPSHOT] = files.producers
        plain = encode_indexes(manifest, sections)
        if len(plain) > INDEXES_BYTES_MAX:
            raise CorruptLog("the segment's indexes are too large", size_bytes=len(plain))
        return codec.encode(ObjectKind.INDEXES, 0, plain, try_zstd=True)
