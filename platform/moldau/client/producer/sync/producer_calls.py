"""`Producer`'s calls that wait, made from the asyncio client (tests/client/sync).

`python -m tests.client.sync.twins` makes this module anew.
"""

from __future__ import annotations

from moldau.client.base.arguments import ByPartition, OffsetAndMetadata
from moldau.client.base.blocking import BlockingClient
from moldau.client.base.coordinator import GroupMetadata
from moldau.client.producer.producer import Producer as AsyncProducer
from moldau.errors.codes import KafkaError
from moldau.link.metadata import TopicPartition
from moldau.metrics import Registry


class ProducerCalls(BlockingClient, twin_of=AsyncProducer):
    """Each hands its call to the loop and waits for the answer. Their texts are those of the
    asyncio client."""

    _client: AsyncProducer

    def begin_transaction(self) -> None:
        self._call(self._client.begin_transaction())

    def send_offsets(
        self, offsets: ByPartition[int | OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        self._call(self._client.send_offsets(offsets, group))

    def commit_transaction(self) -> None:
        self._call(self._client.commit_transaction())

    def abort_transaction(self) -> None:
        self._call(self._client.abort_transaction())

    def partitions(self, topic: str) -> list[TopicPartition]:
        return self._call(self._client.partitions(topic))

    @property
    def blind_for(self) -> KafkaError | None:
        return self._run(lambda: self._client.blind_for)

    def troubles(self) -> dict[TopicPartition, KafkaError]:
        return self._run(lambda: self._client.troubles())

    def metrics(self) -> dict[str, dict[str, float]]:
        return self._run(lambda: self._client.metrics())

    @property
    def registry(self) -> Registry:
        return self._run(lambda: self._client.registry)

    def flush(self, timeout_s: float | None = None) -> None:
        self._call(self._client.flush(timeout_s))
