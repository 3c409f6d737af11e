"""The topic of remote segments in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from moldau.broker.tiered.metadata_topic import TopicRead
from moldau.ids import Uuid


class MemoryTopic:
    """One metadata partition in memory. Satisfies `TopicAccess`."""

    def __init__(self) -> None:
        self.topic_id: Uuid | None = None
        self.partition_count = 0
        self.missing_replicas: int | None = None
        self.values: list[bytes] = []
        self.visible = 1 << 30
        """Readers see so many records; the leader has all."""
        self.unsafe_settings: Mapping[str, str] = {}
        self.failures: list[Exception] = []
        """How the next reads fail."""
        self.append_failures: list[Exception] = []
        self._more = asyncio.Event()

    def create(self) -> None:
        self.topic_id, self.partition_count = b"m" * 16, 1

    def led(self) -> Collection[int]:
        return range(self.partition_count)

    def show(self, count: int) -> None:
        self.visible = count
        self._more.set()

    async def read(self, partition: int, offset: int) -> TopicRead:
        if self.failures:
            raise self.failures.pop()
        while len(self.values[: self.visible]) <= offset:
            self._more.clear()
            await self._more.wait()
        end = min(len(self.values), self.visible, offset + 2)
        return TopicRead(list(enumerate(self.values))[offset:end], end)

    async def end(self, partition: int) -> int:
        return len(self.values)

    async def append(self, partition: int, value: bytes) -> None:
        if self.append_failures:
            raise self.append_failures.pop()
        self.values.append(value)
        self._more.set()
