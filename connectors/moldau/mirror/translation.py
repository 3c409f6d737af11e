"""Translates offsets of a source's partition to those of its copy. A pure core; no IO.

Known are syncs: pairs of offsets of the same record. An offset is translated with the last sync
that is not after it: to the sync's own offset if they are equal, else to the one behind it. So a
group that moves may read some records twice and never misses one.

All syncs of a long topic would fill the memory. Those that are far behind the newest are thinned
out: two neighbours may be as far apart as an eighth of the way to the newest. So what is kept grows
only with the logarithm of the topic, and a group reads at most an eighth of its lag twice.

Invariant: `points` have falling offsets on both sides, the newest first.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from moldau.client import TopicPartition
from moldau.deferred import dataclass
from moldau.mirror.formats import Checkpoint, OffsetSync

_DENSITY: Final = 8

Point = tuple[int, int]
"""An offset of the source and that of the same record on the target."""


@dataclass(slots=True)
class SyncHistory:
    """The syncs of one partition."""

    points: list[Point] = field(default_factory=list)

    def on_sync(self, upstream: int, downstream: int) -> None:
        """Add a sync. If one of both logs began anew, the earlier ones mean nothing any more."""
        points = self.points
        if points and (upstream <= points[0][0] or downstream <= points[0][1]):
            points.clear()
        points.insert(0, (upstream, downstream))
        self._thin()

    def _thin(self) -> None:
        """Drop each point between neighbours that are close enough to each other."""
        points, newest = self.points, self.points[0][0]
        kept = points[:1]
        for at in range(1, len(points)):
            is_last = at == len(points) - 1
            before = kept[-1][0]
            if is_last or (before - points[at + 1][0]) * _DENSITY > newest - before:
                kept.append(points[at])
        self.points = kept

    def translate(self, upstream: int) -> int | None:
        """Return the offset on the target where a group at `upstream` continues; None if the
        offset is older than all syncs."""
        for source, target in self.points:
            if source <= upstream:
                return target if source == upstream else target + 1
        return None


class OffsetTranslation:
    """The syncs of all partitions of a source."""

    def __init__(self) -> None:
        self._histories: dict[TopicPartition, SyncHistory] = {}

    def on_sync(self, sync: OffsetSync) -> None:
        """Add a sync that was read."""
        history = self._histories.setdefault(sync.where, SyncHistory())
        history.on_sync(sync.upstream, sync.downstream)

    def translate(self, where: TopicPartition, upstream: int) -> int | None:
        """Return the offset on the target; None if it is not known."""
        history = self._histories.get(where)
        return None if history is None else history.translate(upstream)


class Checkpoints:
    """The newest checkpoint of each group and partition.

    Invariant: while the group moves forward on the source, its checkpoints never move back."""

    def __init__(self) -> None:
        self._known: dict[str, dict[TopicPartition, Checkpoint]] = {}

    def on_checkpoint(self, checkpoint: Checkpoint) -> bool:
        """Take a checkpoint. Return False if it is not new, or would move back."""
        known = self._known.setdefault(checkpoint.group, {})
        before = known.get(checkpoint.where)
        if before is not None:
            is_same = (before.upstream, before.downstream) == (
                checkpoint.upstream,
                checkpoint.downstream,
            )
            is_back = checkpoint.downstream < before.downstream
            if is_same or (is_back and checkpoint.upstream >= before.upstream):
                return False
        known[checkpoint.where] = checkpoint
        return True

    def of_group(self, group: str) -> list[Checkpoint]:
        """Return the newest checkpoints of a group."""
        return list(self._known.get(group, {}).values())


def offsets_to_set(
    checkpoints: list[Checkpoint], committed: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the offsets that an idle group is to get on the target. One that is there already, or
    is further, stays: the group may have worked on the target."""
    return {
        each.where: each.downstream
        for each in checkpoints
        if committed.get(each.where, -1) < each.downstream
    }
