"""Which markers and index entries the cleaner still needs."""

from __future__ import annotations

import pytest

from moldau.broker.log.compaction_transactions import CleanedTransactions
from moldau.broker.log.transaction_index import AbortedTransaction
from moldau.records import ControlType, encode_control_batch, open_batch, retain
from tests.broker.log.producing import NOW, data_batch, marker_batch

FIRST = AbortedTransaction(1, 0, 1, 2)
SECOND = AbortedTransaction(1, 2, 3, 4)


@pytest.fixture
def transactions() -> CleanedTransactions:
    return CleanedTransactions([SECOND, FIRST, FIRST])


def batch_is_aborted(transactions: CleanedTransactions, offset: int, *, producer: int = 1) -> bool:
    batch = data_batch(producer, 0, 0, transactional=True, place=(offset, NOW))
    return transactions.on_batch(batch.header)


def marker_is_over(
    transactions: CleanedTransactions, offset: int, *, producer: int = 1, abort: bool = True
) -> bool:
    return transactions.on_marker(marker_batch(producer, 0, offset=offset, abort=abort))


def test_a_marker_is_over_when_no_batch_of_its_transaction_is_left(
    transactions: CleanedTransactions,
) -> None:
    assert batch_is_aborted(transactions, 0)
    assert not marker_is_over(transactions, 1)
    assert transactions.kept == [FIRST]
    assert marker_is_over(transactions, 3)
    assert transactions.kept == [FIRST]


def test_each_commit_stands_for_its_own_transaction(transactions: CleanedTransactions) -> None:
    assert not batch_is_aborted(transactions, 0, producer=2)
    assert not marker_is_over(transactions, 1, producer=2, abort=False)
    assert marker_is_over(transactions, 2, producer=2, abort=False)


def test_a_commit_after_an_abort_is_a_commit(transactions: CleanedTransactions) -> None:
    assert marker_is_over(transactions, 1)
    assert marker_is_over(transactions, 3)
    assert not batch_is_aborted(transactions, 4)
    assert not marker_is_over(transactions, 5, abort=False)


def test_batches_outside_of_transactions_belong_to_none(transactions: CleanedTransactions) -> None:
    assert not transactions.on_batch(data_batch(1, 0, 0).header)
    assert marker_is_over(transactions, 1)


def test_an_emptied_marker_is_over_and_other_control_records_never_are(
    transactions: CleanedTransactions,
) -> None:
    emptied = retain(marker_batch(1, 0, offset=1), lambda entry: False, keep_empty=True)
    assert emptied is not None
    assert transactions.on_marker(open_batch(emptied))
    other = encode_control_batch([(ControlType.LEADER_CHANGE, b"")], NOW, 2)
    assert not transactions.on_marker(open_batch(other))
