"""`Files` on the operating system: POSIX calls on descriptors, without buffers in between.

Invariants: a call that returned did all of its work (short writes and reads are repeated here, and
Python retries EINTR), and an OSError always names its file. `files.py` has the guarantees.

Plain descriptors are used and not Python's file objects, which add a cursor, a buffer that hides
when bytes reach the kernel, and 0.5-1 us a call. The code is tuned for Linux; on macOS `sync` syncs
the drive itself (F_FULLFSYNC), and `allocate` does nothing.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import mmap
import os
import stat
from collections.abc import Callable, Sequence

from moldau.runtime.files import (
    Buffer,
    File,
    FileLock,
    Files,
    FileStat,
    MappedFile,
    Mode,
    OpenFiles,
    flat,
    parent_path,
)

_FLAGS: dict[Mode, int] = {
    "read": os.O_RDONLY,
    "update": os.O_RDWR,
    "write": os.O_RDWR | os.O_CREAT,
    "create": os.O_RDWR | os.O_CREAT | os.O_EXCL,
}
_FILE_PERMISSIONS = 0o640
_DIR_PERMISSIONS = 0o750
_PARTS_MAX = 1024  # IOV_MAX on Linux and macOS
_CLOSED = -1
_CANNOT = frozenset((errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL, errno.ENOTTY))
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)


def _named(error: OSError, path: str) -> OSError:
    if error.filename is None:
        error.filename = path
    return error


def _refused(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)


class RealMappedFile(MappedFile):
    """A shared mapping: stored data is in the page cache at once, as after any write."""

    __slots__ = ("_buffer", "_file", "_memory", "_size", "_writable")

    def __init__(self, file: RealFile, fd: int, size: int, writable: bool) -> None:
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        self._memory = mmap.mmap(fd, size, access=access)
        self._size = size
        self._buffer = memoryview(self._memory).toreadonly()
        self._writable = writable
        self._file: RealFile | None = file
        file.mapping_count += 1

    @property
    def buffer(self) -> memoryview:
        return self._buffer

    def write(self, position: int, data: Buffer) -> None:
        if type(data) is memoryview:
            data = flat(data)
        end = position + len(data)
        if self._file is None or not self._writable or not 0 <= position <= end <= self._size:
            file = self._opened()
            raise _refused(errno.EINVAL if self._writable else errno.EBADF, file.path)
        self._memory[position:end] = data

    def sync(self) -> None:
        file = self._opened()
        try:
            self._memory.flush()
        except OSError as error:
            raise _named(error, file.path) from None

    def close(self) -> None:
        if self._file is None:
            return
        self._buffer.release()
        self._memory.close()
        self._file.mapping_count -= 1
        self._file = None

    def _opened(self) -> RealFile:
        if self._file is None:
            raise _refused(errno.EBADF, "")
        return self._file


class RealFile(File):
    """One descriptor. A writer tracks the file's end itself, which saves an fstat an append."""

    __slots__ = ("_end", "_fd", "_writable", "mapping_count", "path")

    def __init__(self, fd: int, path: str, writable: bool, end: int) -> None:
        self._fd = fd
        self.path = path
        self._writable = writable
        self._end = end
        self.mapping_count = 0

    @property
    def size(self) -> int:
        if self._writable and self._fd != _CLOSED:
            return self._end
        return self._actual_size()

    def read_at(self, position: int, size: int) -> bytes:
        try:
            data = os.pread(self._fd, size, position)
            if len(data) == size or not data:
                return data
            pieces = [data]
            missing = size - len(data)
            while missing and (data := os.pread(self._fd, missing, position + size - missing)):
                pieces.append(data)
                missing -= len(data)
            return b"".join(pieces)
        except OSError as error:
            raise _named(error, self.path) from None

    def read_into(self, position: int, buffer: bytearray | memoryview) -> int:
        if position < 0:  # preadv takes -1 for the cursor's position
            raise _refused(errno.EINVAL, self.path)
        rest = flat(memoryview(buffer))
        filled, size = 0, len(rest)
        try:
            while filled < size:
                count = _read_some(self._fd, rest, position + filled)
                if not count:
                    break
                filled += count
                rest = rest[count:]
        except OSError as error:
            raise _named(error, self.path) from None
        return filled

    def write_at(self, position: int, data: Buffer) -> None:
        if type(data) is memoryview:
            data = flat(data)
        end = position + len(data)
        if data and end > self._end:
            self._refuse_while_mapped()
        try:
            written = os.pwrite(self._fd, data, position)
            if written < len(data):
                _write_rest(self._fd, memoryview(data)[written:], position + written)
        except OSError as error:
            self._find_end()
            raise _named(error, self.path) from None
        if data and end > self._end:
            self._end = end

    def append(self, data: Buffer) -> int:
        if self.mapping_count:
            self._refuse_while_mapped()
        start = self._end
        size = data.nbytes if type(data) is memoryview else len(data)
        try:
            written = os.pwrite(self._fd, data, start)
            if written < size:
                _write_rest(self._fd, flat(memoryview(data))[written:], start + written)
        except OSError as error:
            self._find_end()
            raise _named(error, self.path) from None
        self._end = start + size
        return start

    def append_parts(self, parts: Sequence[Buffer]) -> int:
        self._refuse_while_mapped()
        start = self._end
        try:
            if len(parts) == 1:
                part = parts[0]
                if type(part) is memoryview:
                    part = flat(part)
                written = os.pwrite(self._fd, part, start)
                if written < len(part):
                    _write_rest(self._fd, memoryview(part)[written:], start + written)
                self._end = start + len(part)
            else:
                for first in range(0, len(parts), _PARTS_MAX):
                    self._end += _write_parts(
                        self._fd, parts[first : first + _PARTS_MAX], self._end
                    )
        except OSError as error:
            self._find_end()
            raise _named(error, self.path) from None
        return start

    def truncate(self, size: int) -> None:
        self._refuse_while_mapped()
        if not self._writable:
            raise _refused(errno.EBADF, self.path)
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            raise _named(error, self.path) from None
        self._end = size

    def allocate(self, size: int) -> None:
        if not self._writable or self._fd == _CLOSED:
            raise _refused(errno.EBADF, self.path)
        code = _allocate_keeping_size(self._fd, size)
        if code:
            raise _refused(code, self.path)

    def sync(self, *, data_only: bool = False) -> None:
        if self._fd == _CLOSED:
            raise _refused(errno.EBADF, self.path)
        try:
            if _FULL_SYNC is not None and _sync_drive(self._fd, _FULL_SYNC):
                return
            if data_only and _FULL_SYNC is None:
                os.fdatasync(self._fd)
            else:
                os.fsync(self._fd)
        except OSError as error:
            raise _named(error, self.path) from None

    def map(self, size: int, *, writable: bool = False) -> MappedFile:
        if writable and not self._writable:
            raise _refused(errno.EBADF, self.path)
        if not 0 < size <= self._actual_size():
            raise _refused(errno.EINVAL, self.path)
        try:
            return RealMappedFile(self, self._fd, size, writable)
        except OSError as error:
            raise _named(error, self.path) from None

    def fileno(self) -> int | None:
        if self._fd == _CLOSED:
            raise _refused(errno.EBADF, self.path)
        return self._fd

    def close(self) -> None:
        fd, self._fd = self._fd, _CLOSED
        if fd == _CLOSED:
            return
        try:
            os.close(fd)
        except OSError as error:
            raise _named(error, self.path) from None

    def _refuse_while_mapped(self) -> None:
        if self.mapping_count:
            raise _refused(errno.EBUSY, self.path)

    def _actual_size(self) -> int:
        try:
            return os.fstat(self._fd).st_size
        except OSError as error:
            raise _named(error, self.path) from None

    def _find_end(self) -> None:
        """Read the file's size again after a failed write."""
        if self._fd != _CLOSED:
            self._end = self._actual_size()


class RealFileLock(FileLock):
    """A lock by flock: the kernel releases it when the process ends, however it ends."""

    __slots__ = ("_fd", "path")

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self.path = path

    def release(self) -> None:
        fd, self._fd = self._fd, _CLOSED
        if fd != _CLOSED:
            fcntl.flock(fd, fcntl.LOCK_UN)  # closing is not enough if a fork has a copy
            os.close(fd)


class RealFiles(Files):
    """The file system that this process uses."""

    __slots__ = ()

    def open(self, path: str, mode: Mode = "read") -> File:
        fd = os.open(path, _FLAGS[mode] | os.O_CLOEXEC, _FILE_PERMISSIONS)
        try:
            status = os.fstat(fd)
            if stat.S_ISDIR(status.st_mode):
                raise _refused(errno.EISDIR, path)
        except OSError as error:
            os.close(fd)
            raise _named(error, path) from None
        return RealFile(fd, path, mode != "read", status.st_size)

    def read_whole(self, path: str) -> bytes:
        """Read a file as `Files.read_whole` does. A pipe has neither a size nor positions: it is
        read with a cursor, as Python's files have one."""
        try:
            with builtins.open(path, "rb") as file:
                return file.read()
        except OSError as error:
            raise _named(error, path) from None

    def stat(self, path: str) -> FileStat:
        status = os.stat(path)
        return FileStat(
            size_bytes=status.st_size,
            allocated_bytes=status.st_blocks * 512,
            modified_ms=status.st_mtime_ns // 1_000_000,
            is_dir=stat.S_ISDIR(status.st_mode),
        )

    def exists(self, path: str) -> bool:
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def list(self, path: str) -> builtins.list[str]:
        return sorted(os.listdir(path))

    def make_dirs(self, path: str) -> None:
        wanted = [path]
        while not _is_made(wanted[-1]):
            wanted.append(parent_path(wanted[-1]))
        self._sync_above(wanted.pop())
        while wanted:
            if not _is_made(wanted[-1]):
                raise _refused(errno.ENOENT, path)
            self._sync_above(wanted.pop())

    def make_dir(self, path: str) -> None:
        os.mkdir(path, _DIR_PERMISSIONS)

    def _sync_above(self, path: str) -> None:
        """Make the name of a directory durable, if we may have created it."""
        above = parent_path(path)
        try:
            self.sync_dir(above)
        except PermissionError:
            if os.access(above, os.W_OK):  # else no earlier run of ours has created a name there
                raise

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_dir(self, path: str) -> None:
        os.rmdir(path)

    def remove_tree(self, path: str) -> None:
        """Remove a tree as `Files.remove_tree` does, but never through a symbolic link."""
        import shutil

        if self.exists(path):
            shutil.rmtree(path)

    def rename(self, source: str, target: str) -> None:
        if not _share_directory(source, target):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source, None, target)
        os.rename(source, target)

    def sync_dir(self, path: str) -> None:
        """Sync a directory as `Files.sync_dir` does; some file systems keep names without it."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if _FULL_SYNC is None or not _sync_drive(fd, _FULL_SYNC):
                os.fsync(fd)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise _named(error, path) from None
        finally:
            os.close(fd)

    def lock(self, path: str) -> FileLock:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_PERMISSIONS)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            raise _named(error, path) from None
        return RealFileLock(fd, path)

    def temporary_dir(self, prefix: str = "moldau-") -> str:
        import tempfile

        return tempfile.mkdtemp(prefix=prefix)

    def free_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize

    def open_files_max(self) -> int | None:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return None if limit == resource.RLIM_INFINITY else limit

    def open_files(self) -> OpenFiles | None:
        limit = self.open_files_max()
        return None if limit is None else OpenFiles(_descriptors(), limit)


def _descriptors() -> int:
    """Return the number of this process's descriptors, without the one that this call opens."""
    for path in ("/proc/self/fd", "/dev/fd"):
        try:
            return len(os.listdir(path)) - 1
        except OSError:
            continue
    return 0


def _is_made(path: str) -> bool:
    """Make the directory. Return whether it exists now; False if its parent is missing."""
    try:
        os.mkdir(path, _DIR_PERMISSIONS)
    except FileExistsError:
        if not stat.S_ISDIR(os.stat(path).st_mode):
            raise
    except FileNotFoundError:
        if not path:
            raise
        return False
    return True


def _share_directory(source: str, target: str) -> bool:
    """Whether one sync makes both names durable. The kernel reports other errors."""
    one, other = parent_path(source), parent_path(target)
    if not (source and target) or one == other:
        return True
    if not (os.path.isdir(one) and os.path.isdir(other)):
        return True
    return os.path.samefile(one, other)


def _sync_drive(fd: int, call: int) -> bool:
    """Sync the drive itself. Return False if the file system cannot, as one of a network."""
    try:
        fcntl.fcntl(fd, call)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
        return False
    return True


def _write_rest(fd: int, rest: memoryview, position: int) -> None:
    while rest:
        written = os.pwrite(fd, rest, position)
        if not written:
            raise OSError(errno.EIO, "the system stores nothing and says no reason")
        position += written
        rest = rest[written:]


def _write_parts(fd: int, parts: Sequence[Buffer], position: int) -> int:
    """Write `_PARTS_MAX` parts or fewer, in one call if possible, and return their length."""
    parts = [flat(part) if type(part) is memoryview else part for part in parts]
    length = sum(map(len, parts))
    written = os.pwritev(fd, parts, position) if hasattr(os, "pwritev") else 0
    if written < length:
        _write_rest(fd, memoryview(b"".join(parts))[written:], position + written)
    return length


def _read_some(fd: int, buffer: memoryview, position: int) -> int:
    if hasattr(os, "preadv"):
        return os.preadv(fd, [buffer], position)
    data = os.pread(fd, len(buffer), position)
    buffer[: len(data)] = data
    return len(data)


_KEEP_SIZE = 1
_fallocate: Callable[[int, int], int] | None = None


def _allocate_keeping_size(fd: int, size: int) -> int:
    """Return 0 or an errno. Python's posix_fallocate changes the file's size: hence ctypes."""
    global _fallocate
    if _fallocate is None:
        _fallocate = _find_fallocate()
    while True:
        code = _fallocate(fd, size)
        if code != errno.EINTR:
            return 0 if code in _CANNOT else code


def _find_fallocate() -> Callable[[int, int], int]:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    call = getattr(libc, "fallocate64", None) or getattr(libc, "fallocate", None)
    if call is None:
        return lambda fd, size: 0
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)

    def fallocate(fd: int, size: int) -> int:
        return 0 if call(fd, _KEEP_SIZE, 0, size) == 0 else ctypes.get_errno()

    return fallocate
