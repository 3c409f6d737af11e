"""A segment in the store: small, checked, bound to its place, and opened only by its key."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from moldau.broker.tiered.key_ring import KeyRing, parse_key_ring
from moldau.broker.tiered.remote_segment import RemoteSegment, SegmentId
from moldau.broker.tiered.segment_objects import (
    CHUNK_BYTES,
    CUSTOM_METADATA_BYTES_MAX,
    ChunkCodec,
    ObjectKind,
    ParsedName,
    SegmentAccess,
    SegmentManifest,
    bound_to_segment,
    decode_indexes,
    encode_indexes,
    object_name,
    parse_object_name,
)
from moldau.broker.tiered.segment_upload import SegmentUpload
from moldau.errors import ConfigError, CorruptLog
from moldau.objects.object_store import ObjectStore
from moldau.objects.obstore_bucket import PART_BYTES
from moldau.records import Codec
from moldau.runtime import Runtime
from tests.broker.tiered.remote_segments import Shape, copied, make_segment
from tests.broker.tiered.stores import folder_store, on_runtime

ID = SegmentId(b"t" * 16, 5, b"i" * 16)
PLACE = bound_to_segment(ID)
CONTENT = b"the content of a chunk" * 100
OLD_KEY, NEW_KEY = bytes(range(32)), bytes(range(1, 33))
RING = KeyRing({"old": OLD_KEY, "new": NEW_KEY}, "new")


def codecs() -> list[ChunkCodec]:
    """One without a key, one with."""
    cipher, _ = RING.new_key(Random(1), PLACE)
    return [ChunkCodec(ID), ChunkCodec(ID, cipher)]


@pytest.mark.parametrize("codec", codecs(), ids=["plain", "encrypted"])
@pytest.mark.parametrize("try_zstd", [False, True])
def test_a_chunk_comes_back(codec: ChunkCodec, try_zstd: bool) -> None:
    stored = codec.encode(ObjectKind.LOG, 3, CONTENT, try_zstd=try_zstd)

    assert bytes(codec.decode(ObjectKind.LOG, 3, stored, CHUNK_BYTES)) == CONTENT
    assert (len(stored) < len(CONTENT) // 4) is try_zstd


@pytest.mark.parametrize("codec", codecs(), ids=["plain", "encrypted"])
@pytest.mark.parametrize("try_zstd", [False, True])
def test_a_changed_byte_anywhere_is_found(codec: ChunkCodec, try_zstd: bool) -> None:
    stored = codec.encode(ObjectKind.LOG, 3, CONTENT[:500], try_zstd=try_zstd)
    for position in range(len(stored)):
        damaged = bytearray(stored)
        damaged[position] ^= 0x41
        with pytest.raises(CorruptLog):
            codec.decode(ObjectKind.LOG, 3, damaged, CHUNK_BYTES)


@pytest.mark.parametrize("codec", codecs(), ids=["plain", "encrypted"])
def test_a_chunk_that_is_cut_short_is_found(codec: ChunkCodec) -> None:
    stored = codec.encode(ObjectKind.LOG, 3, CONTENT, try_zstd=True)
    for size in range(len(stored)):
        with pytest.raises(CorruptLog):
            codec.decode(ObjectKind.LOG, 3, stored[:size], CHUNK_BYTES)


@pytest.mark.parametrize("with_key", [False, True])
def test_a_chunk_from_elsewhere_is_found(with_key: bool) -> None:
    cipher = RING.new_key(Random(1), PLACE)[0] if with_key else None
    stored = ChunkCodec(ID, cipher).encode(ObjectKind.LOG, 3, CONTENT, try_zstd=False)
    others = [
        (ID, ObjectKind.LOG, 4),
        (ID, ObjectKind.INDEXES, 3),
        (ID._replace(id=b"j" * 16), ObjectKind.LOG, 3),
        (ID._replace(partition=6), ObjectKind.LOG, 3),
        (ID._replace(topic_id=b"u" * 16), ObjectKind.LOG, 3),
    ]
    for id, kind, number in others:
        with pytest.raises(CorruptLog):
            ChunkCodec(id, cipher).decode(kind, number, stored, CHUNK_BYTES)


def test_a_segment_with_a_key_takes_no_plain_chunk_and_the_other_way_round() -> None:
    plain, encrypted = codecs()
    for writer, reader in ((plain, encrypted), (encrypted, plain)):
        stored = writer.encode(ObjectKind.LOG, 0, CONTENT, try_zstd=False)
        with pytest.raises(CorruptLog):
            reader.decode(ObjectKind.LOG, 0, stored, CHUNK_BYTES)


def test_a_chunk_is_not_larger_than_its_place() -> None:
    codec = ChunkCodec(ID)
    stored = codec.encode(ObjectKind.LOG, 0, bytes(1 << 20), try_zstd=True)

    with pytest.raises(CorruptLog):
        codec.decode(ObjectKind.LOG, 0, stored, (1 << 20) - 1)


def test_encrypted_content_is_not_readable() -> None:
    stored = codecs()[1].encode(ObjectKind.LOG, 0, CONTENT, try_zstd=False)

    assert b"content" not in stored


def test_a_segment_is_opened_by_the_key_that_it_names() -> None:
    cipher, wrapped = RING.new_key(Random(1), PLACE)
    sealed = cipher.seal(0, b"text", b"")

    assert RING.unwrap("new", wrapped, PLACE).open(0, sealed, b"") == b"text"
    with pytest.raises(CorruptLog):
        RING.unwrap("old", wrapped, PLACE)
    with pytest.raises(CorruptLog):
        RING.unwrap("new", wrapped, PLACE + b"x")
    with pytest.raises(ConfigError):
        RING.unwrap("lost", wrapped, PLACE)


def line(name: str, key: bytes) -> str:
    return f"{name} {base64.b64encode(key).decode()}"


def test_the_last_key_of_a_ring_is_for_new_segments() -> None:
    text = "\n".join(("# keys", line("old", OLD_KEY), "", line("new", NEW_KEY)))

    assert parse_key_ring(text, "keys").active == "new"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name",
        "name !!!",
        line("short", b"x" * 16),
        line("n" * 33, OLD_KEY),
        line("a", OLD_KEY) + "\n" + line("a", NEW_KEY),
        line("a", OLD_KEY) + " more",
    ],
)
def test_a_ring_that_cannot_work_is_refused_without_its_keys(text: str) -> None:
    with pytest.raises(ConfigError) as found:
        parse_key_ring(text, "keys")

    for key in (OLD_KEY, NEW_KEY):
        assert base64.b64encode(key).decode() not in str(found.value)
        assert repr(key) not in repr(RING)


def remote(custom: bytes | None = None, size_bytes: int = 10) -> RemoteSegment:
    return RemoteSegment(ID, "orders", 42, 50, 0, size_bytes, (), 1, 0, custom_metadata=custom)


def test_a_name_says_what_the_object_is() -> None:
    for kind in ObjectKind:
        name = object_name(remote(), kind)
        assert parse_object_name(name) == ParsedName(42, ID.id, kind)
    assert name.startswith("orders-dHR0dHR0dHR0dHR0dHR0dA/5/00000000000000000042-")
    for other in ("moldau-check/00", "orders/5/42-x.log", ""):
        assert parse_object_name(other) is None


def test_access_fits_into_the_custom_metadata() -> None:
    _, wrapped = KeyRing({"n" * 32: OLD_KEY}, "n" * 32).new_key(Random(1), PLACE)
    for access in (SegmentAccess(17), SegmentAccess(1 << 20, "n" * 32, wrapped)):
        packed = access.encode()
        assert len(packed) <= CUSTOM_METADATA_BYTES_MAX
        assert SegmentAccess.decode(remote(packed)) == access


@pytest.mark.parametrize(
    "custom", [None, b"", b"\x01", b"\x02\0\0\0\x01\0", b"\x01\0\0\0\0\0", b"\x01\0\0\0\x01\0x"]
)
def test_custom_metadata_of_others_is_found(custom: bytes | None) -> None:
    with pytest.raises(CorruptLog):
        SegmentAccess.decode(remote(custom))


def test_a_manifest_of_another_segment_or_a_torn_one_is_found() -> None:
    plain = encode_indexes(SegmentManifest(42, 10, (7,)), {})
    assert decode_indexes(plain, remote()).stored_range(0) == (0, 7)

    for size in range(len(plain)):
        with pytest.raises(CorruptLog):
            decode_indexes(plain[:size], remote())
    for other in (remote(size_bytes=11), replace(remote(), start_offset=41)):
        with pytest.raises(CorruptLog):
            decode_indexes(plain, other)


def stored_bytes(folder: Path, ring: KeyRing | None, codec: Codec, is_noise: bool) -> float:
    """The stored size of a segment's log for each of its bytes."""

    async def main(runtime: Runtime) -> float:
        store = folder_store(runtime, folder)
        made = make_segment(
            runtime.files, str(folder / "log"), Random(1), Shape(codec=codec, is_noise=is_noise)
        )
        await copied(made, SegmentUpload(runtime, store, ring))
        sizes = {each.name: each.size_bytes async for each in store.list()}
        return sizes[object_name(made.segment, ObjectKind.LOG)] / made.segment.size_bytes

    return on_runtime(main)


def test_a_part_of_an_upload_is_two_chunks() -> None:
    """Else a third chunk stays in memory for some bytes of it."""
    stored = ChunkCodec(ID).encode(ObjectKind.LOG, 0, bytes(CHUNK_BYTES), try_zstd=False)
    assert 2 * len(stored) == PART_BYTES


@pytest.mark.parametrize("ring", [None, RING], ids=["plain", "encrypted"])
def test_compression_is_where_it_pays(tmp_path: Path, ring: KeyRing | None) -> None:
    kinds: list[Callable[[Path], float]] = [
        lambda folder: stored_bytes(folder, ring, Codec.NONE, False),
        lambda folder: stored_bytes(folder, ring, Codec.NONE, True),
        lambda folder: stored_bytes(folder, ring, Codec.ZSTD, False),
    ]
    ratios = []
    for number, kind in enumerate(kinds):
        folder = tmp_path / str(number)
        folder.mkdir()
        ratios.append(kind(folder))
    text, noise, compressed = ratios

    assert text < 0.5
    assert 1 < noise < 1.01
    assert 1 < compressed < 1.01


def test_what_is_removed_is_gone(tmp_path: Path) -> None:
    async def main(runtime: Runtime) -> tuple[int, int]:
        store: ObjectStore = folder_store(runtime, tmp_path)
        upload = SegmentUpload(runtime, store)
        made = make_segment(runtime.files, str(tmp_path / "local"), Random(1), Shape(batch_count=3))
        await copied(made, upload)
        folder = object_name(made.segment, ObjectKind.LOG).rpartition("/")[0]
        before = len([each async for each in store.list(folder)])
        await upload.remove(made.segment)
        await upload.remove(made.segment)
        return before, len([each async for each in store.list(folder)])

    assert on_runtime(main) == (2, 0)
