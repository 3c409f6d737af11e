"""A well-behaved client beside the others: it appends and reads, one request after the other, and
keeps how long each took. What others do is none of its business."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from statistics import median
from typing import Final

from moldau.broker.log.rounds import rest
from moldau.errors.codes import ErrorCode
from moldau.runtime import Runtime
from tests.broker.server.wire import wired

TOPIC: Final = "neighbourly"
PAUSE_SECONDS: Final = 0.005
MEDIAN_SECONDS_MAX: Final = 0.25
SECONDS_MAX: Final = 5.0
ROUNDS_MIN: Final = 5


async def until(reached: Callable[[], bool]) -> None:
    """Look again and again."""
    while not reached():
        await rest(PAUSE_SECONDS)


class Neighbour:
    """See the module."""

    def __init__(self, runtime: Runtime, host: str, port: int) -> None:
        self.seconds: list[float] = []
        self.values: list[bytes] = []
        self.is_ending = False
        self._runtime = runtime
        self._host, self._port = host, port

    async def run(self) -> None:
        async with wired(self._runtime, self._host, self._port) as wire:
            assert await wire.create(TOPIC) in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
            known = await wire.fetch_all(TOPIC)
            while not self.is_ending:
                value = f"value-{len(known) + len(self.values)}".encode()
                began = time.monotonic()
                answer = await wire.produce(TOPIC, [value])
                assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
                assert await wire.fetch(TOPIC, answer.base_offset) == [value]
                self.seconds.append(time.monotonic() - began)
                self.values.append(value)
                await rest(PAUSE_SECONDS)
            assert await wire.fetch_all(TOPIC) == known + self.values

    def check(self) -> None:
        """It was served as if it were alone, more or less: the machine may be busy."""
        assert len(self.seconds) >= ROUNDS_MIN
        assert median(self.seconds) < MEDIAN_SECONDS_MAX, sorted(self.seconds)[-10:]
        assert max(self.seconds) < SECONDS_MAX, sorted(self.seconds)[-10:]


@asynccontextmanager
async def neighbour(runtime: Runtime, host: str, port: int) -> AsyncIterator[Neighbour]:
    """One that works for the time of a test, and is asked at its end how it was."""
    found = Neighbour(runtime, host, port)
    task = asyncio.ensure_future(found.run())
    try:
        await until(lambda: len(found.seconds) >= ROUNDS_MIN or task.done())
        yield found
    finally:
        found.is_ending = True
        await task
    found.check()
