"""One connection of a scripted client: requests may be sent before earlier answers are read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from moldau.broker.log.rounds import rest
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
from moldau.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from moldau.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from moldau.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from moldau.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from moldau.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from moldau.protocol.messages.metadata import MetadataRequest, MetadataResponse
from moldau.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from moldau.records import Producer, encode_batch
from moldau.runtime import Runtime
from tests.broker.simulation.promises import Sent

R = TypeVar("R", bound=Response)

PRODUCE_VERSION, FETCH_VERSION = 13, 17
TOPIC = 2
EARLIEST = -2
ANSWER_SECONDS = 2.0
TROUBLE = (OSError, EOFError, TimeoutError)
"""How a connection ends; the client tries again."""


class Refused(Exception):
    """The broker said no, and the script has no answer to that but to begin again."""


class Channel:
    """See the module. `life` says which life of the broker is at the other end."""

    def __init__(
        self,
        runtime: Runtime,
        life: int,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self.runtime = runtime
        self.life = life
        self._reader, self._writer = streams
        self._protocol = ClientConnection(runtime.node)

    def send(self, request: Request, version: int | None = None) -> None:
        last = type(request).spec.stable_versions.last if version is None else version
        self._writer.writelines(self._protocol.send(request, last, expects_answer=True))

    async def receive(self, answer: type[R]) -> R:
        """The answer to the oldest request that has none."""
        async with asyncio.timeout(ANSWER_SECONDS):
            size = int.from_bytes(await self._reader.readexactly(4), "big")
            response = self._protocol.receive(await self._reader.readexactly(size)).response
        assert isinstance(response, answer)
        return response

    async def ask(self, request: Request, answer: type[R], version: int | None = None) -> R:
        self.send(request, version)
        return await self.receive(answer)

    def close(self) -> None:
        self._writer.close()

    # Records.

    def send_batch(
        self, topic_id: Uuid, index: int, batch: Sequence[Sent], acks: int, producer: Producer
    ) -> None:
        now_ms = self.runtime.clock.wall_ms()
        rows = [(now_ms, sent.key, sent.value, (("name", sent.name.encode()),)) for sent in batch]
        data = PartitionProduceData(index=index, records=encode_batch(rows, producer=producer))
        topic = TopicProduceData(topic_id=topic_id, partition_data=[data])
        self.send(ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic]), PRODUCE_VERSION)

    async def outcome(self) -> PartitionProduceResponse:
        """Of the oldest batch that was sent."""
        answer = await self.receive(ProduceResponse)
        return answer.responses[0].partition_responses[0]

    async def fetch(
        self, topic_id: Uuid, index: int, offset: int, bytes_max: int, wait_ms: int
    ) -> PartitionData:
        partition = FetchPartition(
            partition=index, fetch_offset=offset, partition_max_bytes=bytes_max
        )
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            topics=[FetchTopic(topic_id=topic_id, partitions=[partition])],
        )
        answer = await self.ask(request, FetchResponse, FETCH_VERSION)
        return answer.responses[0].partitions[0]

    async def earliest(self, topic: str, index: int) -> int:
        partition = ListOffsetsPartition(partition_index=index, timestamp=EARLIEST)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])]
        )
        answer = (await self.ask(request, ListOffsetsResponse, 9)).topics[0].partitions[0]
        checked(answer.error_code)
        return answer.offset

    async def producer_id(self) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        answer = await self.ask(request, InitProducerIdResponse, 5)
        checked(answer.error_code)
        return answer.producer_id, answer.producer_epoch

    # Administration.

    async def create(self, name: str, partitions: int, configs: dict[str, str]) -> ErrorCode:
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            assignments=[],
            configs=[CreatableTopicConfig(name=each, value=configs[each]) for each in configs],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=False)
        return ErrorCode((await self.ask(request, CreateTopicsResponse)).topics[0].error_code)

    async def delete(self, topic_id: Uuid) -> ErrorCode:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=None, topic_id=topic_id)], timeout_ms=1000
        )
        return ErrorCode((await self.ask(request, DeleteTopicsResponse)).responses[0].error_code)

    async def topics(self) -> dict[str, Uuid]:
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        answer = await self.ask(request, MetadataResponse)
        return {each.name or "": each.topic_id for each in answer.topics}

    async def set_config(self, topic: str, name: str, value: str) -> ErrorCode:
        config = AlterableConfig(name=name, config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        answer = await self.ask(request, IncrementalAlterConfigsResponse)
        return ErrorCode(answer.responses[0].error_code)

    async def configs(self, topic: str, names: Sequence[str]) -> dict[str, str]:
        resource = DescribeConfigsResource(
            resource_type=TOPIC, resource_name=topic, configuration_keys=list(names)
        )
        request = DescribeConfigsRequest(resources=[resource])
        answer = (await self.ask(request, DescribeConfigsResponse)).results[0]
        checked(answer.error_code)
        return {each.name: each.value or "" for each in answer.configs}

    async def delete_records(self, topic: str, index: int, offset: int) -> int:
        """Where the log begins now."""
        partition = DeleteRecordsPartition(partition_index=index, offset=offset)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=1000
        )
        answer = (await self.ask(request, DeleteRecordsResponse)).topics[0].partitions[0]
        checked(answer.error_code)
        return answer.low_watermark


def checked(error_code: int) -> None:
    if error_code:
        raise Refused(ErrorCode(error_code).name)


class Place(Protocol):
    """Where a broker is reached."""

    host: str
    port: int

    def starts(self) -> int:
        """Which life of the broker answers now."""
        ...


@asynccontextmanager
async def channel(runtime: Runtime, place: Place) -> AsyncIterator[Channel]:
    """A connection to whoever accepts there."""
    async with asyncio.timeout(ANSWER_SECONDS):
        streams = await runtime.network.open_streams(place.host, place.port)
    found = Channel(runtime, place.starts(), streams)
    try:
        yield found
    finally:
        found.close()


async def pause(runtime: Runtime, mean_s: float) -> None:
    """So much virtual time, more or less."""
    await rest(runtime.random.expovariate(1 / mean_s))
