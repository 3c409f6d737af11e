"""A disk that belongs to a simulated node and outlives its processes.

There are three ways to end a life, all called after the incarnation was poisoned:

- `kill`: the process died. The page cache survives; handles, mappings and locks do not.
- `power_loss`: unsynced data is kept, lost or torn, as the seed says (`disk_cache`, `disk_names`,
  `disk_power`).
- `lose`: the disk is replaced by an empty one.

Invariant: the same seed and the same calls give the same bytes, errors and latencies. Faults draw
from the seed only while their rate is above 0, so that adding one does not move the others.

It is a model of POSIX and Linux and not a dictionary of bytes, because the bugs worth finding are
in the difference: a synced file without a synced name, a sync that failed once and then succeeds.
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
from moldau.runtime.simulated.disk_paths import NOT_NAMES, ParentAndName, find, missing, place
from moldau.runtime.simulated.disk_power import PowerLoss
from moldau.runtime.simulated.incarnation import Incarnation, NodeKilled

_UNLIMITED_BYTES = 1 << 40
_FOREVER_NS = 1 << 62

BUSY_NS = 100_000
"""Calls outside of blocking work are free up to this cost in sum; more keeps the node busy."""


class SimulatedDisk:
    """The disk of a node, which uses it through `files`; other methods are for tests and faults."""

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
        """The number of calls of blocking work."""
        self.next_is_slow: bool | None = None
        """Whether the next sync is a slow one; None lets it be drawn."""
        self._latency_ns = 0
        self._latency_ns_max = self._inline_ns_max = _FOREVER_NS
        self._on_busy: Callable[[int], object] | None = None
        self._dies_in = 0
        self._worker: Incarnation | None = None
        self.counted_bytes: int | None = None
        """The size of all files, while it is counted."""

    def files(self, incarnation: Incarnation) -> Files:
        """Return the file system for one life of the node; each call checks that it still lives."""
        return SimulatedFiles(self, incarnation)

    # Ends of lives.

    def kill(self) -> None:
        """End the process: nothing that it wrote is lost."""
        for file in self._opened:
            file.end_process()
        self._opened.clear()
        self._planned.clear()
        self._latency_ns = 0
        self.counted_bytes = None

    def power_loss(self, survival: float | None = None) -> None:
        """Stop the machine. `survival` is the share of unsynced sectors that arrived anyway."""
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
        """Replace the disk by an empty one."""
        self.kill()
        self.root = Directory(self.now_ms())
        self._dirty_files.clear()
        self._dirty_dirs.clear()
        self.is_read_only = False

    @property
    def needs_remount(self) -> bool:
        """Whether it became read-only, or the page cache has data that never arrived."""
        return self.is_read_only or any(file.diverged for file in self._dirty_files)

    def remount(self) -> None:
        """Unmount and mount again, between two processes: only the platter counts.

        Dirty data is written first, and data that a failed sync gave up is gone. A read-only disk
        can write nothing: then this is a loss of power.
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
        """Return the virtual time that calls cost since the last call of this."""
        latency_ns, self._latency_ns = self._latency_ns, 0
        return latency_ns

    def report_busy(self, on_busy: Callable[[int], object]) -> None:
        """Report to `on_busy` the nanoseconds that the node spends in calls outside of threads."""
        self._on_busy = on_busy
        self._latency_ns_max = self._inline_ns_max = BUSY_NS

    # Blocking work.

    def begin_work(self) -> None:
        """Count calls as those of blocking work from now on."""
        self._latency_ns = self.calls = 0
        self._latency_ns_max = _FOREVER_NS

    def die_in(self, calls: int, owner: Incarnation | None) -> None:
        """Let the owner of the work that begins die in its call to the disk with that number."""
        self._dies_in, self._worker = calls, owner

    def end_work(self) -> int:
        """End the work; return what its `calls` cost, in nanoseconds."""
        bill_ns = self._latency_ns
        self._latency_ns = self._dies_in = 0
        self._latency_ns_max = self._inline_ns_max
        self.next_is_slow = None
        return bill_ns

    # Faults by hand.

    def fail_next(self, operation: Operation, code: int = errno.EIO, path_part: str = "") -> None:
        """Let the next such call on a path with `path_part` fail once; forgotten at `kill`."""
        self._planned.append((operation, code, path_part))

    def rot(self, path: str, bit: int | None = None) -> None:
        """Flip one bit of a file that is not empty: the given one, or a random one."""
        file = self.file(path)
        file.rot(self.random.randrange(len(file.data) * 8) if bit is None else bit)
        self.count("bit_rot")

    def drop_caches(self) -> None:
        """Let the kernel drop clean pages, which reveals failed and misdirected writes."""
        for file in self._dirty_files:
            file.drop_cache()

    def write_back(self) -> None:
        """Let the kernel write some dirty data, everywhere."""
        for file in self._dirty_files:
            file.write_back(self.random)

    def contents(self, path: str) -> bytes:
        """Return what a read would return, without faults, cost or a living process."""
        return bytes(self.file(path).data)

    def put(self, path: str, contents: bytes) -> None:
        """Give a file in an existing directory this content, durably: such as a stale copy."""
        directory, name, _ = self.place(path)
        assert name not in NOT_NAMES, f"not a file: {path!r}"
        file = CachedFile(self.sector_bytes, self.now_ms())
        file.write(0, contents)
        file.sync()
        directory.unsynced.clear()
        directory.entries[name] = file
        self.counted_bytes = None

    def drop(self, path: str) -> None:
        """Remove a file, durably."""
        directory, name, _ = self.place(path)
        if name not in directory.entries:
            raise missing(name, path)
        directory.unsynced.clear()
        del directory.entries[name]
        self.counted_bytes = None

    def paths(self) -> list[str]:
        """Return the paths of all files, sorted."""
        return sorted(path for path, _ in _walk("", self.root))

    # For `disk_files`.

    def find(self, path: str) -> Node:
        """Return the file or directory of the path. Raise ENOENT, ENOTDIR or ENAMETOOLONG."""
        return find(self.root, path)

    def place(self, path: str) -> ParentAndName:
        """Return the place of the path's last name, which need not exist. Raise errors before
        it."""
        return place(self.root, path)

    def file(self, path: str) -> CachedFile:
        """Return the file of the path. Raise EISDIR if it is a directory."""
        node = self.find(path)
        if isinstance(node, Directory):
            raise disk_error(errno.EISDIR, path)
        return node

    def directory(self, path: str) -> Directory:
        """Return the directory of the path. Raise ENOTDIR if it is a file."""
        node = self.find(path)
        if not isinstance(node, Directory):
            raise disk_error(errno.ENOTDIR, path)
        return node

    def opened(self, file: CachedFile) -> None:
        """Count one more handle of a file."""
        if not file.handle_count:
            self._opened.append(file)
        file.handle_count += 1

    def closed(self, file: CachedFile) -> None:
        """Count one handle less; the last one frees a file without a name."""
        file.handle_count -= 1
        if not file.handle_count:
            self._opened.remove(file)
            self.counted_bytes = None

    def names_changed(self, directory: Directory) -> None:
        """Note that names, and so the used space, have changed."""
        self.counted_bytes = None
        directory.modified_ms = self.now_ms()
        if not directory.is_known_dirty:
            directory.is_known_dirty = True
            self._dirty_dirs.append(directory)

    def bytes_change(self, file: CachedFile) -> None:
        """Note that a file is about to be written, or to change its size."""
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
        """Return how far, up to `end`, the file can grow, and reserve the space."""
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
        """Note that a file may have shrunk."""
        self.counted_bytes = None

    def free_bytes(self) -> int:
        """Return the free space."""
        capacity = self.faults.capacity_bytes
        if capacity is None:
            return _UNLIMITED_BYTES
        if self.counted_bytes is None:
            self.counted_bytes = self.used_bytes()
        return max(0, capacity - self.counted_bytes)

    def total_bytes(self) -> int:
        """Return the size of the disk."""
        capacity = self.faults.capacity_bytes
        return _UNLIMITED_BYTES if capacity is None else capacity

    def used_bytes(self) -> int:
        """Return the space of all files, including open ones without a name."""
        named = dict.fromkeys(file for _, file in _walk("", self.root))
        named.update(dict.fromkeys(self._opened))
        return sum(file.charged_bytes for file in named)

    def begin(self, operation: Operation, path: str, size: int = 0) -> None:
        """Account for a call on `size` bytes. Raise EIO, EROFS or a planned error."""
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
        """Count one occurrence of a fault."""
        self.fault_counts[fault] = self.fault_counts.get(fault, 0) + 1

    def _die(self) -> None:
        """Kill the node during this call; the caller of `die_in` handles the rest."""
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
        """Raise the error of a write to a read-only disk, or of a call that was planned to fail."""
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
