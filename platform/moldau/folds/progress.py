"""How far a fold has read, and where and when it reads on. No IO.

Invariants: the position of a partition is behind all that was replayed, and also behind what a
reader never sees: markers of transactions and aborted records. So a fold has read a partition to an
end if its position is there, not if the last record of it was replayed: that record may be gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from moldau.client import TopicPartition
from moldau.runtime.backoff import Backoff

if TYPE_CHECKING:
    from random import Random

RETRY: Final = Backoff(200, 5_000)
"""The pauses after errors in a row."""


class FoldProgress:
    """The positions of one fold."""

    def __init__(self, positions: Mapping[TopicPartition, int] | None = None) -> None:
        self.positions = dict(positions or {})
        """The offset of the next record of each partition."""
        self._failures = 0

    def on_read(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """A read has reached these positions. None is an unknown one, which changes nothing."""
        self._failures = 0
        self.note(positions)

    def note(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """Take over positions that moved without a read, for example behind a marker."""
        self.positions |= {where: each for where, each in positions.items() if each is not None}

    def unread(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return how many offsets are left to read of each partition that is not at its end."""
        left = {where: end - self.positions.get(where, 0) for where, end in ends.items()}
        return {where: count for where, count in left.items() if count > 0}

    def on_error(self, random: Random) -> float:
        """A read has failed. Return the seconds until the next one."""
        self._failures += 1
        return RETRY.wait_s(self._failures, random)
