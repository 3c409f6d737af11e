"""A voter whose disk was empty when it started, and what its vote may do until it has caught up.

Its disk may be new, or it may have held records that this voter acknowledged and has forgotten. A
replica cannot tell the two apart, so it takes the second for granted.

Why the rule keeps what is committed: a committed record is held by a majority. If this voter was
one of them, the rest of that majority still holds the record, but that may be a single voter. A
candidate that is not behind any other voter is not behind that one, so it holds the record (Raft,
5.4.1). Of a voter that was not heard of, nothing is known. Records that are committed after the
start need no such care: this voter either holds them, or was not part of their majority.

Why an epoch has one leader all the same: this voter has forgotten its votes too. A vote that it
gave counts only if its candidate, or a voter that elected it, reached that epoch. So with records
around it votes only in an epoch that no other voter than the candidate has reached:
1. voter 2 is elected in epoch 5 by itself and voter 3, and loses its disk; 2. voter 1, which knows
epoch 4, asks it for a vote in epoch 5. Voter 3 is in epoch 5.

Why an empty log gets the vote as long as no voter is known to have records: so does a new cluster
elect its first leader, with any majority of its voters. If a majority of the disks was lost or has
never been used, that looks the same.

Invariants:
* what was heard of a log is at most as old as this start of the process, and is forgotten when a
  leader answers: logs change under a leader;
* nothing here is for voters that the log names: those are known by their disks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class LogEnd(NamedTuple):
    """How far a log goes. It compares as Raft compares logs: the larger one is the newer one."""

    last_epoch: int
    end_offset: int

    @property
    def is_empty(self) -> bool:
        return self.end_offset == 0


class Heard(NamedTuple):
    """What is known of another voter."""

    end: LogEnd
    epoch: int


class OthersHaveRecords(NamedTuple):
    """This voter's log is not the first one of its cluster."""

    voter: int


class VoteWithheld(NamedTuple):
    """The candidate may lack what this voter has forgotten."""

    candidate: int
    unheard: tuple[int, ...]
    """Voters whose logs are not known."""
    longer: tuple[int, ...]
    """Voters whose logs go further than the candidate's."""


class CaughtUp(NamedTuple):
    """The voter holds all that is committed, and votes like any other."""

    is_new_cluster: bool
    """It took part in the first election of its cluster, so it has forgotten nothing."""


class EmptyDisk:
    """What such a voter knows of the other voters' logs."""

    __slots__ = ("_has_seen_birth", "_heard", "_is_told", "_with_records")

    def __init__(self) -> None:
        self._heard: dict[int, Heard] = {}
        self._with_records: set[int] = set()
        self._has_seen_birth = False
        self._is_told = False

    def on_log(self, voter: int, heard: Heard) -> OthersHaveRecords | None:
        """The voter itself says how far its log goes. What is to be told, the first time."""
        self._heard[voter] = heard
        if heard.end.is_empty:
            self._with_records.discard(voter)
            return None
        return self._on_records(voter)

    def on_granted(self, voter: int, at_most: Heard) -> None:
        """The voter would vote for a log that ends there: its own goes no further."""
        self._heard[voter] = at_most
        if at_most.end.is_empty:
            self._with_records.discard(voter)

    def on_leader(self, leader_id: int) -> OthersHaveRecords | None:
        """The leader answered a fetch. It has records: it wrote the first one of its epoch."""
        self._heard.clear()
        return self._on_records(leader_id)

    def on_vote(self, end: LogEnd) -> None:
        """This voter has voted for a log that ends there."""
        self._has_seen_birth = self._has_seen_birth or end.is_empty

    def objection(self, candidate: int, end: LogEnd, others: Iterable[int]) -> VoteWithheld | None:
        """Why the candidate must not get this vote; None if it may. `others` are the voters without
        this one and the candidate."""
        if end.is_empty:
            known = tuple(sorted(self._with_records))
            return VoteWithheld(candidate, (), known) if known else None
        heard = self._heard
        unheard = tuple(each for each in others if each not in heard)
        longer = tuple(each for each in others if each in heard and heard[each].end > end)
        return VoteWithheld(candidate, unheard, longer) if unheard or longer else None

    def is_reached(self, epoch: int, others: Iterable[int]) -> bool:
        """Whether one of the others is in that epoch, so that this voter may have voted in it."""
        return any(self._heard[each].epoch >= epoch for each in others if each in self._heard)

    def caught_up(self) -> CaughtUp:
        """What to tell when the voter holds all that is committed."""
        return CaughtUp(is_new_cluster=not self._is_told)

    def _on_records(self, voter: int) -> OthersHaveRecords | None:
        self._with_records.add(voter)
        if self._is_told or self._has_seen_birth:
            return None
        self._is_told = True
        return OthersHaveRecords(voter)
