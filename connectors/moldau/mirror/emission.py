"""Decides which offsets of copied records are written to the topic of offset syncs. A volatile
core; no IO.

A sync says that the record at one offset of the source is at another offset of the target. A reader
translates an offset with the last sync before it, so more syncs are more exact, and fewer cost
less. Among `offset.lag.max` records one has a sync; and the last record of a partition gets one
when the worker commits.

Invariant: syncs are only for records that are durable on the target, and those of a partition come
in the order in which its records were delivered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from moldau.client import TopicPartition
from moldau.deferred import dataclass
from moldau.mirror.formats import OffsetSync

UNKNOWN = -1


@dataclass(slots=True)
class _Progress:
    """The last sync of a partition, and the one that waits for the commit."""

    written: OffsetSync | None = None
    waiting: OffsetSync | None = None


@dataclass(slots=True)
class SyncEmission:
    """The syncs of one task."""

    lag_max: int
    _progress: dict[TopicPartition, _Progress] = field(default_factory=dict)
    _due: list[OffsetSync] = field(default_factory=list)

    def on_delivered(self, where: TopicPartition, upstream: Sequence[int], downstream: int) -> None:
        """Records at these offsets of the source are at `downstream` of the target and behind it,
        without a gap. -1: the broker did not tell the offset."""
        if downstream == UNKNOWN or not len(upstream):
            return
        progress = self._progress.setdefault(where, _Progress())
        last = len(upstream) - 1
        at = self._next_due(progress.written, upstream, downstream)
        while at <= last:
            self._write(progress, OffsetSync(where, int(upstream[at]), downstream + at))
            at += self.lag_max + 1
        if progress.written is None or progress.written.upstream != upstream[last]:
            progress.waiting = OffsetSync(where, int(upstream[last]), downstream + last)

    def _next_due(
        self, written: OffsetSync | None, upstream: Sequence[int], downstream: int
    ) -> int:
        """Return the index of the first record that needs a sync; it may be behind the last."""
        if written is None:
            return 0
        if upstream[0] <= written.upstream or downstream <= written.downstream:
            return 0  # one of both logs began anew
        return max(0, written.downstream + self.lag_max + 1 - downstream)

    def _write(self, progress: _Progress, sync: OffsetSync) -> None:
        progress.written, progress.waiting = sync, None
        self._due.append(sync)

    def on_commit(self) -> None:
        """What was delivered is committed: each partition's last record gets a sync."""
        for progress in self._progress.values():
            if progress.waiting is not None:
                self._write(progress, progress.waiting)

    def ready(self) -> list[OffsetSync]:
        """Return, once, the syncs to write, in order."""
        due, self._due = self._due, []
        return due
