"""The records of `__share_group_state`: the state of share partitions (KIP-932).

A snapshot holds everything; updates add to the last snapshot until the next one.
"""

from __future__ import annotations

from moldau.protocol.declare import LogKey, LogValue, Struct, field
from moldau.protocol.types import Int8, Int16, Int32, Int64, String, Uuid


class ShareSnapshotKey(LogKey, type=0, versions="0", flexible="none"):
    """A share partition, for its snapshots."""

    group_id: String
    topic_id: Uuid
    partition: Int32


class StateBatch(Struct):
    """A run of offsets in one state, delivered equally often."""

    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16
    # Ours: the wall clock time before which the records are not handed out.
    not_before_ms: Int64 = field(tag=10000, default=-1)


class ShareSnapshotValue(LogValue, type=0, versions="0", flexible="0+"):
    """Everything that is known about a share partition."""

    snapshot_epoch: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    # KIP-1226: -1 where not known
    delivery_complete_count: Int32 = field(tag=0, default=-1)
    create_timestamp: Int64
    write_timestamp: Int64
    state_batches: list[StateBatch]


class ShareUpdateKey(LogKey, type=1, versions="0", flexible="none"):
    """A share partition, for its updates."""

    group_id: String
    topic_id: Uuid
    partition: Int32


class ShareUpdateValue(LogValue, type=1, versions="0", flexible="0+"):
    """What changed since the snapshot of the same snapshot epoch."""

    snapshot_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    # KIP-1226: -1 where not known
    delivery_complete_count: Int32 = field(tag=0, default=-1)
    state_batches: list[StateBatch]
