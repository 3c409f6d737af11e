"""Where a savepoint is kept: a directory, as file:///path or a path, or an object store."""

from __future__ import annotations

import posixpath
from typing import Final, Protocol

from moldau.runtime.files import Files
from moldau.runtime.places import absolute_path
from moldau.streams.problems import StreamsError

_FILE: Final = "file://"


class SavepointPlace(Protocol):
    """The files of one savepoint, by name."""

    @property
    def name(self) -> str:
        """The address, for messages."""

    def names(self) -> list[str]:
        """Return the names of the files that are there."""

    def read(self, name: str) -> bytes:
        """Return the bytes of a file that is there."""

    def write(self, name: str, data: bytes) -> None:
        """Write a file. It is durable on return, and whole or not there."""


class DirectoryPlace:
    """A directory of this machine."""

    def __init__(self, path: str, files: Files) -> None:
        self.name = path
        self._files = files

    def names(self) -> list[str]:
        return sorted(self._files.list(self.name)) if self._files.exists(self.name) else []

    def read(self, name: str) -> bytes:
        return self._files.read_whole(posixpath.join(self.name, name))

    def write(self, name: str, data: bytes) -> None:
        self._files.make_dirs(self.name)
        path = posixpath.join(self.name, name)
        with self._files.open(f"{path}.new", "write") as file:
            file.append(data)
            file.sync()
        self._files.rename(f"{path}.new", path)
        self._files.sync_dir(self.name)


def place_of(address: str, files: Files) -> SavepointPlace:
    """Return the place of an address. Raise StreamsError or ConfigError for one that is none."""
    path = address.removeprefix(_FILE)
    if "://" in path:
        from moldau.streams.savepoint.bucket import BucketPlace

        return BucketPlace(address)
    if address.startswith(_FILE) and not path.startswith("/"):
        raise StreamsError(f"{address}: needs an absolute path: write file:///path")
    if not path:
        raise StreamsError("name the directory of the savepoint: file:///path")
    return DirectoryPlace(absolute_path(path), files)
