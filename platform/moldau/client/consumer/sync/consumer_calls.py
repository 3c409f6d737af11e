"""`Consumer`'s calls that wait, made from the asyncio client (tests/client/sync).

`python -m tests.client.sync.twins` makes this module anew.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from moldau.client.base.arguments import ByPartition, OffsetAndMetadata, PartitionGiven
from moldau.client.base.blocking import BlockingClient
from moldau.client.base.coordinator import GroupMetadata
from moldau.client.base.offsets import FoundOffset
from moldau.client.consumer.consumer import Consumer as AsyncConsumer
from moldau.client.consumer.consumer import Partitions
from moldau.errors.codes import KafkaError
from moldau.ids import Uuid
from moldau.link.metadata import Topic, TopicPartition
from moldau.metrics import Registry


class ConsumerCalls(BlockingClient, twin_of=AsyncConsumer):
    """Each hands its call to the loop and waits for the answer. Their texts are those of the
    asyncio client."""

    _client: AsyncConsumer

    @property
    def subscription(self) -> frozenset[str]:
        return self._run(lambda: self._client.subscription)

    def assign(self, partitions: Partitions) -> None:
        self._run(lambda: self._client.assign(partitions))

    def partitions(self, *topics: str, timeout_s: float | None = None) -> list[TopicPartition]:
        return self._call(self._client.partitions(*topics, timeout_s=timeout_s))

    def list_topics(self, *, internal: bool = False, timeout_s: float | None = None) -> list[Topic]:
        return self._call(self._client.list_topics(internal=internal, timeout_s=timeout_s))

    @property
    def assignment(self) -> list[TopicPartition]:
        return self._run(lambda: self._client.assignment)

    def topic_ids(self, partitions: Partitions) -> dict[TopicPartition, Uuid]:
        return self._run(lambda: self._client.topic_ids(partitions))

    def seek(self, partition: PartitionGiven, offset: int, *, leader_epoch: int = -1) -> None:
        self._run(lambda: self._client.seek(partition, offset, leader_epoch=leader_epoch))

    def seek_to_beginning(self, partitions: Partitions | None = None) -> None:
        self._call(self._client.seek_to_beginning(partitions))

    def seek_to_end(self, partitions: Partitions | None = None) -> None:
        self._call(self._client.seek_to_end(partitions))

    def seek_to_time(
        self, timestamp_ms: int | datetime | timedelta | str, partitions: Partitions | None = None
    ) -> None:
        self._call(self._client.seek_to_time(timestamp_ms, partitions))

    def offsets(self, wanted: ByPartition[int]) -> dict[TopicPartition, FoundOffset]:
        return self._call(self._client.offsets(wanted))

    def offsets_for_times(
        self, wanted: ByPartition[int]
    ) -> dict[TopicPartition, FoundOffset | None]:
        return self._call(self._client.offsets_for_times(wanted))

    def beginning_offsets(self, partitions: Partitions) -> dict[TopicPartition, int]:
        return self._call(self._client.beginning_offsets(partitions))

    def end_offsets(self, partitions: Partitions) -> dict[TopicPartition, int]:
        return self._call(self._client.end_offsets(partitions))

    def position(self, partition: PartitionGiven) -> int | None:
        return self._run(lambda: self._client.position(partition))

    def lag(self, partition: PartitionGiven) -> int | None:
        return self._run(lambda: self._client.lag(partition))

    def pause(self, partitions: Partitions | None = None) -> None:
        self._run(lambda: self._client.pause(partitions))

    def resume(self, partitions: Partitions | None = None) -> None:
        self._run(lambda: self._client.resume(partitions))

    @property
    def paused(self) -> list[TopicPartition]:
        return self._run(lambda: self._client.paused)

    def troubles(self) -> dict[TopicPartition, KafkaError]:
        return self._run(lambda: self._client.troubles())

    def metrics(self) -> dict[str, dict[str, float]]:
        return self._run(lambda: self._client.metrics())

    @property
    def registry(self) -> Registry:
        return self._run(lambda: self._client.registry)

    def committed(
        self, partitions: Partitions | None = None, *, timeout_s: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return self._call(self._client.committed(partitions, timeout_s=timeout_s))

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._run(lambda: self._client.consumed())

    def group_metadata(self) -> GroupMetadata:
        return self._run(lambda: self._client.group_metadata())

    def enforce_rebalance(self, reason: str = "the application asked for it") -> bool:
        return self._run(lambda: self._client.enforce_rebalance(reason))

    @property
    def member_id(self) -> str:
        return self._run(lambda: self._client.member_id)
