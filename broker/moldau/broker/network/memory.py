"""The bytes of unserved requests, against `queued.max.request.bytes`. A pure core.

Counted are unfinished frames, frames put aside, and bodies that a waiting request keeps. Above the
limit, connections with a large unfinished frame are not read, except one, the *runner*. Its frame
is completed and served, which frees memory. If all were stopped, none could ever finish. So the
bound is the limit, plus one frame, plus what the others had before they were stopped. A connection
with a small frame is never stopped: clients that send little must not notice what others do.

Invariants: a connection in `_stopped` is not read. While there is room, `_stopped` is empty. While
there is none and `_stopped` is not empty, there is a runner.
"""

from __future__ import annotations

from typing import Protocol

# An unfinished frame of fewer bytes is small.
LARGE_BYTES_MIN = 16 << 10


class Reader(Protocol):
    """A connection that can stop reading and continue."""

    def on_memory(self) -> None:
        """Called when the connection may read again."""
        ...

    def on_shortage(self, since: float) -> None:
        """Called when other connections wait for the memory that this one holds. End the connection
        if it has received nothing since the given time."""
        ...


class RequestMemory:
    """The request memory of all connections of a node. A `limit` of 0 or less means no limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.runner: Reader | None = None
        self._stopped: dict[Reader, None] = {}

    @property
    def is_short(self) -> bool:
        """Whether connections with large unfinished requests must stop."""
        return 0 < self.limit <= self.used

    @property
    def stopped(self) -> int:
        """The number of connections that wait for memory."""
        return len(self._stopped)

    def take(self, size: int) -> None:
        """Count bytes that are held from now on."""
        self.used += size

    def give(self, size: int) -> None:
        """Count bytes that are free again."""
        self.used -= size
        assert self.used >= 0, "freed more than was held"
        if self._stopped and not self.is_short:
            self._go()

    def may_read(self, reader: Reader) -> bool:
        """Whether a connection with a large unfinished frame may continue to read. If not, it must
        stop and wait for `on_memory`."""
        if not self.is_short or self.runner is reader:
            return True
        if self.runner is None:
            self.runner = reader
            return True
        self._stopped[reader] = None
        return False

    def finish(self, reader: Reader) -> None:
        """Note that the reader has no unfinished frame any more, or has ended."""
        self._stopped.pop(reader, None)
        if self.runner is not reader:
            return
        self.runner = None
        if not self.is_short:
            self._go()
        elif self._stopped:
            self.runner = next(iter(self._stopped))
            del self._stopped[self.runner]
            self.runner.on_memory()

    def update(self, limit: int) -> None:
        """Use another limit."""
        self.limit = limit
        if not self.is_short:
            self._go()

    def _go(self) -> None:
        self.runner = None
        stopped, self._stopped = self._stopped, {}
        for reader in stopped:
            reader.on_memory()
