"""A voter whose disk was empty when it started, and the rules for its vote until it has caught up.

Its disk may be new, or it may have held records that this voter acknowledged and has forgotten. A
replica cannot distinguish the two, so it assumes the second.

Why the rule keeps committed records: a committed record is held by a majority. If this voter was
one of them, the rest of that majority still holds the record, but that may be a single voter. A
candidate that is not behind any other voter is not behind that one, so it holds the record (Raft,
5.4.1). The log of a voter that did not report it is unknown. Records that are committed after the
start need no such care: this voter either holds them, or was not part of their majority.

Why an epoch still has one leader: this voter has forgotten its votes too. A vote that it gave
counts only if its candidate, or a voter that elected it, reached that epoch. So if a voter has
records, this voter votes only in an epoch that no voter except the candidate has reached:
1. voter 2 is elected in epoch 5 by itself and voter 3, and loses its disk; 2. voter 1, which knows
epoch 4, asks it for a vote in epoch 5. Voter 3 is in epoch 5.

Why an empty log gets the vote as long as no voter is known to have records: this is how a new
cluster elects its first leader, with any majority of its voters. A majority of lost disks looks the
same as disks that have never been used.

Invariants:
* the known ends of other logs are from this run of the process, and are forgotten when a leader
  answers: logs change under a leader;
* nothing here applies to voters that the log names: those are identified by their disks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class LogEnd(NamedTuple):
    """The end of a log. Ends compare as Raft compares logs: the larger one is newer."""

    last_epoch: int
    end_offset: int

    @property
    def is_empty(self) -> bool:
        return self.end_offset == 0


class VoterEnd(NamedTuple):
    """The known log end and epoch of another voter."""

    end: LogEnd
    epoch: int


class OthersHaveRecords(NamedTuple):
    """A notice: another voter has records, so this log is not the first one of its cluster."""

    voter: int


class VoteWithheld(NamedTuple):
    """A notice: no vote for the candidate, which may lack records that this voter has forgotten."""

    candidate: int
    unheard: tuple[int, ...]
    """Voters whose log ends are unknown."""
    longer: tuple[int, ...]
    """Voters whose logs end after the candidate's."""


class CaughtUp(NamedTuple):
    """A notice: the voter holds all committed records, and votes like any other."""

    is_new_cluster: bool
    """Whether it took part in its cluster's first election, so it has forgotten nothing."""


class EmptyDisk:
    """The facts about the other voters' logs that a voter with an empty disk knows."""

    __slots__ = ("_has_seen_birth", "_heard", "_is_told", "_with_records")

    def __init__(self) -> None:
        self._heard: dict[int, VoterEnd] = {}
        self._with_records: set[int] = set()
        self._has_seen_birth = False
        self._is_told = False

    def on_log(self, voter: int, heard: VoterEnd) -> OthersHaveRecords | None:
        """Note a voter's own report of its log end. Return a notice to write, the first time."""
        self._heard[voter] = heard
        if heard.end.is_empty:
            self._with_records.discard(voter)
            return None
        return self._on_records(voter)

    def on_granted(self, voter: int, at_most: VoterEnd) -> None:
        """Note that the voter would vote for a log that ends here: its own log ends no later."""
        self._heard[voter] = at_most
        if at_most.end.is_empty:
            self._with_records.discard(voter)

    def on_leader(self, leader_id: int) -> OthersHaveRecords | None:
        """Note that the leader answered a fetch. It has its epoch's first record at least."""
        self._heard.clear()
        return self._on_records(leader_id)

    def on_vote(self, end: LogEnd) -> None:
        """Note that this voter has voted for a log that ends here."""
        self._has_seen_birth = self._has_seen_birth or end.is_empty

    def objection(self, candidate: int, end: LogEnd, others: Iterable[int]) -> VoteWithheld | None:
        """Return the reason why the candidate must not get this vote; None if it may. `others` are
        the voters except this one and the candidate."""
        if end.is_empty:
            known = tuple(sorted(self._with_records))
            return VoteWithheld(candidate, (), known) if known else None
        heard = self._heard
        unheard = tuple(each for each in others if each not in heard)
        longer = tuple(each for each in others if each in heard and heard[each].end > end)
        return VoteWithheld(candidate, unheard, longer) if unheard or longer else None

    def is_reached(self, epoch: int, others: Iterable[int]) -> bool:
        """Whether another voter has reached this epoch, so this one may have voted in it."""
        return any(self._heard[each].epoch >= epoch for each in others if each in self._heard)

    def caught_up(self) -> CaughtUp:
        """Return the notice for the moment when the voter holds all committed records."""
        return CaughtUp(is_new_cluster=not self._is_told)

    def _on_records(self, voter: int) -> OthersHaveRecords | None:
        self._with_records.add(voter)
        if self._is_told or self._has_seen_birth:
            return None
        self._is_told = True
        return OthersHaveRecords(voter)
