"""The end of a partition, for answers that name it (KIP-207).

Invariant: no end is below what was acknowledged to a producer before it was asked for. The high
watermark of a new leader is the one that it learned as a follower, or from a checkpoint, so it may
be older than what the leader before acknowledged. It has passed that when it reaches the offset at
which the epoch began here, which takes a fetch of each follower in sync. Until then the end is not
known: OFFSET_NOT_AVAILABLE, which clients retry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.broker.replication.partition import Partition


def is_end_known(partition: Partition) -> bool:
    """Whether the high watermark has passed all records of earlier leader epochs."""
    offsets = partition.offsets
    # A follower may have lost records of earlier epochs that its leader does not have.
    start = min(partition.epoch_start_offset, offsets.log_end_offset)
    return offsets.high_watermark >= start


def check_end(partition: Partition) -> None:
    """Raise OFFSET_NOT_AVAILABLE until the end is known."""
    if not is_end_known(partition):
        raise KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            topic=partition.topic,
            partition=partition.index,
            high_watermark=partition.high_watermark,
            epoch_start_offset=partition.epoch_start_offset,
        )


def known_end(partition: Partition) -> int:
    """Return the high watermark. Raise OFFSET_NOT_AVAILABLE until it is the end."""
    check_end(partition)
    return partition.high_watermark
