"""Bugs on purpose in how replicas begin behind remote records. The simulation must find them all,
each by a promise that it names.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final
from unittest.mock import patch

from moldau.broker.log.leader_epochs import LeaderEpochs, LogPoint
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.producer_snapshot import ProducerSnapshots
from moldau.broker.log.rolling import SegmentRoller
from moldau.broker.log.truncation import LogHistory
from moldau.broker.replication.leader import Leader
from moldau.broker.tiered.rebuild import SegmentHistory
from moldau.broker.tiered.remote_segment import RemoteSegment
from tests.broker.simulation.search import Hunt, Mutant
from tests.broker.tiered.replicas.promises import Promise

Mutation = AbstractContextManager[object]


def knows_only_the_epoch_of_the_point() -> Mutation:
    """All that is remote is said to be of the epoch in which it ends."""

    async def epochs(_: SegmentHistory, segment: RemoteSegment, point: LogPoint) -> LeaderEpochs:
        return LeaderEpochs([(point.epoch, 0)])

    return patch.object(SegmentHistory, "_epochs", epochs)


def begins_without_producers() -> Mutation:
    """As a replica that copies all would know them in the end."""
    original = PartitionLog.begin_behind

    def begin_behind(log: PartitionLog, history: LogHistory, start: int, now_ms: int) -> None:
        original(log, replace(history, producers=()), start, now_ms)

    return patch.object(PartitionLog, "begin_behind", begin_behind)


def forgets_at_a_start_the_producers_of_remote_records() -> Mutation:
    """Snapshots where the log's own records begin are of no use, as in a log that is not tiered."""
    original = ProducerSnapshots.__init__

    def open_snapshots(self: ProducerSnapshots, *given: object, **named: object) -> None:
        original(self, *given, **named)  # type: ignore[arg-type]
        for offset in self.offsets[:1]:
            self.remove(offset)

    return patch.object(ProducerSnapshots, "__init__", open_snapshots)


def rolls_without_the_producers_of_the_segment_before() -> Mutation:
    """The snapshot is the state before what came at once."""
    original = SegmentRoller.roll

    def roll(self: SegmentRoller, now_ms: int) -> None:
        original(self, now_ms)
        state = self._state
        if state.producers.end_offset == state.log_end_offset:
            state.snapshots.remove(state.log_end_offset)

    return patch.object(SegmentRoller, "roll", roll)


def deletes_what_replicas_in_sync_still_serve() -> Mutation:
    """The leader's own start is enough."""
    return patch.object(Leader, "low_watermark", lambda _, log_start_offset: log_start_offset)


_HISTORY: Final = (Promise.EPOCHS, Promise.KEPT, Promise.NO_HOLE)
MUTANTS: Final[dict[Mutant, Hunt]] = {
    knows_only_the_epoch_of_the_point: Hunt(range(20), _HISTORY),
    begins_without_producers: Hunt(range(20), (Promise.ONCE,)),
    forgets_at_a_start_the_producers_of_remote_records: Hunt(range(40), (Promise.ONCE,)),
    rolls_without_the_producers_of_the_segment_before: Hunt(range(40), (Promise.ONCE,)),
    deletes_what_replicas_in_sync_still_serve: Hunt(range(40), (Promise.NO_HOLE,)),
}
"""Each with what must find it, and seeds enough for that; several times what it took."""
