"""`ShareConsumer`'s calls that wait, made from the asyncio client (tests/client/sync).

`python -m tests.client.sync.twins` makes this module anew.
"""

from __future__ import annotations

from moldau.client.base.blocking import BlockingClient
from moldau.client.consumer.share.consumer import ShareConsumer as AsyncShareConsumer
from moldau.errors.codes import KafkaError
from moldau.link.metadata import TopicPartition
from moldau.metrics import Registry


class ShareConsumerCalls(BlockingClient, twin_of=AsyncShareConsumer):
    """Each hands its call to the loop and waits for the answer. Their texts are those of the
    asyncio client."""

    _client: AsyncShareConsumer

    def commit(self) -> dict[TopicPartition, KafkaError]:
        return self._call(self._client.commit())

    @property
    def member_id(self) -> str:
        return self._run(lambda: self._client.member_id)

    def assignment(self) -> frozenset[TopicPartition]:
        return self._run(lambda: self._client.assignment())

    def metrics(self) -> dict[str, dict[str, float]]:
        return self._run(lambda: self._client.metrics())

    @property
    def registry(self) -> Registry:
        return self._run(lambda: self._client.registry)
