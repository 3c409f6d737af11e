"""A piece of a segment's log file, to be sent and not to be looked at.

Invariant: the file stays open as long as anything refers to it, also when its segment has been
deleted meanwhile; a piece that was read once cannot change, because logs are only appended to. (A
follower that truncates can make a piece shorter than it says: whoever sends it then closes the
connection, as the piece was of records that do not exist any more.)

Reference counting closes the file: a slow reader holds on to a deleted segment by having its
slice, and nobody has to say when he is done.
"""

from __future__ import annotations

from contextlib import suppress

from moldau.runtime.files import File


class SegmentFile:
    """The open log file of a segment, shared by the segment and by the slices of it."""

    __slots__ = ("__weakref__", "file")

    def __init__(self, file: File) -> None:
        self.file = file

    def __del__(self) -> None:
        # A simulated process that was killed has no files any more, and says so.
        with suppress(BaseException):
            self.file.close()


class LogSlice:
    """`size_bytes` from `position` of a file. Goes into a response where records belong."""

    __slots__ = ("position", "size_bytes", "source")

    def __init__(self, source: SegmentFile, position: int, size_bytes: int) -> None:
        self.source = source
        self.position = position
        self.size_bytes = size_bytes

    def __len__(self) -> int:
        return self.size_bytes

    def __repr__(self) -> str:
        return f"LogSlice({self.source.file.path!r}, {self.position}, {self.size_bytes})"

    def fileno(self) -> int | None:
        """For sendfile; None where there is no real file."""
        return self.source.file.fileno()

    def read(self) -> bytes:
        """All of it."""
        return self.source.file.read_at(self.position, self.size_bytes)

    def read_at(self, start: int, size: int) -> bytes:
        """A part of it, `start` counted from its beginning."""
        size = min(size, self.size_bytes - start)
        return self.source.file.read_at(self.position + start, size) if size > 0 else b""

    def read_into(self, start: int, buffer: bytearray | memoryview) -> int:
        """Fill `buffer` with a part of it; returns how much there was."""
        room = min(len(buffer), self.size_bytes - start)
        if room <= 0:
            return 0
        return self.source.file.read_into(self.position + start, memoryview(buffer)[:room])
