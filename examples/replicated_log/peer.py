"""The connection to one other node, which is made again after a failure.

A connection can be dead although neither end has been informed. So one on which a request has been
unanswered for `SILENCE_S` is closed and made again. Nothing is resent or stored here: the replica
repeats everything in time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from examples.replicated_log.framing import Connection
from moldau.protocol.declare import Message
from moldau.runtime import Runtime

Address = tuple[str, int]

CONNECT_TIMEOUT_S = 1.0
SILENCE_S = 1.0
RETRY_S = 0.1


class Peer:
    """A connection to one node that is made again whenever it breaks."""

    def __init__(
        self,
        runtime: Runtime,
        address: Address,
        on_message: Callable[[Message, Connection], None],
    ) -> None:
        self._runtime = runtime
        self._now_s = runtime.clock.monotonic
        self._address = address
        self._on_message = on_message
        self._connection: Connection | None = None
        self._asked_at: float | None = None

    def send(self, request: bytes) -> None:
        """Write the frame if there is a connection."""
        connection, now_s = self._connection, self._now_s
        if connection is None:
            return
        if self._asked_at is None:
            self._asked_at = now_s()
        elif now_s() - self._asked_at > SILENCE_S:
            connection.close()
            return
        connection.send(request)

    async def run(self) -> None:
        """Keep a connection until cancelled."""
        while True:
            with suppress(OSError):
                await self._connect_and_hold()
            await asyncio.sleep(RETRY_S * (1 + self._runtime.random.random()))

    async def _connect_and_hold(self) -> None:
        lost = asyncio.Event()
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            _, connection = await self._runtime.network.connect(
                lambda: Connection(self._heard, lambda _: lost.set()), *self._address
            )
        self._connection, self._asked_at = connection, None
        try:
            await lost.wait()
        finally:
            self._connection = None
            connection.close()

    def _heard(self, message: Message, connection: Connection) -> None:
        self._asked_at, on_message = None, self._on_message
        on_message(message, connection)
