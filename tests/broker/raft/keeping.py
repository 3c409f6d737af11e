"""The steps of `SnapshotKeeper` one after the other, for tests of the files alone."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.broker.raft.quorum import Quorum
from moldau.broker.raft.snapshots import SnapshotId


def write_snapshot(
    quorum: Quorum, end_offset: int, batches: Iterable[bytearray], now_ms: int
) -> SnapshotId | None:
    """Write a snapshot of everything below `end_offset`, then clean. None if it is there."""
    job = quorum.begin_snapshot(end_offset, now_ms)
    if job is None:
        return None
    for batch in batches:
        job.file.append(batch)
    job.file.finish()
    quorum.end_snapshot(job)
    clean(quorum, now_ms)
    return job.snapshot_id


def clean(quorum: Quorum, now_ms: int) -> None:
    """Remove what the retention lets go of."""
    needless = quorum.take_needless(now_ms)
    if needless:
        quorum.remove(needless)
    quorum.trim(now_ms)
