"""The request memory that one connection holds, and the frames it has put aside.

    unfinished      the part of a frame that has come so far
    aside           whole frames that are served later, in their order
    kept            bodies of requests that are served and not answered

Invariant: the sum of the three is what the connection has taken from `RequestMemory`. A connection
that has ended holds nothing, and gives nothing back.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from moldau.broker.network.memory import LARGE_BYTES_MIN

if TYPE_CHECKING:
    from moldau.broker.network.memory import Reader
    from moldau.broker.network.reactor import Reactor
    from moldau.protocol.connection import Arrival


class RequestShare:
    """One connection's share of the request memory."""

    __slots__ = ("_aside_bytes", "_is_over", "_kept_bytes", "_reactor", "aside", "unfinished_bytes")

    def __init__(self, reactor: Reactor) -> None:
        self.aside: deque[Any] | None = None
        """The frames put aside, or None. It is never empty."""
        self.unfinished_bytes = 0
        self._aside_bytes = 0
        self._kept_bytes = 0
        self._is_over = False
        self._reactor = reactor

    # Bodies.

    def keep(self, arrival: Arrival) -> int:
        """Protect the body from the next read. Return how many bytes it holds."""
        size = len(arrival.body)
        if arrival.body.obj is self._reactor.buffer.obj:
            # Batches are stamped in place, so a copy must be writable too.
            arrival.body = memoryview(bytearray(arrival.body))
        self._kept_bytes += size
        self._reactor.memory.take(size)
        return size

    def give_back(self, size: int) -> None:
        """Release a kept body."""
        if not self._is_over:
            self._kept_bytes -= size
            self._reactor.memory.give(size)

    # Frames.

    def put_aside(self, frame: Any) -> None:
        """Protect a whole frame from the next read, and serve it later."""
        if self.aside is None:
            self.aside = deque()
        if frame.obj is self._reactor.buffer.obj:
            frame = memoryview(bytearray(frame))
        self.aside.append(frame)
        self._aside_bytes += len(frame)
        self._reactor.memory.take(len(frame))

    def take_aside(self, aside: deque[Any]) -> Any:
        """Remove and return the first frame that was put aside. `aside` is this share's."""
        frame = aside.popleft()
        self._aside_bytes -= len(frame)
        self._reactor.memory.give(len(frame))
        if not aside:
            self.aside = None
        return frame

    def hold_unfinished(self, reader: Reader, size: int, came: int) -> None:
        """Count the `came` bytes that were just read. `size` is how much of an unfinished frame is
        here now; the bytes may also have completed the previous frame."""
        memory = self._reactor.memory
        before = self.unfinished_bytes
        self.unfinished_bytes = size
        if size > before:
            memory.take(size - before)
        else:
            memory.give(before - size)
        if memory.runner is reader and size < before + came:
            # A frame is complete: another connection becomes the runner.
            memory.finish(reader)

    def must_stop(self, reader: Reader) -> bool:
        """Whether memory is short, and the reader must wait for `on_memory`."""
        memory = self._reactor.memory
        if not memory.is_short or self.unfinished_bytes < LARGE_BYTES_MIN:
            return False
        return not memory.may_read(reader)

    def forget_requests(self, reader: Reader) -> None:
        """Drop all requests that are not served yet."""
        memory = self._reactor.memory
        held = self.unfinished_bytes + self._aside_bytes
        self.unfinished_bytes = self._aside_bytes = 0
        self.aside = None
        memory.give(held)
        memory.finish(reader)

    def end(self, reader: Reader) -> None:
        """Give all memory back: the connection is lost."""
        self._is_over = True
        self.forget_requests(reader)
        self._reactor.memory.give(self._kept_bytes)
