"""What a source task does next: single events, then whole lives with faults."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from moldau.connect.api import SourceRecord
from moldau.connect.errors import ConnectError
from moldau.connect.task.boundaries import Boundaries, Boundary, Ready
from moldau.connect.task.source_core import IDLE_S, PAUSED_S, RETRY_S, SourceCore, SourceReady
from moldau.connect.task.submitted import SubmittedRecord

INTERVAL_MS: Final = 100
GRACE_MS: Final = 60
PLACES: Final = ("a", "b")
RECORDS: Final = 40
LIVES: Final = 12
SEEDS: Final = range(120)
REFUSAL: Final = ConnectError("the cluster refused a record")


def core(boundary: Boundary | None = None, *, tolerates_loss: bool = False) -> SourceCore:
    boundaries = None if boundary is None else Boundaries(boundary, INTERVAL_MS, 0)
    return SourceCore(INTERVAL_MS, 0, boundaries, tolerates_loss=tolerates_loss)


def entry_of(place: str, number: int) -> SubmittedRecord:
    record = SourceRecord({"file": place}, {"n": number}, "topic", value=number)
    return SubmittedRecord(record.source_partition, record.source_offset, record)


def sent(to: SourceCore, *numbers: int) -> list[SubmittedRecord]:
    """Poll and send records of one place."""
    entries = [entry_of("a", number) for number in numbers]
    for each in entries:
        to.on_submitted(each)
    for each in entries:
        to.on_sent(each)
    to.on_polled(len(entries))
    return entries


def test_offsets_are_stored_after_an_interval_and_again_if_that_fails() -> None:
    found = core()
    first, second = sent(found, 1, 2)
    found.on_delivered(first, "place")
    assert found.ready(99).end == Ready()
    end = found.ready(100).end
    assert end == Ready(commits=True, offsets=[({"file": "a"}, {"n": 1})])
    assert not found.ready(199), "it failed, and is tried after an interval"
    found.on_delivered(second, "place")
    end = found.ready(200).end
    assert end.offsets == [({"file": "a"}, {"n": 2})]
    found.on_finished(end)
    assert found.ready(201).notifies
    assert not found.ready(300), "nothing is left"


@pytest.mark.parametrize("boundary", [None, Boundary.POLL])
def test_the_connector_is_told_once_of_what_is_durable(boundary: Boundary | None) -> None:
    found = core(boundary)
    first, second = sent(found, 1, 2)
    found.on_delivered(first, "place")
    found.on_dropped(second)
    ready = found.ready(1)
    if boundary is not None:
        assert (ready.delivered, found.active) == ([], 2), "its transaction is open"
        found.on_finished(ready.end)
        ready = found.ready(1)
    assert (ready.delivered, found.active) == ([(first, "place"), (second, None)], 0)
    assert not found.ready(1).delivered


def test_a_rejected_record_ends_the_task_unless_its_loss_is_tolerated() -> None:
    for tolerates_loss in (False, True):
        found = core(tolerates_loss=tolerates_loss)
        (entry,) = sent(found, 1)
        found.on_delivered(entry, None, REFUSAL)
        ready = found.ready(1)
        if tolerates_loss:
            assert ready.delivered == [(entry, None)]
        else:
            assert ready.rejected is REFUSAL
    exact = core(Boundary.POLL, tolerates_loss=True)
    (entry,) = sent(exact, 1)
    exact.on_delivered(entry, None, REFUSAL)
    assert exact.ready(1).rejected is REFUSAL, "a transaction tolerates no loss"


def test_a_turn_polls_rests_or_waits() -> None:
    found = core()
    assert (found.ready(0).polls, found.ready(0).rest_s) == (True, 0.0)
    found.on_polled(0)
    assert (found.ready(0).polls, found.ready(0).rest_s) == (True, IDLE_S)
    found.on_poll_failed()
    assert found.ready(0).rest_s == RETRY_S
    found.is_paused = True
    assert (found.ready(0).polls, found.ready(0).rest_s) == (False, PAUSED_S)


def test_a_stop_flushes_then_stores_and_polls_no_more() -> None:
    found = core()
    (entry,) = sent(found, 1)
    found.on_stop(10, GRACE_MS, is_clean=True)
    assert found.ready(10).flush_ms == GRACE_MS // 2
    found.on_delivered(entry, "place")
    found.on_flushed()
    ready = found.ready(40)
    assert (ready.polls, ready.end.commits) == (False, True)
    found.on_finished(ready.end)
    assert found.ready(40).notifies
    assert not found.ready(10_000)


def test_a_failed_task_ends_no_transaction() -> None:
    found = core(Boundary.POLL)
    sent(found, 1)
    found.on_stop(10, GRACE_MS, is_clean=False)
    assert not found.ready(10)


class Life:
    """One run of a task, up to a stop, a failure or a kill, against a cluster that is late, rejects
    records and fails to store. Two records have one offset. `topic` and `stored` outlive it."""

    def __init__(
        self,
        random: Random,
        boundary: Boundary | None,
        topic: list[tuple[str, int]],
        stored: dict[str, int],
    ) -> None:
        self.random, self.boundary = random, boundary
        self.topic, self.stored = topic, stored
        self.core = core(boundary)
        self.at = dict(stored)
        self.now_ms = 0
        self.flying: list[SubmittedRecord] = []
        self.open: list[tuple[str, int]] = []
        self.reported: set[tuple[str, int]] = set()
        self.is_cut = False

    def run(self, faults: float) -> None:
        """Live for some turns, then end in one of three ways."""
        for _ in range(self.random.randrange(1, 30)):
            self.now_ms += self.random.randrange(40)
            ready = self._settle(faults)
            if ready.rejected is not None:
                self._stop(is_clean=False, faults=faults)
                return
            if ready.polls:
                self._poll(faults)
                self._settle(faults)
            self._deliver(faults)
            self.core.is_paused = self.random.random() < 0.1
            if self.is_cut:
                break
        if self.is_cut or self.random.random() < 0.7:
            self._stop(is_clean=True, faults=faults)

    def _poll(self, faults: float) -> None:
        place = self.random.choice(PLACES)
        begin = self.at.get(place, 0)
        count = min(self.random.randrange(0, 6, 2), RECORDS - begin)
        entries = [entry_of(place, number) for number in range(begin, begin + count)]
        for first, second in zip(entries[::2], entries[1::2], strict=True):
            first.offset = second.offset
        for each in entries:
            self.core.on_submitted(each)
        for index, each in enumerate(entries):
            if index and self.random.random() < faults / 4:
                self.core.on_cut()
                self.is_cut = True
                break
            self.flying.append(each)
            self.core.on_sent(each)
            self.at[place] = begin + index + 1
        self.core.on_polled(count)

    def _deliver(self, faults: float) -> None:
        """Some records arrive, in any order; a rejected one is not in the topic."""
        for each in self.random.sample(self.flying, self.random.randrange(len(self.flying) + 1)):
            self._arrive(each, is_rejected=self.random.random() < faults / 20)

    def _arrive(self, entry: SubmittedRecord, *, is_rejected: bool) -> None:
        self.flying.remove(entry)
        if not is_rejected:
            where = self.topic if self.boundary is None else self.open
            where.append(_key(entry))
        self.core.on_delivered(entry, "place", REFUSAL if is_rejected else None)

    def _settle(self, faults: float) -> SourceReady:
        while ready := self.core.ready(self.now_ms):
            if ready.rejected is not None:
                break
            for each, place in ready.delivered:
                assert place is not None, "nothing is dropped here"
                assert _key(each) in self.topic, "it is not durable"
                assert _key(each) not in self.reported, "the connector is told twice"
                self.reported.add(_key(each))
            if ready.flush_ms:
                self.now_ms += ready.flush_ms
                self._deliver(faults)
                self.core.on_flushed()
            if ready.end and not self._finish(ready.end, faults):
                break
        return ready

    def _finish(self, end: Ready, faults: float) -> bool:
        if self.boundary is None:
            self._check(end)
            if self.random.random() < faults:
                return True  # it is not stored, and tried again after an interval
        elif end.aborts:
            self.flying.clear()
            self.open.clear()
        else:
            for each in list(self.flying):
                self._arrive(each, is_rejected=False)
            if self.random.random() < faults / 10:
                self.open.clear()
                self.core.on_delivered(entry_of("a", -1), None, REFUSAL)
                return False
            self.topic += self.open
            self.open.clear()
        self.stored.update({place["file"]: at["n"] + 1 for place, at in end.offsets})
        self.core.on_finished(end)
        return True

    def _check(self, end: Ready) -> None:
        """What is stored is never beyond what the topic has."""
        for place, at in end.offsets:
            had = {number for name, number in self.topic if name == place["file"]}
            assert had.issuperset(range(at["n"] + 1))

    def _stop(self, *, is_clean: bool, faults: float) -> None:
        began_ms = self.now_ms
        self.core.on_stop(self.now_ms, GRACE_MS, is_clean=is_clean)
        assert not self._settle(faults).polls
        assert self.now_ms - began_ms <= GRACE_MS


def _key(entry: SubmittedRecord) -> tuple[str, int]:
    assert entry.partition is not None
    assert isinstance(entry.subject, SourceRecord)
    return entry.partition["file"], entry.subject.value


@pytest.mark.parametrize("boundary", [None, Boundary.POLL, Boundary.INTERVAL])
def test_every_record_arrives_whatever_fails(boundary: Boundary | None) -> None:
    doubled = 0
    for seed in SEEDS:
        random, topic, stored = Random(seed), list[tuple[str, int]](), dict[str, int]()
        for number in range(LIVES):
            Life(random, boundary, topic, stored).run(0.3 if number < LIVES - 4 else 0.0)
        while min(stored.get(place, 0) for place in PLACES) < RECORDS:
            Life(random, boundary, topic, stored).run(0.0)
        everything = [(place, number) for place in PLACES for number in range(RECORDS)]
        assert sorted(set(topic)) == everything, f"a record is lost, seed={seed}"
        doubled += len(topic) - len(everything)
        if boundary is not None:
            assert sorted(topic) == everything, f"a record is doubled, seed={seed}"
    assert (doubled > 0) == (boundary is None), "the faults do what they can"
