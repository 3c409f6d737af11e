"""What is committed in the metadata log stays: every later leader of the quorum holds it.

The watch looks after every event, at the controllers that take part in the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from moldau.broker.raft.node import RaftNode
from moldau.broker.raft.quorum import Quorum
from moldau.broker.server.channel import LocalController
from tests.broker.cluster.invariants import Invariant
from tests.broker.cluster.world import SimulatedBrokers
from tests.broker.simulation.promises import demand


class Committed(NamedTuple):
    """The last batch that is committed."""

    base_offset: int
    next_offset: int
    epoch: int
    crc: int


class MetadataWatch:
    """Of one cluster."""

    def __init__(self, brokers: SimulatedBrokers) -> None:
        self._brokers = brokers
        self._committed: Committed | None = None
        self._leaders: dict[int, int] = {}
        """By epoch."""
        self._held: dict[int, Committed] = {}
        """What the leader of an epoch was seen to hold."""

    def begin(self) -> None:
        """Look after every event from now on."""
        self._brokers.world.add_invariant(self.look)

    def look(self) -> None:
        """Look at every leader of the quorum."""
        for number, raft in replicas(self._brokers):
            quorum = raft.quorum
            if raft.core.leader is None or not quorum.is_leading or raft.failure is not None:
                continue
            epoch = raft.core.epoch
            first = self._leaders.setdefault(epoch, number)
            facts = {"controller": number, "epoch": epoch}
            demand(first == number, Invariant.ONE_METADATA_LEADER, **facts, other=first)
            self._look_at(quorum, facts)

    def _look_at(self, quorum: Quorum, facts: dict[str, int]) -> None:
        """A leader that was replaced and does not know it lacks what is committed since."""
        committed, mark, epoch = self._committed, quorum.high_watermark, quorum.epoch
        is_later = committed is not None and epoch > committed.epoch
        if committed is not None and is_later and self._held.get(epoch) != committed:
            is_there = _holds(quorum, committed)
            demand(is_there, Invariant.METADATA_KEPT, **facts, committed=committed)
            self._held[epoch] = committed
        if mark > (0 if committed is None else committed.next_offset):
            self._committed = _batch_at(quorum, mark - 1)


def replicas(brokers: SimulatedBrokers) -> Iterator[tuple[int, RaftNode]]:
    """The controllers that take part now."""
    keeping, running = brokers.keeping, brokers.running
    for number in brokers.up:
        if number in keeping:
            yield number, keeping[number].controller.raft
        elif number in brokers.controller_ids:
            controller = running[number].node.controller
            if isinstance(controller, LocalController):
                yield number, controller.raft


def _holds(quorum: Quorum, committed: Committed) -> bool:
    if quorum.log_end_offset < committed.next_offset:
        return False
    is_in_snapshot = quorum.log_start_offset > committed.base_offset
    return is_in_snapshot or _batch_at(quorum, committed.base_offset) == committed


def _batch_at(quorum: Quorum, offset: int) -> Committed | None:
    for batch in quorum.log.batches(offset):
        header = batch.header
        return Committed(
            header.base_offset, header.next_offset, header.partition_leader_epoch, header.crc
        )
    return None
