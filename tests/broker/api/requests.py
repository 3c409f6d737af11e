"""Requests about records, as clients send them, in as few words as a test has use for."""

from __future__ import annotations

from typing import Any, Final

from moldau.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from moldau.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from moldau.records import encode_batch

# What the simulated wall clock shows at first.
NOW: Final = 1_750_000_000_000
Place = tuple[str | bytes, int]


def batch(count: int = 1, *, at: int | None = None, size: int = 1, **more: Any) -> bytes:
    """`count` records of `size` bytes each."""
    first = NOW if at is None else at
    rows = [(first + index, b"k", b"v" * size, ()) for index in range(count)]
    return bytes(encode_batch(rows, 0, **more))


def produce(
    topic: str | bytes = "t",
    records: bytes | None = b"",
    *,
    acks: int = -1,
    timeout_ms: int = 1000,
    index: int = 0,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """One batch for one partition; a topic in bytes is an id."""
    return produce_all(
        {(topic, index): records},
        acks=acks,
        timeout_ms=timeout_ms,
        transactional_id=transactional_id,
    )


def produce_all(
    records: dict[Place, bytes | None],
    *,
    acks: int = -1,
    timeout_ms: int = 1000,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """A batch for each of several partitions."""
    topics: dict[str | bytes, list[PartitionProduceData]] = {}
    for (topic, index), data in records.items():
        topics.setdefault(topic, []).append(PartitionProduceData(index=index, records=data))
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(**_called(topic, "name"), partition_data=each)
            for topic, each in topics.items()
        ],
    )


def _called(topic: str | bytes, name: str) -> dict[str, Any]:
    return {name: topic} if isinstance(topic, str) else {"topic_id": topic}


def want(partition: int = 0, offset: int = 0, **more: Any) -> FetchPartition:
    """A partition to read."""
    fields: dict[str, Any] = {"partition_max_bytes": 1 << 20, **more}
    return FetchPartition(partition=partition, fetch_offset=offset, **fields)


def fetch(
    *wanted: tuple[str | bytes, FetchPartition],
    wait_ms: int = 0,
    forget: tuple[tuple[str | bytes, list[int]], ...] = (),
    **more: Any,
) -> FetchRequest:
    """Topics that follow one another stand together."""
    topics: list[FetchTopic] = []
    last: str | bytes | None = None
    for topic, asked in wanted:
        if topic != last:
            topics.append(FetchTopic(**_called(topic, "topic"), partitions=[]))
            last = topic
        topics[-1].partitions.append(asked)
    fields: dict[str, Any] = {"min_bytes": 1, **more}
    return FetchRequest(
        max_wait_ms=wait_ms,
        topics=topics,
        forgotten_topics_data=[
            ForgottenTopic(**_called(topic, "topic"), partitions=indexes)
            for topic, indexes in forget
        ],
        **fields,
    )


def list_offsets(timestamp: int, topic: str = "t", **more: Any) -> ListOffsetsRequest:
    """One question about one partition."""
    asked = ListOffsetsPartition(
        partition_index=more.pop("index", 0),
        current_leader_epoch=more.pop("epoch", -1),
        timestamp=timestamp,
    )
    return ListOffsetsRequest(
        replica_id=more.pop("replica_id", -1),
        topics=[ListOffsetsTopic(name=topic, partitions=[asked])],
        **more,
    )


def delete_records(topic: str, offset: int, index: int = 0) -> DeleteRecordsRequest:
    """Let one partition begin later."""
    asked = DeleteRecordsPartition(partition_index=index, offset=offset)
    return DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[asked])], timeout_ms=1000
    )
