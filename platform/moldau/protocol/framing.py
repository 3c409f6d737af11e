"""Cuts the bytes of a connection into frames: a 32-bit size, then that many bytes.

Made for `asyncio.BufferedProtocol`, but it does no IO: ask `get_buffer()` where the next bytes
shall go, put them there, then go through `received(count)`: it yields the frames that became whole.

Bytes land in a buffer that all connections of a loop share, because an idle connection should cost
nothing. Only a frame that is not whole yet moves to a buffer of its own. That one grows with what
has really come, to at most `GROWTH` times as much, so that a size prefix alone allocates nothing.

Invariants: a frame in the shared buffer is valid until the next `get_buffer()` of any connection;
who needs it longer copies it. A frame from a private buffer stays valid. Between frames there is
no private buffer. `received` must be exhausted unless the connection is given up.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from moldau.errors import MalformedMessage

# Kafka's defaults for `socket.request.max.bytes`, and for requests before authentication.
MAX_FRAME_BYTES = 100 << 20
MAX_FRAME_BYTES_BEFORE_LOGIN = 512 << 10

SHARED_BUFFER_BYTES = 256 << 10
PRIVATE_BUFFER_BYTES = 16 << 10
GROWTH = 4

_SIZE = Struct(">i")
_unpack_size = _SIZE.unpack_from


def shared_buffer() -> memoryview:
    """A receive buffer for all connections of one event loop."""
    return memoryview(bytearray(SHARED_BUFFER_BYTES))


class FrameReader:
    """The receiving side of one connection."""

    __slots__ = ("_filled", "_private", "_shared", "_start", "max_bytes")

    def __init__(self, shared: memoryview, max_bytes: int = MAX_FRAME_BYTES) -> None:
        assert len(shared) > _SIZE.size
        self.max_bytes = max_bytes
        self._shared = shared
        # An incomplete frame with its size prefix; the bytes before `_filled` are there.
        self._private: memoryview | None = None
        self._filled = 0
        # Bytes of a size prefix that were carried over into the shared buffer.
        self._start = b""

    @property
    def is_between_frames(self) -> bool:
        """Would nothing be lost if the connection ended here?"""
        return self._private is None and not self._start

    def get_buffer(self) -> memoryview:
        """Where the next bytes shall be put; never empty."""
        private = self._private
        if private is not None:
            return private[self._filled :]
        if self._start:
            self._shared[: len(self._start)] = self._start
            return self._shared[len(self._start) :]
        return self._shared

    def received(self, count: int) -> Iterator[memoryview]:
        """The frames that are whole now that `count` bytes were put into the buffer.

        MalformedMessage for a size that is negative or too large: the frames before it were good,
        behind it nothing can be understood any more.
        """
        if self._private is not None:
            yield from self._received_private(count)
            return
        shared = self._shared
        count += len(self._start)
        self._start = b""
        position = 0
        while count - position >= 4:
            (size,) = _unpack_size(shared, position)
            if not 0 <= size <= self.max_bytes:
                size = self._checked(size)
            end = position + 4 + size
            if end > count:
                self._keep(shared[position:count], 4 + size)
                return
            yield shared[position + 4 : end]
            position = end
        self._start = bytes(shared[position:count])

    def _received_private(self, count: int) -> Iterator[memoryview]:
        """More of a frame that has its own buffer, and never a byte beyond it."""
        private = self._private
        assert private is not None
        self._filled += count
        assert self._filled <= len(private)
        total = 4 + _SIZE.unpack_from(private)[0]
        if self._filled == total:
            self._private = None
            yield private[4:]
        elif self._filled == len(private):
            self._keep(private, total)

    def _keep(self, part: memoryview, total: int) -> None:
        """Moves the first part of a frame of `total` bytes into a larger buffer of its own."""
        capacity = min(total, max(PRIVATE_BUFFER_BYTES, len(part) * GROWTH))
        private = memoryview(bytearray(capacity))
        private[: len(part)] = part
        self._private = private
        self._filled = len(part)

    def _checked(self, size: int) -> int:
        if size < 0:
            raise MalformedMessage("negative frame size", size=size)
        if size > self.max_bytes:
            raise MalformedMessage("frame too large", size=size, allowed=self.max_bytes)
        return size
