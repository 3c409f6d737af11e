"""The end of a transaction in one partition: a control batch of its producer."""

from __future__ import annotations

from typing import NamedTuple

from moldau.protocol.schemas.control_records import EndTxnMarker
from moldau.protocol.schemas.versioned import encode_versioned
from moldau.records import ControlType, Producer, encode_control_batch

_VERSION = 0


class Marker(NamedTuple):
    """What a coordinator writes to each partition of a transaction."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int
    """The transaction version whose rules the partition applies to the epoch (KIP-1228)."""

    def batch(self, timestamp_ms: int) -> bytearray:
        """Return the batch, without its place in a log."""
        value = encode_versioned(EndTxnMarker(coordinator_epoch=self.coordinator_epoch), _VERSION)
        return encode_control_batch(
            [(ControlType.COMMIT if self.is_commit else ControlType.ABORT, value)],
            timestamp_ms,
            producer=Producer(self.producer_id, self.producer_epoch, -1, is_transactional=True),
        )
