"""The replication bugs of Kafka's history, planted one by one; each with the invariants that must
find it, and the scene that provokes it.

Each is a context in which all brokers and controllers have the bug. What is patched is told by its
name, so a part that is renamed fails here and not silently.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from moldau.broker.api import list_offsets
from moldau.broker.controller import isr_changes as controller_isr_changes
from moldau.broker.controller import registration
from moldau.broker.log.leader_epochs import EpochEnd
from moldau.broker.raft.empty_disk import EmptyDisk
from moldau.broker.replication.leader import Leader
from moldau.broker.replication.partition import Leadership, Partition
from moldau.broker.server import isr_changes
from moldau.broker.server.isr_changes import IsrChanges
from moldau.errors.codes import ErrorCode
from tests.broker.cluster.invariants import Invariant
from tests.broker.cluster.scenes import SCENES
from tests.broker.simulation.search import Hunt, Mutant


@contextmanager
def truncates_to_its_high_watermark() -> Iterator[None]:
    """KIP-101: whoever follows a new leader forgets what it does not know to be committed."""
    follow = Partition.follow

    def cut(self: Partition, leadership: Leadership, node_id: int) -> None:
        follow(self, leadership, node_id)
        self.log.truncate_to(self.log.high_watermark)

    with patch.object(Partition, "follow", cut):
        yield


@contextmanager
def answers_with_the_next_epoch() -> Iterator[None]:
    """KIP-279: an epoch that the leader does not know ends where its next one begins, and the
    answer does not say which epoch is meant."""
    epoch_end = Partition.epoch_end

    def answer(self: Partition, leader_epoch: int) -> EpochEnd:
        found = epoch_end(self, leader_epoch)
        return EpochEnd(leader_epoch, found.end_offset) if found.epoch >= 0 else found

    with patch.object(Partition, "epoch_end", answer):
        yield


@contextmanager
def serves_every_epoch() -> Iterator[None]:
    """KIP-320: a leader does not look at the leader epoch of a fetch."""
    check = Partition.check_epoch

    def check_leader(self: Partition, current_leader_epoch: int, **how: bool) -> None:
        check(self, -1, **how)

    with patch.object(Partition, "check_epoch", check_leader):
        yield


@contextmanager
def believes_in_its_proposal() -> Iterator[None]:
    """KIP-497: the ISR is what was asked for, before it is confirmed."""
    confirm = Leader._confirm

    def confirm_proposed(self: Leader, isr: frozenset[int]) -> None:
        confirm(self, isr)
        if self.proposed is not None:
            self._maximal = self.proposed

    with patch.object(Leader, "_confirm", confirm_proposed):
        yield


@contextmanager
def waits_for_no_joiner() -> Iterator[None]:
    """KIP-497: a replica that is proposed does not hold the high watermark back."""
    confirm = Leader._confirm

    def confirm_only(self: Leader, isr: frozenset[int]) -> None:
        confirm(self, isr)
        self._maximal = isr

    with patch.object(Leader, "_confirm", confirm_only):
        yield


@contextmanager
def withdraws_on_another_ground() -> Iterator[None]:
    """KIP-497: INVALID_UPDATE_VERSION is taken for a refusal of what was proposed."""
    codes = isr_changes._REFUSED_FOR_GOOD | {ErrorCode.INVALID_UPDATE_VERSION}
    with patch.object(isr_changes, "_REFUSED_FOR_GOOD", codes):
        yield


@contextmanager
def takes_fenced_brokers() -> Iterator[None]:
    """KIP-841: leader and controller do not ask whether a broker is fenced or stops."""

    def propose(self: IsrChanges, partition: Partition, replica_id: int) -> None:
        leader = partition.leadership
        self._propose(partition, leader, leader.isr | {replica_id})

    with ExitStack() as planted:
        planted.enter_context(patch.object(IsrChanges, "on_caught_up", propose))
        planted.enter_context(
            patch.object(controller_isr_changes, "_ineligible", lambda *_: ErrorCode.NONE)
        )
        yield


def takes_earlier_incarnations() -> AbstractContextManager[object]:
    """KIP-903: the controller does not compare broker epochs."""

    def ineligible(image: Any, epochs: dict[int, int]) -> ErrorCode:
        known = {each: image.brokers.by_id[each].broker_epoch for each in epochs}
        return real(image, known)

    real = controller_isr_changes._ineligible
    return patch.object(controller_isr_changes, "_ineligible", ineligible)


def forgets_unclean_shutdowns() -> AbstractContextManager[object]:
    """KIP-966: a replica that lost its page cache may still be elected."""
    return patch.object(registration, "_stopped_badly", lambda *_: False)


def commits_with_too_few() -> AbstractContextManager[object]:
    """KIP-966: the high watermark moves while too few replicas are in sync."""
    return patch.object(Leader, "_is_under_min", False)


def reports_its_high_watermark_at_once() -> AbstractContextManager[object]:
    """KIP-207: a new leader reports a high watermark that is older than what was acknowledged."""
    return patch.object(list_offsets, "check_end", lambda *_: None)


def votes_with_an_empty_disk() -> AbstractContextManager[object]:
    """A voter that may have forgotten what it acknowledged votes like any other, as in Kafka."""
    return patch.object(EmptyDisk, "objection", lambda *_: None)


IN_SYNC = Invariant.IN_SYNC_HOLDS_COMMITTED
COMPLETE = {IN_SYNC, Invariant.LEADER_IS_COMPLETE}

MUTANTS: dict[Mutant, Hunt] = {
    truncates_to_its_high_watermark: Hunt(range(3), COMPLETE, SCENES["leaders_die_under_load"]),
    reports_its_high_watermark_at_once: Hunt(
        range(3), {Invariant.END_IS_KNOWN}, SCENES["all_nodes_die_under_load"]
    ),
    answers_with_the_next_epoch: Hunt(
        range(3), {Invariant.LOG_MATCHING}, SCENES["leaders_change_before_they_replicate"]
    ),
    serves_every_epoch: Hunt(range(3), COMPLETE, SCENES["a_leader_misses_that_it_was_replaced"]),
    believes_in_its_proposal: Hunt(
        range(3), COMPLETE, SCENES["a_leader_cannot_reach_the_controller"]
    ),
    waits_for_no_joiner: Hunt(range(10), COMPLETE, SCENES["a_follower_joins_under_load"]),
    withdraws_on_another_ground: Hunt(range(3), COMPLETE, SCENES["an_answer_to_a_leader_is_lost"]),
    takes_fenced_brokers: Hunt(
        range(3), {Invariant.ISR_IS_ALIVE}, SCENES["a_fenced_broker_goes_on_fetching"]
    ),
    takes_earlier_incarnations: Hunt(
        range(3), COMPLETE, SCENES["a_proposal_arrives_after_a_restart"]
    ),
    forgets_unclean_shutdowns: Hunt(range(3), COMPLETE, SCENES["an_eligible_replica_loses_power"]),
    votes_with_an_empty_disk: Hunt(
        range(3),
        {Invariant.METADATA_KEPT},
        SCENES["a_voter_loses_its_disk_while_another_is_down"],
    ),
    commits_with_too_few: Hunt(range(3), COMPLETE, SCENES["the_last_replica_takes_records"]),
}
"""Each with seeds that are several times what it took."""
