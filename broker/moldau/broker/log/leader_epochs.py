"""The start offset of each leader epoch, to find where replicas diverge (KIP-101, KIP-279).

Invariants: epochs and start offsets both rise strictly, so an epoch ends where the next one starts.
No epoch starts beyond the log's end. After `assign`, a flush writes the file; until that is
durable, recovery takes the epoch from the batches. A crash during a truncation may leave too many
entries in the file: entries beyond the log's end are dropped when the log is opened, and entries
that the batches contradict are dropped by `confirm`.

Two parallel sorted lists: there are few epochs. Nearly every append only checks whether the epoch
is still the same. The other methods use binary search.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

from moldau.errors import CorruptLog

NO_EPOCH: Final = -1
NO_OFFSET: Final = -1


class EpochEntry(NamedTuple):
    """An epoch and the offset of its first record."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The answer to OffsetForLeaderEpoch: an epoch and its end offset, or -1 and -1 if unknown."""

    epoch: int
    end_offset: int


class LogPoint(NamedTuple):
    """A point in a log: the offset, and the epoch of the record before it. Two logs that both have
    the point have the same records before it."""

    epoch: int
    offset: int


class LeaderEpochs:
    """The epochs of one partition's log."""

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for entry in entries:
            self.assign(*entry)

    @property
    def entries(self) -> list[EpochEntry]:
        return [EpochEntry(*pair) for pair in zip(self._epochs, self._starts, strict=True)]

    @property
    def latest(self) -> EpochEntry | None:
        return EpochEntry(self._epochs[-1], self._starts[-1]) if self._epochs else None

    @property
    def latest_epoch(self) -> int | None:
        return self._epochs[-1] if self._epochs else None

    @property
    def earliest(self) -> EpochEntry | None:
        return EpochEntry(self._epochs[0], self._starts[0]) if self._epochs else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Begin `epoch` at `start_offset`, unless it has begun before. Return whether the entries
        changed.

        Entries that contradict the new one are dropped: they are left from a log that was
        truncated.
        """
        epochs, starts = self._epochs, self._starts
        if epochs and epoch == epochs[-1] and start_offset >= starts[-1]:
            return False
        if epoch < 0 or start_offset < 0:
            raise CorruptLog("an epoch is negative", epoch=epoch, start_offset=start_offset)
        kept = min(bisect_left(epochs, epoch), bisect_left(starts, start_offset))
        del epochs[kept:], starts[kept:]
        epochs.append(epoch)
        starts.append(start_offset)
        return True

    def confirm(self, epoch: int, offset: int) -> bool:
        """Note a batch of `epoch` at `offset`, and drop the entries that it contradicts. Keep all
        others, because compaction may have removed their batches. Return whether the entries
        changed."""
        epochs, starts = self._epochs, self._starts
        not_later, not_behind = bisect_right(epochs, epoch), bisect_right(starts, offset)
        low, high = sorted((not_later, not_behind))
        if low == high and low and epochs[low - 1] == epoch:
            return False
        del epochs[low:high], starts[low:high]
        if low and epochs[low - 1] == epoch:
            return True
        if low and starts[low - 1] == offset:
            low -= 1
            del epochs[low], starts[low]
        epochs.insert(low, epoch)
        starts.insert(low, offset)
        return True

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drop epochs that start at `end_offset` or later, because the log now ends there. Return
        whether any was dropped."""
        kept = bisect_left(self._starts, end_offset)
        if kept == len(self._starts):
            return False
        del self._epochs[kept:], self._starts[kept:]
        return True

    def truncate_from_start(self, start_offset: int) -> bool:
        """Drop epochs that end before `start_offset`, and let the epoch of that offset start there,
        because the log now begins there. Return whether the entries changed."""
        below = bisect_right(self._starts, start_offset)
        if not below or (below == 1 and self._starts[0] == start_offset):
            return False
        del self._epochs[: below - 1], self._starts[: below - 1]
        self._starts[0] = start_offset
        return True

    def clear(self) -> bool:
        """Drop all epochs. Return whether there were any."""
        had = bool(self._epochs)
        self._epochs.clear()
        self._starts.clear()
        return had

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Return the largest known epoch that is not above `epoch`, and where it ended.

        An epoch before all known ones ends where the first known one starts: its records are
        deleted here, and a follower continues from the log's start. An epoch above the latest known
        one is unknown.
        """
        if epoch == NO_EPOCH or not self._epochs or epoch > self._epochs[-1]:
            return EpochEnd(NO_EPOCH, NO_OFFSET)
        if epoch == self._epochs[-1]:
            return EpochEnd(epoch, log_end_offset)
        above = bisect_right(self._epochs, epoch)
        known = self._epochs[above - 1] if above else epoch
        return EpochEnd(known, self._starts[above])

    def epoch_for_offset(self, offset: int) -> int | None:
        """Return the epoch in which `offset` was (or would be) written."""
        below = bisect_right(self._starts, offset)
        return self._epochs[below - 1] if below else None

    def previous_epoch(self, epoch: int) -> int | None:
        """Return the largest known epoch below `epoch`."""
        below = bisect_left(self._epochs, epoch)
        return self._epochs[below - 1] if below else None

    def next_epoch(self, epoch: int) -> int | None:
        """Return the smallest known epoch above `epoch`."""
        above = bisect_right(self._epochs, epoch)
        return self._epochs[above] if above < len(self._epochs) else None

    def in_range(self, start_offset: int, end_offset: int) -> list[EpochEntry]:
        """Return the epochs of a part of the log. The first one starts at the start of the part."""
        part = LeaderEpochs(self.entries)
        part.truncate_from_start(start_offset)
        part.truncate_from_end(end_offset)
        return part.entries
