"""Reads given partitions outside the group: changelogs, and the topics of global tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from moldau.client import Consumer, PartitionColumns, PartitionRecords, TopicPartition
from moldau.runtime import Runtime
from moldau.streams.engine.batches import Chunk

RECORDS_MAX: Final = 5000


class FetchedChunk(NamedTuple):
    """Records of one partition."""

    where: TopicPartition
    chunk: Chunk


class Reader:
    """Reads given partitions outside the group. It is connected only while it has some."""

    def __init__(
        self,
        given: Mapping[str, str],
        client_id: str,
        runtime: Runtime,
        *,
        auto_offset_reset: str = "earliest",
    ) -> None:
        self._given = {
            "client.id": client_id,
            "max.poll.records": str(2 * RECORDS_MAX),
            **given,
            "auto.offset.reset": auto_offset_reset,
            "allow.auto.create.topics": "false",
        }
        self._runtime = runtime
        self._consumer: Consumer | None = None

    async def read_from(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read these partitions, new ones from these offsets on; disconnect if there are none."""
        if not offsets:
            await self.aclose()
            return
        if self._consumer is None:
            self._consumer = Consumer(self._given, runtime=self._runtime)
            await self._consumer.start()
        known = set(self._consumer.assignment)
        self._consumer.assign(list(offsets))
        for where, offset in offsets.items():
            if where not in known:
                self._consumer.seek(where, offset)

    async def read(self, timeout_s: float) -> list[FetchedChunk]:
        """Return the next records."""
        assert self._consumer is not None
        return [fetched(each) for each in await self._consumer.poll(timeout_s)]

    def position(self, where: TopicPartition) -> int:
        """Return the offset of the next record that `read` returns."""
        assert self._consumer is not None
        return self._consumer.position(where) or 0

    def lag(self, where: TopicPartition) -> int | None:
        """Return the number of offsets from the position to the end; None until a fetch has found
        the end."""
        assert self._consumer is not None
        return self._consumer.lag(where)

    async def aclose(self) -> None:
        """Disconnect."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.aclose()


def fetched_columns(part: PartitionColumns) -> FetchedChunk:
    """Take fetched columns as lists: no object is made of a record."""
    headers = part.headers
    chunk = Chunk(
        part.offsets.tolist(),
        part.timestamps.tolist(),
        part.keys.tolist(),
        part.values.tolist(),
        part.next_offset,
        None if headers is None else headers.tolist(),
    )
    return FetchedChunk(TopicPartition(part.topic, part.partition), chunk)


def fetched(part: PartitionRecords) -> FetchedChunk:
    headers = [each.headers for each in part.records]
    chunk = Chunk(
        part.offsets(),
        part.timestamps(),
        part.keys(),
        part.values(),
        part.next_offset,
        headers if any(headers) else None,
    )
    return FetchedChunk(TopicPartition(part.topic, part.partition), chunk)
