"""The client that applications use: store a value, read the committed records.

A produce that returned an offset is committed. One that did not may be committed as well, once for
each time it was sent: this log has no idempotent producers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TypeVar

from examples.replicated_log.framing import Connection
from examples.replicated_log.messages import (
    NO_OFFSET,
    NOBODY,
    ProduceRequest,
    ProduceResponse,
    ReadRequest,
    ReadResponse,
    Record,
    encode_frame,
)
from examples.replicated_log.peer import Address
from moldau.errors import MalformedMessage
from moldau.protocol.declare import Message
from moldau.runtime import Runtime

Answer = TypeVar("Answer", bound=Message)

ATTEMPT_S = 1.0
PAUSE_S = 0.05


class Client:
    """A connection to the leader. It sends one request at a time; use several clients for more."""

    def __init__(self, runtime: Runtime, addresses: Mapping[int, Address]) -> None:
        self._runtime = runtime
        self._addresses = addresses
        self._numbers = sorted(addresses)
        self.target = runtime.random.choice(self._numbers)
        self._connection: Connection | None = None
        self._answer: asyncio.Future[Message] | None = None
        self._due_s = 0.0
        self._alarm: asyncio.TimerHandle | None = None

    async def produce(self, value: bytes) -> int:
        """Store `value` and return its offset. Retry without limit: put a timeout around it."""
        while True:
            try:
                answer = await self._ask(self.target, ProduceRequest(value=value), ProduceResponse)
            except (OSError, EOFError):
                self._turn_to(NOBODY)
            else:
                if answer.offset != NO_OFFSET:
                    return answer.offset
                self._turn_to(answer.leader)
            await asyncio.sleep(PAUSE_S * (1 + self._runtime.random.random()))

    async def read(self, number: int) -> list[Record]:
        """Return all records that one node knows to be committed. OSError if it does not answer."""
        records: list[Record] = []
        while True:
            answer = await self._ask(number, ReadRequest(offset=len(records)), ReadResponse)
            records += answer.records
            if len(records) >= answer.high_watermark:
                return records

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _turn_to(self, number: int) -> None:
        """Choose the leader that a node named, or else the next node."""
        self.close()
        if number == NOBODY or number == self.target:
            following = self._numbers.index(self.target) + 1
            number = self._numbers[following % len(self._numbers)]
        self.target = number

    async def _ask(self, number: int, request: Message, kind: type[Answer]) -> Answer:
        """Send a request and return its answer. After any failure the connection is closed."""
        if number != self.target:
            self.close()
            self.target = number
        try:
            connection = self._connection or await self._connect(self._addresses[number])
            answer = asyncio.get_running_loop().create_future()
            self._answer = answer
            connection.send(encode_frame(request))
            self._set_due()
            found = await answer
        except BaseException:
            self.close()
            raise
        if not isinstance(found, kind):
            raise MalformedMessage("not what was asked for", message=type(found).__name__)
        return found

    async def _connect(self, address: Address) -> Connection:
        async with asyncio.timeout(ATTEMPT_S):
            _, self._connection = await self._runtime.network.connect(
                lambda: Connection(self._heard, self._hung_up), *address
            )
        return self._connection

    def _heard(self, message: Message, connection: Connection) -> None:
        if connection is self._connection and self._answer is not None and not self._answer.done():
            self._answer.set_result(message)

    def _hung_up(self, connection: Connection) -> None:
        if connection is self._connection:
            self._connection = None
            self._fail(EOFError("the other side hung up"))

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    def _set_due(self) -> None:
        """Set the deadline of a request. One timer serves all requests; mostly it need not fire."""
        loop = asyncio.get_running_loop()
        self._due_s = loop.time() + ATTEMPT_S
        if self._alarm is None:
            self._alarm = loop.call_at(self._due_s, self._ring)

    def _ring(self) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() < self._due_s:
            self._alarm = loop.call_at(self._due_s, self._ring)
        else:
            self._alarm = None
            self._fail(TimeoutError("no answer"))
