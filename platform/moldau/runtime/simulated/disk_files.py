"""`Files` on a simulated disk, for one incarnation of a node.

Invariant: every call begins with `incarnation.check()`, so that the clean-up code of a killed node
cannot change the disk that its next life will read.
"""

from __future__ import annotations

import builtins
import errno
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING

from moldau.runtime.files import (
    Buffer,
    File,
    FileLock,
    Files,
    FileStat,
    MappedFile,
    Mode,
    flat,
    parent_path,
)
from moldau.runtime.simulated.disk_cache import CachedFile
from moldau.runtime.simulated.disk_faults import disk_error
from moldau.runtime.simulated.disk_names import Directory
from moldau.runtime.simulated.disk_paths import NOT_NAMES, missing
from moldau.runtime.simulated.incarnation import NodeKilled

if TYPE_CHECKING:
    from moldau.runtime.simulated.disk import SimulatedDisk
    from moldau.runtime.simulated.incarnation import Incarnation


_NOT_REMOVED = {"": errno.EBUSY, ".": errno.EINVAL, "..": errno.ENOTEMPTY}


class SimulatedMappedFile(MappedFile):
    """A view of the page cache itself."""

    __slots__ = ("_buffer", "_file", "_size", "_writable")

    def __init__(self, file: SimulatedFile, size: int, writable: bool) -> None:
        self._file: SimulatedFile | None = file
        self._size = size
        self._writable = writable
        self._buffer = memoryview(file.cached.data)[:size].toreadonly()
        file.cached.mapping_count += 1
        file.disk.opened(file.cached)

    @property
    def buffer(self) -> memoryview:
        return self._buffer

    def write(self, position: int, data: Buffer) -> None:
        file = self._opened()
        if type(data) is memoryview:
            data = flat(data)
        if not self._writable:
            raise disk_error(errno.EBADF, file.path)
        if position < 0 or position + len(data) > self._size:
            raise disk_error(errno.EINVAL, file.path)
        file.disk.bytes_change(file.cached)
        file.cached.write(position, data)

    def sync(self) -> None:
        self._opened().sync_cached(self._size)

    def close(self) -> None:
        if self._file is None:
            return
        file = self._opened()
        self._buffer.release()
        if file.cached.mapping_count == 1:
            file.cached.check_unshared()
        file.cached.mapping_count -= 1
        file.disk.closed(file.cached)
        self._file = None

    def _opened(self) -> SimulatedFile:
        if self._file is None:
            raise disk_error(errno.EBADF, "")
        self._file.incarnation.check()
        return self._file


class SimulatedFile(File):
    """A handle on a file of the page cache."""

    __slots__ = ("_is_open", "_writable", "cached", "disk", "incarnation", "path")

    def __init__(
        self,
        disk: SimulatedDisk,
        incarnation: Incarnation,
        cached: CachedFile,
        path: str,
        writable: bool,
    ) -> None:
        self.disk = disk
        self.incarnation = incarnation
        self.cached = cached
        self.path = path
        self._writable = writable
        self._is_open = True
        disk.opened(cached)

    @property
    def size(self) -> int:
        self._check()
        return len(self.cached.data)

    def read_at(self, position: int, size: int) -> bytes:
        self._begin_read(position, size)
        return bytes(memoryview(self.cached.data)[position : position + size])

    def read_into(self, position: int, buffer: bytearray | memoryview) -> int:
        buffer = flat(memoryview(buffer))
        self._begin_read(position, len(buffer))
        found = memoryview(self.cached.data)[position : position + len(buffer)]
        buffer[: len(found)] = found
        return len(found)

    def write_at(self, position: int, data: Buffer) -> None:
        self._check_write()
        if type(data) is memoryview:
            data = flat(data)
        if position < 0:
            raise disk_error(errno.EINVAL, self.path)
        if data and position + len(data) > len(self.cached.data):
            self._refuse_while_mapped()
        self._store(position, data)

    def append_parts(self, parts: Sequence[Buffer]) -> int:
        cached = self.cached
        if not (self.incarnation.alive and self._is_open and self._writable):
            self._check_write()
        if cached.mapping_count:
            self._refuse_while_mapped()
        start = len(cached.data)
        if len(parts) != 1:
            data: Buffer = b"".join(parts)
        elif type(data := parts[0]) is memoryview:
            data = flat(data)
        self._store(start, data)
        return start

    def truncate(self, size: int) -> None:
        self._check_write()
        self._refuse_while_mapped()
        if size < 0:
            raise disk_error(errno.EINVAL, self.path)
        disk = self.disk
        disk.begin("write", self.path)
        if size > len(self.cached.data) and disk.room_for(self.cached, size) < size:
            raise disk_error(errno.ENOSPC, self.path)
        disk.bytes_change(self.cached)
        self.cached.truncate(size)
        disk.room_changed()

    def allocate(self, size: int) -> None:
        self._check_write()
        self.disk.begin("write", self.path)
        if self.disk.room_for(self.cached, size) < size:
            self.disk.room_changed()
            raise disk_error(errno.ENOSPC, self.path)
        self.cached.allocated_bytes = max(size, self.cached.allocated_bytes)

    def sync(self, *, data_only: bool = False) -> None:
        if not (self.incarnation.alive and self._is_open):
            self._check()
        self.sync_cached()

    def sync_cached(self, size: int | None = None) -> None:
        """Make the first `size` bytes durable (None: all), or fail and forget some of them."""
        disk, cached = self.disk, self.cached
        try:
            disk.begin("sync", self.path, len(cached.unsynced) * cached.sector_bytes)
        except NodeKilled:
            cached.write_back(disk.random)
            raise
        except OSError:
            cached.fail_sync(disk.random, size)
            raise
        rate = disk.faults.misdirected_write
        if rate and disk.random.random() < rate and cached.misdirect(disk.random, size):
            disk.count("misdirected_write")
        if size is None:
            cached.sync()
        else:
            cached.sync_first(size)

    def map(self, size: int, *, writable: bool = False) -> MappedFile:
        self._check()
        if writable and not self._writable:
            raise disk_error(errno.EBADF, self.path)
        if not 0 < size <= len(self.cached.data):
            raise disk_error(errno.EINVAL, self.path)
        self.disk.begin("read", self.path)
        return SimulatedMappedFile(self, size, writable)

    def fileno(self) -> int | None:
        self._check()
        return None

    def close(self) -> None:
        self.incarnation.check()
        if self._is_open:
            self._is_open = False
            self.disk.closed(self.cached)

    def _check(self) -> None:
        self.incarnation.check()
        if not self._is_open:
            raise disk_error(errno.EBADF, self.path)

    def _check_write(self) -> None:
        self.incarnation.check()
        if not (self._is_open and self._writable):
            raise disk_error(errno.EBADF, self.path)

    def _refuse_while_mapped(self) -> None:
        if self.cached.mapping_count:
            raise disk_error(errno.EBUSY, self.path)

    def _begin_read(self, position: int, size: int) -> None:
        self._check()
        if position < 0 or size < 0:
            raise disk_error(errno.EINVAL, self.path)
        disk = self.disk
        disk.begin("read", self.path, size)
        rate = disk.faults.bit_rot
        if rate and disk.random.random() < rate:
            end = min(position + size, len(self.cached.data))
            if end > position:
                self.cached.rot(disk.random.randrange(position * 8, end * 8))
                disk.count("bit_rot")

    def _store(self, position: int, data: Buffer) -> None:
        disk, cached, size = self.disk, self.cached, len(data)
        try:
            disk.begin("write", self.path, size)
        except (OSError, NodeKilled):
            self._store_prefix(position, data, disk.random.randrange(size + 1))
            raise
        if not size:
            return
        if disk.faults.capacity_bytes is None:
            disk.counted_bytes = None
        else:
            room = disk.room_for(cached, position + size)
            if room < position + size:
                disk.count("no_space")
                self._store_prefix(position, data, max(0, room - position))
                raise disk_error(errno.ENOSPC, self.path)
        disk.bytes_change(cached)
        cached.write(position, data)

    def _store_prefix(self, position: int, data: Buffer, size: int) -> None:
        if size:
            self.disk.bytes_change(self.cached)
            self.cached.write(position, memoryview(data)[:size])
        self.disk.room_changed()


class SimulatedFileLock(FileLock):
    """A lock that a kill releases."""

    __slots__ = ("_file", "path")

    def __init__(self, file: SimulatedFile, path: str) -> None:
        self._file = file
        self.path = path
        file.cached.is_locked = True

    def release(self) -> None:
        file = self._file
        file.incarnation.check()
        try:
            file.fileno()
        except OSError:
            return
        file.cached.is_locked = False
        file.close()


class SimulatedFiles(Files):
    """The names of a simulated disk, for one incarnation."""

    __slots__ = ("_disk", "_incarnation")

    def __init__(self, disk: SimulatedDisk, incarnation: Incarnation) -> None:
        self._disk = disk
        self._incarnation = incarnation

    def open(self, path: str, mode: Mode = "read") -> File:
        return self._open(path, mode)

    def stat(self, path: str) -> FileStat:
        self._incarnation.check()
        node = self._disk.find(path)
        if isinstance(node, Directory):
            return FileStat(0, 0, node.modified_ms, is_dir=True)
        return FileStat(len(node.data), node.charged_bytes, node.modified_ms, is_dir=False)

    def exists(self, path: str) -> bool:
        self._incarnation.check()
        try:
            self._disk.find(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def list(self, path: str) -> builtins.list[str]:
        self._incarnation.check()
        directory = self._disk.directory(path)
        self._disk.begin("read", path)
        return sorted(directory.entries)

    def make_dirs(self, path: str) -> None:
        self._incarnation.check()
        wanted = [path]
        while not self._is_made(wanted[-1], path):
            wanted.append(parent_path(wanted[-1]))
        self.sync_dir(parent_path(wanted.pop()))
        while wanted:
            self._is_made(wanted[-1], path)
            self.sync_dir(parent_path(wanted.pop()))

    def make_dir(self, path: str) -> None:
        self._incarnation.check()
        if self.exists(path):
            raise disk_error(errno.EEXIST, path)
        if not self._is_made(path, path):
            raise missing(path.rpartition("/")[2], path)

    def _is_made(self, path: str, wanted: str) -> bool:
        """Make the directory. Return whether it exists now; False if its parent is missing."""
        try:
            directory, name, asks_for_dir = self._disk.place(path)
        except FileNotFoundError:
            if not path:
                raise
            return False
        if name in NOT_NAMES:
            return True
        found = directory.entries.get(name)
        if found is None:
            refused = missing(name, wanted)
            if refused.errno != errno.ENOENT:
                raise refused
            self._disk.begin("write", path)
            directory.add(name, Directory(self._disk.now_ms()))
            self._disk.names_changed(directory)
        elif not isinstance(found, Directory):
            raise disk_error(errno.ENOTDIR if asks_for_dir else errno.EEXIST, path)
        return True

    def remove(self, path: str) -> None:
        self._incarnation.check()
        directory, name, asks_for_dir = self._disk.place(path)
        found = directory if name in NOT_NAMES else directory.entries.get(name)
        if found is None:
            raise missing(name, path)
        if isinstance(found, Directory):
            raise disk_error(errno.EISDIR, path)
        if asks_for_dir:
            raise disk_error(errno.ENOTDIR, path)
        self._disk.begin("write", path)
        directory.remove(name)
        self._disk.names_changed(directory)

    def remove_dir(self, path: str) -> None:
        self._incarnation.check()
        directory, name, _ = self._disk.place(path)
        if name in NOT_NAMES:
            raise disk_error(_NOT_REMOVED[name], path)
        found = self._disk.directory(path)
        if found.entries:
            raise disk_error(errno.ENOTEMPTY, path)
        self._disk.begin("write", path)
        directory.remove(name)
        self._disk.names_changed(directory)

    def rename(self, source: str, target: str) -> None:
        self._incarnation.check()
        try:
            directory, old, new = self._renamed(source, target)
            if old != new:
                self._disk.begin("write", target)
        except OSError as error:
            raise OSError(error.errno, error.strerror, source, None, target) from None
        if old != new:
            directory.rename(old, new)
            self._disk.names_changed(directory)

    def _renamed(self, source: str, target: str) -> tuple[Directory, str, str]:
        """Return the directory and both names, if the rename is possible."""
        directory, old, old_asks_for_dir = self._disk.place(source)
        target_directory, new, new_asks_for_dir = self._disk.place(target)
        if directory is not target_directory:
            raise disk_error(errno.EXDEV, source)
        if old in NOT_NAMES or new in NOT_NAMES:
            raise disk_error(errno.EBUSY, source)
        node, replaced = directory.entries.get(old), directory.entries.get(new)
        if node is None:
            raise missing(old, source)
        if replaced is None and (refused := missing(new, target)).errno != errno.ENOENT:
            raise refused
        is_dir = isinstance(node, Directory)
        if not is_dir and (old_asks_for_dir or new_asks_for_dir):
            raise disk_error(errno.ENOTDIR, source)
        if isinstance(replaced, Directory) and old != new:
            if not is_dir:
                raise disk_error(errno.EISDIR, source)
            if replaced.entries:
                raise disk_error(errno.ENOTEMPTY, source)
        elif replaced is not None and is_dir and old != new:
            raise disk_error(errno.ENOTDIR, source)
        return directory, old, new

    def sync_dir(self, path: str) -> None:
        self._incarnation.check()
        directory = self._disk.directory(path)
        try:
            self._disk.begin("sync", path)
        except OSError:
            self._disk.is_read_only = True
            raise
        directory.sync()

    def lock(self, path: str) -> FileLock:
        file = self._open(path, "write")
        if file.cached.is_locked:
            file.close()
            raise disk_error(errno.EAGAIN, path)
        return SimulatedFileLock(file, path)

    def temporary_dir(self, prefix: str = "moldau-") -> str:
        self._incarnation.check()
        path = next(
            candidate
            for number in count(1)
            if not self.exists(candidate := f"/tmp/{prefix}{number}")  # noqa: S108
        )
        self.make_dirs(path)
        return path

    def free_bytes(self, path: str) -> int:
        self._incarnation.check()
        self._disk.find(path)
        return self._disk.free_bytes()

    def total_bytes(self, path: str) -> int:
        self._incarnation.check()
        self._disk.find(path)
        return self._disk.total_bytes()

    def _open(self, path: str, mode: Mode) -> SimulatedFile:
        disk, incarnation = self._disk, self._incarnation
        incarnation.check()
        directory, name, asks_for_dir = disk.place(path)
        found = directory if name in NOT_NAMES else directory.entries.get(name)
        if asks_for_dir and mode in ("write", "create"):
            raise disk_error(errno.EISDIR, path)
        if mode == "create" and found is not None:
            raise disk_error(errno.EEXIST, path)
        if isinstance(found, Directory):
            raise disk_error(errno.EISDIR, path)
        if found is None:
            refused = missing(name, path)
            if mode in ("read", "update") or refused.errno != errno.ENOENT:
                raise refused
            disk.begin("write", path)
            found = CachedFile(disk.sector_bytes, disk.now_ms())
            directory.add(name, found)
            disk.names_changed(directory)
        elif asks_for_dir:
            raise disk_error(errno.ENOTDIR, path)
        else:
            disk.begin("read", path)
        return SimulatedFile(disk, incarnation, found, path, mode != "read")
