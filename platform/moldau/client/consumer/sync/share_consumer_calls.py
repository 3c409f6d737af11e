"""`ShareConsumer`'s calls that wait, made from the asyncio client (tests/client/sync).

`python -m tests.client.sync.twins` makes this module anew.
"""

from __future__ import annotations

from moldau.client.base.blocking import BlockingClient
from moldau.client.consumer.share.consumer import ShareConsumer as AsyncShareConsumer
from moldau.errors.codes import KafkaError
from moldau.link.metadata import TopicPartition
from moldau.metrics import Registry


class ShareConsumerCalls(BlockingClient):
    """Each hands its call to the loop and waits for the answer."""

    _client: AsyncShareConsumer

    def commit(self) -> dict[TopicPartition, KafkaError]:
        """Wait until all that was acknowledged is stored. Return the partitions in which an
        acknowledgement has failed since the last call, each with its error: those messages are
        delivered again."""
        return self._call(self._client.commit())

    @property
    def member_id(self) -> str:
        """This consumer's member id in its group."""
        return self._run(lambda: self._client.member_id)

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that the group has assigned to this consumer."""
        return self._run(lambda: self._client.assignment())

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return Kafka's share consumer metrics by group and name."""
        return self._run(lambda: self._client.metrics())

    @property
    def registry(self) -> Registry:
        """The same metrics for exporters (`moldau.metrics.render_prometheus`)."""
        return self._run(lambda: self._client.registry)
