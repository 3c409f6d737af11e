"""Files as a log needs them, and the promise each call makes about what survives.

What survives the death of the process (kill -9): every call that returned. Bytes, sizes and names
lie in the operating system's page cache, which outlives us. A write that was under way may have
left a prefix. Locks and mappings end with the process; bytes stored through a mapping stay.

What survives the loss of power:
- bytes and size: what was there when `File.sync` (or `MappedFile.sync`) last returned. Of what was
  written since, each sector may be there, be missing (old bytes, or zeros beyond the old end) or
  be torn; the size is anything the file had since then or passed through. Order means nothing.
- names: what was there when `Files.sync_dir` of the directory that holds them last returned. Of
  the creations, renames and removals since, any may be missing; those of one name in order. A
  rename is never half done: the new name means the old file or the new one.
- a synced file without a synced name can be gone, and a synced name can lead to an empty file: a
  new file needs both. `write_text_atomic` does it all in the one right order.
- a failed sync: nothing more than before, for ever. The kernel has forgotten which bytes it could
  not write, so a second sync that succeeds proves nothing. After an OSError from `sync` a caller
  must not use what was written since the last good one: fail the directory, recover from elsewhere.

The interface is synchronous on purpose. A write into the page cache costs 1-5 us, a hop to a thread
22-60 us; only `sync` and other long work go through `Runtime.run_blocking`.

Paths are absolute and use `/`. Errors are always OSError with `errno` and `filename`, but for paths
that no file system can have: NUL and lone surrogates are a ValueError. A file has one writer at a
time; any number of readers beside it see what it wrote.
"""

from __future__ import annotations

import errno
import os
import posixpath
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, NamedTuple, Self, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


def flat(view: memoryview) -> memoryview:
    """The same memory as single bytes, whatever its items are; BufferError when it has gaps."""
    if view.format == "B" and view.ndim == 1 and view.contiguous:
        return view
    if not view.c_contiguous:
        raise BufferError("the memory is not contiguous")
    return view.cast("B")


def parent_path(path: str) -> str:
    """What names the directory that holds a path's last piece; a slash at the end is no piece."""
    above = posixpath.dirname(path.rstrip("/"))
    return above or ("/" if path.startswith("/") else ".")


Mode: TypeAlias = Literal["read", "update", "write", "create"]
"""How a file is opened.

`read`    it must exist; writing is refused (EBADF).
`update`  it must exist; read and write.
`write`   made when missing; read and write.
`create`  must not exist (FileExistsError); read and write.
"""


@dataclass(frozen=True, slots=True)
class FileStat:
    """What a name leads to. `modified_ms` is wall time; `allocated_bytes` what it takes on disk."""

    size_bytes: int
    allocated_bytes: int
    modified_ms: int
    is_dir: bool


class OpenFiles(NamedTuple):
    """What this process holds open, files and sockets together, and how much it may."""

    opened: int
    limit: int
    mappings_limit: int | None = None
    """How many memory mappings the system allows; None if it does not say."""


class MappedFile(ABC):
    """The first bytes of a file as memory. Read `buffer` with unpack_from, change it with `write`.

    `buffer` and every slice of it must be let go before `close`, and dies with it.
    A disk that cannot read a page gives no error here but a signal, and so does a full one when a
    write needs room that `File.allocate` has not reserved: map only files that can be made anew,
    such as indexes.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def buffer(self) -> memoryview:
        """A read-only view that shows every write at once, also those of other handles."""

    @abstractmethod
    def write(self, position: int, data: Buffer) -> None:
        """Store `data`. It must end within the mapping: writing never makes a file grow here."""

    @abstractmethod
    def sync(self) -> None:
        """Make the mapped bytes durable, and the file's size; otherwise as `File.sync`.

        What was written beyond the mapping waits for a sync of its own.
        """

    @abstractmethod
    def close(self) -> None:
        """Unmap. Keeps what was written, makes nothing durable. A second call does nothing.

        BufferError, and still mapped, while there are slices of `buffer`.
        """


class File(ABC):
    """An open file. Positions are absolute: there is no cursor that two readers could share."""

    __slots__ = ()

    path: str

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes in the file now."""

    @abstractmethod
    def read_at(self, position: int, size: int) -> bytes:
        """The `size` bytes from `position`; fewer only where the file ends."""

    @abstractmethod
    def read_into(self, position: int, buffer: bytearray | memoryview) -> int:
        """Fill `buffer` from `position`; returns how much there was, short only at the end."""

    @abstractmethod
    def write_at(self, position: int, data: Buffer) -> None:
        """Store all of `data`, growing the file (over zeros) when it lies beyond the end.

        No data changes nothing, wherever it lies.
        After an error any part of `data` may be there.
        """

    @abstractmethod
    def append_parts(self, parts: Sequence[Buffer]) -> int:
        """Store all parts, one after the other, at the end; returns the position of the first.

        After an error a prefix may be there: truncate to the old end before appending again.
        """

    def append(self, data: Buffer) -> int:
        """`append_parts` of one part."""
        return self.append_parts((data,))

    @abstractmethod
    def truncate(self, size: int) -> None:
        """Make the file exactly `size` bytes, with zeros where it grows. EBUSY while mapped."""

    @abstractmethod
    def allocate(self, size: int) -> None:
        """Reserve disk space so that the first `size` bytes cannot fail with ENOSPC.

        The file's size does not change. ENOSPC when there is no room; does nothing where the
        file system has no such call. What is reserved beyond the end is free again on truncate.
        """

    @abstractmethod
    def sync(self, *, data_only: bool = False) -> None:
        """Make durable what was written before: bytes and size, not the name.

        `data_only` may leave times behind and is cheaper where the file was allocated before.
        """

    @abstractmethod
    def map(self, size: int, *, writable: bool = False) -> MappedFile:
        """Map the first `size` bytes, 1 or more, all of which must exist (EINVAL).

        While a mapping is open the file's size cannot change: EBUSY. That must not be asked of
        another handle either, but only the simulated disk notices it there.
        """

    @abstractmethod
    def fileno(self) -> int | None:
        """The descriptor for sendfile; None where there is no real file (simulation)."""

    @abstractmethod
    def close(self) -> None:
        """Let go. Makes nothing durable. A second call does nothing; other calls fail (EBADF)."""

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
    """A name that one process holds. Ends with `release` or the process, whichever is first."""

    __slots__ = ()

    path: str

    @abstractmethod
    def release(self) -> None:
        """Let go; the file stays. A second call does nothing."""

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
    """The file system: `moldau.runtime.real_files`, or in simulation `.simulated.disk`."""

    __slots__ = ()

    @abstractmethod
    def open(self, path: str, mode: Mode = "read") -> File:
        """Open a file; a name that this makes is durable after `sync_dir` of its directory."""

    @abstractmethod
    def stat(self, path: str) -> FileStat:
        """What is there; FileNotFoundError when nothing is."""

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Whether the name leads to a file or directory."""

    @abstractmethod
    def list(self, path: str) -> list[str]:
        """The names in a directory, sorted."""

    @abstractmethod
    def make_dirs(self, path: str) -> None:
        """Make a directory and those above it that are missing; fine when it exists.

        Its name is durable when this returns, also when an earlier life made the directory and
        died before it could sync: what is synced inside cannot vanish with it.
        """

    @abstractmethod
    def make_dir(self, path: str) -> None:
        """Make one directory; its name is durable after `sync_dir` of the one above.

        FileExistsError when the name is taken.
        """

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file's name. Open handles go on; the space is free when the last one closes."""

    @abstractmethod
    def remove_dir(self, path: str) -> None:
        """Remove an empty directory (ENOTEMPTY)."""

    @abstractmethod
    def rename(self, source: str, target: str) -> None:
        """Give a file or directory another name in the same directory, replacing a file there.

        Atomic: `target` leads to the old file or the new one at every moment, also after power
        loss. Between two directories: EXDEV, since no single sync could make both names durable.
        """

    @abstractmethod
    def sync_dir(self, path: str) -> None:
        """Make the names in this directory durable, as they are now."""

    @abstractmethod
    def lock(self, path: str) -> FileLock:
        """Hold the file (made when missing) alone; BlockingIOError when another holds it."""

    @abstractmethod
    def temporary_dir(self, prefix: str = "moldau-") -> str:
        """A new empty directory for files that need not survive. The caller removes it."""

    @abstractmethod
    def free_bytes(self, path: str) -> int:
        """Room left on the disk that holds this directory."""

    @abstractmethod
    def total_bytes(self, path: str) -> int:
        """The size of the disk that holds this directory."""

    def open_files_max(self) -> int | None:
        """How many files and sockets this process may hold open; None where nothing limits it."""
        return None

    def open_files(self) -> OpenFiles | None:
        """What is open now, likewise. Takes a microsecond for each file."""
        return None

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all in it; fine when it is missing.

        Not atomic: rename it first to a name that start-up removes, if half of it would mislead.
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
        """All that is in the file; of a pipe, all that comes until its other end is closed."""
        with self.open(path) as file:
            return file.read_at(0, file.size)

    def read_text(self, path: str) -> str:
        """The whole file as UTF-8; UnicodeDecodeError when it is not."""
        return self.read_whole(path).decode("utf-8")

    def write_text_atomic(self, path: str, text: str) -> None:
        """Replace the file as a whole; durable, name and all, when it returns.

        Whatever happens, the name leads to all of the old text or all of the new. `path` + ".tmp"
        is used on the way and may be left behind by a crash; the next call takes it over.
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
