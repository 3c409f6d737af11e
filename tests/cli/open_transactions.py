"""Transactions that are left open, as an old or a slow client leaves them."""

from __future__ import annotations

import time

from moldau.client import Admin
from moldau.client.base.coordinator import TRANSACTION, find_coordinator
from moldau.errors.codes import raise_for
from moldau.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from moldau.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from moldau.protocol.messages.produce import ProduceResponse
from moldau.records import Producer
from tests.broker.api.requests import batch, produce_all

LONG_AGO_MS = 3_600_000


async def produce(admin: Admin, name: str, topic: str, index: int, of: Producer) -> None:
    """One transactional record as clients before version 2 write it, an hour old."""
    data = batch(1, at=int(time.time() * 1000) - LONG_AGO_MS, producer=of)
    request = produce_all({(topic, index): data}, transactional_id=name, acks=-1)
    connection = await admin._cluster.connection()

    async def attempt() -> None:
        answer = await connection.request(request, ProduceResponse, version=11)
        raise_for("Produce", answer.responses[0].partition_responses[0].error_code)

    await admin._cluster.retry(attempt)


async def begin(admin: Admin, name: str, topic: str) -> None:
    """Begin a transaction in partition 0 that its client leaves open."""
    cluster = admin._cluster

    async def attempt() -> Producer:
        address = await find_coordinator(cluster, name, TRANSACTION)
        connection = await cluster.connection_to(address, "test")
        asked = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=600_000)
        begun = await connection.request(asked, InitProducerIdResponse)
        raise_for("InitProducerId", begun.error_code)
        added = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=begun.producer_id,
            v3_and_below_producer_epoch=begun.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
        )
        answer = await connection.request(added, AddPartitionsToTxnResponse, version=3)
        rows = answer.results_by_topic_v3_and_below[0].results_by_partition
        raise_for("AddPartitionsToTxn", rows[0].partition_error_code)
        return Producer(begun.producer_id, begun.producer_epoch, 0, True)

    await produce(admin, name, topic, 0, await cluster.retry(attempt))
