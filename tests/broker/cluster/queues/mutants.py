"""Bugs of share groups in the history of Kafka, and others that are near, planted one by one; each
with the promises that must break.

Each is a context in which all brokers have the bug. What is patched is told by its name, so a part
that is renamed fails here and not silently.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any
from unittest.mock import patch

from moldau.broker.api.share_dead_letters import DeadLetters
from moldau.broker.api.share_persister import SharePersister
from moldau.broker.coordinator.share import requests
from moldau.broker.replication.purgatory import Pause
from moldau.broker.share import window
from moldau.broker.share.partition import SharePartition
from moldau.broker.share.persister import StoredState
from moldau.broker.share.piece import Piece, RecordState
from moldau.broker.share.settings import ShareSettings
from moldau.broker.share.window import Window
from moldau.errors.codes import KafkaError
from tests.broker.cluster.queues.ledger import Promise
from tests.broker.cluster.queues.storm import Run, run_queues
from tests.broker.simulation.search import Hunt, Mutant


def goes_on_without_the_lead() -> AbstractContextManager[object]:
    """A broker that does not lead the partition any more gives and releases records."""

    def check(self: SharePartition) -> None:
        if self.error is not None:
            raise self.error

    return patch.object(SharePartition, "check", check)


def serves_old_leaders() -> AbstractContextManager[object]:
    """The share coordinator does not compare leader epochs."""
    return patch.object(requests, "_check_leader_epoch", lambda *_: None)


def measures_from_the_request() -> AbstractContextManager[object]:
    """A lock begins when the fetch came, and not when the records were given."""
    acquire = Window.acquire

    def earlier(
        self: Window, member: str, read: Any, wanted: Any, settings: ShareSettings, now_ms: int
    ) -> Any:
        return acquire(self, member, read, wanted, settings, now_ms - 400)

    return patch.object(Window, "acquire", earlier)


def takes_writes_of_before_the_reset() -> AbstractContextManager[object]:
    """The share coordinator does not compare state epochs."""
    return patch.object(requests, "_check_state_epoch", lambda *_: None)


def starts_behind_acquired_records() -> AbstractContextManager[object]:
    """The start offset that is stored passes records that members hold."""

    def start_after(start: int, pieces: Iterable[Piece]) -> tuple[int, int]:
        done, is_front = 0, True
        for piece in pieces:
            state = piece.state if piece.pending is None else piece.pending
            is_done = state is not RecordState.AVAILABLE
            if is_front and is_done:
                start = piece.last + 1
            else:
                is_front = False
                done += len(piece) if is_done else 0
        return start, done

    return patch.object(window, "_start_after", start_after)


def forgets_the_lock_after_a_failed_write() -> AbstractContextManager[object]:
    """KAFKA-19476: what could not be stored stays with its member, without an end of its lock."""
    on_stored = Window.on_stored

    def stored(
        self: Window, error: KafkaError | None, now_ms: int, settings: ShareSettings
    ) -> None:
        if error is None:
            on_stored(self, error, now_ms, settings)
            return
        with patch.object(Window, "_lock", lambda *_: None):
            on_stored(self, error, now_ms, settings)

    return patch.object(Window, "on_stored", stored)


def waits_for_room_in_a_full_window() -> AbstractContextManager[object]:
    """KAFKA-17210: a window that is full gives nothing, though released records are in it."""
    return patch.object(
        Window, "can_acquire", lambda self, settings: len(self) < settings.lock_limit
    )


def forgets_that_records_rest() -> AbstractContextManager[object]:
    """A later leader does not read until when records rest."""
    load = SharePersister.load

    def loaded(self: SharePersister, key: Any, epoch: int, then: Any) -> None:
        def forget(found: Any) -> None:
            if isinstance(found, StoredState):
                runs = tuple(run._replace(rest_ms=0) for run in found.runs)
                found = found._replace(runs=runs)
            then(found)

        load(self, key, epoch, forget)

    return patch.object(SharePersister, "load", loaded)


def archives_before_it_copies() -> AbstractContextManager[object]:
    """What is given up is stored as archived, and copied to the dead letter topic later."""
    bury = DeadLetters.bury

    def later(
        self: DeadLetters, key: Any, partition: Any, topic: Any, letters: Any, then: Any
    ) -> None:
        then(None)
        copy = Pause(lambda: bury(self, key, partition, topic, letters, lambda _: None))
        self.node.replicas.purgatory.watch(copy, (), 500)

    return patch.object(DeadLetters, "bury", later)


def waits_for_itself() -> AbstractContextManager[object]:
    """KAFKA-20505: an answer that leads back to its share partition stops it for ever."""
    carry_out = SharePartition._carry_out
    inside: set[SharePartition] = set()
    stopped: set[SharePartition] = set()

    def once(self: SharePartition) -> None:
        if self in inside:
            stopped.add(self)
        if self in stopped:
            return
        inside.add(self)
        try:
            carry_out(self)
        finally:
            inside.discard(self)

    return patch.object(SharePartition, "_carry_out", once)


def _steadily(run: Run) -> None:
    run.crashes, run.resets, run.deletes = 0.0, False, False


def _often(run: Run) -> None:
    run.crashes, run.resets, run.deletes = 0.0, False, False
    run.pause_s = 0.02


def _restlessly(run: Run) -> None:
    run.crashes, run.resets, run.deletes = 0.1, False, False


def _with_resets(run: Run) -> None:
    run.resets, run.deletes, run.pause_s = True, False, 0.05


unsteady = partial(run_queues, rate=0.6, prepare=_steadily)
crowded = partial(run_queues, rate=0.0, prepare=_often)
steady = partial(run_queues, rate=0.0, prepare=_steadily)


def _with_delays(run: Run) -> None:
    run.delays, run.backoff_ms, run.resets = True, 400, False


delayed = partial(run_queues, rate=0.0, prepare=_with_delays)


def _with_graves(run: Run) -> None:
    run.graves, run.resets, run.deletes = "dlq.q", False, False


dying = partial(run_queues, prepare=_with_graves)
late = partial(run_queues, rate=1.0, prepare=_steadily)
restless = partial(run_queues, rate=0.0, prepare=_restlessly)
resetting = partial(run_queues, rate=0.9, prepare=_with_resets)

MUTANTS: dict[Mutant, Hunt] = {
    goes_on_without_the_lead: Hunt(range(1, 30), {Promise.LEADER_GIVES}, restless),
    serves_old_leaders: Hunt(range(1, 30), {Promise.OLD_LEADER_FENCED, Promise.EPOCH_GROWS}, late),
    measures_from_the_request: Hunt(range(1, 4), {Promise.LOCK_KEPT}, steady),
    takes_writes_of_before_the_reset: Hunt(range(1, 30), {Promise.NOTHING_LOST}, resetting),
    starts_behind_acquired_records: Hunt(range(1, 9), {Promise.NOTHING_LOST}, steady),
    forgets_the_lock_after_a_failed_write: Hunt(range(1, 9), {Promise.QUEUE_DRAINS}, unsteady),
    waits_for_room_in_a_full_window: Hunt(range(1, 9), {Promise.QUEUE_DRAINS}, crowded),
    forgets_that_records_rest: Hunt(range(1, 30), {Promise.RESTS}, delayed),
    archives_before_it_copies: Hunt(range(1, 9), {Promise.DEAD_LETTER}, dying),
    waits_for_itself: Hunt(range(1, 9), {Promise.QUEUE_DRAINS}, restless),
}
"""Each with seeds that are several times what it took."""
