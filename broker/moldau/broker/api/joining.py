"""Asking the coordinator of a transaction whether partitions are in it, or to add them (KIP-890).

A broker asks before it takes the first records of a transaction, so that none can be left without
an end. Clients of transaction version 2 leave it to the broker to add the partitions. If the
transaction before is still ending, the broker asks again for a moment, so that the client need not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from moldau.broker.coordinator.kind import KeyType
from moldau.broker.coordinator.transaction.membership import (
    JoiningPartitions,
    add_partitions,
    results,
    verify_partitions,
)
from moldau.broker.coordinator.transaction.state import BUMPS_SINCE, TopicPartition
from moldau.broker.replication.purgatory import Pause
from moldau.broker.settings import transaction as settings
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.coordinator.transaction.state import Partitions
    from moldau.protocol.declare import Response

Codes: TypeAlias = Mapping[TopicPartition, int]
OnCodes: TypeAlias = Callable[[Codes], None]
LANE = "joining"


def ask_coordinator(
    node: Node, joining: JoiningPartitions, on_codes: OnCodes, *, verify_only: bool
) -> None:
    """Ask the coordinator, on this node or another. `on_codes` is called once with an error code
    for each partition, perhaps before this returns."""
    _Asking(node, joining, on_codes, verify_only).ask()


def submit(
    node: Node,
    joining: JoiningPartitions,
    on_response: Callable[[AddPartitionsToTxnResponse], None],
    *,
    verify_only: bool,
) -> None:
    """Let the coordinator on this node decide. An error becomes that of each partition.

    No partition joins that this node does not know (yet): when the transaction ends, it would
    count as deleted, and get no marker.
    """

    def answer(response: Response | KafkaError) -> None:
        if isinstance(response, KafkaError):
            response = results(joining.partitions, response.code)
        assert isinstance(response, AddPartitionsToTxnResponse)
        on_response(response)

    coordinator = node.coordinators.of(KeyType.TRANSACTION)
    if verify_only:
        coordinator.submit(
            joining.transactional_id,
            lambda shard, now_ms: verify_partitions(shard, joining, answer),
            answer,
            "verify",
        )
        return
    if not all(exists(node, each) for each in joining.partitions):
        answer(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        return
    coordinator.submit(
        joining.transactional_id,
        lambda shard, now_ms: add_partitions(shard, joining, answer, now_ms),
        answer,
        "AddPartitionsToTxn",
    )


class _Asking:
    """One question."""

    def __init__(
        self, node: Node, joining: JoiningPartitions, on_codes: OnCodes, verify_only: bool
    ) -> None:
        self._node = node
        self._joining = joining
        self._on_codes = on_codes
        self._verify_only = verify_only
        now = node.settings
        self._pause_ms = now[settings.add_partitions_to_txn_retry_backoff_ms]
        self._left_ms = now[settings.add_partitions_to_txn_retry_backoff_max_ms]

    def ask(self) -> None:
        node, joining = self._node, self._joining
        coordinator = node.coordinators.of(KeyType.TRANSACTION)
        topic = node.image.topics.by_name(coordinator.kind.topic)
        index = coordinator.partition_of(joining.transactional_id)
        leader = -1 if topic is None or index is None else topic.partitions[index].leader
        if leader == node.node_id:
            submit(node, joining, self._on_response, verify_only=self._verify_only)
        elif leader < 0 or node.peers is None:
            self._refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            node.runtime.spawn(self._ask_other(leader), name="ask-coordinator")

    async def _ask_other(self, leader: int) -> None:
        joining, peers = self._joining, self._node.peers
        assert peers is not None
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(joining.partitions):
            by_topic.setdefault(topic, []).append(partition)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=joining.transactional_id,
            producer_id=joining.producer.id,
            producer_epoch=joining.producer.epoch,
            verify_only=self._verify_only,
            topics=[
                AddPartitionsToTxnTopic(name=name, partitions=ids) for name, ids in by_topic.items()
            ],
        )
        request = AddPartitionsToTxnRequest(transactions=[transaction])
        try:
            response = await peers.request(leader, request, AddPartitionsToTxnResponse, lane=LANE)
        except KafkaError:
            self._refuse(ErrorCode.NETWORK_EXCEPTION)
            return
        if response.error_code:
            self._refuse(ErrorCode(response.error_code))
            return
        self._take([row for each in response.results_by_transaction for row in each.topic_results])

    def _on_response(self, response: AddPartitionsToTxnResponse) -> None:
        self._take(response.results_by_topic_v3_and_below)

    def _take(self, topics: list[AddPartitionsToTxnTopicResult]) -> None:
        codes = {
            TopicPartition(topic.name, row.partition_index): row.partition_error_code
            for topic in topics
            for row in topic.results_by_partition
        }
        is_ending = ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()
        if is_ending and not self._verify_only and self._left_ms > 0:
            self._left_ms -= self._pause_ms
            self._node.replicas.purgatory.watch(Pause(self.ask), (), self._pause_ms)
            return
        self._on_codes(codes)

    def _refuse(self, code: ErrorCode) -> None:
        self._on_codes(dict.fromkeys(self._joining.partitions, int(code)))


def exists(node: Node, partition: TopicPartition) -> bool:
    """Whether the metadata that this node has knows the partition."""
    topic = node.image.topics.by_name(partition.topic)
    return topic is not None and partition.partition in topic.partitions


def verifies(node: Node, client_version: int) -> bool:
    """Whether the coordinator must be asked: for a client of version 2 it adds partitions, for an
    older one it only confirms them, if that is enabled."""
    return (
        client_version >= BUMPS_SINCE
        or node.settings[settings.transaction_partition_verification_enable]
    )


def partitions_of(topics: list[AddPartitionsToTxnTopic]) -> Partitions:
    """Return the partitions that a request names."""
    return frozenset(
        TopicPartition(topic.name, partition) for topic in topics for partition in topic.partitions
    )
