"""A Raft leader's knowledge of its voters, and the high watermark that follows from it.

Invariants: the high watermark never falls; an offset is committed when a majority of the voters
holds it durably and it belongs to an epoch in which this leader's own first record is committed
too (Raft, 5.4.2: a majority alone does not save records of earlier epochs).

With one voter the majority is the leader itself. Nothing here knows that number, so more voters
change nothing in this file.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from moldau.broker.raft.messages import Divergence
from moldau.deferred import dataclass
from moldau.ids import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from moldau.broker.raft.messages import FetchAsk
    from moldau.broker.raft.replica import LogView
    from moldau.broker.raft.snapshots import SnapshotId
    from moldau.broker.raft.voters import Voter

UNKNOWN = -1
OBSERVER_MS = 300_000
"""An observer is forgotten if it has not fetched for this long, as in Kafka."""
OBSERVERS_MAX = 1000


@dataclass(slots=True)
class Progress:
    """The progress of a replica, from its fetches; the times are -1 before its first fetch."""

    log_end_offset: int = 0
    last_fetch_ms: int = UNKNOWN
    last_caught_up_ms: int = UNKNOWN
    directory_id: Uuid = ZERO_UUID
    """The id of the disk that it fetches to."""


class Leader:
    """The leader of one epoch."""

    __slots__ = (
        "_own_end",
        "announced",
        "epoch",
        "epoch_start_offset",
        "high_watermark",
        "observers",
        "voter_id",
        "voters",
    )

    def __init__(
        self, voter_id: int, voters: Collection[int], epoch: int, epoch_start_offset: int
    ) -> None:
        """`epoch_start_offset` is the offset of this epoch's first record, the LeaderChange."""
        assert voter_id in voters, "only a voter leads"
        self.voter_id = voter_id
        self.epoch = epoch
        self.epoch_start_offset = epoch_start_offset
        self.high_watermark: int | None = None
        """None until the first record of this epoch is committed."""
        self.voters: dict[int, Progress] = {each: Progress() for each in voters}
        self.observers: dict[int, Progress] = {}
        self.announced: dict[int, Voter] = {}
        """Disk, endpoints and versions of voters that the settings name, as each of them told this
        leader. The log takes them over when kraft.version is raised."""
        self._own_end = 0

    def on_durable(self, voter_id: int, log_end_offset: int) -> bool:
        """Note the end of a voter's durable records. Return whether more is committed now."""
        if voter_id == self.voter_id:
            self._own_end = max(self._own_end, log_end_offset)
        known = self.voters.get(voter_id)
        if known is None or log_end_offset <= known.log_end_offset:
            return False  # an observer has no vote, and a late answer reports nothing new
        known.log_end_offset = log_end_offset
        return self._advance()

    def on_fetch(self, ask: FetchAsk, log_end_offset: int, now_ms: int, *, votes: bool) -> bool:
        """Note a fetch: the replica holds all records below the requested offset, and no more; a
        voter that held more has lost its disk. Return whether more is committed now. `votes`: the
        node has the disk of the voter with its id."""
        assert ask.replica_id != self.voter_id
        known = self.voters.get(ask.replica_id) if votes else None
        is_voter = known is not None
        if known is None:
            known = self._observer(ask.replica_id, now_ms)
            known.log_end_offset = ask.offset
        known.log_end_offset = min(known.log_end_offset, ask.offset)
        known.last_fetch_ms = now_ms
        known.directory_id = ask.directory_id
        if ask.offset >= log_end_offset:
            known.last_caught_up_ms = now_ms
        return is_voter and self.on_durable(ask.replica_id, ask.offset)

    def on_other_log(self, voter_id: int, now_ms: int) -> None:
        """Note that a voter fetches from a position where its log differs from this one. It is
        unknown how much of this log it holds; it may have held more before it lost its disk."""
        known = self.voters.get(voter_id)
        if known is not None:
            known.last_fetch_ms = now_ms
            known.log_end_offset = 0

    def on_voters(self, voters: Collection[int]) -> bool:
        """Replace the voters from now on. Return whether more is committed by that. The progress of
        known replicas is kept. A leader that is not a voter any more leads until the change is
        committed."""
        known = {**self.observers, **self.voters}
        self.voters = {each: known.get(each) or Progress() for each in voters}
        self.observers = {
            each: progress
            for each, progress in known.items()
            if each not in self.voters and each != self.voter_id
        }
        if self.voter_id in self.voters:
            own = self.voters[self.voter_id]
            own.log_end_offset = max(own.log_end_offset, self._own_end)
        return self._advance()

    def _observer(self, replica_id: int, now_ms: int) -> Progress:
        """Return the progress of an observer. Nodes may connect under any id: observers that are
        silent for too long are forgotten, and if there are too many, the one that was silent
        longest."""
        known = self.observers.pop(replica_id, None)
        if known is None:
            for other in list(self.observers):  # the longest silent one first
                is_silent = now_ms - self.observers[other].last_fetch_ms > OBSERVER_MS
                if not is_silent and len(self.observers) < OBSERVERS_MAX:
                    break
                del self.observers[other]
            known = Progress()
        self.observers[replica_id] = known
        return known

    def heard_from_majority_since(self, since_ms: int) -> bool:
        """Whether a majority of the voters, including the leader, has fetched since this time."""
        heard = sum(
            each.last_fetch_ms >= since_ms
            for voter, each in self.voters.items()
            if voter != self.voter_id
        )
        return heard + (self.voter_id in self.voters) > len(self.voters) // 2

    def successors(self) -> tuple[int, ...]:
        """Return the other voters, the one with the longest log first."""
        others = [each for each in self.voters if each != self.voter_id]
        return tuple(sorted(others, key=lambda each: (-self.voters[each].log_end_offset, each)))

    def _advance(self) -> bool:
        ends = sorted((each.log_end_offset for each in self.voters.values()), reverse=True)
        majority_end = ends[len(ends) // 2]
        if majority_end <= self.epoch_start_offset:
            return False
        if self.high_watermark is not None and majority_end <= self.high_watermark:
            return False
        self.high_watermark = majority_end
        return True


def compare(log: LogView, ask: FetchAsk) -> tuple[Divergence | None, SnapshotId | None]:
    """Return where the fetching replica's log diverges from this one, or the snapshot that it
    must read first; None and None if this log continues its log."""
    snapshot = log.newest_snapshot
    if ask.offset == 0 and ask.last_epoch == 0:
        return None, snapshot if log.log_start_offset > 0 else None
    if snapshot is not None and (ask.offset, ask.last_epoch) == snapshot:
        return None, None
    if ask.offset < log.log_start_offset:
        return None, snapshot
    end = log.end_of_epoch(ask.last_epoch)
    if end.epoch < 0:
        return (None, snapshot) if log.log_start_offset else (Divergence(0, 0), None)
    if end.epoch != ask.last_epoch or end.end_offset < ask.offset:
        return Divergence(end.epoch, end.end_offset), None
    return None, None
