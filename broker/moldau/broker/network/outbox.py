"""What of a connection's answers is not written yet: buffers, and slices of files.

A slice is read when it is to be written and not before, so that a slow reader of large answers
costs one chunk of memory. It leaves together with the header before it, in one gathered write.

Invariants: bytes leave in the order they were added; `size` is all that is left and `held_bytes`
the part of it that is in memory; a slice has exactly `len` bytes or it is an OSError, since the
frame around it has promised them.

Why read and gather, and not sendfile for all: below half a megabyte sendfile saves nothing, and
under TLS it does not exist. What is larger may go that way: see `direct`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from errno import EIO
from typing import Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


class FileSlice(Protocol):
    """Part of a file that goes out as it is. Its file stays open as long as the slice lives."""

    @property
    def position(self) -> int:
        """Of its first byte in the file."""
        ...

    def __len__(self) -> int:
        """How many bytes."""
        ...

    def read_at(self, start: int, size: int, /) -> bytes:
        """A part of it, `start` counted from its beginning; fewer only where the file ends."""
        ...

    def fileno(self) -> int | None:
        """The descriptor for sendfile; None where there is no real file."""
        ...


Part: TypeAlias = Buffer | FileSlice

_BUFFERS = (bytes, bytearray, memoryview)

# The last bytes of a slice go with those before them, rather than in a small write of their own.
_TAIL_SHARE = 4


class Outbox:
    """The parts of one connection that wait to be written."""

    __slots__ = ("_done", "_next", "_parts", "held_bytes", "size")

    def __init__(self) -> None:
        self._parts: list[Part] = []
        # Parts before this one are gone, and so is the beginning of this one, if it is a slice.
        self._next = 0
        self._done = 0
        self.size = 0
        self.held_bytes = 0

    def add(self, parts: Iterable[Part]) -> None:
        """Behind all that is here."""
        for part in parts:
            size = len(part)
            self.size += size
            if type(part) is bytes or isinstance(part, _BUFFERS):
                self.held_bytes += size
            self._parts.append(part)

    def take(self, size: int) -> Sequence[Buffer]:
        """About the next `size` bytes: at least one part of them, and buffers never in pieces."""
        parts = self._parts
        if self.held_bytes == self.size <= size and not self._next:
            self._parts = []
            self.size = self.held_bytes = 0
            return parts  # type: ignore[return-value]
        taken: list[Buffer] = []
        room = size
        while room > 0 and self._next < len(parts):
            part = parts[self._next]
            if isinstance(part, _BUFFERS):
                self._next += 1
                self.held_bytes -= len(part)
                taken.append(part)
            else:
                taken.append(self._read(part, room))
            room -= len(taken[-1])
        self.size -= size - room
        self._forget_what_is_gone()
        return taken

    def _read(self, part: FileSlice, room: int) -> bytes:
        left = len(part) - self._done
        wanted = left if left <= room + room // _TAIL_SHARE else room
        data = part.read_at(self._done, wanted)
        if len(data) != wanted:
            raise OSError(EIO, f"a slice ends {wanted - len(data)} bytes early")
        if wanted == left:
            self._next += 1
            self._done = 0
        else:
            self._done += wanted
        return data

    # For sending past the transport

    def leads_to_slice(self, size: int) -> bool:
        """Is there next a slice of `size` bytes, or a begun one, or a buffer right before one?"""
        at = self._next
        parts = self._parts
        if at == len(parts):
            return False
        if isinstance(parts[at], _BUFFERS):
            at += 1
            if at == len(parts) or isinstance(parts[at], _BUFFERS):
                return False
        part = parts[at]
        assert not isinstance(part, _BUFFERS)
        return (self._done > 0 or len(part) >= size) and part.fileno() is not None

    def first(self) -> Buffer | tuple[int, int, int]:
        """The next buffer, or of the next slice: descriptor, position, bytes left."""
        part = self._parts[self._next]
        if isinstance(part, _BUFFERS):
            return part
        fileno = part.fileno()
        assert fileno is not None
        return fileno, part.position + self._done, len(part) - self._done

    def forget(self, size: int) -> None:
        """So many bytes of what `first` gave are gone."""
        part = self._parts[self._next]
        self.size -= size
        if isinstance(part, _BUFFERS):
            self.held_bytes -= size
            if size < len(part):
                self._parts[self._next] = memoryview(part)[size:]
                return
        elif self._done + size < len(part):
            self._done += size
            return
        self._done = 0
        self._next += 1
        self._forget_what_is_gone()

    def _forget_what_is_gone(self) -> None:
        if self._next == len(self._parts):
            self._parts = []
            self._next = 0
        elif self._next > 64:
            del self._parts[: self._next]
            self._next = 0
        elif self._next:
            # A buffer that is gone shall not live as long as its neighbours.
            self._parts[: self._next] = [b""] * self._next

    def clear(self) -> None:
        """Forgets everything."""
        self._parts = []
        self._next = self._done = self.size = self.held_bytes = 0
