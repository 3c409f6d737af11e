"""Partitions, EndTxn and markers: both tables of states, retries, and the move of a coordinator."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moldau.broker.coordinator.transaction.producers import Producer
from moldau.broker.coordinator.transaction.state import EPOCH_MAX, TRANSITIONS, TransactionStatus
from moldau.errors.codes import ErrorCode, KafkaError
from tests.broker.coordinator.transaction.producer_epochs import A, B, at_epoch, refused
from tests.broker.coordinator.transaction.table import ID, TIMEOUT_MS, Table

CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
INVALID = ErrorCode.INVALID_TXN_STATE
FENCED = ErrorCode.PRODUCER_FENCED
UNKNOWN = ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_of_version_two_ends_with_a_bumped_epoch(commit: bool) -> None:
    at = Table()
    first = at.init()
    at.add(first, A)
    at.add(first, B)
    second = at.end(first, commit=commit)
    assert second == (first.id, 1)
    (markers,) = at.write_markers()
    assert (markers.producer_id, markers.producer_epoch) == second
    assert (markers.is_commit, set(markers.partitions)) == (commit, {A, B})
    assert markers.transaction_version == 2
    known = at.known()
    assert known.state is (
        TransactionStatus.COMPLETE_COMMIT if commit else TransactionStatus.COMPLETE_ABORT
    )
    assert (known.producer_epoch, known.partitions) == (1, frozenset())
    with refused(FENCED):
        at.add(first, A)  # a late request of the transaction that ended
    at.add(second, B)
    assert at.known().partitions == {B}


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_of_an_older_client_keeps_its_epoch(commit: bool) -> None:
    at = Table()
    producer = at.init()
    for _ in range(3):
        at.add(producer, A, version=0)
        at.end(producer, commit=commit, version=0)
        (markers,) = at.write_markers()
        assert (markers.producer_epoch, markers.transaction_version) == (0, 0)


def test_the_reporter_hears_that_the_log_refused_the_completion() -> None:
    at = Table()
    producer = at.init()
    at.add(producer, A)
    at.end(producer, commit=True)
    (markers,) = at.effects
    error = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    at.rejections.append(error)
    assert at.report(markers, {A}) == [error]
    assert at.known().state is TransactionStatus.PREPARE_COMMIT
    for _ in range(2):
        assert at.report(markers, ()) == []
        assert at.known().state is TransactionStatus.COMPLETE_COMMIT


def test_markers_are_wanted_until_each_partition_has_one() -> None:
    at = Table()
    first = at.init()
    at.add(first, A, B)
    second = at.end(first, commit=True)
    (markers,) = at.effects
    at.report(markers, [A])
    assert at.known().state is TransactionStatus.PREPARE_COMMIT
    assert set(at.shard.unmarked(at.known())) == {B}
    for producer in (first, second):
        with refused(CONCURRENT):
            at.add(producer, A)
    at.report(markers, [A])
    at.report(markers, [B])
    assert at.known().state is TransactionStatus.COMPLETE_COMMIT
    records = len(at.log)
    at.report(markers, [A, B])
    at.add(second, A)
    at.report(markers, [A, B])
    assert at.known().state is TransactionStatus.ONGOING, "a late report is of another transaction"
    assert len(at.log) == records + 1


@pytest.mark.parametrize("commit", [True, False])
def test_after_a_move_in_every_phase_the_end_that_was_decided_comes(commit: bool) -> None:
    at = Table()
    first = at.init()
    at.add(first, A, B)
    assert at.reloaded().effects == []
    assert at.known().partitions == {A, B}
    second = at.end(first, commit=commit)
    (before,) = at.effects
    at.report(before, [A])
    at.reloaded()
    (again,) = at.effects
    assert again == before, "all of its markers, because none is known to be there"
    with refused(CONCURRENT):
        at.end(first, commit=commit)
    at.write_markers()
    assert at.reloaded().effects == []
    assert at.end(first, commit=commit) == second
    at.add(second, A)


TABLE_OF_TWO = [
    # state, epoch of the request (0: present, -1: the one before), commit, answer. While markers
    # are written every request waits: the client may have the producer that follows.
    (TransactionStatus.EMPTY, 0, True, INVALID),
    (TransactionStatus.EMPTY, -1, True, FENCED),
    (TransactionStatus.EMPTY, 0, False, ErrorCode.NONE),
    (TransactionStatus.ONGOING, 0, True, ErrorCode.NONE),
    (TransactionStatus.ONGOING, 0, False, ErrorCode.NONE),
    (TransactionStatus.ONGOING, -1, True, FENCED),
    (TransactionStatus.ONGOING, -1, False, FENCED),
    *(
        (state, back, commit, CONCURRENT)
        for state in (TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT)
        for back in (-2, -1, 0, 1)
        for commit in (True, False)
    ),
    (TransactionStatus.COMPLETE_COMMIT, -1, True, ErrorCode.NONE),
    (TransactionStatus.COMPLETE_COMMIT, -1, False, INVALID),
    (TransactionStatus.COMPLETE_COMMIT, 0, True, INVALID),
    (TransactionStatus.COMPLETE_COMMIT, 0, False, ErrorCode.NONE),
    (TransactionStatus.COMPLETE_ABORT, -1, False, ErrorCode.NONE),
    (TransactionStatus.COMPLETE_ABORT, -1, True, INVALID),
    (TransactionStatus.COMPLETE_ABORT, 0, False, ErrorCode.NONE),
    (TransactionStatus.COMPLETE_ABORT, 0, True, INVALID),
]


def in_state(at: Table, state: TransactionStatus) -> Producer:
    """A producer of version 2 in this state; its present epoch."""
    producer = at.init()
    producer = at.init(producer=producer)
    if state is TransactionStatus.EMPTY:
        return producer
    at.add(producer, A)
    if state is not TransactionStatus.ONGOING:
        commit = state in (TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT)
        producer = at.end(producer, commit=commit)
        if state in (TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT):
            at.write_markers()
    assert at.known().state is state
    return producer


@pytest.mark.parametrize(("state", "back", "commit", "code"), TABLE_OF_TWO)
def test_the_table_of_version_two(
    state: TransactionStatus, back: int, commit: bool, code: ErrorCode
) -> None:
    at = Table()
    present = in_state(at, state)
    asked = present._replace(epoch=present.epoch + back)
    if code is not ErrorCode.NONE:
        before = at.known()
        with refused(code):
            at.end(asked, commit=commit)
        assert at.known() is before
        return
    after = at.end(asked, commit=commit)
    assert after == (present if back else present._replace(epoch=present.epoch + 1))


TABLE_OF_ONE = [
    (TransactionStatus.EMPTY, True, INVALID),
    (TransactionStatus.EMPTY, False, INVALID),
    (TransactionStatus.ONGOING, True, ErrorCode.NONE),
    (TransactionStatus.ONGOING, False, ErrorCode.NONE),
    (TransactionStatus.PREPARE_COMMIT, True, CONCURRENT),
    (TransactionStatus.PREPARE_COMMIT, False, CONCURRENT),
    (TransactionStatus.PREPARE_ABORT, False, CONCURRENT),
    (TransactionStatus.PREPARE_ABORT, True, CONCURRENT),
    (TransactionStatus.COMPLETE_COMMIT, True, ErrorCode.NONE),
    (TransactionStatus.COMPLETE_COMMIT, False, INVALID),
    (TransactionStatus.COMPLETE_ABORT, False, ErrorCode.NONE),
    (TransactionStatus.COMPLETE_ABORT, True, INVALID),
]


@pytest.mark.parametrize(("state", "commit", "code"), TABLE_OF_ONE)
def test_the_table_of_older_clients(
    state: TransactionStatus, commit: bool, code: ErrorCode
) -> None:
    at = Table(1)
    present = in_state(at, state)
    if code is ErrorCode.NONE:
        assert at.end(present, commit=commit, version=0) == present
    else:
        with refused(code):
            at.end(present, commit=commit, version=0)
    for wrong in (present.epoch - 1, present.epoch + 1):
        with refused(FENCED):
            at.end(present._replace(epoch=wrong), commit=commit, version=0)


@pytest.mark.parametrize("last_epoch", [3, EPOCH_MAX - 1])
def test_a_client_waits_with_its_next_producer_while_markers_are_written(last_epoch: int) -> None:
    """KAFKA-18575: the answer to a commit has the next epoch, or the next id. An abort, partitions
    and a new instance come while only the producer before is known."""
    at = Table()
    at.add(before := at_epoch(at, last_epoch), A)
    after = at.end(before, commit=True)
    for _ in range(2):
        with refused(CONCURRENT):
            at.end(after, commit=False)
        with refused(CONCURRENT):
            at.add(after, A)
        with refused(CONCURRENT):
            at.init(producer=after)
        with refused(CONCURRENT):
            at.init()
        at.reloaded()
    at.write_markers()
    aborted = at.end(after, commit=False)
    assert aborted == after._replace(epoch=after.epoch + 1)
    assert at.known().state is TransactionStatus.COMPLETE_ABORT
    with refused(FENCED):
        at.add(before._replace(id=after.id), A)


def test_an_abort_without_a_partition_is_complete_at_once() -> None:
    """KAFKA-18401: there is no marker to wait for."""
    at = Table()
    producer = at.init()
    for epoch in range(1, 4):
        producer = at.end(producer, commit=False)
        assert producer.epoch == epoch
        assert at.known().state is TransactionStatus.COMPLETE_ABORT
    assert at.effects == []
    at.add(producer, A)


def test_an_exhausted_producer_hears_of_its_next_id() -> None:
    """KAFKA-18660: markers have the last epoch of the old id, the client gets the new one."""
    at = Table()
    last = at_epoch(at, EPOCH_MAX - 1)
    at.add(last, A)
    after = at.end(last, commit=True)
    assert after == (1002, 0)
    with refused(CONCURRENT):
        at.end(last, commit=True)
    (markers,) = at.reloaded().effects
    assert (markers.producer_id, markers.producer_epoch) == (last.id, EPOCH_MAX)
    at.write_markers()
    assert at.end(last, commit=True) == after, "the answer was lost"
    with refused(INVALID):
        at.end(last, commit=False)
    at.add(after, B)
    assert at.end(after, commit=True) == (1002, 1)


def test_an_exhausted_producer_that_aborts_nothing_gets_another_id() -> None:
    at = Table()
    last = at_epoch(at, EPOCH_MAX - 1)
    assert at.end(last, commit=False) == (1002, 0)


def test_unknown_ids_and_producers_are_refused_alike() -> None:
    at = Table()
    with refused(UNKNOWN):
        at.end(Producer(1, 0), commit=True)
    producer = at.init()
    for version in (0, 2):
        with refused(UNKNOWN):
            at.end(producer._replace(id=7), commit=True, version=version)
        with refused(UNKNOWN):
            at.add(producer._replace(id=7), A, version=version)
        with refused(FENCED):
            at.add(producer._replace(epoch=1), A, version=version)
    assert len(at.log) == 1


def test_partitions_that_are_in_the_transaction_are_written_once() -> None:
    at = Table()
    producer = at.init()
    at.add(producer, A)
    at.now_ms = 500
    at.add(producer, A)
    assert len(at.log) == 2
    at.add(producer, A, B)
    assert len(at.log) == 3
    assert at.known().started_ms < at.known().updated_ms
    assert at.verify(producer, A, B, ("t", 2)) == {
        0: 0,
        1: 0,
        2: ErrorCode.TRANSACTION_ABORTABLE,
    }


def test_an_overdue_transaction_is_aborted_and_its_client_fenced() -> None:
    at = Table()
    first = at.init()
    at.add(first, A)
    at.pass_ms(TIMEOUT_MS - 10_000)
    at.add(first, B)
    at.pass_ms(9_999)
    assert at.known().state is TransactionStatus.ONGOING
    at.pass_ms(10_001)
    assert at.known().state is TransactionStatus.PREPARE_ABORT
    (markers,) = at.write_markers()
    assert (markers.producer_epoch, set(markers.partitions)) == (1, {A, B})
    with refused(INVALID):
        at.end(first, commit=True)
    assert at.end(first, commit=False) == (first.id, 1), "a client of version 2 may continue"
    at.pass_ms(10 * TIMEOUT_MS)
    assert at.effects == []


def test_an_overdue_transaction_is_aborted_by_the_next_coordinator_too() -> None:
    at = Table()
    at.add(at.init(), A)
    at.now_ms = TIMEOUT_MS
    at.reloaded().pass_ms(10_000)
    assert len(at.write_markers()) == 1
    assert at.known().state is TransactionStatus.COMPLETE_ABORT


def test_an_overdue_transaction_at_the_last_epoch_leaves_no_unusable_epoch() -> None:
    """A client of version 2 that continues after the abort must not get the last epoch."""
    at = Table()
    last = at_epoch(at, EPOCH_MAX - 1)
    at.add(last, A)
    at.pass_ms(TIMEOUT_MS + 10_000)
    assert [each.producer_epoch for each in at.write_markers()] == [EPOCH_MAX]
    after = at.end(last, commit=False)
    assert after == (1002, 0)
    at.add(after, A)
    assert at.end(after, commit=True) == (1002, 1)


def test_ids_are_forgotten_when_unused_but_never_with_a_transaction() -> None:
    at = Table(transactional__id__expiration__ms="100000000")
    at.init("idle")
    at.init("busy", timeout_ms=900_000)
    producer = at.init()
    at.add(producer, A)
    at.end(producer, commit=True)
    at.now_ms = 90_000_000
    at.pass_ms(9_000_000)
    assert at.shard.get("idle") is not None
    at.init("busy")
    at.pass_ms(3_600_000)
    assert at.shard.get("idle") is None
    assert at.known("busy").producer_epoch == 1
    assert at.known().state is TransactionStatus.PREPARE_COMMIT, "its markers are not written"
    assert at.log[-1][1] is None
    assert at.reloaded().shard.get("idle") is None
    assert at.init("idle").id not in (1001, 1002, 1003)


def test_each_transition_is_in_the_table() -> None:
    at = Table()
    at.init()
    for state, following in TRANSITIONS.items():
        value = replace(at.known(), state=state)
        for other in TransactionStatus:
            if other in following:
                assert value.moved(other, 0).state is other
            else:
                with pytest.raises(AssertionError):
                    value.moved(other, 0)


def test_the_state_that_is_read_is_the_state_that_was_written() -> None:
    for state in TransactionStatus:
        fresh = Table()
        in_state(fresh, state)
        live = fresh.known()
        read = fresh.reloaded().known()
        assert read == replace(live, last_epoch=-1), state
        assert read.transactional_id == ID
