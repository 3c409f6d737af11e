"""Records that were read from the remote tier, in the place of a log file.

Invariant: the bytes do not change. So a slice of them is sent like one of a local segment, in
parts, and stays valid as long as anything refers to it. There is no real file: nothing goes by
sendfile.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from moldau.broker.log.slice import LogSlice, SegmentFile
from moldau.runtime.files import File, MappedFile

if TYPE_CHECKING:
    from moldau.records import Buffer


class FetchedFile(File):
    """Bytes in memory with the interface of a file that can only be read."""

    __slots__ = ("_data", "path")

    def __init__(self, path: str, data: Buffer) -> None:
        """`path` is only for texts."""
        self.path = path
        self._data = memoryview(data)

    @property
    def size(self) -> int:
        return len(self._data)

    def read_at(self, position: int, size: int) -> bytes:
        return bytes(self._data[position : position + size])

    def read_into(self, position: int, buffer: bytearray | memoryview) -> int:
        piece = self._data[position : position + len(buffer)]
        buffer[: len(piece)] = piece
        return len(piece)

    def fileno(self) -> int | None:
        return None

    def close(self) -> None:
        """Do nothing: the bytes go with the last slice."""

    def write_at(self, position: int, data: Buffer) -> None:
        self._refuse()

    def append_parts(self, parts: Sequence[Buffer]) -> int:
        self._refuse()

    def truncate(self, size: int) -> None:
        self._refuse()

    def allocate(self, size: int) -> None:
        self._refuse()

    def sync(self, *, data_only: bool = False) -> None:
        self._refuse()

    def map(self, size: int, *, writable: bool = False) -> MappedFile:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise OSError(errno.EBADF, "fetched records can only be read", self.path)


def fetched_slice(path: str, data: Buffer) -> LogSlice:
    """Return a slice of records that are in memory. More records exist already behind it."""
    return LogSlice(SegmentFile(FetchedFile(path, data)), 0, len(data), is_newest=False)
