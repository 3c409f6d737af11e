"""Messages out of bytes, however those were cut on the way; once as a protocol, once as a stream.

Servers use the protocol: no task, and no hop between the bytes and what they mean. Clients, which
ask and wait, use the stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from examples.replicated_log.messages import HEAD_BYTES, decode_head, encode_frame
from moldau.errors import MalformedMessage
from moldau.protocol.declare import Message

_CHUNK_BYTES = 1 << 16


def cut(data: bytes) -> tuple[list[Message], int]:
    """The whole messages at the start of `data`, and where they end."""
    messages: list[Message] = []
    position = 0
    while len(data) >= position + HEAD_BYTES:
        size, kind = decode_head(data, position)
        start = position + HEAD_BYTES
        if len(data) < start + size:
            break
        messages.append(kind.decode(data[start : start + size], 0))
        position = start + size
    return messages, position


class Connection(asyncio.Protocol):
    """One connection: calls `on_message(message, connection)` for each message that arrives."""

    def __init__(self, on_message: Callable[[Message, Connection], None]) -> None:
        self.lost = asyncio.Event()
        self._on_message = on_message
        self._rest = b""
        self._transport: asyncio.Transport | None = None

    def send(self, message: Message) -> None:
        """Put it on the wire, or drop it when the connection is gone."""
        if self._transport is not None:
            self._transport.write(encode_frame(message))

    def close(self) -> None:
        """Hang up at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
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
        self.lost.set()


class MessageReader:
    """A stream of messages. Takes what has arrived, all of it at once."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._rest = b""

    async def read(self) -> list[Message]:
        """One message or more. EOFError when the stream ends, MalformedMessage when it lies."""
        while True:
            data = await self._reader.read(_CHUNK_BYTES)
            if not data:
                raise EOFError
            data = self._rest + data
            messages, position = cut(data)
            self._rest = data[position:]
            if messages:
                return messages
