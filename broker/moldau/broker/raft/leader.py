"""What a Raft leader knows of its voters, and what follows from it: the high watermark.

Invariants: the high watermark never falls; an offset is committed when a majority of the voters
holds it durably and it belongs to an epoch in which this leader's own first record is committed
too (Raft, 5.4.2: a majority alone does not save records of earlier epochs).

With one voter the majority is the leader itself. Nothing here knows that number, so more voters
change nothing in this file.
"""

from __future__ import annotations

from collections.abc import Collection


class Leader:
    """The leader of one epoch."""

    __slots__ = ("_log_ends", "epoch", "epoch_start_offset", "high_watermark", "voter_id")

    def __init__(
        self, voter_id: int, voters: Collection[int], epoch: int, epoch_start_offset: int
    ) -> None:
        """`epoch_start_offset` is where this epoch's first record, the LeaderChange, stands."""
        assert voter_id in voters, "only a voter leads"
        self.voter_id = voter_id
        self.epoch = epoch
        self.epoch_start_offset = epoch_start_offset
        self.high_watermark: int | None = None
        """None until the first record of this epoch is committed."""
        self._log_ends: dict[int, int] = dict.fromkeys(voters, 0)

    def on_durable(self, voter_id: int, log_end_offset: int) -> bool:
        """The voter holds everything below that offset, durably; whether more is committed now."""
        known = self._log_ends.get(voter_id)
        if known is None or log_end_offset <= known:
            return False  # an observer has no vote, and a late answer says nothing new
        self._log_ends[voter_id] = log_end_offset
        return self._advance()

    def _advance(self) -> bool:
        ends = sorted(self._log_ends.values(), reverse=True)
        majority_end = ends[len(ends) // 2]
        if majority_end <= self.epoch_start_offset:
            return False
        if self.high_watermark is not None and majority_end <= self.high_watermark:
            return False
        self.high_watermark = majority_end
        return True
