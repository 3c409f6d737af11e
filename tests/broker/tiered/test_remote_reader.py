"""Reading remote segments gives what the local log gave, and nothing that was tampered with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple, TypeVar
from uuid import uuid4

import pytest

from moldau.broker.log.transaction_index import AbortedTransaction
from moldau.broker.tiered.chunk_cache import CacheLimits, ChunkCache
from moldau.broker.tiered.key_ring import KeyRing
from moldau.broker.tiered.remote_partition import RemoteRange
from moldau.broker.tiered.remote_reader import PREFETCHED_CHUNKS, RemoteReader
from moldau.broker.tiered.remote_segment import RemoteSegment
from moldau.broker.tiered.segment_objects import CHUNK_BYTES, ObjectKind, Section, object_name
from moldau.broker.tiered.segment_upload import SegmentUpload
from moldau.errors import ConfigError, CorruptLog
from moldau.objects.object_store import ObjectStore, Operation
from moldau.objects.store_errors import StoreError, StoreReason
from moldau.records import Codec
from moldau.runtime import Runtime
from tests.broker.tiered.faulty_proxy import Fault, FaultyProxy
from tests.broker.tiered.remote_segments import EPOCHS, MadeSegment, Shape, copied, make_segment
from tests.broker.tiered.s3_servers import S3Server
from tests.broker.tiered.stores import IMPATIENT, folder_store, on_runtime, s3_store

T = TypeVar("T")

RING: Final = KeyRing({"k": bytes(range(32))}, "k")
CHUNK: Final = 8 << 10
"""Small chunks, so that a batch lies across two, and a segment has many."""


class Tier(NamedTuple):
    """A store with a reader, on the real runtime."""

    runtime: Runtime
    store: ObjectStore
    upload: SegmentUpload
    reader: RemoteReader
    cache: ChunkCache
    folder: Path

    def made(self, seed: int = 1, **options: Any) -> MadeSegment:
        name = f"{self.folder}/local-{uuid4().hex}"
        return make_segment(self.runtime.files, name, Random(seed), Shape(**options))

    def fresh_reader(self, ring: KeyRing | None) -> RemoteReader:
        """A reader that has nothing open, with a cache in memory alone."""
        limits = CacheLimits(disk_bytes=0)
        cache = ChunkCache(self.runtime, f"{self.folder}/other", limits)
        return RemoteReader(self.runtime, self.store, cache, ring)


@asynccontextmanager
async def tier(
    runtime: Runtime, folder: Path, store: ObjectStore, ring: KeyRing | None = None
) -> AsyncIterator[Tier]:
    limits = CacheLimits(free_bytes_min=0, loads_until_disk=1)
    cache = ChunkCache(runtime, f"{folder}/cache", limits)
    await cache.open()
    reader = RemoteReader(runtime, store, cache, ring)
    try:
        yield Tier(
            runtime, store, SegmentUpload(runtime, store, ring, CHUNK), reader, cache, folder
        )
    finally:
        await cache.close()


def in_folder(
    folder: Path, main: Callable[[Tier], Coroutine[Any, Any, T]], ring: KeyRing | None = None
) -> T:
    """Run `main` with a store in a folder."""
    (folder / "store").mkdir()

    async def whole(runtime: Runtime) -> T:
        async with tier(runtime, folder, folder_store(runtime, folder / "store"), ring) as found:
            return await main(found)

    return on_runtime(whole)


async def check_all_reads(
    reader: RemoteReader, made: MadeSegment, segment: RemoteSegment, random: Random
) -> None:
    """Compare reads from everywhere with a walk over all batches."""
    start, end = segment.start_offset, segment.end_offset
    for _ in range(150):
        offset = random.randrange(start, end)
        size = random.choice((1, 600, 5000, 20_000, 1 << 20))
        upper = random.choice((None, None, random.randrange(start, end + 1)))
        found = await reader.read(segment, offset, size, upper)
        expected = made.expected(offset, size, upper)
        assert bytes(found.data) == expected, (offset, size, upper)
    for batch in made.batches[:: len(made.batches) // 10 or 1]:
        for timestamp in (batch.max_timestamp, batch.max_timestamp + 1):
            at = await reader.find_offset(segment, timestamp)
            first = next((each for each in made.batches if each.max_timestamp >= timestamp), None)
            assert (at is None) is (first is None)
            if at is not None and first is not None:
                assert first.base_offset <= at.offset < first.next_offset
                assert at.timestamp >= timestamp
                assert at.leader_epoch == 3


async def read_all(reader: RemoteReader, segment: RemoteSegment, size: int) -> bytes:
    """Read a segment from its start to its end, read by read."""
    found, offset = b"", segment.start_offset
    while offset < segment.end_offset:
        batches = await reader.read(segment, offset, size)
        assert batches.next_offset > offset
        found += bytes(batches.data)
        offset = batches.next_offset
    return found


@pytest.mark.parametrize("ring", [None, RING], ids=["plain", "encrypted"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gaps": True, "base_offset": 1000},
        {"codec": Codec.ZSTD, "is_noise": True},
        {"batch_count": 1},
        {"value_bytes": 20_000, "batch_count": 12, "is_noise": True},
        {"value_bytes": 1, "batch_count": 3000},
    ],
    ids=["usual", "gaps", "compressed", "one batch", "large batches", "small batches"],
)
def test_reads_are_those_of_the_local_log(
    tmp_path: Path, options: dict[str, Any], ring: KeyRing | None
) -> None:
    async def main(tier: Tier) -> None:
        made = tier.made(**options)
        segment = await copied(made, tier.upload)
        await check_all_reads(tier.reader, made, segment, Random(2))
        for size in (1, 3000, 1 << 20):
            assert await read_all(tier.reader, segment, size) == made.log
        await tier.reader.verify(segment)

    in_folder(tmp_path, main, ring)


def test_a_segment_of_several_full_chunks_comes_back(tmp_path: Path) -> None:
    async def main(tier: Tier) -> None:
        made = tier.made(batch_count=2600, value_bytes=1000, is_noise=True)
        assert made.segment.size_bytes > 2 * CHUNK_BYTES
        segment = await copied(made, SegmentUpload(tier.runtime, tier.store, RING))
        assert await read_all(tier.reader, segment, 1 << 20) == made.log

    in_folder(tmp_path, main, RING)


def test_the_kept_files_come_back(tmp_path: Path) -> None:
    async def main(tier: Tier) -> None:
        made = tier.made()
        segment = await copied(made, tier.upload)
        assert bytes(await tier.reader.section(segment, Section.LEADER_EPOCHS) or b"") == EPOCHS
        local = tier.runtime.files.read_whole(made.files.sections[Section.OFFSET_INDEX])
        found = await tier.reader.section(segment, Section.OFFSET_INDEX)
        assert bytes(found or b"") == local
        assert await tier.reader.section(segment, Section.PRODUCER_SNAPSHOT) is None

    in_folder(tmp_path, main)


def test_an_offset_in_a_gap_moves_on_to_the_next_batch(tmp_path: Path) -> None:
    async def main(tier: Tier) -> int:
        made = tier.made(gaps=True)
        segment = await copied(made, tier.upload)
        gaps = 0
        for before, after in zip(made.batches, made.batches[1:], strict=False):
            if before.next_offset < after.base_offset:
                gaps += 1
                for offset in (before.next_offset, after.base_offset - 1):
                    found = await tier.reader.read(segment, offset, 1)
                    assert bytes(found.data) == after.data
                    assert found.next_offset == after.next_offset
        return gaps

    assert in_folder(tmp_path, main) > 10


def test_behind_the_last_batch_the_next_segment_goes_on(tmp_path: Path) -> None:
    async def main(tier: Tier) -> None:
        segment = await copied(tier.made(), tier.upload)
        found = await tier.reader.read(segment, segment.end_offset, 100)
        assert found == (b"", segment.end_offset)

    in_folder(tmp_path, main)


def test_without_room_for_a_batch_there_is_none(tmp_path: Path) -> None:
    async def main(tier: Tier) -> None:
        made = tier.made()
        segment = await copied(made, tier.upload)
        found = await tier.reader.read(segment, 0, 10, min_one_batch=False)
        assert found == (b"", 0)
        whole = await tier.reader.read(segment, 0, len(made.batches[0].data), min_one_batch=False)
        assert bytes(whole.data) == made.batches[0].data

    in_folder(tmp_path, main)


def test_aborted_transactions_are_found_in_following_segments(tmp_path: Path) -> None:
    first = [AbortedTransaction(7, 3, 20, 3)]
    third = [AbortedTransaction(8, 10, 2010, 10), AbortedTransaction(9, 2500, 2600, 2500)]

    async def main(tier: Tier) -> None:
        segments = [
            await copied(tier.made(1, base_offset=0, aborted=first), tier.upload),
            await copied(tier.made(2, base_offset=1000), tier.upload),
            await copied(tier.made(3, base_offset=2000, aborted=third), tier.upload),
        ]
        ranges = [
            RemoteRange(each, each.start_offset, each.start_offset + 1000) for each in segments
        ]
        reader = tier.reader
        calls = tier.store.counts.calls[Operation.GET]
        assert await reader.aborted_transactions(ranges, 0, 100) == (first + third[:1], True)
        assert tier.store.counts.calls[Operation.GET] == calls + 2, "no get for an empty index"
        assert await reader.aborted_transactions(ranges, 21, 100) == (third[:1], True)
        assert await reader.aborted_transactions(ranges[:2], 0, 100) == (first, False)
        assert await reader.aborted_transactions(ranges, 2020, 3000) == (third[1:], False)
        lost = [*ranges[:2], ranges[2]._replace(end_offset=2010)]
        assert await reader.aborted_transactions(lost, 0, 100) == (first, False), "of no epoch here"

    in_folder(tmp_path, main)


def test_a_marker_that_is_in_two_segments_counts_once(tmp_path: Path) -> None:
    first = AbortedTransaction(7, 3, 20, 3)
    second = AbortedTransaction(8, 30, 40, 30)

    async def main(tier: Tier) -> None:
        segments = [
            await copied(tier.made(1, aborted=[first]), tier.upload),
            await copied(tier.made(2, aborted=[first, second]), tier.upload),
        ]
        ranges = [RemoteRange(segments[0], 0, 25), RemoteRange(segments[1], 25, 100)]
        found, _ = await tier.reader.aborted_transactions(ranges, 0, 100)
        assert found == [first, second]

    in_folder(tmp_path, main)


# One get for a chunk, and the next ones ahead.


def test_a_batch_is_found_without_the_chunk_behind_it(tmp_path: Path) -> None:
    """An index leads to the batch before it, which is larger than what is looked at first."""
    chunk = 256 << 10

    async def main(tier: Tier) -> list[int]:
        made = tier.made(value_bytes=12_000, batch_count=60, is_noise=True)
        segment = await copied(made, SegmentUpload(tier.runtime, tier.store, None, chunk))
        gets, position, before = [], 0, 0
        for batch in made.batches:
            end = position + len(batch.data)
            is_alone = before // chunk == (end - 1) // chunk > 0
            if is_alone and before and end + len(made.batches[0].data) < len(made.log):
                calls = tier.store.counts.calls[Operation.GET]
                found = await tier.fresh_reader(None).read(segment, batch.base_offset, 1)
                assert bytes(found.data) == batch.data
                gets.append(tier.store.counts.calls[Operation.GET] - calls)
            before, position = position, end
        return gets

    gets = in_folder(tmp_path, main)

    assert len(gets) > 5
    assert set(gets) == {2}, "the indexes, and the batch's own chunk"


def test_a_sequential_reader_gets_each_chunk_once(tmp_path: Path) -> None:
    async def main(tier: Tier) -> tuple[int, int, int]:
        made = tier.made(batch_count=400)
        segment = await copied(made, tier.upload)
        before = tier.store.counts.calls[Operation.GET]
        assert await read_all(tier.reader, segment, 3000) == made.log
        gets = tier.store.counts.calls[Operation.GET] - before
        assert await read_all(tier.reader, segment, 3000) == made.log
        again = tier.store.counts.calls[Operation.GET] - before
        chunks = -(-segment.size_bytes // CHUNK)
        assert chunks > 10
        assert tier.cache.counts.prefetches >= chunks - 1 - PREFETCHED_CHUNKS
        return gets, again, chunks + 1

    gets, again, expected = in_folder(tmp_path, main)

    assert gets == again == expected


def test_a_read_somewhere_fetches_nothing_ahead(tmp_path: Path) -> None:
    async def main(tier: Tier) -> int:
        made = tier.made(batch_count=400)
        segment = await copied(made, tier.upload)
        await tier.reader.read(segment, made.batches[200].base_offset, 100)
        await tier.reader.find_offset(segment, made.batches[10].max_timestamp)
        return tier.cache.counts.prefetches

    assert in_folder(tmp_path, main) == 0


# Damage.


def replace_object(tier: Tier, name: str, change: Callable[[bytes], bytes]) -> None:
    path = tier.folder / "store" / name
    path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize("ring", [None, RING], ids=["plain", "encrypted"])
@pytest.mark.parametrize("kind", list(ObjectKind))
@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:],
        lambda data: data[:-1],
        lambda data: data[:50],
        lambda data: b"",
        lambda data: data[1:] + b"x",
        lambda data: bytes(len(data)),
    ],
    ids=["one bit", "cut by one", "cut to little", "empty", "moved", "zeros"],
)
def test_a_damaged_object_is_one_error(
    tmp_path: Path, ring: KeyRing | None, kind: ObjectKind, change: Callable[[bytes], bytes]
) -> None:
    async def main(tier: Tier) -> None:
        segment = await copied(tier.made(), tier.upload)
        replace_object(tier, object_name(segment, kind), change)
        with pytest.raises(CorruptLog):
            await tier.reader.verify(segment)
        with pytest.raises(CorruptLog):
            await read_all(tier.fresh_reader(ring), segment, 1 << 20)

    in_folder(tmp_path, main, ring)


@pytest.mark.parametrize("ring", [None, RING], ids=["plain", "encrypted"])
@pytest.mark.parametrize("kind", list(ObjectKind))
def test_an_object_of_another_segment_is_one_error(
    tmp_path: Path, ring: KeyRing | None, kind: ObjectKind
) -> None:
    async def main(tier: Tier) -> None:
        segment = await copied(tier.made(1), tier.upload)
        other = await copied(tier.made(2), tier.upload)
        foreign = (tier.folder / "store" / object_name(other, kind)).read_bytes()
        replace_object(tier, object_name(segment, kind), lambda _: foreign)
        with pytest.raises(CorruptLog):
            await tier.reader.verify(segment)

    in_folder(tmp_path, main, ring)


@pytest.mark.parametrize("ring", [None, RING], ids=["plain", "encrypted"])
def test_swapped_chunks_are_one_error(tmp_path: Path, ring: KeyRing | None) -> None:
    async def main(tier: Tier) -> None:
        made = tier.made(is_noise=True, batch_count=200)
        segment = await copied(made, tier.upload)
        head = CHUNK + (5 + 4 if ring is None else 5 + 16)

        def swap(data: bytes) -> bytes:
            return data[head : 2 * head] + data[:head] + data[2 * head :]

        replace_object(tier, object_name(segment, ObjectKind.LOG), swap)
        with pytest.raises(CorruptLog):
            await tier.reader.verify(segment)

    in_folder(tmp_path, main, ring)


def test_a_missing_object_is_named(tmp_path: Path) -> None:
    async def main(tier: Tier) -> StoreError:
        segment = await copied(tier.made(), tier.upload)
        await tier.store.delete(object_name(segment, ObjectKind.LOG))
        with pytest.raises(StoreError) as found:
            await tier.reader.read(segment, 0, 100)
        return found.value

    error = in_folder(tmp_path, main)

    assert error.why is StoreReason.NOT_FOUND
    assert "orders-" in str(error)


@pytest.mark.parametrize("ring", [None, KeyRing({"other": bytes(32)}, "other")])
def test_an_encrypted_segment_without_its_key_says_what_to_do(
    tmp_path: Path, ring: KeyRing | None
) -> None:
    async def main(tier: Tier) -> None:
        segment = await copied(tier.made(), tier.upload)
        with pytest.raises(ConfigError, match=r"remote\.storage\.encryption\.keys"):
            await tier.fresh_reader(ring).read(segment, 0, 100)

    in_folder(tmp_path, main, RING)


# A server, and faults on the way to it.


@pytest.mark.real
@pytest.mark.usefixtures("key")
def test_reads_through_a_server_with_faults_are_those_of_the_local_log(
    tmp_path: Path, moto: S3Server
) -> None:
    async def main(runtime: Runtime) -> ObjectStore:
        async with FaultyProxy(moto.port) as proxy:
            store = s3_store(runtime, proxy.port, uuid4().hex, limits=IMPATIENT)
            async with tier(runtime, tmp_path, store, RING) as found:
                made = found.made(batch_count=300)
                proxy.faults.extend([Fault.BUSY, Fault.LOST, Fault.PASS, Fault.LATE])
                segment = await copied(made, found.upload)
                faults = (Fault.CUT, Fault.BUSY, Fault.SLOW, Fault.LOST, Fault.BROKEN)
                proxy.faults.extend(faults * 4)
                assert await read_all(found.reader, segment, 20_000) == made.log
                await check_all_reads(found.reader, made, segment, Random(3))
                return store

    counts = on_runtime(main).counts

    assert sum(counts.failures.values()) >= 10
    assert not counts.failed_calls


@pytest.mark.real
@pytest.mark.usefixtures("key")
def test_a_segment_in_versitygw_comes_back(tmp_path: Path, versitygw: S3Server) -> None:
    async def main(runtime: Runtime) -> None:
        store = s3_store(runtime, versitygw.port, uuid4().hex)
        async with tier(runtime, tmp_path, store) as found:
            made = found.made(batch_count=2600, value_bytes=1000, is_noise=True)
            segment = await copied(made, SegmentUpload(runtime, store))
            assert await read_all(found.reader, segment, 1 << 20) == made.log
            await found.upload.remove(segment)
            assert [each async for each in store.list()] == []

    on_runtime(main)
