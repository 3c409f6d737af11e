"""Blocks of producer ids, allocated to brokers so that no id is ever used twice (KIP-730).

Invariant: the next block's first id only grows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from moldau.broker.controller.outcome import Outcome
from moldau.errors import CorruptLog
from moldau.errors.codes import ErrorCode
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from moldau.protocol.schemas.metadata_log import ProducerIdsRecord

if TYPE_CHECKING:
    from moldau.broker.controller.image import Image

BLOCK_IDS: Final = 1000
_NO_BROKER: Final = -1
_ID_MAX: Final = (1 << 63) - 1


class ProducerIds:
    """The first id of the next block."""

    RECORDS = (ProducerIdsRecord,)

    __slots__ = ("next_id", "restored_end")

    def __init__(self) -> None:
        self.next_id = 0
        self.restored_end = 0
        """Ids below it may be in logs already, so brokers drop the blocks below. A restore sets it;
        after a snapshot it is the next id, which makes a broker ask for another block at most."""

    def __eq__(self, other: object) -> bool:
        return self.next_id == other.next_id if isinstance(other, ProducerIds) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it changes

    def replay(self, record: MetadataRecord) -> None:
        """Apply one record of this family."""
        assert isinstance(record, ProducerIdsRecord)
        if record.next_producer_id < self.next_id:
            raise CorruptLog(
                "producer ids would be given twice",
                next_id=self.next_id,
                found=record.next_producer_id,
            )
        self.next_id = record.next_producer_id
        if record.broker_id == _NO_BROKER:
            self.restored_end = record.next_producer_id

    def records(self, metadata_version: int) -> Iterator[MetadataRecord]:
        """Return the record of this family for a snapshot, with the current state. It names no
        broker: the broker of the last request does not matter any more."""
        if self.next_id:
            return iter((ProducerIdsRecord(broker_id=_NO_BROKER, next_producer_id=self.next_id),))
        return iter(())


def allocate_producer_ids(
    image: Image, request: AllocateProducerIdsRequest
) -> Outcome[AllocateProducerIdsResponse]:
    """Allocate a block to the broker, if it is registered with the epoch of the request."""
    broker = image.brokers.by_id.get(request.broker_id)
    if broker is None or broker.broker_epoch != request.broker_epoch:
        return Outcome((), _refusal(ErrorCode.STALE_BROKER_EPOCH))
    first = image.producer_ids.next_id
    if first > _ID_MAX - BLOCK_IDS:
        return Outcome((), _refusal(ErrorCode.UNKNOWN_SERVER_ERROR))
    record = ProducerIdsRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        next_producer_id=first + BLOCK_IDS,
    )
    return Outcome(
        (record,),
        AllocateProducerIdsResponse(
            error_code=ErrorCode.NONE,
            producer_id_start=first,
            producer_id_len=BLOCK_IDS,
        ),
    )


def _refusal(code: ErrorCode) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(error_code=code, producer_id_start=0, producer_id_len=0)
