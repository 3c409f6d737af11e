"""Splits the bytes of a connection into frames: a 32-bit size, then that many bytes.

Made for `asyncio.BufferedProtocol`, but it does no IO: put the next bytes into the buffer that
`get_buffer()` returns, then iterate over `received(count)`, which yields the complete frames.

Bytes are received into a buffer that all connections of a loop share, because an idle connection
should cost nothing. An incomplete frame stays there until another connection reads (its connection
is the `Tenancy`'s holder), and then moves to a buffer of its own. That buffer grows with the bytes
that were really received, to at most `GROWTH` times as many, so that a size prefix alone allocates
nothing. (Each step clears the new buffer and copies the received bytes. A client trusts its brokers
and grows the buffer by `GROWTH_OF_TRUSTED`: a consumer of responses of 6 MB is 7 % faster.)

Invariants: a frame in the shared buffer is valid until the next `get_buffer()` of any connection; a
caller that needs it longer copies it. A frame from a private buffer stays valid. Between frames
there is no private buffer. `received` must be exhausted unless the connection is given up.

There is not one buffer for each connection, because one that sends frames of 100 KB would need as
much for itself, and fresh memory for each frame costs more than copying the received bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NoReturn

from moldau.errors import MalformedMessage

# Kafka's defaults for `socket.request.max.bytes`, and for requests before authentication.
MAX_FRAME_BYTES = 100 << 20
MAX_FRAME_BYTES_BEFORE_LOGIN = 512 << 10

SHARED_BUFFER_BYTES = 256 << 10
PRIVATE_BUFFER_BYTES = 16 << 10
GROWTH = 4
GROWTH_OF_TRUSTED = 64

_SIZE = Struct(">i")
_unpack_size = _SIZE.unpack_from


def shared_buffer() -> memoryview:
    """Return a receive buffer for all connections of one event loop."""
    return memoryview(bytearray(SHARED_BUFFER_BYTES))


class Tenancy:
    """The connection with an incomplete frame in a shared buffer; one for each such buffer."""

    __slots__ = ("holder",)

    def __init__(self) -> None:
        self.holder: FrameReader | None = None


class FrameReader:
    """The receiving side of one connection."""

    __slots__ = (
        "_begin",
        "_filled",
        "_growth",
        "_private",
        "_shared",
        "_start",
        "_tenancy",
        "max_bytes",
    )

    def __init__(
        self,
        shared: memoryview,
        max_bytes: int = MAX_FRAME_BYTES,
        tenancy: Tenancy | None = None,
        growth: int = GROWTH,
    ) -> None:
        """Without a `tenancy` incomplete frames move to a private buffer at once."""
        assert len(shared) > _SIZE.size
        self.max_bytes = max_bytes
        self._shared = shared
        self._tenancy = tenancy
        self._growth = growth
        # An incomplete frame with its size prefix; the bytes before `_filled` were received.
        self._private: memoryview | None = None
        # In the shared buffer it begins at `_begin`; valid only while we hold the tenancy.
        self._begin = 0
        self._filled = 0
        # Bytes of a size prefix that must be copied to the start of the shared buffer.
        self._start = b""

    @property
    def is_between_frames(self) -> bool:
        """Whether the received bytes end with a complete frame, so that a close loses nothing."""
        is_tenant = self._tenancy is not None and self._tenancy.holder is self
        return self._private is None and not self._start and not is_tenant

    def get_buffer(self) -> memoryview:
        """Return the buffer for the next bytes; it is never empty."""
        private = self._private
        if private is not None:
            return private[self._filled :]
        shared, tenancy = self._shared, self._tenancy
        if tenancy is not None and tenancy.holder is not None:
            if tenancy.holder is self:
                return self._room_behind()
            tenancy.holder._move_out()
        if self._start:
            shared[: len(self._start)] = self._start
            return shared[len(self._start) :]
        return shared

    def received(self, count: int) -> Iterator[memoryview]:
        """Yield the frames that are complete with the next `count` bytes, which are in the buffer
        now.

        Raise MalformedMessage for a size that is negative or too large: the frames before it were
        valid, but nothing behind it can be read.
        """
        if self._private is not None:
            return self._received_private(count)
        tenancy = self._tenancy
        if tenancy is not None and tenancy.holder is self:
            tenancy.holder = None
            return self._frames(self._begin, self._filled + count)
        if self._start:
            count += len(self._start)
            self._start = b""
        elif count >= 4:
            # One whole frame, as most requests are.
            (size,) = _unpack_size(self._shared)
            if 0 <= size == count - 4 <= self.max_bytes:
                return iter((self._shared[4:count],))
        return self._frames(0, count)

    def _frames(self, position: int, end: int) -> Iterator[memoryview]:
        """Yield the frames in a part of the shared buffer, and keep an incomplete one."""
        shared = self._shared
        while end - position >= 4:
            (size,) = _unpack_size(shared, position)
            if not 0 <= size <= self.max_bytes:
                self._refuse_size(size)
            next_position = position + 4 + size
            if next_position > end:
                self._begin, self._filled = position, end
                if self._tenancy is None or 4 + size > len(shared):
                    self._keep(shared[position:end], 4 + size)
                else:
                    self._tenancy.holder = self
                return
            yield shared[position + 4 : next_position]
            position = next_position
        self._start = bytes(shared[position:end])

    def _room_behind(self) -> memoryview:
        """Return the space for the rest of the incomplete frame, and for following data."""
        shared, begin = self._shared, self._begin
        if begin + 4 + _unpack_size(shared, begin)[0] > len(shared):
            size = self._filled - begin
            shared[:size] = shared[begin : self._filled]
            self._begin, self._filled = 0, size
        return shared[self._filled :]

    def _move_out(self) -> None:
        """Move the incomplete frame to a private buffer: another connection needs the space."""
        assert self._tenancy is not None
        self._tenancy.holder = None
        shared, begin = self._shared, self._begin
        self._keep(shared[begin : self._filled], 4 + _unpack_size(shared, begin)[0])

    def _received_private(self, count: int) -> Iterator[memoryview]:
        """Continue a frame in a private buffer, which never receives a byte beyond that frame."""
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
        """Move the first part of a frame of `total` bytes into a larger buffer of its own."""
        capacity = min(total, max(PRIVATE_BUFFER_BYTES, len(part) * self._growth))
        private = memoryview(bytearray(capacity))
        private[: len(part)] = part
        self._private = private
        self._filled = len(part)

    def _refuse_size(self, size: int) -> NoReturn:
        if size < 0:
            raise MalformedMessage("negative frame size", size=size)
        raise MalformedMessage("frame too large", size=size, allowed=self.max_bytes)
