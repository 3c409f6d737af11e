"""The five compressions of record batches, in every framing that a Kafka client sends.

Invariants:
- `decompress` never returns more than `limit` bytes, and never allocates by a claimed size that the
  input is too short for; a decompression bomb ends at the limit.
- The work is proportional to the bytes of input and output: input is passed in slices and its rest
  is never copied, and pieces (members, frames, blocks) with almost no content are counted.
- Bad input raises CorruptRecord, whatever the underlying library raises; too much output raises
  OversizedRecords.
- Java's clients can read what `compress` writes: xerial snappy, lz4 frames of independent blocks.

Clients nearly always send one frame with one block or a few, which one call of the library can
decompress into a buffer of known size. That is tried first, and never reports why it failed: the
loops over pieces handle all other input, and all errors.

There is one library for each format, and not one for all (cramjam has four), because the limit must
be enforced while bytes come out: `lz4` and `zstandard` can stop there, and `zstandard` limits the
window; they are also the faster ones (bench/records.py). zlib is Python's own. Raw snappy has its
length in front, so cramjam is enough. All of them release the GIL.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Final, TypeVar

import cramjam
import lz4.block
import lz4.frame

from moldau.deferred import deferred_module
from moldau.errors import CorruptRecord
from moldau.records.header import Buffer

if TYPE_CHECKING:
    import zstandard
else:
    zstandard = deferred_module("zstandard")

DECOMPRESSED_BYTES_MAX: Final = 128 << 20
RECORD_BYTES_MAX: Final = 2**31 - 9
"""No limit of its own for a record: as large as an array of Java may be."""
PART_BYTES: Final = 1 << 20
USUAL_BYTES_MAX: Final = 1 << 20
"""What a leader decompresses on its event loop, at most. Larger batches are checked in a thread."""

_Content = TypeVar("_Content", bytes, bytearray)

_PIECES_FREE: Final = 1024
_PIECE_BYTES: Final = 64
"""Beyond the free pieces, a member, frame or block must have this many bytes of input and output
together. A normal one has more; this bounds the work for tiny ones."""

_GZIP_STEP_BYTES: Final = 64 << 10

_XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + (1).to_bytes(4, "big") * 2
_XERIAL_BLOCK_BYTES: Final = 32 << 10
_SNAPPY_RATIO_MAX: Final = 22  # 3 bytes copy at most 64

_LZ4_STEP_BYTES_MIN: Final = 64 << 10
_LZ4_STEP_BYTES_MAX: Final = 1 << 20
_LZ4_USUAL_START: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
"""The start of Java's and librdkafka's frames: independent 64 KiB blocks, no sizes or checksums."""
_LZ4_BLOCK_BYTES: Final = 64 << 10
_LZ4_START_BYTES: Final = 11
_LZ4_END_BYTES: Final = 4
_lz4_start = Struct("<7sI").unpack_from
"""Unpacks the frame's start and the length of its first block."""
_lz4_end = Struct("<I").unpack_from
_LZ4_DEFAULT_LEVEL: Final = 9  # Kafka's number for "not the slow compressor"
_LZ4_LEVEL_MAX: Final = 12  # liblz4's; Kafka's settings go to 17

_ZSTD_DEFAULT_LEVEL: Final = 3
_ZSTD_WINDOW_BYTES_MAX: Final = 128 << 20
_ZSTD_RATIO_MAX: Final = 128 << 10 >> 2  # a block of 4 bytes repeats one byte 128 Ki times
_ZSTD_BLOCK_BYTES: Final = 128 << 10
_ZSTD_USUAL_BLOCKS: Final = 8
_zstd_block_start = Struct("<HB").unpack_from
_ZSTD_SKIPPABLE: Final = b"\x2a\x4d\x18"  # behind a first byte of 0x50 to 0x5f
_ZSTD_CONTEXTS_MAX: Final = 8  # kept for reuse: making one costs more than a small batch


class OversizedRecords(CorruptRecord):
    """Compressed records with more content than is allowed. They need not be damaged."""


class LargeRecord(CorruptRecord):
    """A compressed record that is larger than is allowed. It need not be damaged."""


class Codec(IntEnum):
    """A compression: the number in a batch's attributes; in lower case, the name in settings."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CODEC_LEVELS: Final = {
    Codec.GZIP: frozenset((-1, *range(1, 10))),
    Codec.LZ4: range(1, 18),
    Codec.ZSTD: range(-131072, 23),
}
"""The levels that Kafka's settings allow; snappy has none."""


def codec_of(codec_id: int) -> Codec:
    """Return the codec of a batch's attributes. Raise CorruptRecord for an unknown one."""
    try:
        return Codec(codec_id)
    except ValueError as error:
        raise CorruptRecord("no such compression", codec_id=codec_id) from error


def compress(codec: Codec, data: Buffer, level: int | None = None) -> Buffer:
    """Return compressed `data` for Kafka's clients. Raise ValueError for an unknown level."""
    if level is not None and level not in CODEC_LEVELS.get(codec, ()):
        raise ValueError(f"{codec.name.lower()} has no level {level}")
    return _COMPRESSORS[codec](data, level)


def decompress(codec: Codec, data: Buffer, limit: int = DECOMPRESSED_BYTES_MAX) -> Buffer:
    """Return the decompressed data. Raise CorruptRecord if it is damaged or above `limit`."""
    return _DECOMPRESSORS[codec](data, limit)


def decompressed_parts(
    codec: Codec, data: Buffer, limit: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[Buffer]:
    """Yield the decompressed data in parts, of about PART_BYTES at most, and forget each. A raw
    snappy block is one part. Raise what `decompress` raises, when it is reached."""
    if codec is Codec.NONE:
        yield _decompress_none(data, limit)
    else:
        yield from _PARTS[codec](data, limit, PART_BYTES)


def _too_large(codec: Codec, limit: int) -> OversizedRecords:
    return OversizedRecords("decompresses to more than the limit", codec=codec.name, limit=limit)


def _corrupt(codec: Codec, why: object) -> CorruptRecord:
    return CorruptRecord("compressed records are damaged", codec=codec.name, why=str(why))


def _cut_short(codec: Codec) -> CorruptRecord:
    return CorruptRecord("compressed records are cut short", codec=codec.name)


def _check_pieces(codec: Codec, pieces: int, done_bytes: int) -> None:
    """Raise CorruptRecord if there are more pieces than the bytes read and written so far allow."""
    if pieces > _PIECES_FREE + done_bytes // _PIECE_BYTES:
        raise CorruptRecord(
            "compressed records have too many frames", codec=codec.name, frames=pieces
        )


def _join(parts: list[_Content]) -> _Content | bytes:
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _compress_none(data: Buffer, level: int | None) -> Buffer:
    return data


def _decompress_none(data: Buffer, limit: int) -> Buffer:
    if len(data) > limit:
        raise CorruptRecord("records are larger than the limit", limit=limit, size_bytes=len(data))
    return data


def _compress_gzip(data: Buffer, level: int | None) -> bytes:
    return zlib.compress(data, -1 if level is None else level, wbits=31)


def _gzip_parts(data: Buffer, limit: int, step: int) -> Iterator[bytes]:
    """Decompress one member after another, as RFC 1952 allows."""
    view = memoryview(data)
    position, room, members = 0, limit, 0
    while True:
        members += 1
        _check_pieces(Codec.GZIP, members, position + limit - room)
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            piece: Buffer = member.unconsumed_tail
            if not piece:
                piece = view[position : position + _GZIP_STEP_BYTES]
                position += len(piece)
                if not piece:
                    raise _cut_short(Codec.GZIP)
            try:
                part = member.decompress(piece, min(step, room + 1))
            except zlib.error as error:
                raise _corrupt(Codec.GZIP, error) from error
            room -= len(part)
            if room < 0:
                raise _too_large(Codec.GZIP, limit)
            if part:
                yield part
        position -= len(member.unused_data)
        if position == len(view):
            return


def _compress_snappy(data: Buffer, level: int | None) -> bytes:
    parts: list[Buffer] = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _snappy_parts(data: Buffer, limit: int, step: int) -> Iterator[bytearray]:
    """Decompress raw blocks (librdkafka, kafkajs) or xerial's framing (Java, Python), which has a
    magic.

    Several xerial streams may follow one another.
    """
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        yield _decompress_snappy_block(view, limit, limit)
        return
    position, room, pieces = 0, limit, 0
    while position < len(view):
        pieces += 1
        _check_pieces(Codec.SNAPPY, pieces, position + limit - room)
        if bytes(view[position : position + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            continue
        start = position + 4
        position = start + int.from_bytes(view[position:start], "big")
        if position > len(view) or start > len(view):
            break
        part = _decompress_snappy_block(view[start:position], room, limit)
        room -= len(part)
        if part:
            yield part
    if position != len(view):
        raise _cut_short(Codec.SNAPPY)


def _decompress_snappy_block(block: memoryview, room: int, limit: int) -> bytearray:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > len(block) * _SNAPPY_RATIO_MAX:
            raise CorruptRecord("snappy block claims more than it can hold", claim=size)
        if size > room:
            raise _too_large(Codec.SNAPPY, limit)
        content = bytearray(size)
        written = cramjam.snappy.decompress_raw_into(block, content)
    except cramjam.DecompressionError as error:
        raise _corrupt(Codec.SNAPPY, error) from error
    if written != size:
        raise _cut_short(Codec.SNAPPY)
    return content


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    fast = level is None or level == _LZ4_DEFAULT_LEVEL
    compressed: bytes = lz4.frame.compress(
        data,
        compression_level=0 if fast else min(level or 0, _LZ4_LEVEL_MAX),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return compressed


def _decompress_lz4(data: Buffer, limit: int) -> bytes:
    parts = _lz4_parts(data, limit, _LZ4_STEP_BYTES_MAX)
    return _decompress_lz4_block(data, limit) or _join(list(parts))


def _decompress_lz4_block(data: Buffer, limit: int) -> bytes | None:
    """Decompress a usual frame of one block; None if it is another one. With more blocks,
    decompressing them one by one is no faster than the whole frame."""
    end = len(data) - _LZ4_END_BYTES
    if end < _LZ4_START_BYTES or limit < _LZ4_BLOCK_BYTES:
        return None
    start, block_bytes = _lz4_start(data)
    if start != _LZ4_USUAL_START or block_bytes != end - _LZ4_START_BYTES:
        return None
    if _lz4_end(data, end)[0]:
        return None
    block = memoryview(data)[_LZ4_START_BYTES:end]
    try:
        content: bytes = lz4.block.decompress(block, uncompressed_size=_LZ4_BLOCK_BYTES)
    except lz4.block.LZ4BlockError:
        return None
    return content


def _lz4_parts(data: Buffer, limit: int, step_max: int) -> Iterator[bytes]:
    """Decompress one frame after another, with any flags.

    Not with `LZ4FrameDecompressor`, which copies the rest of its input at every step.
    """
    view = memoryview(data)
    position, room, frames = 0, limit, 0
    step = min(max(4 * len(view), _LZ4_STEP_BYTES_MIN), step_max)
    while True:
        frames += 1
        _check_pieces(Codec.LZ4, frames, position + limit - room)
        context = lz4.frame.create_decompression_context()
        is_done = False
        while not is_done:
            try:
                part, read, is_done = lz4.frame.decompress_chunk(
                    context, view[position:], max_length=min(step, room + 1)
                )
            except (RuntimeError, ValueError) as error:
                raise _corrupt(Codec.LZ4, error) from error
            position += read
            room -= len(part)
            if room < 0:
                raise _too_large(Codec.LZ4, limit)
            if part:
                yield part
            elif not read and not is_done:
                raise _cut_short(Codec.LZ4)
        if position == len(view):
            return


_zstd_compressors: dict[int, list[zstandard.ZstdCompressor]] = {}
_zstd_decompressors: list[zstandard.ZstdDecompressor] = []


def _compress_zstd(data: Buffer, level: int | None) -> bytes:
    """Compress the data. A working context is out of the list: no two threads share it."""
    level = _ZSTD_DEFAULT_LEVEL if level is None else level
    idle = _zstd_compressors.setdefault(level, [])
    try:
        compressor = idle.pop()
    except IndexError:
        compressor = zstandard.ZstdCompressor(level=level)
    try:
        return compressor.compress(data)
    finally:
        if len(idle) < _ZSTD_CONTEXTS_MAX:
            idle.append(compressor)


def _decompress_zstd(data: Buffer, limit: int) -> bytes:
    try:
        decompressor = _zstd_decompressors.pop()
    except IndexError:
        decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
    try:
        at_once = _decompress_zstd_at_once(decompressor, data, limit)
        return at_once or _join(list(_zstd_frame_parts(decompressor, data, limit, limit // 4)))
    except zstandard.ZstdError as error:
        raise _corrupt(Codec.ZSTD, error) from error
    finally:
        if len(_zstd_decompressors) < _ZSTD_CONTEXTS_MAX:
            _zstd_decompressors.append(decompressor)


def _decompress_zstd_at_once(
    decompressor: zstandard.ZstdDecompressor, data: Buffer, limit: int
) -> bytes | None:
    """Decompress a single frame with a declared size or few blocks; None for other data."""
    frame = zstandard.get_frame_parameters(data)
    room = frame.content_size
    if room == zstandard.CONTENTSIZE_UNKNOWN:
        blocks = _zstd_blocks(data, 4 if frame.has_checksum else 0)
        room = min(blocks * _ZSTD_BLOCK_BYTES, limit)
    elif room > min(limit, len(data) * _ZSTD_RATIO_MAX):
        return None
    if not room:
        return None
    try:
        return decompressor.decompress(data, max_output_size=room, allow_extra_data=False)
    except zstandard.ZstdError:
        return None


def _zstd_blocks(data: Buffer, checksum_bytes: int) -> int:
    """Return the number of blocks if one frame fills `data`; 0 if it does not, or if it has many
    blocks.

    If a frame does not declare its size, the library does not report where it ended.
    """
    position = zstandard.frame_header_size(data)
    for blocks in range(1, _ZSTD_USUAL_BLOCKS + 1):
        if position + 3 > len(data):
            return 0
        low, high = _zstd_block_start(data, position)
        is_repeated_byte = low & 6 == 2
        position += 3 + (1 if is_repeated_byte else (low | high << 16) >> 3)
        if low & 1:
            return blocks if position + checksum_bytes == len(data) else 0
    return 0


def _zstd_parts(data: Buffer, limit: int, step: int) -> Iterator[bytes]:
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
    try:
        yield from _zstd_frame_parts(decompressor, data, limit, step)
    except zstandard.ZstdError as error:
        raise _corrupt(Codec.ZSTD, error) from error


def _zstd_frame_parts(
    decompressor: zstandard.ZstdDecompressor, data: Buffer, limit: int, step: int
) -> Iterator[bytes]:
    """Decompress frames, in pieces so small that none becomes more than a step, or than 512 KiB."""
    view = memoryview(data)
    piece_bytes = max(step // _ZSTD_RATIO_MAX, 16)
    position, room, frames = 0, limit, 0
    while True:
        frames += 1
        _check_pieces(Codec.ZSTD, frames, position + limit - room)
        claim = _zstd_claim(view[position:])
        if claim is not None and claim > room:
            raise _too_large(Codec.ZSTD, limit)
        before = room
        frame = decompressor.decompressobj()
        while not frame.eof:
            piece = view[position : position + piece_bytes]
            if not piece:
                raise _cut_short(Codec.ZSTD)
            part = frame.decompress(piece)
            position += len(piece)
            room -= len(part)
            if room < 0:
                raise _too_large(Codec.ZSTD, limit)
            if part:
                yield part
        position -= len(frame.unused_data)
        if claim is not None and claim != before - room:
            raise _corrupt(Codec.ZSTD, "a frame is not as large as it says")
        if position == len(view):
            return


def _zstd_claim(frame: memoryview) -> int | None:
    """Return the size that a frame declares, if any. Raise CorruptRecord for an impossible one."""
    if bytes(frame[1:4]) == _ZSTD_SKIPPABLE:  # its header has another meaning
        return None
    claim = zstandard.get_frame_parameters(frame).content_size
    if claim == zstandard.CONTENTSIZE_UNKNOWN:
        return None
    if claim > len(frame) * _ZSTD_RATIO_MAX:
        raise CorruptRecord("zstd frame claims more than it can hold", claim=claim)
    return claim


_COMPRESSORS: Final[dict[Codec, Callable[[Buffer, int | None], Buffer]]] = {
    Codec.NONE: _compress_none,
    Codec.GZIP: _compress_gzip,
    Codec.SNAPPY: _compress_snappy,
    Codec.LZ4: _compress_lz4,
    Codec.ZSTD: _compress_zstd,
}
_DECOMPRESSORS: Final[dict[Codec, Callable[[Buffer, int], Buffer]]] = {
    Codec.NONE: _decompress_none,
    Codec.GZIP: lambda data, limit: _join(list(_gzip_parts(data, limit, limit + 1))),
    Codec.SNAPPY: lambda data, limit: _join(list(_snappy_parts(data, limit, limit))),
    Codec.LZ4: _decompress_lz4,
    Codec.ZSTD: _decompress_zstd,
}
_PARTS: Final[dict[Codec, Callable[[Buffer, int, int], Iterator[Buffer]]]] = {
    Codec.GZIP: _gzip_parts,
    Codec.SNAPPY: _snappy_parts,
    Codec.LZ4: _lz4_parts,
    Codec.ZSTD: _zstd_parts,
}
