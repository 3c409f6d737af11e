"""A bounded cache of chunks: the newest in memory, more on disk.

Invariants:
- One chunk is loaded once at a time, however many readers wait for it. A reader that goes away does
  not end the load of the others.
- Memory: at most `memory_bytes` of chunks, those that are being loaded among them, unless readers
  wait for more. Disk: at most `disk_bytes`, and never the last `free_bytes_min` of the disk.
- A chunk that its reader has passed goes first. What is fetched ahead takes the room of these only,
  and leaves one: else chunks would go before their readers are done, and be loaded again.
- A chunk goes to disk when it is loaded again after memory has dropped it: a reader that catches up
  wants each chunk once, and would write all that it reads to the disk where the logs are. Indexes
  go there at once.
- The cache survives nothing. `open` removes what an earlier process left, and only files with the
  cache's own names.
- The disk may fail or be full: then chunks are not kept, and reads go on. A file is checked when it
  is read back; a damaged one is a miss.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.broker.tiered.remote_segment import SegmentId
from moldau.broker.tiered.segment_objects import CHUNK_BYTES
from moldau.deferred import dataclass
from moldau.records import Buffer
from moldau.records.checksum import crc32c

if TYPE_CHECKING:
    from moldau.runtime import Runtime

Load = Callable[[], Awaitable[Buffer]]

INDEXES: Final = -1
"""The number that stands for the indexes of a segment."""
_ENDING: Final = ".chunk"
_RECENT_LOADS_MAX: Final = 4000


class ChunkKey(NamedTuple):
    """A chunk of a segment."""

    segment: SegmentId
    number: int


@dataclass(frozen=True, slots=True)
class CacheLimits:
    """How much the cache may hold."""

    disk_bytes: int = 1 << 30
    memory_bytes: int = 24 << 20
    chunk_bytes: int = CHUNK_BYTES
    """What a load takes while it runs."""
    free_bytes_min: int = 512 << 20
    """The disk is left this much: a log may be on it."""
    loads_max: int = 4
    writes_max: int = 1
    """Chunks that are in memory only because the disk does not have them yet. What finds no place
    goes to disk with another load of it."""
    loads_until_disk: int = 2
    """A chunk goes to disk with this load of it: 1 is all that is loaded."""


@dataclass(slots=True)
class CacheCounts:
    """What the cache has done since the start, for metrics."""

    memory_hits: int = 0
    disk_hits: int = 0
    loads: int = 0
    prefetches: int = 0
    failed_writes: int = 0
    """Chunks that the disk did not take."""
    damaged_files: int = 0


class CacheContents:
    """The chunks that have room on disk, the least recently used first. It does no IO."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._sizes: OrderedDict[ChunkKey, int] = OrderedDict()
        self.size_bytes = 0

    def __contains__(self, key: ChunkKey) -> bool:
        return key in self._sizes

    def admit(self, key: ChunkKey, size: int) -> list[ChunkKey] | None:
        """Give a chunk room. Return the chunks that must go for it, or None if it has no room
        or has it already."""
        if size > self._limit_bytes or key in self._sizes:
            return None
        self._sizes[key] = size
        self.size_bytes += size
        evicted = []
        while self.size_bytes > self._limit_bytes:
            oldest, freed = self._sizes.popitem(last=False)
            self.size_bytes -= freed
            evicted.append(oldest)
        return evicted

    def touch(self, key: ChunkKey) -> None:
        """Note a use."""
        if key in self._sizes:
            self._sizes.move_to_end(key)

    def remove(self, key: ChunkKey) -> None:
        """Forget a chunk, if it is known."""
        self.size_bytes -= self._sizes.pop(key, 0)


class RecentLoads:
    """How often chunks were loaded of late. It forgets those that were not loaded for longest."""

    def __init__(self, keys_max: int) -> None:
        self._keys_max = keys_max
        self._counts: OrderedDict[ChunkKey, int] = OrderedDict()

    def note(self, key: ChunkKey) -> int:
        """Note a load and return the number of loads."""
        count = self._counts.pop(key, 0) + 1
        self._counts[key] = count
        if len(self._counts) > self._keys_max:
            self._counts.popitem(last=False)
        return count


class _StoredChunk(NamedTuple):
    path: str
    size_bytes: int
    checksum: int


class ChunkCache:
    """The cache of one node, in a directory of its own."""

    def __init__(self, runtime: Runtime, directory: str, limits: CacheLimits | None = None) -> None:
        self._runtime = runtime
        self._directory = directory
        self._limits = limits or CacheLimits()
        self._memory: OrderedDict[ChunkKey, Buffer] = OrderedDict()
        self._memory_bytes = 0
        self._contents = CacheContents(self._limits.disk_bytes)
        self._recent_loads = RecentLoads(_RECENT_LOADS_MAX)
        self._on_disk: dict[ChunkKey, _StoredChunk] = {}
        self._loading: dict[ChunkKey, asyncio.Task[Buffer]] = {}
        self._running_loads = 0
        self._passed: set[ChunkKey] = set()
        """The chunks in memory that their readers have done with."""
        self._passed_bytes = 0
        self._writing: set[asyncio.Task[None]] = set()
        self._loads = asyncio.Semaphore(self._limits.loads_max)
        self._next_file = 0
        self.counts = CacheCounts()

    @property
    def disk_bytes(self) -> int:
        return self._contents.size_bytes

    @property
    def memory_bytes(self) -> int:
        return self._memory_bytes

    async def open(self) -> None:
        """Make the directory, and remove what an earlier process left there."""
        await self._runtime.run_blocking(self._empty)

    async def close(self) -> None:
        """End the loads and writes."""
        tasks: list[asyncio.Task[Buffer] | asyncio.Task[None]] = [
            *self._loading.values(),
            *self._writing,
        ]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def get(self, key: ChunkKey, load: Load) -> Buffer:
        """Return a chunk from memory, from disk, or from `load`."""
        found = self._memory.get(key)
        if found is not None:
            self.counts.memory_hits += 1
            self._memory.move_to_end(key)
            self._unpass(key)
            self._contents.touch(key)
            return found
        task = self._loading.get(key)
        if task is None:
            task = self._start(key, load)
        return await asyncio.shield(task)

    def prefetch(self, key: ChunkKey, load: Load) -> None:
        """Begin to load a chunk that will be wanted soon, if there is room. The last load is left
        to readers that wait. A failure is found by the reader that wants the chunk."""
        if key in self._memory or key in self._on_disk or key in self._loading:
            return
        limits, count = self._limits, len(self._loading)
        in_use = self._memory_bytes - self._passed_bytes + count * limits.chunk_bytes
        has_room = in_use + 2 * limits.chunk_bytes <= limits.memory_bytes
        if has_room and count < limits.loads_max - 1:
            self.counts.prefetches += 1
            self._start(key, load)

    def pass_by(self, key: ChunkKey) -> None:
        """Let a chunk go before others: its reader has come to its end."""
        if key in self._memory and key not in self._passed:
            self._memory.move_to_end(key, last=False)
            self._passed.add(key)
            self._passed_bytes += len(self._memory[key])

    async def written(self) -> None:
        """Return when no chunk is being written to disk."""
        while self._writing:
            await asyncio.wait(self._writing)

    def _start(self, key: ChunkKey, load: Load) -> asyncio.Task[Buffer]:
        task = self._runtime.spawn(self._obtain(key, load), name=f"chunk {key}", reported=False)
        self._loading[key] = task
        task.add_done_callback(lambda done: self._loaded(key, done))
        return task

    def _loaded(self, key: ChunkKey, task: asyncio.Task[Buffer]) -> None:
        del self._loading[key]
        if not task.cancelled():
            task.exception()  # all readers may have gone away

    async def _obtain(self, key: ChunkKey, load: Load) -> Buffer:
        async with self._loads:
            with self._room_for(key):
                stored = self._on_disk.get(key)
                if stored is not None:
                    found = await self._runtime.run_blocking(self._read, stored)
                    if found is not None:
                        self.counts.disk_hits += 1
                        self._contents.touch(key)
                        self._remember(key, found)
                        return found
                    self.counts.damaged_files += self._on_disk.get(key) is stored
                    self._forget(key)
                self.counts.loads += 1
                data = await load()
        self._remember(key, data)
        loads = self._recent_loads.note(key)
        is_wanted = key.number == INDEXES or loads >= self._limits.loads_until_disk
        if is_wanted and len(self._writing) < self._limits.writes_max:
            task = self._runtime.spawn(self._write(key, data), name="cache a chunk")
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)
        return data

    def _remember(self, key: ChunkKey, data: Buffer) -> None:
        """Keep a chunk in memory, if it fits there."""
        if key in self._memory or len(data) > self._limits.memory_bytes:
            return
        self._memory[key] = data
        self._memory_bytes += len(data)
        self._make_room()

    @contextmanager
    def _room_for(self, key: ChunkKey) -> Iterator[None]:
        """Keep room for a chunk while it is loaded. Indexes are small."""
        count = int(key.number != INDEXES)
        self._running_loads += count
        self._make_room()
        try:
            yield
        finally:
            self._running_loads -= count

    def _make_room(self) -> None:
        """Drop the chunks that were passed, and those that were not used for longest."""
        room = self._limits.memory_bytes - self._running_loads * self._limits.chunk_bytes
        while self._memory and self._memory_bytes > room:
            key = next(iter(self._memory))
            self._unpass(key)
            self._memory_bytes -= len(self._memory.pop(key))

    def _unpass(self, key: ChunkKey) -> None:
        if key in self._passed:
            self._passed.remove(key)
            self._passed_bytes -= len(self._memory[key])

    # The disk.

    async def _write(self, key: ChunkKey, data: Buffer) -> None:
        evicted = self._contents.admit(key, len(data))
        if evicted is None:
            return
        gone = [stored for each in evicted if (stored := self._on_disk.pop(each, None))]
        path = f"{self._directory}/{self._next_file:012d}{_ENDING}"
        self._next_file += 1
        stored = await self._runtime.run_blocking(self._replace, gone, path, data)
        if stored is None:
            self.counts.failed_writes += 1
            self._contents.remove(key)
        elif key in self._contents:
            self._on_disk[key] = stored
        else:  # evicted while it was written
            await self._runtime.run_blocking(self._remove, [stored])

    def _forget(self, key: ChunkKey) -> None:
        self._contents.remove(key)
        stored = self._on_disk.pop(key, None)
        if stored is not None:
            self._remove([stored])

    def _replace(self, gone: list[_StoredChunk], path: str, data: Buffer) -> _StoredChunk | None:
        """Remove files and write a new one. Return None if the disk does not take it."""
        self._remove(gone)
        files = self._runtime.files
        try:
            if files.free_bytes(self._directory) - len(data) < self._limits.free_bytes_min:
                return None
            with files.open(path, "create") as file:
                file.append(data)
        except OSError:
            with suppress(OSError):
                files.remove(path)
            return None
        return _StoredChunk(path, len(data), crc32c(data))

    def _read(self, stored: _StoredChunk) -> bytes | None:
        """Return a file's chunk, or None if it is damaged or gone."""
        try:
            data = self._runtime.files.read_whole(stored.path)
        except OSError:
            return None
        is_whole = len(data) == stored.size_bytes and crc32c(data) == stored.checksum
        return data if is_whole else None

    def _remove(self, gone: list[_StoredChunk]) -> None:
        for stored in gone:
            with suppress(OSError):
                self._runtime.files.remove(stored.path)

    def _empty(self) -> None:
        files = self._runtime.files
        files.make_dirs(self._directory)
        for name in files.list(self._directory):
            if name.endswith(_ENDING) and name.removesuffix(_ENDING).isdigit():
                files.remove(f"{self._directory}/{name}")
