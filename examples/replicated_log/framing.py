"""Decodes messages from bytes, however these are split on the way.

It is a protocol and not a stream: there is no task and no step between the bytes and the message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from examples.replicated_log.messages import (
    DECODERS,
    FRAME_BYTES_MAX,
    HEAD_BYTES,
    KIND_COUNT,
    read_head,
)
from moldau.errors import MalformedMessage
from moldau.protocol.declare import Message
from moldau.protocol.limits import DECODE_BUDGET


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
        """Writes a frame, once connected; drops it when the connection is lost."""
        self._transport: asyncio.Transport | None = None

    def close(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.send = transport.write

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data, self._rest = self._rest + data, b""
        on_message, position, available = self._on_message, 0, len(data)
        try:
            while available - position >= HEAD_BYTES:
                size, number = read_head(data, position)
                if size > FRAME_BYTES_MAX or number >= KIND_COUNT:
                    raise MalformedMessage("not a frame of ours", size=size, kind=number)
                start = position + HEAD_BYTES
                end = start + size
                if available < end:
                    break
                message, position = DECODERS[number](data, start, 0, DECODE_BUDGET)
                if position != end:
                    raise MalformedMessage("not as long as its frame", size=size, kind=number)
                on_message(message, self)
        except MalformedMessage:
            self.close()
            return
        if position < available:
            self._rest = data[position:]

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._on_lost(self)
