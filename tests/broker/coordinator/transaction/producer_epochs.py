"""A producer at a chosen epoch, its partitions and its refusals."""

from __future__ import annotations

import pytest

from moldau.broker.coordinator.transaction.producers import Producer
from moldau.broker.coordinator.transaction.state import TransactionStatus
from moldau.errors.codes import ErrorCode, KafkaError
from tests.broker.coordinator.transaction.table import Table

A, B = ("t", 0), ("t", 1)


def refused(code: ErrorCode) -> pytest.RaisesExc[KafkaError]:
    return pytest.RaisesExc(KafkaError, check=lambda error: error.code is code)


def at_epoch(at: Table, epoch: int) -> Producer:
    """A producer that has used up its epochs up to this one."""
    producer = at.init()
    value = at.known().moved(
        TransactionStatus.EMPTY, at.world.wall_ms(at.now_ms), producer_epoch=epoch
    )
    at.do(at.shard.stored(value))
    return producer._replace(epoch=epoch)
