"""Bugs on purpose, of the kind that people really write. The simulator must find them all."""

from __future__ import annotations

from collections.abc import Sequence

from examples.replicated_log.leadership import Leadership
from examples.replicated_log.messages import AppendRequest, Record, VoteRequest
from examples.replicated_log.replica import Ready, Replica, Vote
from examples.replicated_log.server import Server
from examples.replicated_log.store import Store
from moldau.errors import CorruptLog


def with_replica(mutant: type[Replica]) -> type[Server]:
    return type(mutant.__name__, (Server,), {"replica_class": mutant})


def with_store(mutant: type[Store]) -> type[Server]:
    return type(mutant.__name__, (Server,), {"store_class": mutant})


class VotesWithoutComparingLogs(Replica):
    def _is_up_to_date(self, request: VoteRequest) -> bool:
        return True


class VotesTwice(Replica):
    def _deserves_vote(self, request: VoteRequest) -> bool:
        return request.epoch == self.epoch and self._is_up_to_date(request)


class TwoFacedLeadership(Leadership):
    def majority_end(self, own_end: int) -> int:
        ends = [own_end, own_end, *(follower.match for follower in self.followers.values())]
        return sorted(ends, reverse=True)[len(self.followers) // 2]


class LeaderCountsItselfTwice(Replica):
    leadership_class = TwoFacedLeadership


class ObeysOldLeaders(Replica):
    def _is_stale(self, request: AppendRequest) -> bool:
        return False


class CutsWhatTheLeaderDidNotSend(Replica):
    """A late request with fewer records is taken for the whole truth."""

    def _take(self, base: int, records: Sequence[Record]) -> int:
        end = super()._take(base, records)
        if records and end < self.log.end:
            self._cut(end)
        return end


class TrustsTheHighWatermark(Replica):
    """What the leader keeps is taken for kept here, though our own tail may be another's."""

    def _on_append_request(self, request: AppendRequest, now_ms: int) -> None:
        super()._on_append_request(request, now_ms)
        self.high_watermark = max(self.high_watermark, min(request.high_watermark, self.log.end))


class PromisesBeforeTheSync(Server):
    def save(self, ready: Ready) -> None:
        super().publish(ready)
        super().save(ready)

    def publish(self, ready: Ready) -> None:
        if not ready.needs_disk:
            super().publish(ready)


class ForgetsItsVote(Store):
    def open(self) -> tuple[Vote, list[Record]]:
        vote, records = super().open()
        return Vote(vote.epoch), records


class SavesItsVoteCarelessly(Store):
    """No sync of the directory: the name of the vote can go back."""

    def save_vote(self, vote: Vote) -> None:
        temporary = self._vote_path + ".tmp"
        with self._files.open(temporary, "write") as file:
            file.truncate(0)
            file.append(self._vote_text(vote).encode())
            file.sync()
        self._files.rename(temporary, self._vote_path)


class WritesItsVoteInPlace(Store):
    """The old vote is gone before the new one is there."""

    def save_vote(self, vote: Vote) -> None:
        with self._files.open(self._vote_path, "write") as file:
            file.truncate(0)
            file.append(self._vote_text(vote).encode())
            file.sync()
        self._files.sync_dir(self._directory)


class NeverSyncs(Store):
    def sync(self) -> None:
        pass


class TrustsThePageCache(Store):
    """What an earlier life wrote is promised again, without a sync."""

    _is_open = False

    def open(self) -> tuple[Vote, list[Record]]:
        found = super().open()
        self._is_open = True
        return found

    def sync(self) -> None:
        if self._is_open:
            super().sync()


class KeepsTheEndOfTheFile(Store):
    """What lies behind the break of the chain is left where it is."""

    def _cut_to(self, position: int) -> None:
        pass


class CutsWhatHasRotted(Store):
    """Every break of the chain is taken for an append that was torn."""

    def _recover(self, data: bytes) -> list[Record]:
        self._durable = 0
        return super()._recover(data)

    def _marked(self, data: bytes, start: int) -> int:
        return 0


class BelievesARottenVote(Store):
    def _read_vote(self) -> Vote:
        try:
            return super()._read_vote()
        except CorruptLog:
            return self._vote


class FormatsALostDisk(Store):
    """A node without memory is taken for a new one."""

    def open(self) -> tuple[Vote, list[Record]]:
        if not self._files.exists(self._vote_path):
            self.format()
        return super().open()


SEEDS_TO_KILL: dict[type[Server], int] = {
    with_replica(VotesWithoutComparingLogs): 30,
    with_replica(VotesTwice): 60,
    with_replica(LeaderCountsItselfTwice): 30,
    with_replica(ObeysOldLeaders): 60,
    with_replica(CutsWhatTheLeaderDidNotSend): 150,
    with_replica(TrustsTheHighWatermark): 150,
    PromisesBeforeTheSync: 30,
    with_store(ForgetsItsVote): 30,
    with_store(SavesItsVoteCarelessly): 60,
    with_store(WritesItsVoteInPlace): 60,
    with_store(NeverSyncs): 30,
    with_store(TrustsThePageCache): 300,
    with_store(KeepsTheEndOfTheFile): 60,
    with_store(CutsWhatHasRotted): 100,
    with_store(BelievesARottenVote): 150,
    with_store(FormatsALostDisk): 60,
}
"""How many seeds, from 0 on, are enough to find each; about five times what it took."""
