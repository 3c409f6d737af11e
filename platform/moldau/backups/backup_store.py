"""The objects of backups below one prefix: chunks of logs, and a manifest a backup.

data/TOPIC ID/PARTITION/BASE-NEXT-CHECKSUM     whole batches
data/TOPIC ID/PARTITION/BASE-NEXT-SEGMENT ID   the log of a remote segment, as the tier has it
backups/TIME-CHECKSUM.json                     a backup, by the time at which it began
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Final

from moldau.backups.manifest import (
    BackupFailed,
    Chunk,
    Manifest,
    chunk_name,
    decoded,
    encoded,
)
from moldau.backups.remote_segments import COPY_LIMITS, CopiedId, installed_format
from moldau.deferred import deferred_pattern
from moldau.errors import CorruptLog
from moldau.objects.object_store import ObjectStore
from moldau.objects.obstore_bucket import ObstoreBucket
from moldau.objects.store_address import StoreConfig, parse_address
from moldau.objects.store_errors import StoreError, StoreReason
from moldau.plugins import PluginError
from moldau.records import whole_bytes
from moldau.records.checksum import crc32c

if TYPE_CHECKING:
    from moldau.backups.remote_segments import SegmentFormat
    from moldau.records import Buffer
    from moldau.runtime import Runtime

_FOLDER: Final = "backups"
_PIECE_BYTES: Final = 8 << 20
_CHECKSUM_DIGITS: Final = 16
_MANIFEST_NAME: Final = deferred_pattern(
    rf"{_FOLDER}/(\d{{13,}})-[0-9a-f]{{{_CHECKSUM_DIGITS}}}\.json"
)
_LOST_MANIFEST: Final = (
    "bring it back from a copy, or delete it: then the backup before it is the newest"
)
_LOST_CHUNK: Final = (
    "bring it back from a copy, or restore from a backup that does not have it (--at). If the "
    "cluster that was backed up still runs, delete the object and take another backup"
)


def open_store(runtime: Runtime, address: str) -> ObjectStore:
    """Return the store at an address. Raise ConfigError for one that cannot be, or if the library
    is not installed, and StoreError."""
    where = parse_address(address, "the place of the backup")
    return ObjectStore(runtime, ObstoreBucket(runtime, StoreConfig(where)))


class BackupStore:
    """The backups of one cluster."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._format: SegmentFormat | None = None

    @property
    def where(self) -> str:
        return self._store.where

    async def put_chunk(self, topic_id: bytes, partition: int, chunk: Chunk, data: Buffer) -> None:
        """Store a chunk. One that a killed backup has left is taken. Raise BackupFailed if it is
        not what it should be."""
        await self._put(chunk_name(topic_id, partition, chunk), data)

    async def copy_chunk(
        self, topic_id: bytes, partition: int, chunk: Chunk, path: str, tail: Buffer
    ) -> None:
        """Let the store copy an object of the bucket for a chunk, unless it has done so before.
        `tail` is how the object ends. Return when the copy is there. Raise StoreError."""
        store, name = self._store.with_limits(COPY_LIMITS), chunk_name(topic_id, partition, chunk)
        if not await store.is_stored(name, chunk.size_bytes, tail):
            await store.copy(path, name, chunk.size_bytes, tail)

    async def data_sizes(self) -> dict[str, int]:
        """Return the size of each chunk's object that is there, by name."""
        return {each.name: each.size_bytes async for each in self._store.list("data")}

    async def read_chunk(
        self, topic_id: bytes, partition: int, chunk: Chunk
    ) -> AsyncIterator[Buffer]:
        """Yield the whole batches of a chunk, piece by piece: a remote segment is read 4 MiB at a
        time. Raise BackupFailed if they are not as they were stored."""
        name = chunk_name(topic_id, partition, chunk)
        if chunk.segment:
            async for piece in self._read_segment(topic_id, partition, chunk):
                yield piece
            return
        data = await self._read(name, 0, chunk.size_bytes, _LOST_CHUNK)
        if crc32c(data) != chunk.checksum:
            raise BackupFailed(f"{self.where}/{name} is damaged: {_LOST_CHUNK}")
        yield data

    async def _read_segment(
        self, topic_id: bytes, partition: int, chunk: Chunk
    ) -> AsyncIterator[Buffer]:
        """Yield the whole batches of a remote segment. A batch may begin in one of its chunks and
        end in another."""
        name, at, rest = chunk_name(topic_id, partition, chunk), 0, b""
        id = CopiedId(topic_id, partition, bytes.fromhex(chunk.segment))
        format = self._segment_format()
        for number, size in enumerate(chunk.stored_sizes):
            try:
                data = format.opened(id, number, await self._read(name, at, size, _LOST_CHUNK))
            except CorruptLog as error:
                raise BackupFailed(f"{self.where}/{name} is damaged: {_LOST_CHUNK}") from error
            at += size
            data = b"".join((rest, data))
            end = whole_bytes(data)
            rest = data[end:]
            if end:
                yield memoryview(data)[:end]
        if rest:
            raise BackupFailed(f"{self.where}/{name} ends within a batch: {_LOST_CHUNK}")

    def _segment_format(self) -> SegmentFormat:
        if self._format is None:
            try:
                self._format = installed_format()
            except PluginError:
                raise BackupFailed(
                    "the backup has remote segments as brokers store them: install moldau-broker"
                ) from None
        return self._format

    async def put_manifest(self, manifest: Manifest) -> str:
        """Store a backup after all of its chunks, and return its name."""
        data = encoded(manifest)
        digest = hashlib.sha256(data).hexdigest()[:_CHECKSUM_DIGITS]
        name = f"{_FOLDER}/{manifest.begun_ms:013}-{digest}.json"
        await self._put(name, data)
        return name

    async def manifests(self) -> dict[str, tuple[int, int]]:
        """Return the time and the size of each backup, by name, the oldest first. Raise
        BackupFailed if there is something else among them."""
        found: dict[str, tuple[int, int]] = {}
        for each in sorted([each async for each in self._store.list(_FOLDER)]):
            match = _MANIFEST_NAME.fullmatch(each.name)
            if match is None:
                raise BackupFailed(
                    f"{self.where}/{each.name} is no backup: give backups a prefix of their own"
                )
            found[each.name] = int(match[1]), each.size_bytes
        return found

    async def read_manifest(self, name: str, size_bytes: int) -> Manifest:
        """Return a backup. Raise BackupFailed if its document is not as it was stored."""
        data = bytes(await self._read(name, 0, size_bytes, _LOST_MANIFEST)) if size_bytes else b""
        digest = name.rpartition("-")[2].removesuffix(".json")
        if hashlib.sha256(data).hexdigest()[:_CHECKSUM_DIGITS] != digest:
            raise BackupFailed(f"{self.where}/{name} is damaged: {_LOST_MANIFEST}")
        return decoded(data)

    async def check_objects(self, objects: Mapping[str, int]) -> None:
        """Raise BackupFailed, which names the first one, if objects are missing or torn."""
        found = await self.data_sizes()
        bad = sorted(name for name, size in objects.items() if found.get(name) != size)
        if not bad:
            return
        size = found.get(bad[0])
        what = "is missing" if size is None else f"has {size} of {objects[bad[0]]} bytes"
        more = f", and {len(bad) - 1} more like it" if len(bad) > 1 else ""
        raise BackupFailed(f"{self.where}/{bad[0]} {what}{more}: {_LOST_CHUNK}")

    async def _put(self, name: str, data: Buffer) -> None:
        try:
            await self._store.put(name, data)
        except StoreError as error:
            if error.why is not StoreReason.ALREADY_EXISTS:
                raise
            if not await self._is_stored(name, data):
                raise BackupFailed(
                    f"{self.where}/{name} is damaged: delete it, and take the backup again"
                ) from None

    async def _is_stored(self, name: str, data: Buffer) -> bool:
        try:
            found = await self._store.get_range(name, 0, len(data) + 1)
        except StoreError as error:
            if error.why is not StoreReason.BAD_RANGE:
                raise
            return False
        return bytes(found) == bytes(data)

    async def _read(self, name: str, start: int, size_bytes: int, lost: str) -> Buffer:
        data = bytearray()
        try:
            while len(data) < size_bytes:
                left = min(_PIECE_BYTES, size_bytes - len(data))
                piece = await self._store.get_range(name, start + len(data), left)
                if len(piece) == size_bytes:
                    return piece
                if not len(piece):
                    break
                data += piece
        except StoreError as error:
            if error.why not in (StoreReason.NOT_FOUND, StoreReason.BAD_RANGE):
                raise
            raise BackupFailed(f"{self.where}/{name} is missing or torn: {lost}") from error
        if len(data) < size_bytes:
            raise BackupFailed(f"{self.where}/{name} has {len(data)} of {size_bytes} bytes: {lost}")
        return data
