"""Batches as producers and coordinators send them."""

from __future__ import annotations

from typing import Final

from moldau.protocol.schemas.control_records import EndTxnMarker
from moldau.protocol.schemas.versioned import encode_versioned
from moldau.records import Batch, ControlType, Producer, encode_batch, encode_control_batch
from moldau.records import open_batch as opened

NOW: Final = 1_700_000_000_000


def data_batch(
    producer_id: int,
    epoch: int,
    sequence: int,
    count: int = 1,
    *,
    transactional: bool = False,
    place: tuple[int, int] = (0, NOW),
) -> Batch:
    """`count` records of a producer, from `sequence` on; `place` is their offset and time."""
    offset, timestamp = place
    rows = [(timestamp + index, b"key", b"value", ()) for index in range(count)]
    producer = Producer(producer_id, epoch, sequence, transactional)
    return opened(encode_batch(rows, offset, producer=producer))


def marker_batch(
    producer_id: int,
    epoch: int,
    *,
    offset: int = 0,
    abort: bool = False,
    coordinator_epoch: int = 0,
    timestamp: int = NOW,
) -> Batch:
    """The end of a producer's transaction."""
    value = encode_versioned(EndTxnMarker(coordinator_epoch=coordinator_epoch), 0)
    return opened(
        encode_control_batch(
            [(ControlType.ABORT if abort else ControlType.COMMIT, value)],
            timestamp,
            offset,
            producer=Producer(producer_id, epoch, -1, True),
        )
    )
