"""`Producer`'s calls that wait, made from the asyncio client (tests/client/sync).

`python -m tests.client.sync.twins` makes this module anew.
"""

from __future__ import annotations

from moldau.client.producer.producer import Producer as AsyncProducer
from moldau.client.sync.client import BlockingClient
from moldau.errors.codes import KafkaError
from moldau.link.metadata import TopicPartition
from moldau.metrics import Registry


class ProducerCalls(BlockingClient):
    """Each hands its call to the loop and waits for the answer."""

    _client: AsyncProducer

    def partitions(self, topic: str) -> list[TopicPartition]:
        """The partitions that the topic has now; KafkaError if there is no such topic within
        `max.block.ms`."""
        return self._call(self._client.partitions(topic))

    @property
    def blind_for(self) -> KafkaError | None:
        """Why nothing is heard of topics at present: what asking a broker failed with last. None
        when one has answered."""
        return self._run(lambda: self._client.blind_for)

    def troubles(self) -> dict[TopicPartition, KafkaError]:
        """What keeps records from being acknowledged at present: by partition, what its oldest
        batch was refused with and waits to be tried again after, or why its broker cannot be
        reached. Empty when all goes well."""
        return self._run(lambda: self._client.troubles())

    def metrics(self) -> dict[str, dict[str, float]]:
        """Kafka's metrics of a producer, by group and name:
        `metrics()["producer-metrics"]["record-send-rate"]`."""
        return self._run(lambda: self._client.metrics())

    @property
    def registry(self) -> Registry:
        """The same for exporters (`moldau.metrics.render_prometheus`)."""
        return self._run(lambda: self._client.registry)

    def flush(self, timeout_s: float | None = None) -> None:
        """Returns when everything sent before is acknowledged. KafkaError if records failed since
        the last flush whose `Delivery` was not awaited: their number and the first cause.
        KafkaError too when it takes longer than `timeout_s`: it says how many records are left,
        which stay on their way."""
        self._call(self._client.flush(timeout_s))
