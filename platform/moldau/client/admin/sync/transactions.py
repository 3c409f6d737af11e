"""`TransactionAdmin` for threads: lists, describes and ends transactions.

with Admin(bootstrap_servers="localhost:9092") as admin:
    print(TransactionAdmin(admin).list_all(states=["Ongoing"]))
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.client.admin.cluster import ActiveProducer
from moldau.client.admin.sync.admin import Admin
from moldau.client.admin.transactions import ListedTransaction, TransactionDescription
from moldau.client.admin.transactions import TransactionAdmin as AsyncTransactionAdmin
from moldau.client.base.arguments import PartitionGiven
from moldau.errors.codes import KafkaError
from moldau.link.metadata import TopicPartition


class TransactionAdmin:
    """Lists, describes and ends transactions, by a started admin client."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    @property
    def _client(self) -> AsyncTransactionAdmin:
        return AsyncTransactionAdmin(self._admin._client)

    def list_all(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int | None = None,
    ) -> list[ListedTransaction]:
        """Return the transactional ids of the whole cluster: all, or those in these states, of
        these producers, and open for longer than that (Kafka 3.8, KIP-994)."""
        return self._admin._call(
            self._client.list_all(
                states=states, producer_ids=producer_ids, longer_than_ms=longer_than_ms
            )
        )

    def describe(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription | KafkaError]:
        """Return the description or error of each id."""
        return self._admin._call(self._client.describe(transactional_ids))

    def fence(self, transactional_id: str) -> None:
        """Abort the open transaction of this id, if there is one, and fence its producers."""
        self._admin._call(self._client.fence(transactional_id))

    def producers(
        self, partitions: Iterable[PartitionGiven]
    ) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
        """Return the producers that the leader of each partition knows, or its error. Each leader
        gets one request."""
        return self._admin._call(self._client.producers(partitions))

    def abort(
        self, where: PartitionGiven, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> None:
        """Write the marker of an aborted transaction into one partition, as its coordinator does.
        The leader of the partition does not ask that coordinator."""
        self._admin._call(self._client.abort(where, producer_id, producer_epoch, coordinator_epoch))
