"""Transactions: what coordinators know of them, what is open in partitions, and how to end one.

    async with Admin(bootstrap_servers="localhost:9092") as admin:
        print(await TransactionAdmin(admin).list_all(states=["Ongoing"]))

A transaction is known in two places: its coordinator has its state, and the leader of each of its
partitions has the offset where it began. A transaction that is open in a partition and that its
coordinator does not count as open there hangs: nothing will end it, and readers of committed
records stop there. It can only be ended by its marker (`abort`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import TYPE_CHECKING, Final, TypeVar

from moldau.client.admin.cluster import ActiveProducer
from moldau.client.admin.requests import at_once
from moldau.client.base import arguments
from moldau.client.base.arguments import PartitionGiven
from moldau.client.base.coordinator import TRANSACTION, find_coordinator
from moldau.client.base.unknown_topic import final, maybe_final
from moldau.deferred import dataclass
from moldau.errors import without_frames
from moldau.errors.codes import KafkaError, error_from, raise_for
from moldau.link.connection import Connection
from moldau.link.metadata import TopicPartition, by_topic
from moldau.protocol.messages import describe_producers as producers
from moldau.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from moldau.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from moldau.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from moldau.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from moldau.client.admin.admin import Admin

V = TypeVar("V")

STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
)
_LANE: Final = "admin"
_IDS: Final = range(2**63)
_EPOCHS: Final = range(2**15)
_COORDINATOR_EPOCHS: Final = range(2**31)
_TIMEOUT_MS: Final = 60_000
"""Of the producer that only fences the others: it begins no transaction."""


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    """A transactional id, as its coordinator lists it."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int
    """The id of the broker that coordinates it."""


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id, as its coordinator describes it. `started_ms` is -1 if it never had a
    transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    started_ms: int
    partitions: tuple[TopicPartition, ...]
    """The partitions in the transaction; while it ends, those that have no marker yet."""


class TransactionAdmin:
    """Lists, describes and ends transactions, by a started admin client."""

    def __init__(self, admin: Admin) -> None:
        self._requests = admin._requests

    async def list_all(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int | None = None,
    ) -> list[ListedTransaction]:
        """Return the transactional ids of the whole cluster: all, or those in these states, of
        these producers, and open for longer than that (Kafka 3.8, KIP-994)."""
        chosen = arguments.known_names(states, "state", STATES, of="a transaction")
        ids = [
            arguments.within(each, "a producer id", _IDS)
            for each in arguments.several(producer_ids, "producer_ids")
        ]
        age_ms = -1
        if longer_than_ms is not None:
            age_ms = arguments.within(longer_than_ms, "longer_than_ms", _IDS)
        request = ListTransactionsRequest(
            state_filters=chosen, producer_id_filters=ids, duration_filter=age_ms
        )

        answers = await self._requests.ask_all(request, ListTransactionsResponse)
        listed = [
            ListedTransaction(
                each.transactional_id, each.producer_id, each.transaction_state, broker
            )
            for broker, answer in answers.items()
            for each in answer.transaction_states
        ]
        return sorted(listed, key=lambda each: each.transactional_id)

    async def describe(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription | KafkaError]:
        """Return the description or error of each id."""
        chosen = arguments.names_of(transactional_ids, "transactional_ids")

        async def one(transactional_id: str) -> TransactionDescription:
            async def ask(connection: Connection) -> TransactionDescription:
                request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
                answer = await connection.request(request, DescribeTransactionsResponse)
                (state,) = answer.transaction_states
                raise_for(
                    "DescribeTransactions", state.error_code, transactional_id=transactional_id
                )
                return TransactionDescription(
                    transactional_id,
                    state.producer_id,
                    state.producer_epoch,
                    state.transaction_state,
                    state.transaction_timeout_ms,
                    state.transaction_start_time_ms,
                    tuple(
                        TopicPartition(topic.topic, index)
                        for topic in state.topics
                        for index in topic.partitions
                    ),
                )

            return await self._at_coordinator(transactional_id, ask)

        return await at_once(chosen, one)

    async def fence(self, transactional_id: str) -> None:
        """Abort the open transaction of this id, if there is one, and fence its producers."""
        name = arguments.name_of(transactional_id, "transactional_id")
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=_TIMEOUT_MS)

        async def ask(connection: Connection) -> None:
            answer = await connection.request(request, InitProducerIdResponse)
            raise_for("InitProducerId", answer.error_code, transactional_id=name)

        await self._at_coordinator(name, ask)

    async def _at_coordinator(
        self, transactional_id: str, ask: Callable[[Connection], Awaitable[V]]
    ) -> V:
        cluster = self._requests.cluster

        async def attempt() -> V:
            address = await find_coordinator(cluster, transactional_id, TRANSACTION)
            return await ask(await cluster.connection_to(address, _LANE))

        return await cluster.retry(attempt)

    # In partitions.

    async def producers(
        self, partitions: Iterable[PartitionGiven]
    ) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
        """Return the producers that the leader of each partition knows, or its error. Each leader
        gets one request."""
        chosen = arguments.partitions_in(partitions)
        cluster = self._requests.cluster

        async def ask(
            wanted: list[TopicPartition],
        ) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
            cluster.look_at(sorted({each.topic for each in wanted}))
            await cluster.refresh()
            found: dict[TopicPartition, list[ActiveProducer] | KafkaError] = {}
            by_leader: dict[int, list[TopicPartition]] = {}
            for each in wanted:
                try:
                    by_leader.setdefault(await cluster.leader(each), []).append(each)
                except KafkaError as error:
                    found[each] = final(without_frames(error))

            async def of(leader: int) -> None:
                found.update(await self._producers_at(leader, by_leader[leader]))

            results = await at_once(by_leader, of)
            for leader, failure in results.items():
                if isinstance(failure, KafkaError):
                    found.update((each, failure) for each in by_leader[leader])
            return found

        return await self._requests.for_each(chosen, ask)

    async def _producers_at(
        self, leader: int, wanted: Collection[TopicPartition]
    ) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
        request = producers.DescribeProducersRequest(
            topics=[
                producers.TopicRequest(name=topic, partition_indexes=list(indexes))
                for topic, indexes in by_topic(wanted).items()
            ]
        )
        response = producers.DescribeProducersResponse
        answer = await self._requests.ask_once(request, response, leader)
        found: dict[TopicPartition, list[ActiveProducer] | KafkaError] = {}
        for topic in answer.topics:
            for row in topic.partitions:
                where = TopicPartition(topic.name, row.partition_index)
                error = maybe_final(
                    error_from(
                        "DescribeProducers",
                        row.error_code,
                        row.error_message or "",
                        **where._asdict(),
                    )
                    if row.error_code
                    else None
                )
                found[where] = error or [active_producer(each) for each in row.active_producers]
        return found

    async def abort(
        self, where: PartitionGiven, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> None:
        """Write the marker of an aborted transaction into one partition, as its coordinator does.
        The leader of the partition does not ask that coordinator."""
        where = arguments.partition_of(where)
        marker = WritableTxnMarker(
            producer_id=arguments.within(producer_id, "producer_id", _IDS),
            producer_epoch=arguments.within(producer_epoch, "producer_epoch", _EPOCHS),
            coordinator_epoch=arguments.within(
                coordinator_epoch, "coordinator_epoch", _COORDINATOR_EPOCHS
            ),
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=where.topic, partition_indexes=[where.partition])],
        )
        cluster = self._requests.cluster

        async def attempt() -> None:
            cluster.look_at([where.topic])
            await cluster.refresh()
            try:
                leader = await cluster.leader(where)
            except KafkaError as unknown:
                raise final(unknown) from None
            request = WriteTxnMarkersRequest(markers=[marker])
            answer = await self._requests.ask_once(request, WriteTxnMarkersResponse, leader)
            (row,) = answer.markers[0].topics[0].partitions
            raise_for("WriteTxnMarkers", row.error_code, producer_id=producer_id, **where._asdict())

        await cluster.retry(attempt)


def active_producer(found: producers.ProducerState) -> ActiveProducer:
    """Return one producer of an answer."""
    return ActiveProducer(
        found.producer_id,
        found.producer_epoch,
        found.last_sequence,
        found.last_timestamp,
        found.current_txn_start_offset,
        found.coordinator_epoch,
    )
