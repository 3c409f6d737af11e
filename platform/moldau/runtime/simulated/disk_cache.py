"""One file of the simulated disk: its bytes in the page cache, and those on the platter.

`data` is what every read sees. The platter's content is stored only where it differs:

- `unsynced` maps a dirty sector to its content on the platter. A sync removes these.
- `diverged` does the same for sectors that the cache treats as clean although they never arrived: a
  failed sync leaves them (Linux marks such pages clean), and so does a misdirected write. No later
  sync repairs them; they become visible when the cache is dropped.

Invariants: no sector is in both. A sector in neither is equal in cache and platter, with zeros
beyond the end. An image may be short: the rest of it is zeros.

Old images are stored, and not a second copy of each file: a sync then only clears a dict, memory
holds one copy, and a loss of power costs only the unsynced part.
"""

from __future__ import annotations

from random import Random
from typing import Final

from moldau.runtime.files import Buffer
from moldau.runtime.simulated.disk_power import PowerLoss

_ZEROS: Final = bytes(1 << 16)


class CachedFile:
    """The bytes of one file, under any names."""

    __slots__ = (
        "_size_durable",
        "_size_highest",
        "_size_lowest",
        "allocated_bytes",
        "data",
        "diverged",
        "handle_count",
        "is_known_dirty",
        "is_locked",
        "mapping_count",
        "modified_ms",
        "sector_bytes",
        "unsynced",
    )

    def __init__(self, sector_bytes: int, modified_ms: int) -> None:
        self.sector_bytes = sector_bytes
        self.modified_ms = modified_ms
        self.data = bytearray()
        self.unsynced: dict[int, bytes] = {}
        self.diverged: dict[int, bytes] = {}
        self.allocated_bytes = 0
        self.handle_count = 0
        self.mapping_count = 0
        self.is_locked = False
        self.is_known_dirty = False
        self._size_durable = 0
        self._size_lowest = 0
        self._size_highest = 0

    @property
    def charged_bytes(self) -> int:
        """The disk space of the file."""
        return max(len(self.data), self.allocated_bytes)

    def write(self, position: int, data: Buffer) -> None:
        """Change the cache. The gap between the old end and `position` is filled with zeros."""
        cached = self.data
        size, end = len(cached), position + len(data)
        if data and position == size >= self._size_highest:
            self._dirty_end(size, end)
            cached += data
            self._size_highest = end
            return
        if end == position:
            return
        if position > size:
            cached.extend(bytes(position - size))
        self._dirty(position, end)
        cached[position:end] = data
        if end > self._size_highest:
            self._size_highest = end

    def truncate(self, size: int) -> None:
        """Cut the file in the cache, or extend it with zeros."""
        current = len(self.data)
        if size > current:
            self.data.extend(bytes(size - current))
            self._size_highest = max(self._size_highest, size)
            return
        first = size // self.sector_bytes
        start = first * self.sector_bytes
        # Sectors of zeros need no image: a missing one means zeros.
        self._dirty(start, self._end_of_content(start))
        for sector in [sector for sector in self.diverged if sector >= first]:
            self.unsynced[sector] = self.diverged.pop(sector)
        del self.data[size:]
        self.allocated_bytes = 0
        self._size_lowest = min(self._size_lowest, size)

    def sync(self) -> None:
        """Write everything that is dirty to the platter."""
        self.unsynced.clear()
        self._size_durable = self._size_lowest = self._size_highest = len(self.data)

    def sync_first(self, size: int) -> None:
        """Write the sectors of the first `size` bytes to the platter, and the size of the file.

        Data beyond stays dirty; but with the new size, nothing remains of data that was cut off.
        """
        current = len(self.data)
        for sector in self._dirty_in(size):
            del self.unsynced[sector]
        for sector in [sector for sector in self.unsynced if sector * self.sector_bytes >= current]:
            del self.unsynced[sector]
        last, filled = divmod(current, self.sector_bytes)
        if filled and last in self.unsynced:
            self.unsynced[last] = self.unsynced[last][:filled]
        self._size_durable = self._size_lowest = self._size_highest = current

    def fail_sync(self, random: Random, size: int | None = None) -> None:
        """Write some dirty sectors; forget the others, which the cache then treats as clean."""
        for sector in self._dirty_in(size):
            image = self.unsynced.pop(sector)
            if random.random() < 0.5:
                self.diverged[sector] = image

    def _dirty_in(self, size: int | None) -> list[int]:
        """Return the dirty sectors that the first `size` bytes touch; None means all of them."""
        if size is None:
            return list(self.unsynced)
        beyond = -(-size // self.sector_bytes)
        return [sector for sector in self.unsynced if sector < beyond]

    def write_back(self, random: Random) -> None:
        """Let the kernel write some dirty sectors, as it may do at any time."""
        for sector in [sector for sector in self.unsynced if random.random() < 0.5]:
            del self.unsynced[sector]

    def misdirect(self, random: Random, size: int | None = None) -> bool:
        """Let a sync write one dirty sector to another's place, and report success.

        Return whether there was one: a sector beyond the end has nothing to write.
        """
        count = -(-len(self.data) // self.sector_bytes)
        dirty = sorted(sector for sector in self._dirty_in(size) if sector < count)
        if not dirty or count < 2:
            return False
        astray = random.choice(dirty)
        victim = (astray + random.randrange(1, count)) % count
        self.diverged[astray] = self.unsynced.pop(astray)
        self.unsynced.pop(victim, None)
        self.diverged[victim] = self._cached(astray)
        return True

    def rot(self, bit: int) -> None:
        """Flip a bit, counted from the start of the file, in both cache and platter."""
        self.data[bit >> 3] ^= 1 << (bit & 7)

    def drop_cache(self) -> None:
        """Drop clean sectors: the next read gets the platter's content."""
        size = len(self.data)
        for sector, image in self.diverged.items():
            start = sector * self.sector_bytes
            end = min(start + self.sector_bytes, size)
            if start < end:  # within the present size: a mapping forbids any other size
                self.data[start:end] = image[: end - start].ljust(end - start, b"\0")
        self.diverged.clear()

    def check_unshared(self) -> None:
        """Raise BufferError while there is a view of the bytes."""
        self.data.append(0)
        del self.data[-1:]

    def end_process(self) -> None:
        """End the process: handles, locks and mappings are gone, the cache is not."""
        if self.mapping_count:
            self.data = bytearray(self.data)  # dead code may still hold a view of the old one
        self.handle_count = self.mapping_count = 0
        self.is_locked = False

    def lose_power(self, loss: PowerLoss) -> None:
        """Keep only the platter's content, with the unsynced data that happened to arrive."""
        size = loss.size(self._size_durable, len(self.data), self._size_lowest, self._size_highest)
        self.drop_cache()
        if loss.survival < 1.0:
            for sector in sorted(self.unsynced):
                old = self.unsynced[sector].ljust(self.sector_bytes, b"\0")
                new = self._cached(sector).ljust(self.sector_bytes, b"\0")
                self._put(sector, loss.sector(old, new))
        current = len(self.data)
        if size > current:
            self.data.extend(bytes(size - current))
        else:
            del self.data[size:]
        self.allocated_bytes = 0
        self.sync()

    def _end_of_content(self, start: int) -> int:
        """Return the end of what is not zero, or `start`. Blocks are compared, which is much faster
        than `rstrip` in an index file of 10 MiB that was reserved and hardly used."""
        end = len(self.data)
        while end - start >= len(_ZEROS) and self.data.endswith(_ZEROS, start, end):
            end -= len(_ZEROS)
        return start + len(self.data[start:end].rstrip(b"\0"))

    def _dirty(self, start: int, end: int) -> None:
        """Save the platter's content of the sectors that are about to change."""
        if start == end:
            return
        unsynced, sector_bytes, size = self.unsynced, self.sector_bytes, len(self.data)
        first = start // sector_bytes
        beyond = (end - 1) // sector_bytes + 1
        if end > size >= self._size_highest:  # nothing was cut: beyond the end all is new
            fresh = -(-size // sector_bytes)
            if fresh < first:
                fresh = first
            if fresh < beyond:
                unsynced.update(dict.fromkeys(range(fresh, beyond), b""))
                beyond = fresh
        for sector in range(first, beyond):
            if sector not in unsynced:
                if sector in self.diverged:
                    unsynced[sector] = self.diverged.pop(sector)
                else:
                    unsynced[sector] = self._cached(sector)

    def _dirty_end(self, size: int, end: int) -> None:
        """Do the same for a file that grows at its end after no cut, as in most writes."""
        unsynced, sector_bytes = self.unsynced, self.sector_bytes
        sector, filled = size // sector_bytes, size % sector_bytes
        if filled:
            if sector not in unsynced:
                if sector in self.diverged:
                    unsynced[sector] = self.diverged.pop(sector)
                else:
                    unsynced[sector] = bytes(self.data[-filled:])
            sector += 1
        while sector * sector_bytes < end:
            unsynced[sector] = b""
            sector += 1

    def _cached(self, sector: int) -> bytes:
        start = sector * self.sector_bytes
        return bytes(self.data[start : start + self.sector_bytes])

    def _put(self, sector: int, image: bytes) -> None:
        start = sector * self.sector_bytes
        missing = start + self.sector_bytes - len(self.data)
        if missing > 0:
            self.data.extend(bytes(missing))
        self.data[start : start + self.sector_bytes] = image.ljust(self.sector_bytes, b"\0")
