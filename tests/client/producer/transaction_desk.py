"""A producer's transactions, and a coordinator that answers as the test says."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from moldau.client import ErrorCode, GroupMetadata, KafkaError, TopicPartition
from moldau.client.producer.transaction_core import TransactionCore, TransactionState
from moldau.client.producer.transaction_requests import TransactionRequest
from moldau.ids import ZERO_UUID, Uuid
from moldau.protocol.messages import add_partitions_to_txn as adding
from moldau.protocol.messages import txn_offset_commit as committing
from moldau.protocol.messages.end_txn import EndTxnResponse
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.runtime.backoff import Backoff

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP = GroupMetadata("g", 3, "m", None)
LOST = KafkaError(ErrorCode.NETWORK_EXCEPTION)


def identified(producer_id: int, epoch: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=0, producer_id=producer_id, producer_epoch=epoch)


class Desk:
    """A producer's transactions, and a coordinator that answers as the test says."""

    def __init__(self, version: int, *, is_ready: bool = True) -> None:
        self.core = TransactionCore("id", 60_000, Backoff(100, 1000), Random(1))
        self.version = version
        self.now = 0.0
        self.core.on_open()
        self.core.on_versions(speaks_v2=version > 1)
        if is_ready:
            self.answer(InitProducerIdRequest, identified(7, 0))
            assert self.core.state is TransactionState.READY

    def asked(self, kind: type[Any]) -> TransactionRequest:
        """The request that is sent now, or as soon as it may be; it is of this kind."""
        ready = self.core.ready(self.now)
        if ready.wake is not None:
            self.now = ready.wake
            ready = self.core.ready(self.now)
        assert ready.ask is not None
        assert isinstance(ready.ask.request, kind)
        return ready.ask

    def answer(self, kind: type[Any], *answers: Any) -> Any:
        """Each answer to a request of this kind, which is repeated; return the last request."""
        for each in answers:
            ask = self.asked(kind)
            self.core.on_answer(ask, each, self.now)
        return ask.request

    def state(self) -> TransactionState:
        return self.core.state

    def is_silent(self) -> bool:
        ready = self.core.ready(self.now)
        return ready.ask is None and ready.wake is None

    def takes(self, where: TopicPartition) -> bool:
        """Records wait for the partition: whether they may be sent at once."""
        self.core.on_records(where)
        return self.core.may_send_to(where)

    def begin(self, *partitions: TopicPartition) -> None:
        """Begin a transaction that has these partitions."""
        self.core.on_begin()
        sent = [self.takes(where) for where in partitions]
        assert all(sent) == (self.version > 1)
        if self.version == 1:
            self.answer(adding.AddPartitionsToTxnRequest, added(*partitions))
        assert all(map(self.takes, partitions))

    def end(self, *, commits: bool, is_unsure: bool = False) -> None:
        """Begin to commit or abort, with every record decided."""
        self.core.on_commit() if commits else self.core.on_abort()
        self.core.on_settled(is_unsure=is_unsure)

    def ended(self, code: int = 0) -> EndTxnResponse:
        if self.version == 1:
            return EndTxnResponse(error_code=code)
        return EndTxnResponse(
            error_code=code, producer_id=7, producer_epoch=self.core.identity.epoch + 1
        )


def added(*partitions: TopicPartition, code: int = 0) -> adding.AddPartitionsToTxnResponse:
    results = [
        adding.AddPartitionsToTxnPartitionResult(
            partition_index=each.partition, partition_error_code=code
        )
        for each in partitions
    ]
    topic = adding.AddPartitionsToTxnTopicResult(name="t", results_by_partition=results)
    return adding.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])


def kept(
    code: int = 0, partition: int = 0, topic_id: Uuid = ZERO_UUID
) -> committing.TxnOffsetCommitResponse:
    result = committing.TxnOffsetCommitResponsePartition(partition_index=partition, error_code=code)
    name = "t" if topic_id == ZERO_UUID else ""
    topic = committing.TxnOffsetCommitResponseTopic(
        name=name, topic_id=topic_id, partitions=[result]
    )
    return committing.TxnOffsetCommitResponse(topics=[topic])


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def desk(request: pytest.FixtureRequest) -> Desk:
    return Desk(request.param)
