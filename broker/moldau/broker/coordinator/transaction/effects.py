"""The effects of the transaction coordinator's decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.broker.coordinator.outcome import Effect
from moldau.deferred import dataclass

if TYPE_CHECKING:
    from moldau.broker.coordinator.transaction.state import Partitions


@dataclass(frozen=True, slots=True)
class WriteMarkers(Effect):
    """Write the end of a transaction to its partitions, each as often as needed until it is there.
    Report the partitions that have it with `ending.on_markers_written`.

    The coordinator's epoch in a marker is the leader epoch of the shard's partition.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    partitions: Partitions
    transaction_version: int
    """The transaction version that partitions check the marker by (KIP-1228)."""
