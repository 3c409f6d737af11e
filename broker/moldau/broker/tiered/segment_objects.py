"""A segment as two objects: one with the log's bytes, one with all indexes and the manifest.

    <topic>-<topic id>/<partition>/<start offset>-<segment id>.log
    <topic>-<topic id>/<partition>/<start offset>-<segment id>.indexes

The log is cut into chunks of 4 MiB, of which the last may be shorter. Each is stored by itself, so
that one ranged read is enough for one, and the manifest has their sizes. The second object is one
chunk, whatever its size. Its size, and the segment's key if it is encrypted, are the segment's
custom metadata in the topic, so a reader needs no look at the store before.

    stored chunk:  flags (1)  plain size (4)  content  CRC-32C (4), or AES-GCM's tag (16)

Invariants: a chunk is bound to its segment, its object and its number, by the checksum or by the
encryption. So one that is damaged, cut short, of another segment or at another place is found, and
every such finding is CorruptLog. A segment with a key accepts no chunk without encryption. Lengths
are checked before anything is allocated.

Compression is left out where the batches are compressed already, and where it does not pay: some
samples of a chunk decide that, because a try with all of it costs more than the rest of a copy.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum, IntFlag
from itertools import accumulate
from typing import Final, NamedTuple

from moldau.broker.tiered.key_ring import (
    KEY_NAME_BYTES_MAX,
    TAG_BYTES,
    WRAPPED_BYTES,
    SegmentCipher,
)
from moldau.broker.tiered.remote_segment import RemoteSegment, SegmentId
from moldau.deferred import dataclass, deferred_pattern
from moldau.errors import CorruptLog, CorruptRecord
from moldau.ids import Uuid, format_uuid, parse_uuid
from moldau.records import HEADER_BYTES, Buffer, Codec, read_header
from moldau.records.checksum import crc32c
from moldau.records.codecs import compress, decompress

VERSION: Final = 1
CHUNK_BYTES: Final = 4 << 20
INDEXES_BYTES_MAX: Final = 64 << 20
CUSTOM_METADATA_BYTES_MAX: Final = 128
_LEVEL: Final = 1
_PAYS_BELOW: Final = 7 / 8
"""Content that zstd does not make smaller than this part is stored as it is."""
_SAMPLES: Final = 4
_SAMPLE_BYTES: Final = 64 << 10
_MAGIC: Final = b"MLDT"
_PLACE: Final = struct.Struct(">4sBB16sI16sIBI")
_CHUNK_HEAD: Final = struct.Struct(">BI")
_CRC: Final = struct.Struct(">I")
_ACCESS: Final = struct.Struct(">BIB")
_MANIFEST: Final = struct.Struct(">BqQIIB")
_SECTION: Final = struct.Struct(">BI")
_NAME: Final = deferred_pattern(r"(\d{20})-([A-Za-z0-9_-]{22})\.(log|indexes)")


class ObjectKind(IntEnum):
    """The objects of a segment."""

    LOG = 0
    INDEXES = 1

    @property
    def ending(self) -> str:
        return ".log" if self is ObjectKind.LOG else ".indexes"


class Section(IntEnum):
    """The parts of the object with the indexes: each has the bytes of Kafka's file."""

    OFFSET_INDEX = 0
    TIME_INDEX = 1
    TRANSACTION_INDEX = 2
    PRODUCER_SNAPSHOT = 3
    LEADER_EPOCHS = 4


class _Flags(IntFlag):
    COMPRESSED = 1
    ENCRYPTED = 2


# Names.


def partition_folder(topic: str, topic_id: Uuid, partition: int) -> str:
    """Return the folder of all objects of a partition."""
    return f"{topic}-{format_uuid(topic_id)}/{partition}"


def object_name(segment: RemoteSegment, kind: ObjectKind) -> str:
    """Return the name of an object, below the store's prefix."""
    folder = partition_folder(segment.topic, segment.id.topic_id, segment.id.partition)
    file = f"{segment.start_offset:020d}-{format_uuid(segment.id.id)}"
    return f"{folder}/{file}{kind.ending}"


class ParsedName(NamedTuple):
    """What the last part of an object's name says."""

    start_offset: int
    id: Uuid
    kind: ObjectKind


def parse_object_name(name: str) -> ParsedName | None:
    """Return what an object's name says, or None if it is none of ours."""
    found = _NAME.fullmatch(name.rpartition("/")[2])
    if found is None:
        return None
    kind = ObjectKind.LOG if found[3] == "log" else ObjectKind.INDEXES
    return ParsedName(int(found[1]), parse_uuid(found[2]), kind)


# What a reader must know before it opens a segment.


@dataclass(frozen=True, slots=True)
class SegmentAccess:
    """The custom metadata of a segment: how its objects are opened."""

    indexes_bytes: int
    """The size of the stored object with the indexes."""
    key_name: str | None = None
    wrapped_key: bytes = b""

    def encode(self) -> bytes:
        name = b"" if self.key_name is None else self.key_name.encode()
        assert len(name) <= KEY_NAME_BYTES_MAX
        assert len(self.wrapped_key) == (WRAPPED_BYTES if name else 0)
        packed = _ACCESS.pack(VERSION, self.indexes_bytes, len(name)) + name + self.wrapped_key
        assert len(packed) <= CUSTOM_METADATA_BYTES_MAX
        return packed

    @classmethod
    def decode(cls, segment: RemoteSegment) -> SegmentAccess:
        """Return a segment's access. Raise CorruptLog if its custom metadata is not ours."""
        data = segment.custom_metadata or b""
        try:
            version, size, name_bytes = _ACCESS.unpack_from(data)
            name = data[_ACCESS.size : _ACCESS.size + name_bytes].decode()
        except (struct.error, UnicodeDecodeError):
            raise _foreign(segment.id) from None
        wrapped = data[_ACCESS.size + name_bytes :]
        is_whole = len(wrapped) == (WRAPPED_BYTES if name else 0)
        if version != VERSION or not is_whole or not 0 < size <= INDEXES_BYTES_MAX:
            raise _foreign(segment.id)
        return cls(size, name or None, wrapped)


def _foreign(id: SegmentId) -> CorruptLog:
    return CorruptLog(
        "the segment's custom metadata is not of this version of moldau", segment=str(id)
    )


# Chunks.


def bound_to_segment(id: SegmentId) -> bytes:
    """Return what a segment's wrapped key is bound to."""
    return _MAGIC + id.topic_id + id.partition.to_bytes(4, "big") + id.id


class ChunkCodec:
    """Stored chunks of one segment."""

    __slots__ = ("_cipher", "_id", "_tail_bytes")

    def __init__(self, id: SegmentId, cipher: SegmentCipher | None = None) -> None:
        self._id = id
        self._cipher = cipher
        self._tail_bytes = _CRC.size if cipher is None else TAG_BYTES

    def encode(self, kind: ObjectKind, number: int, plain: Buffer, *, try_zstd: bool) -> bytearray:
        """Return the stored bytes of a chunk. The same content gives the same bytes."""

        def fill(memory: memoryview) -> None:
            memory[:] = plain

        return self.encode_filled(kind, number, len(plain), fill, try_zstd=try_zstd)

    def encode_filled(
        self,
        kind: ObjectKind,
        number: int,
        size: int,
        fill: Callable[[memoryview], None],
        *,
        try_zstd: bool,
    ) -> bytearray:
        """Return the stored bytes of a chunk of this size. `fill` writes its plain bytes to where
        they are stored: they are in memory once, unless they are compressed or encrypted."""
        stored = bytearray(_CHUNK_HEAD.size + size + self._tail_bytes)
        content = memoryview(stored)[_CHUNK_HEAD.size : -self._tail_bytes]
        fill(content)
        flags = _Flags(0)
        if try_zstd and _seems_compressible(content):
            compressed = compress(Codec.ZSTD, content, _LEVEL)
            if _pays(compressed, content):
                flags = _Flags.COMPRESSED
                content[: len(compressed)] = compressed
                content.release()
                del stored[_CHUNK_HEAD.size + len(compressed) + self._tail_bytes :]
                content = memoryview(stored)[_CHUNK_HEAD.size : -self._tail_bytes]
        if self._cipher is not None:
            flags |= _Flags.ENCRYPTED
        _CHUNK_HEAD.pack_into(stored, 0, flags, size)
        place = self._place(kind, number, flags, size)
        if self._cipher is not None:
            sealed = self._cipher.seal(_nonce(kind, number), content, place)
            memoryview(stored)[_CHUNK_HEAD.size :] = sealed
        else:
            _CRC.pack_into(stored, len(stored) - _CRC.size, crc32c(content, crc32c(place)))
        return stored

    def decode(self, kind: ObjectKind, number: int, stored: Buffer, plain_max: int) -> Buffer:
        """Return a chunk's plain bytes. Raise CorruptLog if it is not what was stored here."""
        view = memoryview(stored)
        if len(view) < _CHUNK_HEAD.size + self._tail_bytes:
            raise self._corrupt("chunk is cut short", kind, number)
        bits, size = _CHUNK_HEAD.unpack_from(view)
        is_encrypted = bool(bits & _Flags.ENCRYPTED)
        if bits & ~3 or size > plain_max or is_encrypted != (self._cipher is not None):
            raise self._corrupt("chunk has the head of another", kind, number)
        place = self._place(kind, number, _Flags(bits), size)
        content = self._opened(kind, number, view[_CHUNK_HEAD.size :], place)
        if bits & _Flags.COMPRESSED:
            try:
                content = decompress(Codec.ZSTD, content, size)
            except CorruptRecord as error:
                raise self._corrupt("chunk does not decompress", kind, number) from error
        if len(content) != size:
            raise self._corrupt("chunk has another size", kind, number)
        return content

    def _opened(self, kind: ObjectKind, number: int, sealed: memoryview, place: bytes) -> Buffer:
        """Return the content of a chunk whose checksum or tag is right."""
        if self._cipher is not None:
            try:
                return self._cipher.open(_nonce(kind, number), sealed, place)
            except CorruptLog as error:
                raise self._corrupt(error.reason, kind, number) from None
        content = sealed[: -_CRC.size]
        if crc32c(content, crc32c(place)) != _CRC.unpack(sealed[-_CRC.size :])[0]:
            raise self._corrupt("chunk is damaged, or belongs elsewhere", kind, number)
        return content

    def _place(self, kind: ObjectKind, number: int, flags: _Flags, size: int) -> bytes:
        topic_id, partition, id = self._id
        return _PLACE.pack(_MAGIC, VERSION, kind, topic_id, partition, id, number, int(flags), size)

    def _corrupt(self, why: str, kind: ObjectKind, number: int) -> CorruptLog:
        return CorruptLog(
            f"remote {why}", segment=str(self._id), object=kind.name.lower(), chunk=number
        )


def _pays(compressed: Buffer, plain: Buffer) -> bool:
    return len(compressed) < len(plain) * _PAYS_BELOW


def _seems_compressible(plain: Buffer) -> bool:
    """Whether samples from all over the content get smaller."""
    step = len(plain) // _SAMPLES
    if step <= _SAMPLE_BYTES:
        return True
    view = memoryview(plain)
    sample = b"".join(view[at * step : at * step + _SAMPLE_BYTES] for at in range(_SAMPLES))
    return _pays(compress(Codec.ZSTD, sample, _LEVEL), sample)


def _nonce(kind: ObjectKind, number: int) -> int:
    return kind << 32 | number


def are_batches_compressed(start: Buffer) -> bool:
    """Whether most bytes at a log's start belong to batches that their producers compressed."""
    position, compressed = 0, 0
    while position + HEADER_BYTES <= len(start):
        try:
            header = read_header(start, position)
        except CorruptRecord:
            return False
        if header.codec_id:
            compressed += header.size_bytes
        position += header.size_bytes
    return compressed * 2 > position


# The object with the indexes.


@dataclass(frozen=True, slots=True)
class SegmentManifest:
    """How the log of a segment is stored."""

    start_offset: int
    log_bytes: int
    stored_sizes: Sequence[int]
    """The sizes of the stored chunks, in order."""
    chunk_bytes: int = CHUNK_BYTES


class SegmentIndexes:
    """The manifest and the indexes of a segment, as they are opened."""

    __slots__ = ("_ends", "manifest", "sections", "size_bytes")

    def __init__(self, manifest: SegmentManifest, sections: Mapping[Section, Buffer]) -> None:
        self.manifest = manifest
        self.sections = sections
        self._ends = (0, *accumulate(manifest.stored_sizes))
        self.size_bytes = sum(map(len, sections.values())) + 8 * len(self._ends)

    @property
    def chunk_count(self) -> int:
        return len(self.manifest.stored_sizes)

    def stored_range(self, number: int) -> tuple[int, int]:
        """Return where a stored chunk begins, and its size."""
        return self._ends[number], self.manifest.stored_sizes[number]


def encode_indexes(manifest: SegmentManifest, sections: Mapping[Section, Buffer]) -> bytes:
    """Return the plain bytes of the object with the indexes."""
    sizes = manifest.stored_sizes
    parts: list[Buffer] = [
        _MANIFEST.pack(
            VERSION,
            manifest.start_offset,
            manifest.log_bytes,
            manifest.chunk_bytes,
            len(sizes),
            len(sections),
        ),
        struct.pack(f">{len(sizes)}I", *sizes),
        *(_SECTION.pack(kind, len(data)) for kind, data in sections.items()),
        *sections.values(),
    ]
    return b"".join(parts)


def decode_indexes(plain: Buffer, segment: RemoteSegment) -> SegmentIndexes:
    """Return what `encode_indexes` wrote for this segment. Raise CorruptLog for anything else."""
    view = memoryview(plain)
    try:
        version, start, size, chunk_bytes, count, sections = _MANIFEST.unpack_from(view)
        at = _MANIFEST.size
        stored = struct.unpack_from(f">{count}I", view, at) if count <= len(view) // 4 else ()
        at += 4 * count
        heads = [_SECTION.unpack_from(view, at + _SECTION.size * n) for n in range(sections)]
        at += _SECTION.size * sections
        found: dict[Section, Buffer] = {}
        for kind, length in heads:
            found[Section(kind)] = view[at : at + length]
            at += length
    except (struct.error, ValueError) as error:
        raise CorruptLog("remote manifest is malformed", segment=str(segment.id)) from error
    is_whole = (
        version == VERSION
        and at == len(view)
        and start == segment.start_offset
        and size == segment.size_bytes
        and chunk_bytes > 0
        and count == -(-size // chunk_bytes)
    )
    if not is_whole:
        raise CorruptLog(
            "remote manifest is not this segment's",
            segment=str(segment.id),
            start_offset=start,
            size_bytes=size,
        )
    return SegmentIndexes(SegmentManifest(start, size, stored, chunk_bytes), found)
