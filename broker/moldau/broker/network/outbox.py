"""The unsent parts of a connection's responses: buffers, and slices of files.

A slice is read when it is to be written and not before, so a slow reader of large responses costs
one chunk of memory. A slice is sent together with the header before it, in one gathered write.

Invariants: bytes are sent in the order they were added. `size` counts all that is left, and
`held_bytes` the part of it that is in memory. A slice has exactly `len` bytes, because the frame
around it has promised them. Otherwise reading it raises OSError.

Why read and gather, and not always sendfile: below half a megabyte sendfile saves nothing, and
under TLS it does not exist. Larger slices may be sent with it: see `direct`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from errno import EIO
from typing import Any, Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


class FileSlice(Protocol):
    """A part of a file that is sent unchanged. Its file stays open as long as the slice lives."""

    @property
    def position(self) -> int:
        """The position of its first byte in the file."""
        ...

    def __len__(self) -> int:
        """Return the number of bytes."""
        ...

    def read_at(self, start: int, size: int, /) -> bytes:
        """Read a part of the slice. `start` counts from its beginning. The result is shorter only
        where the file ends."""
        ...

    def fileno(self) -> int | None:
        """Return the descriptor for sendfile, or None if there is no real file."""
        ...


Part: TypeAlias = Buffer | FileSlice

_BUFFERS = (bytes, bytearray, memoryview)

# The last bytes of a slice are sent with those before them, and not in a small write of their own.
_TAIL_SHARE = 4


class Outbox:
    """The unsent parts of one connection."""

    __slots__ = ("_done", "_next", "_parts", "held_bytes", "size")

    def __init__(self) -> None:
        self._parts: list[Part] = []
        # Parts before this index are sent. If this part is a slice, its first `_done` bytes are
        # sent too.
        self._next = 0
        self._done = 0
        self.size = 0
        self.held_bytes = 0

    def add(self, parts: Iterable[Part]) -> None:
        """Add parts at the end."""
        for part in parts:
            size = len(part)
            self.size += size
            if type(part) is bytes or isinstance(part, _BUFFERS):
                self.held_bytes += size
            self._parts.append(part)

    def take(self, size: int) -> Sequence[Buffer]:
        """Remove and return about the next `size` bytes, at least one part. A buffer is never
        split."""
        parts = self._parts
        if self.size <= size and not self._next and not self._done:
            whole: Sequence[Any] = parts
            if self.held_bytes != self.size:
                whole = [
                    part if isinstance(part, _BUFFERS) else _read(part, 0, len(part))
                    for part in parts
                ]
            self._parts = []
            self.size = self.held_bytes = 0
            return whole
        taken: list[Buffer] = []
        room = size
        while room > 0 and self._next < len(parts):
            part = parts[self._next]
            if isinstance(part, _BUFFERS):
                self._next += 1
                self.held_bytes -= len(part)
                taken.append(part)
            else:
                taken.append(self._read_on(part, room))
            room -= len(taken[-1])
        self.size -= size - room
        self._forget_what_is_gone()
        return taken

    def _read_on(self, part: FileSlice, room: int) -> bytes:
        left = len(part) - self._done
        wanted = left if left <= room + room // _TAIL_SHARE else room
        data = _read(part, self._done, wanted)
        if wanted == left:
            self._next += 1
            self._done = 0
        else:
            self._done += wanted
        return data

    # Bypassing the transport.

    def leads_to_slice(self, size: int) -> bool:
        """Whether the next part is a large slice, a slice that was begun, or a buffer before such a
        slice."""
        if self.size < size and not self._done:
            return False
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
        """Return the next buffer, or the descriptor, position and bytes left of the next slice."""
        part = self._parts[self._next]
        if isinstance(part, _BUFFERS):
            return part
        fileno = part.fileno()
        assert fileno is not None
        return fileno, part.position + self._done, len(part) - self._done

    def forget(self, size: int) -> None:
        """Forget `size` bytes of what `first` returned: they are sent."""
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
            # Free a sent buffer before its neighbours are sent.
            self._parts[: self._next] = [b""] * self._next

    def clear(self) -> None:
        """Forget all parts."""
        self._parts = []
        self._next = self._done = self.size = self.held_bytes = 0


def _read(part: FileSlice, start: int, size: int) -> bytes:
    data = part.read_at(start, size)
    if len(data) != size:
        raise OSError(EIO, f"a slice ends {size - len(data)} bytes early")
    return data
