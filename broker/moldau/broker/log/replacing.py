"""Replacing segments of a log in service by cleaned ones, with the steps of `replacement`.

Invariants: one replacement at a time. Old segments are replaced only when they are durable and
below the recovery point that the checkpoint holds: above it, recovery would take a gap for a lost
tail. Another change to the segments finishes a pending replacement first.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.broker.log.replacement import Swap
from moldau.broker.log.segment import Segment
from moldau.broker.log.state import LogState


class SegmentReplacer:
    """The part of a log that puts cleaned segments in place."""

    __slots__ = ("_pending", "_state")

    def __init__(self, state: LogState) -> None:
        self._state = state
        self._pending: tuple[Swap, int] | None = None

    def is_allowed(self, old: Sequence[Segment]) -> bool:
        """Whether the segments are durable and recovery will not check them."""
        state = self._state
        is_known = state.persisted_recovery_point >= state.recovery_point
        return is_known and all(each.are_indexes_durable for each in old)

    def begin(self, new: Sequence[Segment], old: Sequence[Segment], now_ms: int) -> Swap:
        """Begin to replace sealed segments by cleaned ones (`.cleaned`, sealed and synced). Then
        call `go_on`, and `sync` in a thread, in turns until `go_on` returns False."""
        assert all(each.are_indexes_durable for each in old)
        assert self._pending is None
        if not self.is_allowed(old):
            self._state.persist_points()
        swap = Swap(self._state.files, self._state.directory, new, old)
        self._pending = swap, now_ms
        return swap

    def go_on(self, swap: Swap) -> bool:
        """Take the next step. Return False when the new segments are in place."""
        if self._pending is None or self._pending[0] is not swap:
            return False  # another change to the segments has finished the replacement
        try:
            if swap.advance():
                return True
        except OSError as error:
            self._state.fail(error)
        self._end()
        return False

    def finish(self) -> None:
        """Finish a pending replacement before another change to the segments."""
        if self._pending is not None and self._state.failure is None:
            try:
                self._pending[0].finish()
            except OSError as error:
                self._state.fail(error)
            self._end()

    def _end(self) -> None:
        assert self._pending is not None
        (swap, now_ms), self._pending = self._pending, None
        state = self._state
        bases = {each.base_offset for each in swap.new}
        try:
            for segment in swap.old:
                if segment.base_offset not in bases:
                    state.snapshots.remove(segment.base_offset)
        except OSError as error:
            state.fail(error)
        gone = set(map(id, swap.old))
        kept = [each for each in state.segments if id(each) not in gone]
        for segment in swap.new:
            segment.are_indexes_durable = True
        state.segments.replace_all(sorted([*kept, *swap.new], key=lambda each: each.base_offset))
        for segment in swap.old:
            state.delete_later(segment, now_ms)
