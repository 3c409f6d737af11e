"""Faults planted in the room, each of which the simulation has to find."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from moldau.client import Sent
from moldau.folds.leader_writer import Claim, Entry
from moldau.folds.topic_fold import TopicFold
from tests.folds.simulation.scenario import FailingWriter, Run


class UnfencedRun(Run):
    """Each member has a transactional id of its own."""

    def id_of(self, name: str) -> str:
        return name


class BlindClaim(FailingWriter):
    """It does not read what its predecessor wrote."""

    async def _take(self) -> None:
        fold, self._fold = self._fold, _Caught(self._fold)
        try:
            await super()._take()
        finally:
            self._fold = fold


class _Caught(TopicFold):
    """Says that it has caught up."""

    def __init__(self, fold: TopicFold) -> None:
        self.topic = fold.topic

    async def catch_up(self) -> None:
        return


class BlindClaimRun(Run):
    writer = BlindClaim


class HastyWriter(FailingWriter):
    """It answers when the records are committed, and does not wait until they are replayed."""

    async def _append(self, records: Sequence[Entry]) -> None:
        async def read_back(sent: Sequence[Sent]) -> None:
            return

        own = self._fold
        self._fold = _Caught(own)
        self._fold.read_back = read_back  # type: ignore[method-assign]
        try:
            await super()._append(records)
        finally:
            self._fold = own


class HastyRun(Run):
    writer = HastyWriter


class SureWriter(FailingWriter):
    """After a write that was cancelled it goes on as if nothing were open."""

    async def _carry_out(self, records: Sequence[Entry]) -> None:
        try:
            await super()._carry_out(records)
        finally:
            if self._claim is Claim.UNSURE:
                self._claim = Claim.HELD


class SureRun(Run):
    writer = SureWriter


MUTANTS: Final[dict[type[Run], int]] = {
    UnfencedRun: 4,
    BlindClaimRun: 21,
    HastyRun: 0,
    SureRun: 8,
}
"""With the seed of a world that finds it."""
