"""A client that speaks messages, and what tests of a whole broker ask of it again and again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from moldau.errors.codes import ErrorCode
from moldau.ids import Uuid
from moldau.protocol.connection import ClientConnection
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from moldau.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from moldau.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from moldau.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from moldau.records import encode_batch, iter_records
from moldau.runtime import Runtime

R = TypeVar("R", bound=Response)
PRODUCE_VERSION = 12
FETCH_VERSION = 12


class Wire:
    """One connection, one request after the other."""

    def __init__(
        self, runtime: Runtime, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.runtime = runtime
        self.reader = reader
        self.writer = writer
        self.protocol = ClientConnection("tester")

    @classmethod
    async def open(cls, runtime: Runtime, host: str, port: int) -> Wire:
        return cls(runtime, *await runtime.network.open_streams(host, port))

    async def ask(self, request: Request, answer: type[R], version: int | None = None) -> R:
        """The answer to a request, in the newest version unless another is given."""
        last = type(request).spec.stable_versions.last
        self.writer.writelines(
            self.protocol.send(request, last if version is None else version, expects_answer=True)
        )
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        response = self.protocol.receive(await self.reader.readexactly(size)).response
        assert isinstance(response, answer)
        return response

    def close(self) -> None:
        self.writer.close()

    # What is asked.

    async def create(self, name: str, partitions: int = 1, **configs: str) -> ErrorCode:
        """CreateTopics; setting names with underscores for dots."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            assignments=[],
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000, validate_only=False)
        answer = await self.ask(request, CreateTopicsResponse)
        return ErrorCode(answer.topics[0].error_code)

    async def metadata(self, *names: str) -> MetadataResponse:
        """Of all topics, or of those."""
        topics = [MetadataRequestTopic(name=name) for name in names] if names else None
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        return await self.ask(request, MetadataResponse)

    async def topic_id(self, name: str) -> Uuid:
        """The id of a topic that is there."""
        return (await self.metadata(name)).topics[0].topic_id

    async def produce(
        self, topic: str, values: Sequence[bytes], partition: int = 0, acks: int = -1
    ) -> PartitionProduceResponse:
        """One batch."""
        now_ms = self.runtime.clock.wall_ms()
        batch = encode_batch([(now_ms, None, value, ()) for value in values])
        request = ProduceRequest(
            acks=acks,
            timeout_ms=30_000,
            topic_data=[
                TopicProduceData(
                    name=topic,
                    partition_data=[PartitionProduceData(index=partition, records=batch)],
                )
            ],
        )
        answer = await self.ask(request, ProduceResponse, PRODUCE_VERSION)
        return answer.responses[0].partition_responses[0]

    async def fetch_answer(
        self, topic: str, offset: int = 0, partition: int = 0, max_wait_ms: int = 100
    ) -> PartitionData:
        """What the broker says of one partition."""
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            topics=[
                FetchTopic(
                    topic=topic,
                    partitions=[
                        FetchPartition(
                            partition=partition,
                            fetch_offset=offset,
                            partition_max_bytes=8 << 20,
                        )
                    ],
                )
            ],
        )
        answer = await self.ask(request, FetchResponse, FETCH_VERSION)
        assert not answer.error_code
        return answer.responses[0].partitions[0]

    async def fetch(self, topic: str, offset: int = 0, partition: int = 0) -> list[bytes]:
        """The values from an offset on, as many as one answer brings."""
        found = await self.fetch_answer(topic, offset, partition)
        assert found.error_code == ErrorCode.NONE, ErrorCode(found.error_code)
        records = iter_records(found.records or b"")
        return [bytes(each.value or b"") for each in records if each.offset >= offset]

    async def fetch_all(self, topic: str, partition: int = 0) -> list[bytes]:
        """Every value of a partition."""
        found: list[bytes] = []
        while values := await self.fetch(topic, len(found), partition):
            found += values
        return found


@asynccontextmanager
async def wired(runtime: Runtime, host: str, port: int) -> AsyncIterator[Wire]:
    """A connection for the time of a test."""
    wire = await Wire.open(runtime, host, port)
    try:
        yield wire
    finally:
        wire.close()
