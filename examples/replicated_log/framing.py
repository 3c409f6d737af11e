"""Messages out of bytes, however those were cut on the way.

A protocol and not a stream: there is no task and no hop between the bytes and what they mean.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from examples.replicated_log.messages import DECODERS, FRAME_BYTES_MAX, HEAD
from moldau.errors import MalformedMessage
from moldau.protocol.declare import Message
from moldau.protocol.limits import DECODE_BUDGET


def cut(data: bytes) -> tuple[list[Message], int]:
    """The whole messages at the start of `data`, and where they end."""
    messages: list[Message] = []
    position, available = 0, len(data)
    while available >= (start := position + HEAD.size):
        size, number = HEAD.unpack_from(data, position)
        if not 0 <= size <= FRAME_BYTES_MAX or number >= len(DECODERS):
            raise MalformedMessage("not a frame of ours", size=size, kind=number)
        end = start + size
        if available < end:
            break
        messages.append(DECODERS[number](data[start:end], 0, DECODE_BUDGET))
        position = end
    return messages, position


class Connection(asyncio.Protocol):
    """One connection: calls `on_message(message, connection)` for each message that arrives."""

    def __init__(
        self,
        on_message: Callable[[Message, Connection], None],
        on_lost: Callable[[Connection], None] = lambda connection: None,
    ) -> None:
        self._on_message = on_message
        self._on_lost = on_lost
        self._rest = b""
        self.send: Callable[[bytes], None]
        """Puts a frame on the wire, once connected; drops it when the connection is gone."""
        self._transport: asyncio.Transport | None = None

    def close(self) -> None:
        """Hang up at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.send = transport.write

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        try:
            messages, position = cut(data)
            for message in messages:
                self._on_message(message, self)
        except MalformedMessage:
            self.close()
            return
        self._rest = data[position:]

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._on_lost(self)
