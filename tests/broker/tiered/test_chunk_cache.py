"""The cache: one load for all, bounded in memory and on disk, at ease without a disk."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.tiered.chunk_cache import (
    INDEXES,
    CacheContents,
    CacheLimits,
    ChunkCache,
    ChunkKey,
)
from moldau.broker.tiered.remote_segment import SegmentId
from moldau.errors import CorruptLog
from moldau.records import Buffer
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from tests.broker.tiered.stores import on_runtime

T = TypeVar("T")

ID: Final = SegmentId(b"t" * 16, 0, b"i" * 16)
SIZE: Final = 1000
LIMITS: Final = CacheLimits(
    disk_bytes=10 * SIZE,
    memory_bytes=3 * SIZE,
    chunk_bytes=SIZE,
    free_bytes_min=0,
    loads_until_disk=1,
)
NO_MEMORY: Final = replace(LIMITS, memory_bytes=0)


def key(number: int) -> ChunkKey:
    return ChunkKey(ID, number)


def content(number: int) -> bytes:
    return bytes([number]) * SIZE


class Source:
    """Where chunks come from: counts loads, and holds them back until `gate` is set."""

    def __init__(self) -> None:
        self.loads: Counter[int] = Counter()
        self.gate = asyncio.Event()
        self.gate.set()
        self.fails = False

    def load(self, number: int) -> Callable[[], Awaitable[Buffer]]:
        async def load() -> Buffer:
            self.loads[number] += 1
            await self.gate.wait()
            if self.fails:
                raise CorruptLog("planted", chunk=number)
            return content(number)

        return load

    async def get(self, cache: ChunkCache, number: int) -> None:
        assert bytes(await cache.get(key(number), self.load(number))) == content(number)
        await cache.written()


async def settle() -> None:
    """Let all tasks go on until they wait for something."""
    for _ in range(50):
        await asyncio.sleep(0)


def in_world(main: Callable[[Runtime], Coroutine[Any, Any, T]]) -> T:
    """Run `main` as the only node of a simulated world."""
    results: list[T] = []

    async def body(runtime: Runtime) -> None:
        results.append(await main(runtime))

    with Simulation(1) as world:
        world.add_node("node", body)
        world.run_until(lambda: results, within=60)
    return results[0]


async def opened(runtime: Runtime, limits: CacheLimits = LIMITS) -> ChunkCache:
    cache = ChunkCache(runtime, "/cache", limits)
    await cache.open()
    return cache


def test_readers_at_the_same_time_share_a_load() -> None:
    async def main(runtime: Runtime) -> int:
        cache, source = await opened(runtime), Source()
        source.gate.clear()
        readers = [
            runtime.spawn(source.get(cache, 1), name=f"reader {number}") for number in range(5)
        ]
        await settle()
        source.gate.set()
        await asyncio.gather(*readers)
        return source.loads[1]

    assert in_world(main) == 1


def test_a_reader_that_goes_away_does_not_end_the_load_of_another() -> None:
    async def main(runtime: Runtime) -> int:
        cache, source = await opened(runtime), Source()
        source.gate.clear()
        first = runtime.spawn(source.get(cache, 1), name="first", reported=False)
        await settle()
        second = runtime.spawn(source.get(cache, 1), name="second")
        await settle()
        first.cancel()
        await settle()
        source.gate.set()
        await second
        return source.loads[1]

    assert in_world(main) == 1


def test_a_failed_load_is_an_error_for_all_and_is_not_kept() -> None:
    async def main(runtime: Runtime) -> int:
        cache, source = await opened(runtime), Source()
        source.fails = True
        found = await asyncio.gather(
            *(cache.get(key(1), source.load(1)) for _ in range(3)), return_exceptions=True
        )
        assert all(isinstance(each, CorruptLog) for each in found)
        source.fails = False
        await source.get(cache, 1)
        return source.loads[1]

    assert in_world(main) == 2


def test_memory_and_disk_stay_within_their_bounds_and_the_oldest_goes() -> None:
    async def main(runtime: Runtime) -> Counter[int]:
        cache, source = await opened(runtime), Source()
        for number in range(30):
            await source.get(cache, number)
            files = [runtime.files.stat(f"/cache/{name}") for name in runtime.files.list("/cache")]
            assert sum(each.size_bytes for each in files) <= LIMITS.disk_bytes
            assert cache.disk_bytes <= LIMITS.disk_bytes
            assert cache.memory_bytes <= LIMITS.memory_bytes
        for number in range(20, 30):  # still there
            await source.get(cache, number)
        await source.get(cache, 19)
        assert cache.counts.disk_hits == 10
        return source.loads

    loads = in_world(main)

    assert all(loads[number] == 1 for number in range(30) if number != 19)
    assert loads[19] == 2


def test_a_chunk_goes_to_disk_when_it_is_loaded_again_and_indexes_at_once() -> None:
    async def main(runtime: Runtime) -> tuple[list[int], Counter[int]]:
        cache, source = await opened(runtime, replace(NO_MEMORY, loads_until_disk=2)), Source()
        files = []
        for number in (1, 2, 1, 1, 2, 2):
            await source.get(cache, number)
            files.append(len(runtime.files.list("/cache")))
        await cache.get(key(INDEXES), source.load(3))
        await cache.written()
        files.append(len(runtime.files.list("/cache")))
        return files, source.loads

    assert in_world(main) == ([0, 0, 1, 1, 2, 2, 3], Counter({1: 2, 2: 2, 3: 1}))


def test_what_is_used_stays() -> None:
    async def main(runtime: Runtime) -> int:
        cache, source = await opened(runtime), Source()
        for number in range(1, 40):
            await source.get(cache, number)
            await source.get(cache, 0)
        return source.loads[0]

    assert in_world(main) == 1


def test_the_cache_begins_empty_and_leaves_the_files_of_others() -> None:
    async def main(runtime: Runtime) -> tuple[list[str], int]:
        source = Source()
        await source.get(await opened(runtime), 1)
        with runtime.files.open("/cache/0.log", "create") as file:
            file.append(b"a log")
        cache = await opened(runtime)
        names = runtime.files.list("/cache")
        await source.get(cache, 1)
        return names, source.loads[1]

    assert in_world(main) == (["0.log"], 2)


def test_a_damaged_file_is_a_miss() -> None:
    async def main(runtime: Runtime) -> tuple[int, int]:
        cache, source = await opened(runtime), Source()
        for number in range(5):
            await source.get(cache, number)
        first = runtime.files.list("/cache")[0]
        with runtime.files.open(f"/cache/{first}", "update") as file:
            file.write_at(17, b"!")
        await source.get(cache, 0)
        return source.loads[0], cache.counts.damaged_files

    assert in_world(main) == (2, 1)


def test_a_full_disk_is_not_fatal() -> None:
    async def main(runtime: Runtime) -> tuple[list[str], Counter[int], int]:
        limits = replace(NO_MEMORY, free_bytes_min=1 << 60)
        cache, source = await opened(runtime, limits), Source()
        for _ in range(2):
            await source.get(cache, 1)
        return runtime.files.list("/cache"), source.loads, cache.counts.failed_writes

    assert in_world(main) == ([], Counter({1: 2}), 2)


def test_a_disk_that_refuses_a_write_is_not_fatal() -> None:
    results: list[tuple[int, int, list[str]]] = []

    async def body(runtime: Runtime) -> None:
        cache, source = await opened(runtime, NO_MEMORY), Source()
        node.disk.fail_next("write", path_part="/cache/")
        for _ in range(3):
            await source.get(cache, 1)
        results.append((source.loads[1], cache.counts.failed_writes, runtime.files.list("/cache")))

    with Simulation(1) as world:
        node = world.add_node("node", body)
        world.run_until(lambda: results, within=60)
    loads, failed, files = results[0]

    assert (loads, failed, len(files)) == (2, 1, 1)


def test_prefetched_chunks_are_there_and_leave_room_for_readers() -> None:
    async def main(runtime: Runtime) -> tuple[Counter[int], int]:
        cache, source = await opened(runtime, replace(LIMITS, memory_bytes=6 * SIZE)), Source()
        source.gate.clear()
        for number in range(1, 9):
            cache.prefetch(key(number), source.load(number))
        await settle()
        assert sum(source.loads.values()) == LIMITS.loads_max - 1
        reader = runtime.spawn(source.get(cache, 20), name="reader")
        await settle()
        assert source.loads[20] == 1
        source.gate.set()
        await reader
        for number in (1, 2, 3):
            await source.get(cache, number)
        return source.loads, cache.counts.prefetches

    loads, prefetches = in_world(main)

    assert prefetches == 3
    assert set(loads.values()) == {1}


def test_a_chunk_that_was_passed_goes_before_those_that_readers_are_at() -> None:
    async def main(runtime: Runtime) -> Counter[int]:
        cache, source = await opened(runtime, replace(LIMITS, disk_bytes=0)), Source()
        for number in (1, 2, 3):
            await source.get(cache, number)
        cache.pass_by(key(3))
        await source.get(cache, 4)
        for number in (1, 2, 4, 3):
            await source.get(cache, number)
        return source.loads

    assert in_world(main) == Counter({1: 1, 2: 1, 3: 2, 4: 1})


def test_what_is_fetched_ahead_leaves_the_chunks_that_readers_are_at() -> None:
    async def main(runtime: Runtime) -> list[int]:
        cache, source = await opened(runtime, replace(LIMITS, disk_bytes=0)), Source()
        await source.get(cache, 1)
        await source.get(cache, 2)
        cache.prefetch(key(5), source.load(5))
        await settle()
        found = [source.loads[5]]
        cache.pass_by(key(1))
        cache.prefetch(key(5), source.load(5))
        await settle()
        await source.get(cache, 2)
        return [*found, source.loads[5], source.loads[2]]

    assert in_world(main) == [0, 1, 1]


def test_chunks_on_their_way_count_as_memory() -> None:
    async def main(runtime: Runtime) -> list[int]:
        cache, source = await opened(runtime), Source()
        found = []
        for number in (1, 2, 3):
            await source.get(cache, number)
        source.gate.clear()
        readers = []
        for number in (4, 5, 6, 7):
            readers.append(runtime.spawn(source.get(cache, number), name=f"reader {number}"))
            await settle()
            found.append(cache.memory_bytes // SIZE)
        source.gate.set()
        await asyncio.gather(*readers)
        return [*found, cache.memory_bytes // SIZE]

    assert in_world(main) == [2, 1, 0, 0, 3]


def test_an_end_in_the_midst_of_loads_leaves_no_task() -> None:
    async def main(runtime: Runtime) -> bool:
        cache, source = await opened(runtime), Source()
        source.gate.clear()
        reader = runtime.spawn(source.get(cache, 1), name="reader", reported=False)
        cache.prefetch(key(2), source.load(2))
        await settle()
        await cache.close()
        await asyncio.wait([reader])
        return reader.cancelled()

    assert in_world(main)


def test_a_real_directory_is_a_cache(tmp_path: Path) -> None:
    async def main(runtime: Runtime) -> tuple[Counter[int], int]:
        cache, source = ChunkCache(runtime, str(tmp_path / "a" / "b"), LIMITS), Source()
        await cache.open()
        for number in (*range(8), *range(8)):
            await source.get(cache, number)
        await cache.close()
        return source.loads, cache.counts.disk_hits

    loads, hits = on_runtime(main)

    assert set(loads.values()) == {1}
    assert hits == 8


@given(
    st.lists(st.tuples(st.sampled_from("atr"), st.integers(0, 12), st.integers(1, 40)), max_size=80)
)
def test_contents_are_those_of_a_list_by_last_use(steps: list[tuple[str, int, int]]) -> None:
    limit = 100
    contents = CacheContents(limit)
    model: list[tuple[ChunkKey, int]] = []
    for step, number, size in steps:
        place = next((n for n, each in enumerate(model) if each[0] == key(number)), None)
        if step == "a":
            evicted = contents.admit(key(number), size)
            assert (evicted is None) is (place is not None)
            if evicted is not None:
                model.append((key(number), size))
                expected = []
                while sum(each[1] for each in model) > limit:
                    expected.append(model.pop(0)[0])
                assert evicted == expected
        elif step == "t":
            contents.touch(key(number))
            if place is not None:
                model.append(model.pop(place))
        else:
            contents.remove(key(number))
            if place is not None:
                model.pop(place)
        assert contents.size_bytes == sum(each[1] for each in model)
        assert all((key(n) in contents) is (key(n) in dict(model)) for n in range(13))
