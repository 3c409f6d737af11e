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


class ProducerCalls(BlockingClient):
    """Each hands its call to the loop and waits for the answer."""

    _client: AsyncProducer

    def begin_transaction(self) -> None:
        """Begin a transaction: what is sent until its end is committed or aborted as one.

        Raise TransactionError, as all calls of this kind: a `RetriableTransactionError` means to
        make the same call again, an `AbortableTransactionError` to call `abort_transaction`, a
        `FatalTransactionError` to close the producer."""
        self._call(self._client.begin_transaction())

    def send_offsets(
        self, offsets: ByPartition[int | OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        """Commit a group's offsets with the transaction: by partition the offset of the record that
        is to be read next. `group` is `Consumer.group_metadata()`: a member that has lost its
        partitions is rejected. Return when the group's coordinator has the offsets."""
        self._call(self._client.send_offsets(offsets, group))

    def commit_transaction(self) -> None:
        """Wait until every record is acknowledged, then commit the transaction.

        Raise AbortableTransactionError if a record or offset has failed. After a cancellation or a
        RetriableTransactionError call it again: it may be committed."""
        self._call(self._client.commit_transaction())

    def abort_transaction(self) -> None:
        """Drop the records that are not sent yet, and abort the transaction."""
        self._call(self._client.abort_transaction())

    def partitions(self, topic: str) -> list[TopicPartition]:
        """Return the topic's partitions. KafkaError if it is not found in `max.block.ms`."""
        return self._call(self._client.partitions(topic))

    @property
    def blind_for(self) -> KafkaError | None:
        """The error of the last metadata request; None if a broker has answered."""
        return self._run(lambda: self._client.blind_for)

    def troubles(self) -> dict[TopicPartition, KafkaError]:
        """Return why records cannot be acknowledged at present: by partition the error that its
        oldest batch is to be retried after, or why its broker is unreachable. Empty if all is
        well."""
        return self._run(lambda: self._client.troubles())

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return Kafka's producer metrics by group and name:
        `metrics()["producer-metrics"]["record-send-rate"]`."""
        return self._run(lambda: self._client.metrics())

    @property
    def registry(self) -> Registry:
        """The same metrics for exporters (`moldau.metrics.render_prometheus`)."""
        return self._run(lambda: self._client.registry)

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until everything sent before is acknowledged.

        Raise KafkaError if records failed since the last flush whose `Delivery` was not awaited,
        with their number and the first cause. Raise it too if this takes longer than `timeout_s`,
        with the number of records that are left; they are still sent."""
        self._call(self._client.flush(timeout_s))
