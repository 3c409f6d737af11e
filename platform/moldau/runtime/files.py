"""Files for a log, and the guarantees of each call about what survives.

What survives the death of the process (kill -9): every call that returned. Bytes, sizes and names
are in the operating system's page cache, which outlives us. An unfinished write may have left a
prefix. Locks and mappings end with the process; bytes stored through a mapping stay.

What survives the loss of power:

- bytes and size: the state when `File.sync` (or `MappedFile.sync`) last returned. Of later writes,
  each sector may be there, be missing (old bytes, or zeros beyond the old end) or be torn; the size
  is any that the file had since then or passed through. The order of the writes does not matter.
- names: the state when `Files.sync_dir` of their directory last returned. Of later creations,
  renames and removals, any may be missing; those of one name in order. A rename is never half
  done: the new name means the old file or the new one.
- a synced file without a synced name can be gone, and a synced name can lead to an empty file: a
  new file needs both. `write_text_atomic` does it all in the one right order.
- a failed sync: nothing more than before, for ever. The kernel has forgotten which bytes it could
  not write, so a second sync that succeeds proves nothing. After an OSError from `sync` a caller
  must not use data written since the last successful one: fail the directory, recover elsewhere.

The interface is synchronous on purpose. A write into the page cache costs 1-5 us, a switch to a
thread 22-60 us; only `sync` and other long work go through `Runtime.run_blocking`.

Paths are absolute and use `/`. Errors are always OSError with `errno` and `filename`, except for
paths that no file system can have: NUL and lone surrogates are a ValueError. A file has one writer
at a time; any number of readers see what it wrote.
"""

from __future__ import annotations

import errno
import os
import posixpath
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Literal, NamedTuple, Self, TypeAlias

from moldau.deferred import dataclass

Buffer: TypeAlias = bytes | bytearray | memoryview


def flat(view: memoryview) -> memoryview:
    """Return the same memory as single bytes. Raise BufferError if it has gaps."""
    if view.format == "B" and view.ndim == 1 and view.contiguous:
        return view
    if not view.c_contiguous:
        raise BufferError("the memory is not contiguous")
    return view.cast("B")


def parent_path(path: str) -> str:
    """Return the path of the directory that contains the path's last part, final slash or not."""
    above = posixpath.dirname(path.rstrip("/"))
    return above or ("/" if path.startswith("/") else ".")


Mode: TypeAlias = Literal["read", "update", "write", "create"]
"""The mode in which a file is opened.

`read`    it must exist; writing is refused (EBADF).
`update`  it must exist; read and write.
`write`   created if it is missing; read and write.
`create`  it must not exist (FileExistsError); read and write.
"""


@dataclass(frozen=True, slots=True)
class FileStat:
    """The state of a file or directory. `modified_ms` is wall time; `allocated_bytes` disk
    space."""

    size_bytes: int
    allocated_bytes: int
    modified_ms: int
    is_dir: bool


class OpenFiles(NamedTuple):
    """The number of open files of this process, sockets included, and its limit."""

    opened: int
    limit: int


class MappedFile(ABC):
    """The first bytes of a file as memory. Read `buffer` with unpack_from, change it with `write`.

    `buffer` and every slice of it must be released before `close`, and becomes invalid with it. If
    the disk cannot read a page, the process gets no error but a signal; also if a write needs space
    that `File.allocate` has not reserved, and the disk is full: map only files that can be rebuilt,
    such as indexes.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def buffer(self) -> memoryview:
        """A read-only view that shows every write at once, also those of other handles."""

    @abstractmethod
    def write(self, position: int, data: Buffer) -> None:
        """Store `data`. It must end within the mapping: this never makes the file grow."""

    @abstractmethod
    def sync(self) -> None:
        """Make the mapped bytes and the file's size durable; otherwise as `File.sync`.

        Data that was written beyond the mapping needs a sync of its own.
        """

    @abstractmethod
    def close(self) -> None:
        """Unmap. Written data is kept, but not made durable. A second call does nothing.

        Raise BufferError, and stay mapped, while there are slices of `buffer`.
        """


class File(ABC):
    """An open file. Positions are absolute: there is no cursor that two readers could share."""

    __slots__ = ()

    path: str

    @property
    @abstractmethod
    def size(self) -> int:
        """The present size in bytes."""

    @abstractmethod
    def read_at(self, position: int, size: int) -> bytes:
        """Return the `size` bytes from `position`; fewer only at the file's end."""

    @abstractmethod
    def read_into(self, position: int, buffer: bytearray | memoryview) -> int:
        """Fill `buffer` from `position`; return the number of bytes, short only at the end."""

    @abstractmethod
    def write_at(self, position: int, data: Buffer) -> None:
        """Store all of `data`. If it lies beyond the end, the file grows, with zeros in between.

        Empty data changes nothing, at any position. After an error any part of `data` may be
        stored.
        """

    @abstractmethod
    def append_parts(self, parts: Sequence[Buffer]) -> int:
        """Store all parts, one after another, at the end; return the position of the first.

        After an error a prefix may be stored: truncate to the old end before appending again.
        """

    def append(self, data: Buffer) -> int:
        """Append one part, as `append_parts` does."""
        return self.append_parts((data,))

    @abstractmethod
    def truncate(self, size: int) -> None:
        """Make the file exactly `size` bytes, with zeros where it grows. EBUSY while mapped."""

    @abstractmethod
    def allocate(self, size: int) -> None:
        """Reserve disk space, so that writes in the first `size` bytes cannot fail with ENOSPC.

        The file's size does not change. Raise ENOSPC if there is no space; do nothing if the file
        system has no such call. Reserved space beyond the end is freed on truncate.
        """

    @abstractmethod
    def sync(self, *, data_only: bool = False) -> None:
        """Make durable what was written before: bytes and size, but not the name.

        `data_only` may skip times and is cheaper if the file was allocated before.
        """

    @abstractmethod
    def map(self, size: int, *, writable: bool = False) -> MappedFile:
        """Map the first `size` bytes, 1 or more, all of which must exist (EINVAL).

        While a mapping is open the file's size cannot change: EBUSY. It must not be changed by
        another handle either, but only the simulated disk detects that.
        """

    @abstractmethod
    def fileno(self) -> int | None:
        """Return the descriptor for sendfile; None if there is no real file (simulation)."""

    @abstractmethod
    def close(self) -> None:
        """Close the file; nothing becomes durable. Then `close` does nothing, others raise
        EBADF."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()


class FileLock(ABC):
    """A file that one process has locked, until `release` or the end of the process."""

    __slots__ = ()

    path: str

    @abstractmethod
    def release(self) -> None:
        """Release the lock; the file stays. A second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.release()


class Files(ABC):
    """The file system: `moldau.runtime.real_files`, or in a simulation `.simulated.disk`."""

    __slots__ = ()

    @abstractmethod
    def open(self, path: str, mode: Mode = "read") -> File:
        """Open a file. The name of a new file is durable after `sync_dir` of its directory."""

    @abstractmethod
    def stat(self, path: str) -> FileStat:
        """Return the state of a file or directory. Raise FileNotFoundError if it does not exist."""

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Whether the name leads to a file or directory."""

    @abstractmethod
    def list(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""

    @abstractmethod
    def make_dirs(self, path: str) -> None:
        """Make a directory and its missing parents; it may exist already.

        Its name is durable when this returns, even if an earlier process made the directory and
        died before its sync: data that is synced inside cannot vanish with it.
        """

    @abstractmethod
    def make_dir(self, path: str) -> None:
        """Make one directory; its name is durable after `sync_dir` of its parent.

        Raise FileExistsError if the name exists.
        """

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file's name. Open handles stay usable; the last close frees the space."""

    @abstractmethod
    def remove_dir(self, path: str) -> None:
        """Remove an empty directory. Raise ENOTEMPTY if it is not empty."""

    @abstractmethod
    def rename(self, source: str, target: str) -> None:
        """Give a file or directory another name in the same directory, replacing a file there.

        Atomic: `target` leads to the old file or the new one at every moment, also after a power
        loss. Between two directories raise EXDEV, since no single sync could make both names
        durable.
        """

    @abstractmethod
    def sync_dir(self, path: str) -> None:
        """Make the present names in this directory durable."""

    @abstractmethod
    def lock(self, path: str) -> FileLock:
        """Lock the file, created if missing. Raise BlockingIOError if another process has it."""

    def lock_directory(self, path: str, name: str, in_use: Callable[[], Exception]) -> FileLock:
        """Make a directory if it is missing, and lock it for this process by its file `name`.

        Raise what `in_use` returns if another process has it."""
        self.make_dirs(path)
        try:
            return self.lock(f"{path}/{name}")
        except BlockingIOError:
            raise in_use() from None

    @abstractmethod
    def temporary_dir(self, prefix: str = "moldau-") -> str:
        """Return a new empty directory for files that need not survive. The caller removes it."""

    @abstractmethod
    def free_bytes(self, path: str) -> int:
        """Return the free space of the disk that contains this directory."""

    @abstractmethod
    def total_bytes(self, path: str) -> int:
        """Return the size of the disk that contains this directory."""

    def open_files_max(self) -> int | None:
        """Return the limit of open files and sockets of this process; None if there is none."""
        return None

    def open_files(self) -> OpenFiles | None:
        """Return the open files and limits; None without a limit. A microsecond for each file."""
        return None

    def remove_tree(self, path: str) -> None:
        """Remove a directory with its content; it may be missing.

        Not atomic: if half of it would be misleading, first rename it to a name that start-up
        removes.
        """
        if not self.exists(path):
            return
        for name in self.list(path):
            child = posixpath.join(path, name)
            if self.stat(child).is_dir:
                self.remove_tree(child)
            else:
                self.remove(child)
        self.remove_dir(path)

    def read_whole(self, path: str) -> bytes:
        """Return the whole content of a file; of a pipe, until its other end is closed."""
        with self.open(path) as file:
            return file.read_at(0, file.size)

    def read_text(self, path: str) -> str:
        """Return the whole file, decoded as UTF-8. Raise UnicodeDecodeError if it is not UTF-8."""
        return self.read_whole(path).decode("utf-8")

    def write_text_atomic(self, path: str, text: str) -> None:
        """Replace the file as a whole; it is durable with its name when this returns.

        Whatever happens, the name leads to all of the old text or all of the new. `path` + ".tmp"
        is used meanwhile and may remain after a crash; the next call reuses it.
        """
        if not posixpath.basename(path):
            code = errno.EISDIR if path else errno.ENOENT
            raise OSError(code, os.strerror(code), path)
        temporary = path + ".tmp"
        with self.open(temporary, "write") as file:
            file.truncate(0)
            file.append(text.encode("utf-8"))
            file.sync()
        self.rename(temporary, path)
        self.sync_dir(parent_path(path))
