"""The window of a share partition: named cases, and random histories against a table of offsets."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from moldau.broker.share.piece import (
    AcknowledgeType,
    AcquiredRange,
    Letter,
    RecordState,
    StoredRun,
)
from moldau.broker.share.settings import DeadLetterTopic, ShareSettings
from moldau.broker.share.window import (
    ARCHIVING,
    REJECTED,
    TOO_OFTEN,
    Acknowledgement,
    AcquireLimits,
    Burial,
    ReadBatch,
    Ready,
    Window,
)
from moldau.errors.codes import ErrorCode, KafkaError

TERMS = ShareSettings(lock_ms=1000, delivery_limit=5, lock_limit=100)
ALL = AcquireLimits(1000)
GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
REFUSED = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def batches(*ends: int) -> list[ReadBatch]:
    """Batches without gaps: the first of each, and the end of the last."""
    return [ReadBatch(first, after - 1) for first, after in pairwise(ends)]


def say(window: Window, member: str, first: int, last: int, *kinds: int, at: int = 0) -> Ready:
    """An acknowledgement, and what is to be done then."""
    window.on_acknowledge(member, [Acknowledgement(first, last, kinds)], "ticket", TERMS, at)
    return window.ready()


def stored(window: Window, at: int = 0, error: KafkaError | None = None) -> Ready:
    window.on_stored(error, at, TERMS)
    return window.ready()


def code(ready: Ready) -> ErrorCode | None:
    ((_, error),) = ready.answers
    return None if error is None else error.code


def states(window: Window) -> list[tuple[int, int, str, int]]:
    return [(each.first, each.last, each.state.name, each.deliveries) for each in window.pieces]


def test_what_is_acknowledged_moves_the_start_when_it_is_stored() -> None:
    window = Window(0)
    assert window.acquire("a", batches(0, 10), ALL, TERMS, 0) == [AcquiredRange(0, 9, 1)]
    ready = say(window, "a", 0, 4, ACCEPT)
    assert ready.store is not None
    assert ready.store.start_offset == 5
    assert ready.store.runs == ()
    assert (ready.answers, window.start_offset) == ((), 0)
    assert code(stored(window)) is None
    assert window.start_offset == 5
    assert states(window) == [(5, 9, "ACQUIRED", 1)]


def test_a_change_that_cannot_be_stored_leaves_the_member_its_records() -> None:
    window = Window(0)
    window.acquire("a", batches(0, 10), ALL, TERMS, 0)
    say(window, "a", 0, 9, ACCEPT)
    assert code(stored(window, 10, REFUSED)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert states(window) == [(0, 9, "ACQUIRED", 1)]
    assert say(window, "a", 0, 9, ACCEPT, at=20).store is not None
    stored(window, 20)
    assert window.start_offset == 10


def test_a_record_that_is_being_stored_goes_to_no_other_member() -> None:
    window = Window(0)
    window.acquire("a", batches(0, 10), ALL, TERMS, 0)
    say(window, "a", 0, 9, RELEASE)
    assert window.acquire("b", batches(0, 10), ALL, TERMS, 0) == []
    assert code(say(window, "a", 0, 9, ACCEPT)) is ErrorCode.INVALID_RECORD_STATE
    assert stored(window).is_available
    assert window.acquire("b", batches(0, 10), ALL, TERMS, 0) == [AcquiredRange(0, 9, 2)]


def test_a_lock_ends_at_its_time_and_is_stored() -> None:
    window = Window(0)
    window.acquire("a", batches(0, 10), ALL, TERMS, 500)
    assert window.ready().due_ms == 1500
    window.on_time(1499, TERMS)
    assert states(window) == [(0, 9, "ACQUIRED", 1)]
    window.on_time(1500, TERMS)
    ready = window.ready()
    assert ready.is_available
    assert ready.store is not None
    assert ready.store.runs == (StoredRun(0, 9, RecordState.AVAILABLE, 1),)
    stored(window, 1500)
    assert code(say(window, "a", 0, 9, ACCEPT, at=1501)) is ErrorCode.INVALID_RECORD_STATE


def test_a_renewed_lock_ends_later() -> None:
    window = Window(0)
    window.acquire("a", batches(0, 10), ALL, TERMS, 0)
    ready = say(window, "a", 0, 4, RENEW, at=600)
    assert (code(ready), ready.store) == (None, None)
    window.on_time(1000, TERMS)
    assert states(window) == [(0, 4, "ACQUIRED", 1), (5, 9, "AVAILABLE", 1)]
    assert window.ready().due_ms == 1600


def test_records_of_others_and_records_that_are_not_acquired_are_refused() -> None:
    window = Window(0)
    assert code(say(window, "a", 0, 0, ACCEPT)) is ErrorCode.INVALID_RECORD_STATE
    window.acquire("a", batches(0, 10), ALL, TERMS, 0)
    assert code(say(window, "b", 0, 9, ACCEPT)) is ErrorCode.INVALID_RECORD_STATE
    assert code(say(window, "a", 5, 10, ACCEPT)) is ErrorCode.INVALID_REQUEST
    assert code(say(window, "a", 10, 12, ACCEPT)) is ErrorCode.INVALID_REQUEST
    assert states(window) == [(0, 9, "ACQUIRED", 1)]


def test_all_of_an_acknowledgement_counts_or_nothing() -> None:
    window = Window(0)
    window.acquire("a", batches(0, 5), ALL, TERMS, 0)
    window.acquire("b", batches(5, 10), ALL, TERMS, 0)
    assert code(say(window, "a", 0, 9, ACCEPT)) is ErrorCode.INVALID_RECORD_STATE
    assert states(window) == [(0, 4, "ACQUIRED", 1), (5, 9, "ACQUIRED", 1)]


def test_a_record_that_is_acknowledged_twice_at_once_is_refused() -> None:
    window = Window(0)
    window.acquire("a", batches(0, 10), ALL, TERMS, 0)
    twice = [Acknowledgement(0, 5, (ACCEPT,)), Acknowledgement(5, 9, (ACCEPT,))]
    window.on_acknowledge("a", twice, "t", TERMS, 0)
    assert code(window.ready()) is ErrorCode.INVALID_RECORD_STATE
    assert states(window) == [(0, 9, "ACQUIRED", 1)]


def test_done_records_may_be_acknowledged_again() -> None:
    window = Window(0)
    window.acquire("a", batches(0, 10), ALL, TERMS, 0)
    say(window, "a", 0, 4, ACCEPT)
    stored(window)
    assert code(say(window, "a", 0, 4, ACCEPT)) is None
    ready = say(window, "a", 3, 6, ACCEPT)
    assert ready.store is not None
    assert ready.store.start_offset == 7


def test_types_apiece_split_the_batch() -> None:
    window = Window(0)
    window.acquire("a", batches(0, 5), ALL, TERMS, 0)
    say(window, "a", 0, 4, ACCEPT, RELEASE, REJECT, GAP, RENEW)
    stored(window)
    assert states(window) == [
        (1, 1, "AVAILABLE", 1),
        (2, 2, "ARCHIVED", 1),
        (3, 3, "ARCHIVED", 1),
        (4, 4, "ACQUIRED", 1),
    ]
    assert (window.start_offset, window.complete_count) == (1, 2)


def test_after_the_last_delivery_a_record_is_archived() -> None:
    terms = TERMS._replace(delivery_limit=2)
    window = Window(0)
    for count in (1, 2):
        assert window.acquire("a", batches(0, 4), ALL, terms, 0) == [AcquiredRange(0, 3, count)]
        window.on_acknowledge("a", [Acknowledgement(0, 3, (RELEASE,))], "t", terms, 0)
        window.ready()
        window.on_stored(None, 0, terms)
    assert window.start_offset == 4


def test_a_lowered_limit_archives_what_is_above() -> None:
    window = Window(0, [StoredRun(0, 9, RecordState.AVAILABLE, 3)])
    assert window.acquire("a", batches(0, 10), ALL, TERMS._replace(delivery_limit=3), 0) == []
    assert window.start_offset == 10


def test_records_that_compaction_removes_while_their_letters_are_written_stay_given_up() -> None:
    terms = TERMS._replace(delivery_limit=3, dead_letter_topic=DeadLetterTopic("letters"))
    available = RecordState.AVAILABLE
    window = Window(0, [StoredRun(0, 4, available, 1), StoredRun(5, 9, available, 3)])
    assert window.acquire("a", batches(0, 5, 10), ALL, terms, 0) == [AcquiredRange(0, 4, 2)]
    (burial,) = window.ready().burials
    window.on_left("a", None, terms)
    window.ready()
    window.on_stored(None, 0, terms)
    assert window.acquire("b", batches(10, 15), ALL, terms, 0) == [AcquiredRange(10, 14, 1)]
    window.on_buried(burial, None, 0, terms)
    ready = window.ready()
    assert ready.store is not None
    assert ready.store.start_offset == 10
    window.on_stored(None, 0, terms)
    assert window.start_offset == 10


def test_from_half_of_the_limit_on_pieces_are_halved() -> None:
    window = Window(0, [StoredRun(0, 499, RecordState.AVAILABLE, 5)])
    terms = ShareSettings(1000, 10, 1000)
    sizes = []
    for _ in range(5):
        ((first, last, count),) = window.acquire("a", batches(0, 500), AcquireLimits(500), terms, 0)
        sizes.append((last - first + 1, count))
        window.on_acknowledge("a", [Acknowledgement(first, last, (RELEASE,))], "t", terms, 0)
        window.ready()
        window.on_stored(None, 0, terms)
    assert sizes == [(250, 6), (125, 7), (62, 8), (31, 9), (1, 10)]


def test_a_batch_that_is_always_released_is_halved_from_its_size_as_in_kafka() -> None:
    window, terms = Window(0), ShareSettings(1000, 10, 1000)
    sizes = []
    for _ in range(10):
        ((first, last, _),) = window.acquire("a", batches(0, 512), AcquireLimits(512), terms, 0)
        sizes.append(last - first + 1)
        window.on_acknowledge("a", [Acknowledgement(first, last, (RELEASE,))], "t", terms, 0)
        window.ready()
        window.on_stored(None, 0, terms)
    assert sizes == [512] * 5 + [256, 128, 64, 32, 1]


def test_no_more_records_than_locks() -> None:
    window = Window(0)
    assert window.acquire("a", batches(0, 250), ALL, TERMS, 0) == [AcquiredRange(0, 99, 1)]
    assert not window.can_acquire(TERMS)
    assert window.acquire("b", batches(0, 250), ALL, TERMS, 0) == []
    say(window, "a", 0, 9, ACCEPT)
    stored(window)
    assert window.acquire("b", batches(0, 250), ALL, TERMS, 0) == [AcquiredRange(100, 109, 1)]


def test_a_strict_limit_is_kept_and_a_batch_is_taken_whole_otherwise() -> None:
    window = Window(0)
    assert window.acquire("a", batches(0, 10, 20, 30), AcquireLimits(12), TERMS, 0) == [
        AcquiredRange(0, 19, 1)
    ]
    strict = AcquireLimits(3, is_strict=True)
    assert window.acquire("b", batches(20, 30), strict, TERMS, 0) == [AcquiredRange(20, 22, 1)]
    say(window, "a", 0, 19, RELEASE)
    stored(window)
    assert window.acquire("c", batches(0, 10), strict, TERMS, 0) == [AcquiredRange(0, 2, 2)]


def test_pieces_end_where_batches_do() -> None:
    window = Window(0)
    found = window.acquire("a", batches(0, 4, 8, 12, 16), AcquireLimits(100, 6), TERMS, 0)
    assert found == [AcquiredRange(0, 7, 1), AcquiredRange(8, 15, 1)]


def test_offsets_that_the_log_does_not_have_are_done() -> None:
    window = Window(0)
    read = [ReadBatch(3, 5), ReadBatch(8, 9)]
    assert window.acquire("a", read, ALL, TERMS, 0) == [
        AcquiredRange(3, 5, 1),
        AcquiredRange(8, 9, 1),
    ]
    assert window.start_offset == 3
    say(window, "a", 3, 5, ACCEPT)
    stored(window)
    assert window.start_offset == 8


def test_aborted_records_never_come() -> None:
    window = Window(0, [StoredRun(0, 9, RecordState.AVAILABLE, 1)])
    read = [ReadBatch(0, 4), ReadBatch(5, 9, is_aborted=True), ReadBatch(10, 14, is_aborted=True)]
    assert window.acquire("a", read, ALL, TERMS, 0) == [AcquiredRange(0, 4, 2)]
    say(window, "a", 0, 4, ACCEPT)
    stored(window)
    assert window.start_offset == 15


def test_a_window_is_loaded_with_its_gaps() -> None:
    loaded = [
        StoredRun(2, 3, RecordState.ACKNOWLEDGED, 1),
        StoredRun(6, 7, RecordState.AVAILABLE, 3),
    ]
    window = Window(0, loaded)
    assert states(window) == [
        (0, 1, "AVAILABLE", 0),
        (2, 3, "ACKNOWLEDGED", 1),
        (4, 5, "AVAILABLE", 0),
        (6, 7, "AVAILABLE", 3),
    ]
    assert window.fetch_offset == 0
    assert Window(0, [StoredRun(0, 3, RecordState.ACKNOWLEDGED, 1)]).start_offset == 4


def test_the_log_may_delete_what_members_hold() -> None:
    window = Window(0)
    window.acquire("a", batches(0, 10), ALL, TERMS, 0)
    say(window, "a", 0, 7, ACCEPT)
    window.on_log_start(5)
    assert states(window) == [(5, 9, "ACQUIRED", 1)] or window.start_offset == 5
    assert code(stored(window)) is None
    assert window.start_offset == 8
    window.on_log_start(30)
    assert (window.start_offset, window.next_offset, window.pieces) == (30, 30, [])
    assert code(say(window, "a", 8, 9, ACCEPT)) is None


def test_a_member_that_goes_releases_its_records() -> None:
    window = Window(0)
    window.acquire("a", batches(0, 10), ALL, TERMS, 0)
    window.acquire("b", batches(10, 20), ALL, TERMS, 0)
    window.on_left("a", "gone", TERMS)
    assert window.ready().store is not None
    assert stored(window).answers == (("gone", None),)
    assert states(window) == [(0, 9, "AVAILABLE", 1), (10, 19, "ACQUIRED", 1)]


def test_a_fenced_window_answers_all_that_waits() -> None:
    window = Window(0)
    window.acquire("a", batches(0, 10), ALL, TERMS, 0)
    say(window, "a", 0, 4, ACCEPT)
    say(window, "a", 5, 9, ACCEPT)
    window.on_fenced(REFUSED)
    assert window.ready().answers == (("ticket", REFUSED), ("ticket", REFUSED))


class Histories(RuleBasedStateMachine):
    """Random histories. The model has an entry for each offset: its state, holder, deliveries."""

    END = 60
    MEMBERS = ("a", "b", "c")

    def __init__(self) -> None:
        super().__init__()
        self.terms = ShareSettings(lock_ms=100, delivery_limit=4, lock_limit=25)
        self.window = Window(0)
        self.now_ms = 0
        self.holder: dict[int, tuple[str, int]] = {}
        """The member of each held offset, and when its lock ends."""
        self.deliveries = dict.fromkeys(range(self.END), 0)
        self.done: set[int] = set()
        self.pending: dict[int, RecordState] = {}
        self.storing: dict[int, RecordState] | None = None
        self.log_start = 0
        self.start_before = 0
        self.answered = 0
        self.asked = 0

    def _settle(self) -> None:
        ready = self.window.ready()
        self.answered += len(ready.answers)
        if ready.store is not None:
            assert self.storing is None, "one change at a time"
            self.storing, self.pending = self.pending, {}
            for run in ready.store.runs:
                assert run.state != RecordState.ACQUIRED

    def _expire(self) -> None:
        for offset, (_, due_ms) in list(self.holder.items()):
            is_pending = offset in self.pending or offset in (self.storing or {})
            if due_ms <= self.now_ms and not is_pending:
                del self.holder[offset]
                if self.deliveries[offset] >= self.terms.delivery_limit:
                    self.done.add(offset)

    @rule(member=st.sampled_from(MEMBERS), count=st.integers(1, 12), strict=st.booleans())
    def acquire(self, member: str, count: int, strict: bool) -> None:
        start = self.window.fetch_offset
        read = [
            ReadBatch(first, min(first + 4, self.END - 1))
            for first in range(start - start % 5, min(start + 20, self.END), 5)
            if first + 4 >= self.log_start
        ]
        wanted = AcquireLimits(count, 5, strict)
        for first, last, deliveries in self.window.acquire(
            member, read, wanted, self.terms, self.now_ms
        ):
            for offset in range(first, last + 1):
                assert offset not in self.holder, "acquired twice"
                assert offset not in self.done, "acquired when done"
                assert offset not in self.pending
                self.deliveries[offset] += 1
                assert self.deliveries[offset] == deliveries
                assert deliveries <= self.terms.delivery_limit
                self.holder[offset] = member, self.now_ms + self.terms.lock_ms
        self._settle()

    @rule(
        member=st.sampled_from(MEMBERS),
        first=st.integers(0, END),
        length=st.integers(0, 12),
        kinds=st.lists(st.sampled_from(tuple(AcknowledgeType)), min_size=1, max_size=1)
        | st.lists(st.sampled_from(tuple(AcknowledgeType)), min_size=13, max_size=13),
    )
    def acknowledge(self, member: str, first: int, length: int, kinds: list[int]) -> None:
        last = first + length
        types = kinds if len(kinds) == 1 else kinds[: length + 1]
        start = self.window.start_offset
        offsets = range(max(first, start), last + 1)
        holds = all(
            self.holder.get(each, ("", 0))[0] == member
            and each not in self.pending
            and each not in (self.storing or {})
            for each in offsets
        )
        self.asked += 1
        batch = Acknowledgement(first, last, types)
        self.window.on_acknowledge(member, [batch], "t", self.terms, self.now_ms)
        if holds:
            for each in offsets:
                kind = batch.type_at(each)
                if kind == RENEW:
                    self.holder[each] = member, self.now_ms + self.terms.lock_ms
                else:
                    self.pending[each] = _STATES[AcknowledgeType(kind)]
        self._settle()

    @rule(is_fine=st.booleans())
    def store(self, is_fine: bool) -> None:
        if self.storing is None:
            return
        storing, self.storing = self.storing, None
        error = None if is_fine else REFUSED
        for offset, state in storing.items():
            if not is_fine or offset < self.log_start:
                continue
            self.holder.pop(offset, None)
            spent = self.deliveries[offset] >= self.terms.delivery_limit
            if state is not RecordState.AVAILABLE or spent:
                self.done.add(offset)
        self.window.on_stored(error, self.now_ms, self.terms)
        self._expire()
        self._settle()

    @rule(passed=st.integers(1, 80))
    def time(self, passed: int) -> None:
        self.now_ms += passed
        self._expire()
        self.window.on_time(self.now_ms, self.terms)
        self._settle()

    @rule(member=st.sampled_from(MEMBERS))
    def leave(self, member: str) -> None:
        for offset, (held_by, _) in self.holder.items():
            if held_by == member and offset not in (self.storing or {}):
                self.pending.setdefault(offset, RecordState.AVAILABLE)
        self.window.on_left(member, None, self.terms)
        self._settle()

    @rule(by=st.integers(1, 6))
    def delete_records(self, by: int) -> None:
        self.log_start = min(self.log_start + by, self.END)
        self.window.on_log_start(self.log_start)
        for offset in range(self.log_start):
            self.holder.pop(offset, None)
            self.pending.pop(offset, None)
            self.done.add(offset)
        self._settle()

    @invariant()
    def the_window_is_the_model(self) -> None:
        window = self.window
        assert len(window) <= self.terms.lock_limit
        assert window.start_offset >= self.start_before
        self.start_before = window.start_offset
        at = window.start_offset
        for piece in window.pieces:
            assert piece.first == at
            at = piece.last + 1
            for offset in range(piece.first, piece.last + 1):
                self._check(offset, piece)
        assert at == window.next_offset
        assert all(offset in self.done for offset in range(window.start_offset))

    def _check(self, offset: int, piece: Any) -> None:
        holder = self.holder.get(offset)
        if piece.state is RecordState.ACQUIRED:
            assert holder is not None
            assert holder[0] == piece.member_id
        else:
            assert holder is None
            assert piece.is_final == (offset in self.done)
        assert piece.deliveries == self.deliveries[offset]


_STATES = {
    GAP: RecordState.ARCHIVED,
    ACCEPT: RecordState.ACKNOWLEDGED,
    RELEASE: RecordState.AVAILABLE,
    REJECT: RecordState.ARCHIVED,
}

TestHistories = pytest.mark.filterwarnings("default")(Histories.TestCase)
TestHistories.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


RESTING = TERMS._replace(backoff_ms=(100, 2000))


def test_a_released_record_rests_and_holds_up_no_other() -> None:
    window = Window(0)
    window.acquire("a", batches(0, 4), ALL, TERMS, 0)
    window.on_acknowledge("a", [Acknowledgement(1, 1, (RELEASE,), 500)], "ticket", TERMS, 10)
    window.on_acknowledge("a", [Acknowledgement(2, 2, (RELEASE,), 0)], "ticket", RESTING, 10)
    assert stored_runs(window.ready()) == (
        StoredRun(1, 1, RecordState.AVAILABLE, 1, 510),
        StoredRun(2, 2, RecordState.AVAILABLE, 1),
    )
    stored(window, 20)
    assert window.acquire("b", batches(0, 4), ALL, TERMS, 30) == [AcquiredRange(2, 2, 2)]
    assert window.ready().due_ms == 510
    window.on_time(509, TERMS)
    assert window.acquire("b", batches(0, 4), ALL, TERMS, 509) == []
    window.on_time(510, TERMS)
    assert window.ready().is_available
    assert window.acquire("b", batches(0, 4), ALL, TERMS, 510) == [AcquiredRange(1, 1, 2)]


def stored_runs(ready: Ready) -> tuple[StoredRun, ...]:
    assert ready.store is not None
    return ready.store.runs


def test_each_delivery_has_its_back_off_and_the_last_one_goes_on() -> None:
    window, at = Window(0), 0
    for deliveries, rest in ((1, 100), (2, 2000), (3, 2000)):
        window.on_time(at, RESTING)
        assert window.acquire("a", batches(0, 1), ALL, RESTING, at) == [
            AcquiredRange(0, 0, deliveries)
        ]
        at += RESTING.lock_ms  # the lock ends by itself
        window.on_time(at, RESTING)
        assert stored_runs(window.ready())[0].rest_ms == at + rest
        window.on_stored(None, at, RESTING)
        assert window.acquire("a", batches(0, 1), ALL, RESTING, at) == []
        at += rest


def test_a_loaded_record_rests_on() -> None:
    window = Window(0, [StoredRun(0, 3, RecordState.AVAILABLE, 1, 700)])
    assert window.acquire("a", batches(0, 6), ALL, TERMS, 0) == [AcquiredRange(4, 5, 1)]
    assert window.ready().due_ms == 700
    window.on_time(700, TERMS)
    assert window.acquire("a", batches(0, 4), ALL, TERMS, 700) == [AcquiredRange(0, 3, 2)]


def test_what_a_member_leaves_does_not_rest() -> None:
    window = Window(0)
    window.acquire("a", batches(0, 4), ALL, RESTING, 0)
    window.on_left("a", None, RESTING)
    assert stored_runs(window.ready()) == (StoredRun(0, 3, RecordState.AVAILABLE, 1),)
    stored(window)
    assert window.acquire("b", batches(0, 4), ALL, RESTING, 0) == [AcquiredRange(0, 3, 2)]


BURYING = TERMS._replace(dead_letter_topic=DeadLetterTopic("letters"))


def test_what_is_rejected_is_stored_after_its_letter_is_written() -> None:
    window = Window(0)
    window.acquire("a", batches(0, 10), ALL, BURYING, 0)
    said = [Acknowledgement(0, 0, (ACCEPT,)), Acknowledgement(1, 2, (REJECT,), reason="no such id")]
    window.on_acknowledge("a", said, "ticket", BURYING, 0)
    ready = window.ready()
    (burial,) = ready.burials
    assert burial.letters == (Letter(1, 2, 1, "no such id"),)
    assert (ready.store, ready.answers) == (None, ())
    window.on_acknowledge("a", [Acknowledgement(3, 3, (ACCEPT,))], "other", BURYING, 0)
    store = window.ready().store
    assert store is not None
    assert (store.start_offset, store.complete_count) == (0, 1), "0 to 2 are not stored yet"
    assert code(stored(window)) is None
    window.on_buried(burial, None, 5, BURYING)
    store = window.ready().store
    assert store is not None
    assert store.start_offset == 4
    assert code(stored(window)) is None
    assert window.start_offset == 4


def test_a_member_keeps_what_could_not_be_buried() -> None:
    window = Window(0)
    window.acquire("a", batches(0, 2), ALL, BURYING, 0)
    window.on_acknowledge("a", [Acknowledgement(0, 1, (REJECT,))], "ticket", BURYING, 0)
    (burial,) = window.ready().burials
    assert window.acquire("b", batches(0, 2), ALL, BURYING, 1) == []
    window.on_buried(burial, REFUSED, 10, BURYING)
    assert code(window.ready()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert states(window) == [(0, 1, "ACQUIRED", 1)]
    assert window.ready().due_ms == 1000


ONCE = BURYING._replace(delivery_limit=1)


def lapsed() -> tuple[Window, Burial]:
    """A window with one record, of which the last delivery has ended by itself; its letter."""
    window = Window(0)
    window.acquire("a", batches(0, 1), ALL, ONCE, 0)
    window.on_time(1000, ONCE)
    (burial,) = window.ready().burials
    return window, burial


def test_a_last_delivery_that_ends_by_itself_is_buried_until_it_is_done() -> None:
    window, burial = lapsed()
    assert burial.letters == (Letter(0, 0, 1, "Offset delivery count exceeded the threshold."),)
    window.on_buried(burial, REFUSED, 6000, ONCE)
    window.on_acknowledge("a", [Acknowledgement(0, 0, (ACCEPT,))], "late", ONCE, 6001)
    assert code(window.ready()) is ErrorCode.INVALID_RECORD_STATE
    window.on_time(7000, ONCE)
    (burial,) = window.ready().burials
    window.on_buried(burial, None, 7001, ONCE)
    assert window.ready().store is not None
    stored(window, 7002)
    assert window.start_offset == 1


def test_a_letter_is_written_once_however_often_the_change_cannot_be_stored() -> None:
    window, burial = lapsed()
    window.on_buried(burial, None, 1001, ONCE)
    assert window.ready().store is not None
    for round_ in (6000, 12_000):
        window.on_stored(REFUSED, round_, ONCE)
        ready = window.ready()
        assert (ready.burials, ready.store) == ((), None), "it is tried again later, not at once"
        assert ready.due_ms == round_ + 1000
        window.on_time(round_ + 1000, ONCE)
        ready = window.ready()
        assert ready.burials == ()
        assert ready.store is not None
    window.on_stored(None, 13_100, ONCE)
    assert window.start_offset == 1


def test_a_start_that_could_not_be_stored_is_stored_when_records_are_acquired() -> None:
    window = Window(100)
    window.store_start()
    assert window.ready().store is not None
    assert stored(window, 0, REFUSED).store is None
    window.acquire("a", batches(100, 110), ALL, TERMS, 1)
    store = window.ready().store
    assert store is not None, "another leader would choose another start"
    assert store.start_offset == 100


def test_a_change_that_is_being_stored_is_whole_whatever_is_read_meanwhile() -> None:
    window = Window(0)
    window.acquire("a", batches(0, 10), ALL, TERMS, 0)
    say(window, "a", 0, 0, RELEASE)
    stored(window)
    assert say(window, "a", 1, 9, ACCEPT).store is not None
    read = [ReadBatch(0, 4), ReadBatch(5, 9, due_ms=5000)]
    assert window.acquire("b", read, ALL, TERMS, 1) == [AcquiredRange(0, 0, 2)]
    stored(window, 2)
    say(window, "b", 0, 0, ACCEPT, at=3)
    stored(window, 4)
    assert window.start_offset == 10


def test_what_waits_for_its_letter_in_the_state_of_kafka_gets_it_and_is_archived() -> None:
    runs = (StoredRun(0, 1, ARCHIVING, 1), StoredRun(2, 2, ARCHIVING, 5))
    window = Window(0, runs, BURYING.delivery_limit)
    ready = window.ready()
    assert [burial.letters for burial in ready.burials] == [
        (Letter(0, 1, 1, REJECTED),),
        (Letter(2, 2, 5, TOO_OFTEN),),
    ]
    assert ready.store is None
    assert window.acquire("a", batches(0, 3), ALL, BURYING, 0) == []
    for burial in ready.burials:
        window.on_buried(burial, None, 0, BURYING)
    assert window.ready().store is not None
    stored(window)
    assert window.start_offset == 3
