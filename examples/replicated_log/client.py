"""What applications use: keep a value, read what is kept.

A produce that got an offset is kept for good. One that did not may be kept as well, once for each
time it was sent: this log has no idempotent producers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TypeVar

from examples.replicated_log.framing import MessageReader
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
    """One connection to whoever leads. One request at a time; use several clients for more."""

    def __init__(self, runtime: Runtime, addresses: Mapping[int, Address]) -> None:
        self._runtime = runtime
        self._addresses = addresses
        self._numbers = sorted(addresses)
        self.target = runtime.random.choice(self._numbers)
        self._streams: tuple[MessageReader, asyncio.StreamWriter] | None = None

    async def produce(self, value: bytes) -> int:
        """Keep `value`; returns its offset. Tries for ever: put a timeout around it."""
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
        """Everything that one node knows to be kept for good. OSError when it does not answer."""
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
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    def _turn_to(self, number: int) -> None:
        """To the leader that we were told of, or to the next that may know."""
        self.close()
        if number == NOBODY or number == self.target:
            following = self._numbers.index(self.target) + 1
            number = self._numbers[following % len(self._numbers)]
        self.target = number

    async def _ask(self, number: int, request: Message, kind: type[Answer]) -> Answer:
        """One question, one answer; after any failure the connection is gone."""
        if number != self.target:
            self.close()
            self.target = number
        try:
            async with asyncio.timeout(ATTEMPT_S):
                if self._streams is None:
                    address = self._addresses[number]
                    reader, writer = await self._runtime.network.open_streams(*address)
                    self._streams = MessageReader(reader), writer
                messages, writer = self._streams
                writer.write(encode_frame(request))
                (answer,) = await messages.read()
        except BaseException:
            self.close()
            raise
        if not isinstance(answer, kind):
            raise MalformedMessage("not what was asked for", message=type(answer).__name__)
        return answer
