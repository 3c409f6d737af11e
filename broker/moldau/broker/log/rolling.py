"""Rolling: a log continues in a new segment.

Invariants: a sealed segment is never written again. A second segment is not made before the name of
the log's directory is durable, so no power loss leaves the second one without the first.
"""

from __future__ import annotations

from moldau.broker.log.segment import Segment
from moldau.broker.log.state import LogState
from moldau.records import BatchHeader


class SegmentRoller:
    """The part of a log that begins segments."""

    __slots__ = ("_state",)

    def __init__(self, state: LogState) -> None:
        self._state = state

    def fits(self, header: BatchHeader, pending: int, now_ms: int) -> bool:
        """Whether a batch may go into the active segment, behind `pending` bytes that are not
        written yet."""
        active = self._state.segments.active
        return active.has_room_for(
            header.size_bytes, header.last_offset, pending
        ) and not self.is_due(active, header.max_timestamp, now_ms)

    def is_due(self, active: Segment, max_timestamp: int, now_ms: int) -> bool:
        """Whether the segment has been in use for `segment.ms`, by the timestamps of its records if
        they have any."""
        config = self._state.config
        first = active.first_timestamp
        if first is not None and first >= 0:
            age = max_timestamp - first
        else:
            age = now_ms - active.created_ms
        limit = config.segment_ms
        if config.segment_jitter_ms:
            limit -= int(self._state.jitter * min(config.segment_jitter_ms, limit))
        return age > limit and active.size_bytes > 0

    def roll(self, now_ms: int) -> None:
        """Continue in a new segment. An empty active segment is kept."""
        state = self._state
        active = state.segments.active
        if not active.size_bytes and active.base_offset == state.log_end_offset:
            active.created_ms = now_ms
            return
        active.next_offset = base = state.log_end_offset
        try:
            active.seal()
            if not state.durability.is_home_durable:
                # A power loss could otherwise leave the second segment without the first.
                state.files.sync_dir(state.directory)
            state.snapshots.take(state.producers, sync=False)
            segment = Segment.create(state.files, state.directory, base, state.config)
        except OSError as error:
            state.fail(error)
        segment.created_ms = now_ms
        state.segments.append(segment)
        state.durability.names_changed()
