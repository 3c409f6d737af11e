"""Access to files: of this machine, or of any file system of fsspec. The only module with effects.

A path with `://` goes to fsspec, any other to the local file system. `identity` is the inode: a
renamed file keeps it, which shows a rotation. Remote files have none.
"""

from __future__ import annotations

import glob
import os
from abc import ABC, abstractmethod
from typing import Any, BinaryIO

from moldau.connect.api import ConnectError
from moldau.deferred import dataclass
from moldau.plugins.extras import install_command


@dataclass(frozen=True, slots=True)
class FileState:
    """The current size and identity of the file at a path."""

    size: int
    identity: int | None


class Storage(ABC):
    """Reads, lists, writes and renames files. For an atomic write, write a draft and rename it."""

    @abstractmethod
    def state(self, path: str) -> FileState | None:
        """Return the state of a file; None if it does not exist."""

    @abstractmethod
    def read(self, path: str) -> BinaryIO: ...

    @abstractmethod
    def append(self, path: str) -> BinaryIO: ...

    @abstractmethod
    def find(self, pattern: str) -> list[str]:
        """Return the files that a pattern with `*`, `?` and `**` matches, sorted."""

    @abstractmethod
    def below(self, folder: str) -> list[str]:
        """Return all files in a folder and its subfolders, sorted; [] if it does not exist."""

    @abstractmethod
    def write(self, path: str, data: bytes) -> None:
        """Write a whole file. It is durable on return. Missing folders are created."""

    @abstractmethod
    def rename(self, source: str, target: str) -> None:
        """Move a file, and replace an existing target. Missing folders are created."""

    @abstractmethod
    def remove(self, path: str) -> None: ...


class LocalStorage(Storage):
    """The file system of this machine."""

    def state(self, path: str) -> FileState | None:
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return FileState(status.st_size, status.st_ino)

    def read(self, path: str) -> BinaryIO:
        return open(path, "rb")

    def append(self, path: str) -> BinaryIO:
        return open(path, "ab")

    def find(self, pattern: str) -> list[str]:
        return sorted(each for each in glob.glob(pattern, recursive=True) if os.path.isfile(each))

    def below(self, folder: str) -> list[str]:
        found = []
        for where, _, names in os.walk(folder):
            found += [os.path.join(where, name) for name in names]
        return sorted(found)

    def write(self, path: str, data: bytes) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def rename(self, source: str, target: str) -> None:
        folder = os.path.dirname(target)
        os.makedirs(folder, exist_ok=True)
        os.replace(source, target)
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, path: str) -> None:
        os.unlink(path)


class RemoteStorage(Storage):
    """A file system of fsspec; `prefix` is its protocol with `://`."""

    def __init__(self, system: Any, prefix: str) -> None:
        self._system = system
        self._prefix = prefix

    def state(self, path: str) -> FileState | None:
        try:
            return FileState(int(self._system.info(path)["size"]), None)
        except FileNotFoundError:
            return None

    def read(self, path: str) -> BinaryIO:
        opened: BinaryIO = self._system.open(path, "rb")
        return opened

    def append(self, path: str) -> BinaryIO:
        opened: BinaryIO = self._system.open(path, "ab")
        return opened

    def find(self, pattern: str) -> list[str]:
        return sorted(map(self._named, self._system.glob(pattern)))

    def below(self, folder: str) -> list[str]:
        try:
            return sorted(map(self._named, self._system.find(folder)))
        except FileNotFoundError:
            return []

    def write(self, path: str, data: bytes) -> None:
        self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
        self._system.pipe_file(path, data)

    def rename(self, source: str, target: str) -> None:
        self._system.makedirs(target.rpartition("/")[0], exist_ok=True)
        self._system.mv(source, target)

    def remove(self, path: str) -> None:
        self._system.rm_file(path)

    def _named(self, path: str) -> str:
        return path if "://" in path else self._prefix + path


def storage_of(path: str) -> Storage:
    """Return the storage for a path. Raise ConnectError if its package is not installed."""
    if "://" not in path:
        return LocalStorage()
    try:
        import fsspec

        system, _ = fsspec.core.url_to_fs(path)
    except (ImportError, ValueError) as error:
        raise ConnectError(
            f"{path}: {error} -> {install_command('fsspec')}, and the package for that protocol"
        ) from error
    return RemoteStorage(system, path.partition("://")[0] + "://")
