"""A slice of a segment's log file, to be sent without being parsed.

Invariants: the file stays open while anything refers to it, even if its segment is deleted
meanwhile. A slice that was read once cannot change, because logs are only appended to. (A follower
that truncates can make a slice shorter than its size. The sender then closes the connection,
because those records do not exist any more.)

Reference counting closes the file: a slow reader keeps a deleted segment open by holding its slice,
and does not have to release it.
"""

from __future__ import annotations

from contextlib import suppress

from moldau.runtime.files import File


class SegmentFile:
    """The open log file of a segment, shared by the segment and its slices."""

    __slots__ = ("__weakref__", "file")

    def __init__(self, file: File) -> None:
        self.file = file

    def __del__(self) -> None:
        # In a simulation, a process that was killed has no files any more, and raises here.
        with suppress(BaseException):
            self.file.close()


class LogSlice:
    """`size_bytes` of a file from `position`. It goes into a response in place of records.

    An empty slice may have no file: a read at the log's end opens none.
    """

    __slots__ = ("is_newest", "position", "size_bytes", "source")

    def __init__(
        self,
        source: SegmentFile | None,
        position: int,
        size_bytes: int,
        is_newest: bool = True,
    ) -> None:
        self.source = source
        self.position = position
        self.size_bytes = size_bytes
        self.is_newest = is_newest
        """Whether it was read from the newest segment. After a slice of an older one, more records
        exist already."""

    def __len__(self) -> int:
        return self.size_bytes

    def __repr__(self) -> str:
        path = None if self.source is None else self.source.file.path
        return f"LogSlice({path!r}, {self.position}, {self.size_bytes})"

    def fileno(self) -> int | None:
        """Return the file descriptor for sendfile, or None if there is no real file."""
        return None if self.source is None else self.source.file.fileno()

    def cut(self, size_bytes: int) -> LogSlice:
        """Return the slice, or only its first `size_bytes`."""
        if self.size_bytes <= size_bytes:
            return self
        return LogSlice(self.source, self.position, size_bytes, self.is_newest)

    def read(self) -> bytes:
        """Read the whole slice."""
        return self.read_at(0, self.size_bytes)

    def read_at(self, start: int, size: int) -> bytes:
        """Read a part of the slice. `start` counts from the slice's start."""
        left = self.size_bytes - start
        if size > left:
            size = left
        if size <= 0 or self.source is None:
            return b""
        return self.source.file.read_at(self.position + start, size)

    def read_into(self, start: int, buffer: bytearray | memoryview) -> int:
        """Fill `buffer` from a part of the slice. Return the number of bytes."""
        room = min(len(buffer), self.size_bytes - start)
        if room <= 0 or self.source is None:
            return 0
        return self.source.file.read_into(self.position + start, memoryview(buffer)[:room])
