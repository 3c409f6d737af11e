"""Five codecs, every framing, no bombs."""

from __future__ import annotations

import gzip
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import pairwise
from random import Random

import cramjam
import lz4.block
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from moldau.errors import CorruptRecord
from moldau.records import Buffer, Codec, codecs, compress, decompress
from moldau.records.codecs import CODEC_LEVELS, decompressed_parts
from tests.records.memory import refusal_stays_below

PACKED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
TEXT = b'{"city": "Praha", "river": "Vltava", "length_km": 430}' * 3000
INCOMPRESSIBLE = Random(5).randbytes((1 << 20) + 1)
XERIAL = b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"


@given(st.sampled_from(Codec), st.binary(max_size=3000), st.integers(1, 40))
def test_what_goes_in_comes_out(codec: Codec, data: bytes, times: int) -> None:
    data *= times
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", CODEC_LEVELS)
def test_every_level_that_kafka_knows_works(codec: Codec) -> None:
    levels = CODEC_LEVELS[codec]
    for level in {min(levels), -1, 1, 3, 9, 12, max(levels)} & set(levels):
        assert decompress(codec, compress(codec, TEXT, level)) == TEXT


@pytest.mark.parametrize("codec", Codec)
def test_other_levels_are_refused(codec: Codec) -> None:
    with pytest.raises(ValueError, match="has no level 99"):
        compress(codec, TEXT, 99)


@pytest.mark.parametrize("codec", Codec)
def test_any_buffer_will_do(codec: Codec) -> None:
    packed = compress(codec, memoryview(bytearray(TEXT)))
    assert decompress(codec, memoryview(bytearray(packed))) == TEXT
    assert decompress(codec, compress(codec, b"")) == b""


def test_gzip_members_may_follow_one_another() -> None:
    packed = gzip.compress(TEXT) + gzip.compress(b"") + gzip.compress(b"tail")
    assert decompress(Codec.GZIP, packed) == TEXT + b"tail"


def test_snappy_is_written_in_xerial_blocks_of_32_kib() -> None:
    packed = bytes(compress(Codec.SNAPPY, TEXT))
    assert packed.startswith(XERIAL)
    sizes, position = [], len(XERIAL)
    while position < len(packed):
        end = position + 4 + int.from_bytes(packed[position : position + 4], "big")
        sizes.append(len(bytes(cramjam.snappy.decompress_raw(packed[position + 4 : end]))))
        position = end
    assert sizes == [*[32768] * (len(TEXT) // 32768), len(TEXT) % 32768]


def test_xerial_streams_may_follow_one_another() -> None:
    packed = bytes(compress(Codec.SNAPPY, TEXT))
    assert decompress(Codec.SNAPPY, packed + packed) == TEXT * 2
    assert decompress(Codec.SNAPPY, XERIAL) == b""


@pytest.mark.parametrize(
    "damage",
    [
        XERIAL + b"\0\0",
        XERIAL + b"\0\0\0\5\0",
        XERIAL + b"\xff\xff\xff\xff\0",
        XERIAL + b"\0\0\0\0",
        XERIAL[:12],
        b"",
        b"\xff\xff\xff\xff\xff\xff",
        b"\xff\xff\xff\xff\x0f",
        b"\xe8\x07abc",
        b"\x05\x01\x01",
    ],
)
def test_damaged_snappy_is_refused(damage: bytes) -> None:
    with pytest.raises(CorruptRecord):
        decompress(Codec.SNAPPY, damage)


def lz4_flags(frame: bytes) -> int:
    return frame[4]


@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
@pytest.mark.parametrize("store_size", [False, True])
@pytest.mark.parametrize("checksums", [False, True])
@pytest.mark.parametrize("block_linked", [False, True])
def test_lz4_frames_are_read_with_all_their_flags(
    block_size: int, store_size: bool, checksums: bool, block_linked: bool
) -> None:
    frame = lz4.frame.compress(
        TEXT,
        block_size=block_size,
        store_size=store_size,
        content_checksum=checksums,
        block_checksum=checksums,
        block_linked=block_linked,
    )
    assert decompress(Codec.LZ4, frame) == TEXT
    assert decompress(Codec.LZ4, frame + frame) == TEXT * 2
    if checksums:
        with pytest.raises(CorruptRecord):
            decompress(Codec.LZ4, frame[:-1] + bytes([frame[-1] ^ 1]))


def test_lz4_is_written_so_that_java_reads_it() -> None:
    packed = bytes(compress(Codec.LZ4, TEXT))
    version_1, independent = 0b0100_0000, 0b0010_0000
    assert packed[:4] == b"\x04\x22\x4d\x18"
    assert lz4_flags(packed) == version_1 | independent
    assert packed[5] == 4 << 4, "64 KiB blocks"


def test_lz4_skippable_frames_are_skipped() -> None:
    packed = b"\x50\x2a\x4d\x18\x03\0\0\0abc" + bytes(compress(Codec.LZ4, TEXT))
    assert decompress(Codec.LZ4, packed) == TEXT


def lz4_block(block: bytes, *, end: bytes = bytes(4), plain: bool = False) -> bytes:
    """A frame of one block as Java and librdkafka write it."""
    size = len(block) | plain << 31
    return b"\x04\x22\x4d\x18\x60\x40\x82" + size.to_bytes(4, "little") + block + end


@pytest.mark.parametrize("size", [1, 3000, 65_535, 65_536])
def test_an_lz4_frame_of_one_block_is_read(size: int) -> None:
    data = TEXT[:size]
    packed = lz4.block.compress(data, store_size=False)
    assert bytes(compress(Codec.LZ4, data))[:7] == lz4_block(packed)[:7]
    assert decompress(Codec.LZ4, lz4_block(packed)) == data
    assert decompress(Codec.LZ4, lz4_block(data, plain=True)) == data
    assert decompress(Codec.LZ4, lz4_block(packed) * 2) == data * 2
    assert decompress(Codec.LZ4, lz4_block(packed), size) == data
    with pytest.raises(CorruptRecord, match="limit"):
        decompress(Codec.LZ4, lz4_block(packed), size - 1)


def test_an_lz4_block_that_is_not_right_is_refused() -> None:
    packed = lz4.block.compress(TEXT[:3000], store_size=False)
    too_much = lz4.block.compress(TEXT[:65_537], store_size=False)
    for damage in (
        lz4_block(packed, end=b"\1\0\0\0"),
        lz4_block(packed, end=bytes(3)),
        lz4_block(packed, end=bytes(5)),
        lz4_block(packed[:-1]),
        lz4_block(packed + b"\0"),
        lz4_block(too_much),
        lz4_block(TEXT[:65_537], plain=True),
    ):
        with pytest.raises(CorruptRecord):
            decompress(Codec.LZ4, damage)


@pytest.mark.parametrize("level", [-5, 1, 3, 19])
@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("checksum", [False, True])
def test_zstd_frames_are_read_with_and_without_size(
    level: int, sized: bool, checksum: bool
) -> None:
    writer = zstandard.ZstdCompressor(
        level=level, write_content_size=sized, write_checksum=checksum
    )
    frame = writer.compress(TEXT)
    assert decompress(Codec.ZSTD, frame) == TEXT
    assert decompress(Codec.ZSTD, frame + frame) == TEXT * 2
    skippable = b"\x50\x2a\x4d\x18\x03\0\0\0abc"
    assert decompress(Codec.ZSTD, skippable + frame + skippable) == TEXT


def zstd_stream(data: bytes, block_bytes: int, *, checksum: bool = False) -> bytes:
    """A frame that does not say how large it gets, with a new block every so many bytes."""
    writer = zstandard.ZstdCompressor(write_checksum=checksum).compressobj()
    parts = []
    for start in range(0, len(data), block_bytes):
        parts.append(writer.compress(data[start : start + block_bytes]))
        parts.append(writer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
    return b"".join([*parts, writer.flush()])


MANY = TEXT * 8


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("block_bytes", [1000, 100_000, 131_072, 2_000_000])
@pytest.mark.parametrize("size", [1, 1000, 131_071, 131_072, 131_073, 1 << 20, (1 << 20) + 1])
def test_zstd_frames_of_few_and_many_blocks_are_read(
    size: int, block_bytes: int, checksum: bool
) -> None:
    for data in (MANY[:size], bytes(size), INCOMPRESSIBLE[:size]):
        frame = zstd_stream(data, block_bytes, checksum=checksum)
        assert zstandard.get_frame_parameters(frame).content_size == zstandard.CONTENTSIZE_UNKNOWN
        assert decompress(Codec.ZSTD, frame) == data
        assert decompress(Codec.ZSTD, frame, len(data)) == data
        with pytest.raises(CorruptRecord, match="limit"):
            decompress(Codec.ZSTD, frame, len(data) - 1)


@pytest.mark.parametrize("checksum", [False, True])
def test_what_follows_a_zstd_frame_without_a_size_is_read_or_refused(checksum: bool) -> None:
    frame = zstd_stream(TEXT[:3000], 100_000, checksum=checksum)
    assert decompress(Codec.ZSTD, frame + frame) == TEXT[:3000] * 2
    for behind in (b"\0", bytes(4), frame[:-1], frame[:4]):
        with pytest.raises(CorruptRecord):
            decompress(Codec.ZSTD, frame + behind)
    for size in range(len(frame)):
        with pytest.raises(CorruptRecord):
            decompress(Codec.ZSTD, frame[:size])
    if checksum:
        with pytest.raises(CorruptRecord):
            decompress(Codec.ZSTD, frame[:-1] + bytes([frame[-1] ^ 1]))


def test_zstd_windows_beyond_the_limit_are_refused() -> None:
    window_of_2_gib = b"\x28\xb5\x2f\xfd\x00" + bytes([21 << 3]) + b"\x01\x00\x00"
    with pytest.raises(CorruptRecord, match="damaged"):
        decompress(Codec.ZSTD, window_of_2_gib)


def test_zstd_that_claims_more_than_it_can_hold_allocates_nothing() -> None:
    claim = b"\x28\xb5\x2f\xfd\xa0" + (100 << 20).to_bytes(4, "little") + b"\x01\x00\x00"
    assert zstandard.get_frame_parameters(claim).content_size == 100 << 20
    refusal_stays_below(
        1 << 20, CorruptRecord, "claims more", partial(decompress, Codec.ZSTD, claim)
    )


def test_zstd_frames_must_be_as_large_as_they_say() -> None:
    empty_but_claims_5 = b"\x28\xb5\x2f\xfd\x20\x05\x01\x00\x00"
    with pytest.raises(CorruptRecord, match="damaged"):
        decompress(Codec.ZSTD, empty_but_claims_5)


TEXT_ZSTD = bytes(compress(Codec.ZSTD, TEXT))


def bomb(codec: Codec, size: int) -> bytes:
    return bytes(compress(codec, bytes(size)))


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_ends_at_the_limit(codec: Codec) -> None:
    packed = bomb(codec, 64 << 20)
    start = time.thread_time()
    with pytest.raises(CorruptRecord, match="more than the limit") as caught:
        decompress(codec, packed, 1 << 20)
    assert time.thread_time() - start < 1.0
    assert caught.value.context["limit"] == 1 << 20
    refusal_stays_below(6 << 20, CorruptRecord, "limit", lambda: decompress(codec, packed, 1 << 20))


@pytest.mark.parametrize("frames", [1, 3])
def test_a_zstd_bomb_that_does_not_say_its_size_ends_at_the_limit(frames: int) -> None:
    """Only what comes out tells: it has to come out in pieces."""
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(64 << 20))
    bomb = TEXT_ZSTD * (frames - 1) + frame
    refusal_stays_below(
        3 << 20,
        CorruptRecord,
        "more than the limit",
        lambda: decompress(Codec.ZSTD, bomb, 1 << 20),
    )


@pytest.mark.parametrize("codec", Codec)
def test_the_limit_is_exact(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    assert decompress(codec, packed, len(TEXT)) == TEXT
    with pytest.raises(CorruptRecord, match="limit"):
        decompress(codec, packed, len(TEXT) - 1)


def test_a_snappy_block_that_claims_too_much_allocates_nothing() -> None:
    claim = b"\xff\xff\xff\x3f" + b"\0" * 10
    refusal_stays_below(
        1 << 16, CorruptRecord, "claims more", partial(decompress, Codec.SNAPPY, claim)
    )


@pytest.mark.parametrize("claim", [23 * 8, 100_000, (1 << 20) - 1])
def test_a_snappy_block_claims_no_more_than_its_bytes_can_hold(claim: int) -> None:
    """Below the limit too, where the claim alone would make it allocate."""
    size = bytes([claim & 0x7F | 0x80, claim >> 7 & 0x7F | 0x80, claim >> 14])
    block = size + b"\0\0\0\0\0"
    for packed in (block, XERIAL + len(block).to_bytes(4, "big") + block):
        refusal_stays_below(
            1 << 16,
            CorruptRecord,
            "claims more",
            partial(decompress, Codec.SNAPPY, packed, 1 << 20),
        )


EMPTY = {
    Codec.GZIP: gzip.compress(b""),
    Codec.SNAPPY: b"\0\0\0\1\0",
    Codec.LZ4: bytes(compress(Codec.LZ4, b"")),
    Codec.ZSTD: bytes(compress(Codec.ZSTD, b"")),
}


@pytest.mark.parametrize("codec", EMPTY)
def test_empty_frames_are_read_until_they_are_too_many(codec: Codec) -> None:
    start = XERIAL if codec is Codec.SNAPPY else b""
    assert decompress(codec, start + EMPTY[codec] * 1000) == b""
    packed = start + EMPTY[codec] * 400_000
    with pytest.raises(CorruptRecord, match="too many frames") as caught:
        decompress(codec, packed)
    refusal_stays_below(2 << 20, CorruptRecord, "frames", lambda: decompress(codec, packed))
    frames = caught.value.context["frames"]
    assert isinstance(frames, int)
    assert frames < 2000


def test_xerial_streams_of_nothing_are_read_until_they_are_too_many() -> None:
    assert decompress(Codec.SNAPPY, XERIAL * 1000) == b""
    with pytest.raises(CorruptRecord, match="too many frames"):
        decompress(Codec.SNAPPY, XERIAL * 10_000)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_any_number_of_frames_with_something_in_them_is_read(codec: Codec) -> None:
    packed = bytes(compress(codec, TEXT[:100])) * 20_000
    assert decompress(codec, packed) == TEXT[:100] * 20_000


def test_any_number_of_xerial_blocks_with_something_in_them_is_read() -> None:
    packed = bytes(compress(Codec.SNAPPY, TEXT[:100])).removeprefix(XERIAL) * 20_000
    assert decompress(Codec.SNAPPY, XERIAL + packed) == TEXT[:100] * 20_000


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def growth(small: Callable[[], object], large: Callable[[], object], enough: float) -> float:
    """How many times as long `large` takes, by the best of several rounds.

    A busy neighbour only ever adds to a time, so what is once below `enough` is so.
    """
    rounds: list[tuple[float, float]] = []
    ratio = float("inf")
    while ratio >= enough and len(rounds) < 12:
        rounds.append((cpu_seconds(small), cpu_seconds(large)))
        ratio = min(times[1] for times in rounds) / min(times[0] for times in rounds)
    return ratio


def refuse(codec: Codec, packed: bytes) -> None:
    with pytest.raises(CorruptRecord):
        decompress(codec, packed)


@pytest.mark.parametrize("codec", EMPTY)
def test_what_follows_an_empty_frame_is_not_copied_for_each_of_them(codec: Codec) -> None:
    """250 frames in front of 4 KiB of junk are as soon refused as those in front of 4 MiB."""
    start = (XERIAL if codec is Codec.SNAPPY else b"") + EMPTY[codec] * 250
    little, much = start + b"\x80" * (4 << 10), start + b"\x80" * (4 << 20)
    assert growth(lambda: refuse(codec, little), lambda: refuse(codec, much), 20) < 20


def incompressible(codec: Codec, mebibytes: int) -> bytes:
    data = INCOMPRESSIBLE[: 1 << 20] * mebibytes
    return zlib.compress(data, 0, 31) if codec is Codec.GZIP else bytes(compress(codec, data))


@pytest.mark.parametrize("codec", PACKED)
def test_work_grows_with_the_bytes_and_not_with_their_square(codec: Codec) -> None:
    """Seven times the bytes: about 7 times as long, and 27 where the rest is copied each time.

    Both are small enough for the allocator to keep their memory: fresh pages would cost more than
    the work that is measured here.
    """
    small, large = (incompressible(codec, mebibytes) for mebibytes in (4, 28))
    assert growth(lambda: decompress(codec, small), lambda: decompress(codec, large), 18) < 18


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_work_grows_with_the_number_of_frames_and_not_with_its_square(codec: Codec) -> None:
    """Four times as many: about 4, and 16 by the square."""
    frame = bytes(compress(codec, INCOMPRESSIBLE[:1000]))
    few, many = frame * 2000, frame * 8000
    assert growth(lambda: decompress(codec, few), lambda: decompress(codec, many), 9) < 9


@pytest.mark.parametrize("codec", PACKED)
def test_cut_anywhere_it_is_refused(codec: Codec) -> None:
    packed = bytes(compress(codec, TEXT[:3000]))
    for size in range(len(packed)):
        if codec is Codec.SNAPPY and size == len(XERIAL):
            continue  # a stream of no blocks
        with pytest.raises(CorruptRecord):
            decompress(codec, packed[:size])


@given(st.sampled_from(PACKED), st.binary(max_size=200))
def test_noise_is_refused_or_read(codec: Codec, noise: bytes) -> None:
    with suppress(CorruptRecord):
        assert len(decompress(codec, noise, 1 << 16)) <= 1 << 16


@given(
    st.sampled_from(PACKED),
    st.lists(st.tuples(st.integers(0, 10_000), st.binary(max_size=3)), min_size=1, max_size=4),
)
def test_damage_is_refused_or_read(codec: Codec, damage: list[tuple[int, bytes]]) -> None:
    packed = bytearray(compress(codec, TEXT[:2000]))
    for at, replacement in damage:
        at %= len(packed)
        packed[at : at + len(replacement)] = replacement
    with suppress(CorruptRecord):
        assert len(decompress(codec, packed, 1 << 16)) <= 1 << 16


def quick_zstd(data: Buffer, limit: int) -> bytes | None:
    """None as well where the library itself is at its end."""
    with suppress(zstandard.ZstdError):
        return codecs._decompress_zstd_at_once(zstandard.ZstdDecompressor(), data, limit)
    return None


QUICK = {Codec.LZ4: codecs._decompress_lz4_block, Codec.ZSTD: quick_zstd}


@given(
    st.sampled_from(sorted(QUICK)),
    st.lists(st.tuples(st.integers(0, 10_000), st.binary(max_size=3)), max_size=3),
    st.sampled_from((0, 1999, 2000, 1 << 16, 1 << 20)),
    st.booleans(),
)
def test_what_is_opened_at_once_is_what_comes_out_in_pieces(
    codec: Codec, damage: list[tuple[int, bytes]], limit: int, sized: bool
) -> None:
    if codec is Codec.ZSTD and not sized:
        packed = bytearray(zstd_stream(TEXT[:2000], 700, checksum=bool(limit & 1)))
    else:
        packed = bytearray(compress(codec, TEXT[:2000]))
    for at, replacement in damage:
        at %= len(packed)
        packed[at : at + len(replacement)] = replacement
    at_once = QUICK[codec]
    try:
        expected = b"".join(decompressed_parts(codec, packed, limit))
    except (CorruptRecord, zstandard.ZstdError):
        assert not at_once(packed, limit)
        return
    assert at_once(packed, limit) in (None, b"", expected)
    if not damage:
        assert at_once(packed, limit) == expected or (codec is Codec.LZ4 and limit < 1 << 16)


def test_better_levels_give_fewer_bytes() -> None:
    for codec in (Codec.GZIP, Codec.LZ4, Codec.ZSTD):
        sizes = [len(compress(codec, TEXT, level)) for level in (1, 9 if codec != 3 else 12)]
        assert all(earlier >= later for earlier, later in pairwise(sizes))
