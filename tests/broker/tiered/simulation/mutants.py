"""Bugs on purpose, of the kind that tiered stores really had. The simulation must find them all,
each by a promise that it names.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Final
from unittest.mock import patch

from moldau.broker.log.leader_epochs import LeaderEpochs
from moldau.broker.tiered import copying, expiry, remote_log, remote_partition
from moldau.broker.tiered.copying import LocalLog
from moldau.broker.tiered.expiry import Deletion, DeletionReason
from moldau.broker.tiered.remote_log import RemoteLog
from moldau.broker.tiered.remote_partition import RemotePartition, RemoteRange
from moldau.broker.tiered.remote_segment import (
    SEGMENT_TRANSITIONS,
    RemoteEvent,
    RemoteSegment,
    SegmentId,
    SegmentState,
    update,
)
from tests.broker.simulation.search import Hunt, Mutant
from tests.broker.tiered.simulation import world as simulated
from tests.broker.tiered.simulation.promises import Promise
from tests.broker.tiered.simulation.world import Sweep, World, run_deaf, run_unclean

Mutation = AbstractContextManager[object]


# The local log is cut too early.


def cuts_what_is_put_and_not_yet_finished_in_the_topic() -> Mutation:
    """The node takes the store's word for it, and a successor deletes the attempt."""
    original = RemoteLog.on_put

    def on_put(log: RemoteLog, segment_id: SegmentId, custom: bytes, now_ms: int) -> None:
        original(log, segment_id, custom, now_ms)
        known = log.remote.get(segment_id)
        if known is not None and known.state is SegmentState.COPY_STARTED:
            done = SegmentState.COPY_FINISHED
            log.remote.replay(update(known, done, broker_id=known.broker_id, now_ms=now_ms))

    return patch.object(RemoteLog, "on_put", on_put)


def serves_what_is_only_announced() -> Mutation:
    """COPY_STARTED is taken for COPY_FINISHED."""
    original = RemotePartition.replay

    def replay(remote: RemotePartition, event: RemoteEvent) -> None:
        original(remote, event)
        known = remote.get(event.id) if isinstance(event, RemoteSegment) else None
        if known is not None and known.state is SegmentState.COPY_STARTED:
            original(remote, update(known, SegmentState(1), broker_id=1, now_ms=0))

    return patch.object(RemotePartition, "replay", replay)


# Ids and the order of what is durable.


def uses_an_id_again() -> Mutation:
    """An attempt is named by what it copies, so a second one has the first one's name."""
    original = copying.begin_copy

    def begin_copy(origin: Any, segment: Any, chain: Any, _: bytes, now_ms: int) -> RemoteSegment:
        named = segment.start_offset.to_bytes(8, "big") + segment.end_offset.to_bytes(8, "big")
        return original(origin, segment, chain, named, now_ms)

    return patch.object(remote_log, "begin_copy", begin_copy)


def finishes_before_the_objects_are_there() -> Mutation:
    """The record is written as the put begins."""
    original = RemoteLog._next_put

    def next_put(log: RemoteLog, cut: int) -> RemoteSegment | None:
        segment = original(log, cut)
        if segment is not None:
            log._write(segment, SegmentState.COPY_FINISHED, 0)
        return segment

    return patch.object(RemoteLog, "_next_put", next_put)


def takes_a_lost_answer_for_success() -> Mutation:
    """A put without an answer counts as done."""

    def on_put_failed(log: RemoteLog, segment_id: SegmentId, now_ms: int) -> None:
        log.on_put(segment_id, b"x", now_ms)

    return patch.object(RemoteLog, "on_put_failed", on_put_failed)


def deletes_objects_before_the_topic_knows() -> Mutation:
    """DELETE_STARTED is written, and not awaited."""
    original = RemoteLog._deletes

    def deletes(log: RemoteLog, *given: Any) -> Iterator[RemoteSegment]:
        yield from original(log, *given)
        for segment_id, event in log._writes.items():
            segment = log.remote.get(segment_id)
            if segment is not None and event.state is SegmentState.DELETE_STARTED:
                yield segment

    return patch.object(RemoteLog, "_deletes", deletes)


def takes_a_copy_that_is_finished_after_its_deletion() -> Mutation:
    """A deposed leader's last word counts."""
    table = dict(SEGMENT_TRANSITIONS)
    table[SegmentState.DELETE_STARTED] |= {SegmentState.COPY_FINISHED}
    return patch.object(remote_partition, "SEGMENT_TRANSITIONS", table)


def deletes_a_copy_that_was_finished_meanwhile() -> Mutation:
    """It looked unfinished when the deletion was decided."""
    return patch.object(RemotePartition, "_is_outdated", lambda *_: False)


def leaves_copies_that_never_finished() -> Mutation:
    """A failed attempt is simply forgotten."""
    return _without(DeletionReason.UNFINISHED)


def leaves_deletions_of_others() -> Mutation:
    """What a dead leader began to delete stays."""
    return _without(DeletionReason.BEGUN)


def leaves_objects_that_came_late() -> Mutation:
    """Nothing is looked for that no segment has."""
    return patch.object(World, "end_sweeps", lambda _: None)


def sweeps_without_reading_the_topic_on() -> Mutation:
    """The store is listed after the topic was read."""

    def sweep(world: World, replica: Any) -> None:
        world.sweeps.append(Sweep(replica, world.store.stored(), world.now_ms, 0))

    return patch.object(World, "sweep", sweep)


def removes_orphans_without_grace() -> Mutation:
    """An object of this moment goes, though the topic may be known as it was before."""
    return patch.object(simulated, "GRACE_MS", -1)


# Histories.


def serves_a_segment_to_its_end_whatever_the_log_has() -> Mutation:
    """The chain of epochs after an unclean election is not looked at."""

    def agreed(
        segment: RemoteSegment, _: LeaderEpochs, offset: int, log_end_offset: int
    ) -> RemoteRange:
        return RemoteRange(segment, offset, min(segment.end_offset, log_end_offset))

    return patch.object(remote_partition, "_agreed", agreed)


def copies_with_the_epoch_of_the_leader() -> Mutation:
    """A segment is said to be of the epoch in which it is copied."""
    original = copying.begin_copy

    def begin_copy(origin: Any, segment: Any, chain: LeaderEpochs, *given: Any) -> RemoteSegment:
        begun = original(origin, segment, chain, *given)
        assert chain.latest_epoch is not None
        start_offset = begun.leader_epochs[0].start_offset
        only = begun.leader_epochs[0]._replace(epoch=chain.latest_epoch, start_offset=start_offset)
        return replace(begun, leader_epochs=(only,))

    return patch.object(remote_log, "begin_copy", begin_copy)


def deletes_what_replicas_in_sync_still_have() -> Mutation:
    """The leader's own start is enough, and a deposed leader has one of its own."""
    original = RemoteLog._deletes

    def deletes(log: RemoteLog, local: LocalLog, _: int, now_ms: int) -> Iterator[RemoteSegment]:
        return original(log, local, local.log_start_offset, now_ms)

    return patch.object(RemoteLog, "_deletes", deletes)


def a_leader_begins_before_it_has_read_the_topic() -> Mutation:
    """It does not know all copies, and takes its log to begin later."""

    def read_topic(world: World, replica: Any, count: int) -> None:
        if replica.led_epoch is not None and not replica.is_core_leader:
            replica.is_core_leader = True
            replica.core.on_leader(replica.led_epoch)
        original(world, replica, count)

    original = World.read_topic
    return patch.object(World, "read_topic", read_topic)


def loses_the_transaction_index() -> Mutation:
    """The record says that the segment has none."""
    original = copying.begin_copy

    def begin_copy(*given: Any) -> RemoteSegment:
        return replace(original(*given), has_transaction_index=False)

    return patch.object(remote_log, "begin_copy", begin_copy)


def reads_one_transaction_index_only() -> Mutation:
    """That of the segment which is read; a transaction may end in a later one."""

    def only_here(
        remote: RemotePartition, chain: LeaderEpochs, offset: int, log_end_offset: int
    ) -> Iterator[RemoteRange]:
        found = remote.next_range(chain, offset, log_end_offset)
        if found is not None and found.segment.has_transaction_index:
            yield found

    return patch.object(RemotePartition, "ranges_with_transaction_index", only_here)


def _without(reason: DeletionReason) -> Mutation:
    original = expiry.deletions

    def deletions(*given: Any, **named: Any) -> list[Deletion]:
        return [each for each in original(*given, **named) if each.reason is not reason]

    return patch.object(remote_log, "deletions", deletions)


MUTANTS: Final[dict[Mutant, Hunt]] = {
    cuts_what_is_put_and_not_yet_finished_in_the_topic: Hunt(range(400), (Promise.KEPT,)),
    serves_what_is_only_announced: Hunt(range(100), (Promise.KEPT, Promise.WHOLE)),
    uses_an_id_again: Hunt(range(100), (Promise.ID_ONCE,)),
    finishes_before_the_objects_are_there: Hunt(range(100), (Promise.WHOLE,)),
    takes_a_lost_answer_for_success: Hunt(range(100), (Promise.WHOLE,)),
    deletes_objects_before_the_topic_knows: Hunt(range(100), (Promise.WHOLE,)),
    takes_a_copy_that_is_finished_after_its_deletion: Hunt(range(400), (Promise.WHOLE,)),
    deletes_a_copy_that_was_finished_meanwhile: Hunt(range(800), (Promise.KEPT,)),
    leaves_copies_that_never_finished: Hunt(range(100), (Promise.NO_ORPHANS,)),
    leaves_deletions_of_others: Hunt(range(100), (Promise.NO_ORPHANS,)),
    leaves_objects_that_came_late: Hunt(range(400), (Promise.NO_ORPHANS,)),
    sweeps_without_reading_the_topic_on: Hunt(range(400), (Promise.WHOLE,)),
    removes_orphans_without_grace: Hunt(range(400), (Promise.WHOLE,)),
    serves_a_segment_to_its_end_whatever_the_log_has: Hunt(
        range(400), (Promise.ONE_EPOCH, Promise.KEPT), run_unclean
    ),
    copies_with_the_epoch_of_the_leader: Hunt(range(100), (Promise.SETTLES,)),
    deletes_what_replicas_in_sync_still_have: Hunt(range(600), (Promise.KEPT,), run_deaf),
    a_leader_begins_before_it_has_read_the_topic: Hunt(range(1500), (Promise.KEPT,)),
    loses_the_transaction_index: Hunt(range(200), (Promise.ABORTED_KNOWN,)),
    reads_one_transaction_index_only: Hunt(range(400), (Promise.ABORTED_KNOWN,)),
}
"""Each with what must find it, and seeds enough for that; several times what it took."""
