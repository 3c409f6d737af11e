"""A disk that belongs to a simulated node and outlives its processes.

Three ways to end a life, all called after the incarnation was poisoned:
- `kill`: the process died. The page cache survives; handles, mappings and locks do not.
- `power_loss`: what was not synced is kept, lost or torn, as the seed says (`disk_cache`,
  `disk_names`, `disk_power`).
- `lose`: another disk, empty.

Invariant: the same seed and the same calls give the same bytes, errors and latencies. Faults draw
from the seed only while their rate is above 0, so that switching one on does not move the others.

A model of POSIX and Linux and not a dictionary of bytes, because the bugs worth finding live in the
difference: a file synced but not its name, a sync that failed once and then succeeds.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from random import Random

from moldau.runtime.files import Files
from moldau.runtime.simulated.disk_cache import CachedFile
from moldau.runtime.simulated.disk_faults import DiskCosts, DiskFaults, Operation, disk_error
from moldau.runtime.simulated.disk_files import SimulatedFiles
from moldau.runtime.simulated.disk_names import Directory, Node
from moldau.runtime.simulated.disk_paths import NOT_NAMES, Place, find, missing, place
from moldau.runtime.simulated.disk_power import PowerLoss
from moldau.runtime.simulated.incarnation import Incarnation, NodeKilled

_UNLIMITED_BYTES = 1 << 40
_FOREVER_NS = 1 << 62

BUSY_NS = 100_000
"""Calls beside blocking work that cost less than this in sum are free; more keeps the node busy."""


class SimulatedDisk:
    """Files and names of a node, which sees them through `files`; the rest is for its tormentor."""

    def __init__(
        self,
        random: Random,
        *,
        sector_bytes: int = 512,
        now_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self.random = random
        self.sector_bytes = sector_bytes
        self.now_ms = now_ms
        self.faults = DiskFaults()
        self.costs = DiskCosts()
        self.fault_counts: dict[str, int] = {}
        self.is_read_only = False
        self.root = Directory(0)
        self._dirty_files: list[CachedFile] = []
        self._dirty_dirs: list[Directory] = []
        self._opened: list[CachedFile] = []
        self._planned: list[tuple[Operation, int, str]] = []
        self.calls = 0
        """How many calls blocking work has made."""
        self.next_is_slow: bool | None = None
        """Whether the next sync is a slow one; None lets it draw."""
        self._latency_ns = 0
        self._latency_ns_max = self._inline_ns_max = _FOREVER_NS
        self._on_busy: Callable[[int], object] | None = None
        self._dies_in = 0
        self._worker: Incarnation | None = None
        self.counted_bytes: int | None = None
        """Bytes that the files take, while they are counted."""

    def files(self, incarnation: Incarnation) -> Files:
        """The file system as one life of the node sees it; each call checks that it still lives."""
        return SimulatedFiles(self, incarnation)

    # Ends of lives.

    def kill(self) -> None:
        """The process died: nothing that it wrote is lost."""
        for file in self._opened:
            file.end_process()
        self._opened.clear()
        self._planned.clear()
        self._latency_ns = 0
        self.counted_bytes = None

    def power_loss(self, survival: float | None = None) -> None:
        """The machine stopped. `survival` is the share of unsynced sectors that arrived anyway."""
        self.kill()
        loss = PowerLoss(self.random, survival)
        for file in self._dirty_files:
            file.lose_power(loss)
            file.is_known_dirty = False
        for directory in self._dirty_dirs:
            directory.lose_power(loss)
            directory.is_known_dirty = False
        self._dirty_files.clear()
        self._dirty_dirs.clear()
        self.is_read_only = False

    def lose(self) -> None:
        """Replaced by an empty one."""
        self.kill()
        self.root = Directory(self.now_ms())
        self._dirty_files.clear()
        self._dirty_dirs.clear()
        self.is_read_only = False

    @property
    def needs_remount(self) -> bool:
        """Whether it went read-only, or the page cache shows what never reached the platter."""
        return self.is_read_only or any(file.diverged for file in self._dirty_files)

    def remount(self) -> None:
        """Unmounted and mounted again, between two processes: the platter is what counts.

        What was dirty is written first, and what a failed sync gave up is gone. A disk that went
        read-only can write nothing: this is then a loss of power.
        """
        assert not self._opened, "files are open: end the process first"
        if self.is_read_only:
            self.power_loss()
            return
        for directory in self._dirty_dirs:
            directory.sync()
        for file in self._dirty_files:
            file.sync()
            file.drop_cache()

    def take_latency_ns(self) -> int:
        """The virtual time that calls cost since this was last asked."""
        latency_ns, self._latency_ns = self._latency_ns, 0
        return latency_ns

    def tell_busy(self, on_busy: Callable[[int], object]) -> None:
        """Report to `on_busy` the nanoseconds that the node spends in calls outside of threads."""
        self._on_busy = on_busy
        self._latency_ns_max = self._inline_ns_max = BUSY_NS

    # Blocking work.

    def begin_work(self) -> None:
        """Calls belong to blocking work from now on."""
        self._latency_ns = self.calls = 0
        self._latency_ns_max = _FOREVER_NS

    def die_in(self, calls: int, owner: Incarnation | None) -> None:
        """The owner of the work that begins dies in the call to the disk of that number."""
        self._dies_in, self._worker = calls, owner

    def end_work(self) -> int:
        """The work is over; returns what its `calls` cost, in nanoseconds."""
        bill_ns = self._latency_ns
        self._latency_ns = self._dies_in = 0
        self._latency_ns_max = self._inline_ns_max
        self.next_is_slow = None
        return bill_ns

    # Faults by hand.

    def fail_next(self, operation: Operation, code: int = errno.EIO, path_part: str = "") -> None:
        """The next such call on a path with `path_part` in it fails, once; forgotten at `kill`."""
        self._planned.append((operation, code, path_part))

    def rot(self, path: str, bit: int | None = None) -> None:
        """Flip one bit of a file that is not empty: the given one, or any."""
        file = self.file(path)
        file.rot(self.random.randrange(len(file.data) * 8) if bit is None else bit)
        self.count("bit_rot")

    def drop_caches(self) -> None:
        """The kernel forgets clean pages: what failed and misdirected writes did comes to light."""
        for file in self._dirty_files:
            file.drop_cache()

    def write_back(self) -> None:
        """The kernel writes some of what is dirty, everywhere."""
        for file in self._dirty_files:
            file.write_back(self.random)

    def contents(self, path: str) -> bytes:
        """What a read would see, without faults, cost or a living process."""
        return bytes(self.file(path).data)

    def put(self, path: str, contents: bytes) -> None:
        """Make a file (in a directory that exists) hold this, durably: a stale copy put back."""
        directory, name, _ = self.place(path)
        assert name not in NOT_NAMES, f"not a file: {path!r}"
        file = CachedFile(self.sector_bytes, self.now_ms())
        file.write(0, contents)
        file.sync()
        directory.unsynced.clear()
        directory.entries[name] = file
        self.counted_bytes = None

    def drop(self, path: str) -> None:
        """Make a file be missing, durably."""
        directory, name, _ = self.place(path)
        if name not in directory.entries:
            raise missing(name, path)
        directory.unsynced.clear()
        del directory.entries[name]
        self.counted_bytes = None

    def paths(self) -> list[str]:
        """All files, in the order of their names."""
        return sorted(path for path, _ in _walk("", self.root))

    # For `disk_files`.

    def find(self, path: str) -> Node:
        """What the path leads to; ENOENT, ENOTDIR, ENAMETOOLONG."""
        return find(self.root, path)

    def place(self, path: str) -> Place:
        """Where the last name of the path is, or could be made; errors of the way to it."""
        return place(self.root, path)

    def file(self, path: str) -> CachedFile:
        """The file there; EISDIR when it is a directory."""
        node = self.find(path)
        if isinstance(node, Directory):
            raise disk_error(errno.EISDIR, path)
        return node

    def directory(self, path: str) -> Directory:
        """The directory there; ENOTDIR when it is a file."""
        node = self.find(path)
        if not isinstance(node, Directory):
            raise disk_error(errno.ENOTDIR, path)
        return node

    def opened(self, file: CachedFile) -> None:
        """A handle more."""
        if not file.handle_count:
            self._opened.append(file)
        file.handle_count += 1

    def closed(self, file: CachedFile) -> None:
        """A handle less; the last one frees a file without a name."""
        file.handle_count -= 1
        if not file.handle_count:
            self._opened.remove(file)
            self.counted_bytes = None

    def names_changed(self, directory: Directory) -> None:
        """Names, and with them the room that is used, are no longer what they were."""
        self.counted_bytes = None
        directory.modified_ms = self.now_ms()
        if not directory.is_known_dirty:
            directory.is_known_dirty = True
            self._dirty_dirs.append(directory)

    def bytes_change(self, file: CachedFile) -> None:
        """A file is about to be written, or to change its size."""
        now_ms = self.now_ms
        file.modified_ms = now_ms()
        if not file.is_known_dirty:
            file.is_known_dirty = True
            self._dirty_files.append(file)
        rate = self.faults.write_back
        if rate and self.random.random() < rate:
            self.count("write_back")
            file.write_back(self.random)

    def room_for(self, file: CachedFile, end: int) -> int:
        """How far, up to `end`, the file can grow; takes the room."""
        if self.faults.capacity_bytes is None:
            self.counted_bytes = None
            return end
        charged = file.charged_bytes
        growth = min(end - charged, self.free_bytes())
        if growth <= 0:
            return min(end, charged)
        assert self.counted_bytes is not None
        self.counted_bytes += growth
        return charged + growth

    def room_changed(self) -> None:
        """A file may have shrunk."""
        self.counted_bytes = None

    def free_bytes(self) -> int:
        """Room left."""
        capacity = self.faults.capacity_bytes
        if capacity is None:
            return _UNLIMITED_BYTES
        if self.counted_bytes is None:
            self.counted_bytes = self.used_bytes()
        return max(0, capacity - self.counted_bytes)

    def total_bytes(self) -> int:
        """All the room that there is."""
        capacity = self.faults.capacity_bytes
        return _UNLIMITED_BYTES if capacity is None else capacity

    def used_bytes(self) -> int:
        """Room that the files take, with those that have no name any more."""
        named = dict.fromkeys(file for _, file in _walk("", self.root))
        named.update(dict.fromkeys(self._opened))
        return sum(file.charged_bytes for file in named)

    def begin(self, operation: Operation, path: str, size: int = 0) -> None:
        """Account for a call that reads or changes `size` bytes; EIO, EROFS or what was planned."""
        costs, faults = self.costs, self.faults
        latency_ns = self._latency_ns + costs.call_ns + (size * costs.kibibyte_ns >> 10)
        self.calls = calls = self.calls + 1
        if calls == self._dies_in:
            self._die()
        if operation == "write":
            rate = faults.write_error
        elif operation == "sync":
            rate = faults.sync_error
            latency_ns += costs.sync_ns
            if faults.slow_sync and self._sync_is_slow():
                latency_ns += costs.slow_sync_ns
        else:
            rate = faults.read_error
        if latency_ns > self._latency_ns_max and self._on_busy is not None:
            self._on_busy(latency_ns)
            latency_ns = 0
        self._latency_ns = latency_ns
        if self._planned or self.is_read_only:
            self._fail_for_sure(operation, path)
        if rate and self.random.random() < rate:
            self.count(f"{operation}_error")
            raise disk_error(errno.EIO, path)

    def count(self, fault: str) -> None:
        """One more of these has happened."""
        self.fault_counts[fault] = self.fault_counts.get(fault, 0) + 1

    def _die(self) -> None:
        """The node dies while this call is under way; its maker sees to what is left of it."""
        assert self._worker is not None
        self._worker.poison()
        raise NodeKilled(self._worker.name)

    def _sync_is_slow(self) -> bool:
        is_slow, self.next_is_slow = self.next_is_slow, None
        if is_slow is None:
            is_slow = self.random.random() < self.faults.slow_sync
        if is_slow:
            self.count("slow_sync")
        return is_slow

    def _fail_for_sure(self, operation: Operation, path: str) -> None:
        """What is read-only is not written; and the calls fail that were chosen to."""
        if self.is_read_only and operation != "read":
            raise disk_error(errno.EROFS, path)
        for plan in self._planned:
            kind, code, path_part = plan
            if kind == operation and path_part in path:
                self._planned.remove(plan)
                self.count(f"{operation}_error")
                raise disk_error(code, path)


def _walk(above: str, directory: Directory) -> Iterator[tuple[str, CachedFile]]:
    for name, node in directory.entries.items():
        path = f"{above}/{name}"
        if isinstance(node, Directory):
            yield from _walk(path, node)
        else:
            yield path, node
