"""Which snapshots of the metadata log are kept: `metadata.max.retention.bytes` and `.ms`.

The newest two are always kept: the newest is the state, and the log since the one before it shows
which topics were deleted recently.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from moldau.deferred import dataclass

SNAPSHOTS_KEPT_MIN: Final = 2


class KeptSnapshot(NamedTuple):
    """An existing snapshot."""

    size_bytes: int
    last_timestamp_ms: int
    """The time of the last record in it."""


@dataclass(frozen=True, slots=True)
class SnapshotRetention:
    """The limits for snapshots. Negative: no limit."""

    bytes_max: int
    """The limit for all snapshots and the log together."""
    ms_max: int
    """The limit for the age of the last record in a snapshot."""

    def count_needless(self, snapshots: Sequence[KeptSnapshot], log_bytes: int, now_ms: int) -> int:
        """Return how many snapshots, from the oldest on, are to be removed."""
        left_bytes = log_bytes + sum(each.size_bytes for each in snapshots)
        count = 0
        for each in snapshots[:-SNAPSHOTS_KEPT_MIN]:
            is_too_large = 0 <= self.bytes_max < left_bytes
            is_too_old = 0 <= self.ms_max < now_ms - each.last_timestamp_ms
            if not (is_too_large or is_too_old):
                break
            left_bytes -= each.size_bytes
            count += 1
        return count


FEWEST: Final = SnapshotRetention(0, 0)
"""Keep as few snapshots as possible."""
