"""Bytes of requests that are here and not served yet, against `queued.max.request.bytes`. Pure.

Counted are unfinished frames, frames put aside, and bodies that a waiting request keeps. When there
are too many, connections with a large unfinished frame stop being read, all but one, the *runner*:
its frame becomes whole, is served, and frees memory. If all stopped, nobody could ever finish. So
the bound is the limit, and one frame, and what the others had before they were stopped. A small
frame never stops: who sends little shall not notice what others do.

Invariants: who stands in `_stopped` is not read; nobody stands there while there is room; while
there is none and somebody stands there, there is a runner.
"""

from __future__ import annotations

from typing import Protocol

# An unfinished frame of fewer bytes is small.
LARGE_BYTES_MIN = 16 << 10


class Reader(Protocol):
    """A connection that can stop reading and go on."""

    def on_memory(self) -> None:
        """It may read again."""
        ...

    def on_shortage(self, since: float) -> None:
        """Others wait for what it holds: it should end if nothing came since then."""
        ...


class RequestMemory:
    """One for all connections of a node. A `limit` of 0 or less is none."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.runner: Reader | None = None
        self._stopped: dict[Reader, None] = {}

    @property
    def is_short(self) -> bool:
        """Whether connections with unfinished requests have to stop."""
        return 0 < self.limit <= self.used

    @property
    def stopped(self) -> int:
        """How many connections wait for memory."""
        return len(self._stopped)

    def take(self, size: int) -> None:
        """So much more is held."""
        self.used += size

    def give(self, size: int) -> None:
        """So much is free again."""
        self.used -= size
        assert self.used >= 0, "freed more than was held"
        if self._stopped and not self.is_short:
            self._go()

    def may_read(self, reader: Reader) -> bool:
        """Asked by who has a large unfinished frame. False: stop, and wait for `on_memory`."""
        if not self.is_short or self.runner is reader:
            return True
        if self.runner is None:
            self.runner = reader
            return True
        self._stopped[reader] = None
        return False

    def finish(self, reader: Reader) -> None:
        """The reader has no unfinished frame any more, or is gone."""
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
        """Another limit."""
        self.limit = limit
        if not self.is_short:
            self._go()

    def _go(self) -> None:
        self.runner = None
        stopped, self._stopped = self._stopped, {}
        for reader in stopped:
            reader.on_memory()
