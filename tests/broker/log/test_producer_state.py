"""Idempotent and transactional producers of one partition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.log.producer_state import (
    BatchMetadata,
    Origin,
    ProducerState,
    ProducerStateEntry,
)
from moldau.broker.log.transaction_index import AbortedTransaction
from moldau.errors import CorruptRecord
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.records import (
    Batch,
    ControlType,
    Producer,
    encode_batch,
    encode_control_batch,
    open_batch,
    retain,
)
from tests.broker.log.producing import NOW, data_batch, marker_batch

DAY_MS = 86_400_000
SEQUENCE_MAX = 2**31 - 1


def append(
    state: ProducerState, batch: Batch, origin: Origin = Origin.CLIENT, version: int = 0
) -> BatchMetadata | list[AbortedTransaction]:
    """Append at the log's end: the duplicate that it is, or what it aborted."""
    prepared = state.prepare(origin, transaction_version=version)
    duplicate = prepared.add(batch, base_offset=state.end_offset)
    return state.commit(prepared) if duplicate is None else duplicate


def refusal(state: ProducerState, batch: Batch, origin: Origin = Origin.CLIENT) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        append(state, batch, origin)
    return refused.value.code


def state_of(*batches: Batch) -> ProducerState:
    state = ProducerState(DAY_MS)
    for batch in batches:
        append(state, batch, Origin.REPLICATION)
    return state


def test_what_was_prepared_is_forgotten_unless_it_is_committed() -> None:
    state = ProducerState(DAY_MS)
    prepared = state.prepare(Origin.CLIENT)
    prepared.add(data_batch(7, 0, 0, 3, transactional=True))
    assert state.entries == {}
    assert (state.end_offset, state.first_unstable_offset) == (0, None)
    state.commit(prepared)
    assert state.entries[7].last_sequence == 2
    assert (state.end_offset, state.first_unstable_offset) == (3, 0)


def test_each_of_the_last_five_batches_is_answered_with_its_own_offsets() -> None:
    state = state_of(*(data_batch(7, 0, 2 * index, 2) for index in range(6)))
    for index in range(1, 6):
        known = append(state, data_batch(7, 0, 2 * index, 2))
        assert isinstance(known, BatchMetadata)
        assert (known.first_offset, known.last_offset) == (2 * index, 2 * index + 1)
        assert known.timestamp == NOW + 1
    assert refusal(state, data_batch(7, 0, 0, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.end_offset == 12


def test_a_batch_that_only_overlaps_a_known_one_is_no_duplicate() -> None:
    state = state_of(data_batch(7, 0, 0, 4))
    for sequence, count in ((0, 3), (1, 3), (0, 5)):
        refused = refusal(state, data_batch(7, 0, sequence, count))
        assert refused is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("before", [1, 2, 3])
def test_sequences_wrap_from_the_largest_to_zero(before: int) -> None:
    first = data_batch(7, 0, SEQUENCE_MAX - before + 1, 3)
    state = state_of(first)
    assert state.entries[7].last_sequence == (2 - before) & SEQUENCE_MAX
    assert isinstance(append(state, first), BatchMetadata)
    append(state, data_batch(7, 0, (3 - before) & SEQUENCE_MAX))
    assert state.end_offset == 4


def test_a_producer_that_nobody_knows_may_begin_anywhere() -> None:
    state = ProducerState(DAY_MS)
    append(state, data_batch(7, 3, 1000))
    assert refusal(state, data_batch(7, 3, 1002)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(state, data_batch(7, 3, 1001))


def test_a_new_epoch_begins_at_zero_and_fences_the_old_one() -> None:
    state = state_of(data_batch(7, 0, 0, 5))
    assert refusal(state, data_batch(7, 1, 5)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(state, data_batch(7, 1, 0))
    assert refusal(state, data_batch(7, 0, 5)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(state, data_batch(7, 0, 0, 5)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert [each.last_offset for each in state.entries[7].batches] == [5]


def test_a_coordinator_writes_without_sequences_but_not_in_an_old_epoch() -> None:
    state = ProducerState(DAY_MS)
    rows = [(NOW, b"offset", b"1", ())]
    for epoch in (1, 1, 0):
        batch = open_batch(encode_batch(rows, producer=Producer(7, epoch, -1, True)))
        if epoch:
            append(state, batch, Origin.COORDINATOR)
        else:
            refused = refusal(state, batch, Origin.COORDINATOR)
            assert refused is ErrorCode.INVALID_PRODUCER_EPOCH
    assert state.first_undecided_offset == 0


def test_what_a_leader_took_is_not_judged_again() -> None:
    state = state_of(data_batch(7, 5, 9, transactional=True))
    append(state, data_batch(7, 2, 77), Origin.REPLICATION)
    append(state, marker_batch(7, 1), Origin.REPLICATION)
    assert state.entries[7].epoch == 1


def test_a_batch_outside_of_the_open_transaction_is_refused() -> None:
    state = state_of(data_batch(7, 0, 0, transactional=True))
    assert refusal(state, data_batch(7, 0, 1)) is ErrorCode.INVALID_TXN_STATE
    assert state.entries[7].last_sequence == 0


def test_a_marker_of_an_older_coordinator_is_refused() -> None:
    state = state_of(marker_batch(7, 0, coordinator_epoch=4))
    refused = refusal(state, marker_batch(7, 0, coordinator_epoch=3), Origin.COORDINATOR)
    assert refused is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_strict_marker_needs_a_higher_epoch_or_a_transaction_that_is_over() -> None:
    state = state_of(data_batch(7, 1, 0, transactional=True))
    with pytest.raises(KafkaError) as refused:
        append(state, marker_batch(7, 1), Origin.COORDINATOR, version=2)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    append(state, marker_batch(7, 2), Origin.COORDINATOR, version=2)
    append(state, marker_batch(7, 2), Origin.COORDINATOR, version=2)
    assert state.first_undecided_offset is None
    append(state, data_batch(7, 2, 0))


def test_the_first_unstable_offset_waits_for_markers_and_their_replication() -> None:
    state = state_of(
        data_batch(1, 0, 0, transactional=True),  # 0
        data_batch(2, 0, 0, transactional=True),  # 1
        data_batch(1, 0, 1, transactional=True),  # 2
    )
    seen = [(state.first_unstable_offset, state.first_undecided_offset)]
    assert append(state, marker_batch(1, 0), Origin.COORDINATOR) == []  # 3
    seen.append((state.first_unstable_offset, state.first_undecided_offset))
    state.on_high_watermark(3)
    seen.append((state.first_unstable_offset, state.first_undecided_offset))
    state.on_high_watermark(4)
    seen.append((state.first_unstable_offset, state.first_undecided_offset))
    append(state, marker_batch(2, 0, abort=True), Origin.COORDINATOR)  # 4
    seen.append((state.first_unstable_offset, state.first_undecided_offset))
    state.on_high_watermark(5)
    seen.append((state.first_unstable_offset, state.first_undecided_offset))
    assert seen == [(0, 0), (0, 1), (0, 1), (1, 1), (1, None), (None, None)]


def test_an_abort_says_up_to_where_all_was_decided() -> None:
    state = state_of(
        data_batch(1, 0, 0, transactional=True),
        data_batch(2, 0, 0, transactional=True),
    )
    assert append(state, marker_batch(1, 0, abort=True), Origin.COORDINATOR) == [(1, 0, 2, 1)]
    assert append(state, marker_batch(2, 0, abort=True), Origin.COORDINATOR) == [(2, 1, 3, 4)]
    assert append(state, marker_batch(3, 0, abort=True), Origin.COORDINATOR) == []


def test_several_batches_are_judged_as_if_those_before_were_there() -> None:
    together, apart = ProducerState(DAY_MS), ProducerState(DAY_MS)
    batches = [
        data_batch(1, 0, 0, 2, transactional=True),
        marker_batch(1, 0, offset=2, abort=True),
        data_batch(2, 0, 0, 1, transactional=True, place=(3, NOW)),
        data_batch(1, 0, 2, 1, transactional=True, place=(4, NOW)),
        marker_batch(1, 1, offset=5, abort=True),
    ]
    prepared = together.prepare(Origin.REPLICATION)
    for batch in batches:
        assert prepared.add(batch) is None
    aborted = together.commit(prepared)
    expected = [each for batch in batches for each in _aborted_by(apart, batch)]
    assert aborted == expected == [(1, 0, 2, 3), (1, 4, 5, 3)]
    assert together.entries == apart.entries
    assert together.first_unstable_offset == apart.first_unstable_offset == 0


def _aborted_by(state: ProducerState, batch: Batch) -> list[AbortedTransaction]:
    aborted = append(state, batch, Origin.REPLICATION)
    assert isinstance(aborted, list)
    return aborted


def test_batches_without_producer_only_move_the_end() -> None:
    state = ProducerState(DAY_MS)
    append(state, open_batch(encode_batch([(NOW, None, b"", ())] * 4)))
    assert (state.end_offset, dict(state.entries)) == (4, {})
    state.advance_to(9)
    assert state.end_offset == 9


def test_the_stamped_time_is_the_one_that_counts() -> None:
    state = ProducerState(DAY_MS)
    prepared = state.prepare(Origin.CLIENT)
    prepared.add(data_batch(7, 0, 0), base_offset=50, timestamp=NOW + 99)
    state.commit(prepared)
    assert state.entries[7] == ProducerStateEntry(
        7, 0, -1, NOW + 99, None, (BatchMetadata(0, 50, 0, NOW + 99),)
    )


def test_an_emptied_marker_still_fences() -> None:
    marker = marker_batch(7, 5)
    emptied = retain(marker, lambda entry: False, keep_empty=True)
    assert emptied is not None
    state = state_of(data_batch(7, 4, 0), open_batch(emptied))
    assert refusal(state, data_batch(7, 4, 1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    append(state, data_batch(7, 5, 0))


@pytest.mark.parametrize(
    "records",
    [
        [(ControlType.LEADER_CHANGE, b"")],
        [(ControlType.COMMIT, b"\0")],
        [(ControlType.COMMIT, bytes(6)), (ControlType.COMMIT, bytes(6))],
    ],
)
def test_a_producers_control_batch_must_end_a_transaction(
    records: list[tuple[ControlType, bytes]],
) -> None:
    batch = encode_control_batch(records, NOW, producer=Producer(7, 0, -1, True))
    with pytest.raises(CorruptRecord):
        append(ProducerState(DAY_MS), open_batch(batch), Origin.REPLICATION)


def test_a_control_batch_of_nobody_is_not_looked_into() -> None:
    state = ProducerState(DAY_MS)
    append(state, open_batch(encode_control_batch([(ControlType.LEADER_CHANGE, b"")], NOW)))
    assert state.end_offset == 1


def test_idle_producers_are_forgotten_but_not_within_a_transaction() -> None:
    state = state_of(
        data_batch(1, 0, 0),
        data_batch(2, 0, 0, transactional=True),
        data_batch(3, 0, 0, place=(0, NOW + 1)),
    )
    assert state.expire(NOW + DAY_MS) == 1
    assert set(state.entries) == {2, 3}
    assert state.expire(NOW + 10 * DAY_MS) == 1
    assert set(state.entries) == {2}


def test_a_copy_of_the_entries_never_changes() -> None:
    state = state_of(data_batch(1, 0, 0))
    copied = dict(state.entries)
    append(state, data_batch(1, 0, 1))
    assert copied[1].last_sequence == 0


def test_loading_restores_open_transactions_in_their_order() -> None:
    entries = [
        ProducerStateEntry(id, 0, 0, NOW, first) for id, first in ((1, 9), (2, 4), (3, None))
    ]
    state = ProducerState(DAY_MS)
    state.load(entries, 20, NOW)
    assert (state.end_offset, state.first_undecided_offset) == (20, 4)
    append(state, marker_batch(2, 0, abort=True), Origin.COORDINATOR)
    assert state.first_undecided_offset == 9
    state.reset(3)
    assert (state.end_offset, state.first_unstable_offset, dict(state.entries)) == (3, None, {})


def test_a_log_that_begins_later_settles_what_is_below() -> None:
    state = state_of(data_batch(1, 0, 0, transactional=True), marker_batch(1, 0))
    state.on_log_start_offset(2)
    assert state.first_unstable_offset is None
    state.on_log_start_offset(8)
    assert state.end_offset == 8


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans(), st.integers(0, 5)), max_size=40))
def test_a_producer_that_repeats_itself_writes_each_record_once(
    sends: list[tuple[int, bool, int]],
) -> None:
    """Whatever is resent of the last five batches, the log holds every record once, in order."""
    state = ProducerState(DAY_MS)
    sequence = SEQUENCE_MAX - 20
    sent: list[tuple[int, int, int]] = []
    for count, repeats, back in sends:
        if repeats and sent:
            first, size, offset = sent[-1 - back % min(5, len(sent))]
            known = append(state, data_batch(7, 0, first, size))
            assert isinstance(known, BatchMetadata)
            assert (known.first_offset, known.last_offset) == (offset, offset + size - 1)
        else:
            sent.append((sequence, count, state.end_offset))
            assert append(state, data_batch(7, 0, sequence, count)) == []
            sequence = (sequence + count) & SEQUENCE_MAX
    assert state.end_offset == sum(size for _, size, _ in sent)
