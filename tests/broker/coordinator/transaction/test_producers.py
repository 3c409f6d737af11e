"""InitProducerId: new instances, instances that continue, and those that are fenced."""

from __future__ import annotations

import pytest

from moldau.broker.coordinator.transaction.state import EPOCH_MAX, TransactionStatus
from moldau.errors.codes import ErrorCode, KafkaError
from tests.broker.coordinator.transaction.producer_epochs import A, at_epoch, refused
from tests.broker.coordinator.transaction.table import ID, Table


def test_a_new_id_gets_a_producer_and_each_instance_the_next_epoch() -> None:
    at = Table()
    first = at.init()
    assert first == (1001, 0)
    assert [at.init() for _ in range(3)] == [(1001, 1), (1001, 2), (1001, 3)]
    assert at.init("other") == (1002, 0)
    assert at.reloaded().init() == (1001, 4)


def test_an_instance_that_continues_gets_the_next_epoch_and_may_ask_again() -> None:
    at = Table()
    first = at.init()
    second = at.init(producer=first)
    assert second == (first.id, 1)
    assert at.init(producer=first) == second, "the answer was lost"
    assert at.init(producer=second) == (first.id, 2)
    with refused(ErrorCode.PRODUCER_FENCED):
        at.init(producer=first)


def test_an_instance_is_fenced_by_a_newer_one() -> None:
    at = Table()
    old = at.init()
    new = at.init()
    with refused(ErrorCode.PRODUCER_FENCED):
        at.init(producer=old)
    with refused(ErrorCode.PRODUCER_FENCED):
        at.init(producer=(4711, 0))
    assert at.known().producer_epoch == new.epoch


def test_a_repeated_request_after_a_move_is_fenced() -> None:
    """The epoch before is not in the log, in Kafka either."""
    at = Table()
    first = at.init()
    at.init(producer=first)
    with refused(ErrorCode.PRODUCER_FENCED):
        at.reloaded().init(producer=first)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_new_instance_aborts_the_open_transaction_and_gets_its_epoch_after_that(
    version: int,
) -> None:
    at = Table(version)
    old = at.init()
    at.add(old, A, version=version)
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        at.init()
    (markers,) = at.effects
    assert (markers.producer_epoch, markers.is_commit, set(markers.partitions)) == (1, False, {A})
    assert markers.transaction_version == version
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        at.init()
    for commit in (True, False):
        with refused(ErrorCode.PRODUCER_FENCED):
            at.end(old, commit=commit, version=min(version, 1))
    assert len(at.effects) == 1, "no second abort"
    at.write_markers()
    assert at.known().state is TransactionStatus.COMPLETE_ABORT
    assert at.init() == (old.id, 2)


def test_an_older_instance_cannot_abort_the_transaction_of_a_newer_one() -> None:
    at = Table()
    old = at.init()
    new = at.init()
    at.add(new, A)
    with refused(ErrorCode.PRODUCER_FENCED):
        at.init(producer=old)
    assert at.known().state is TransactionStatus.ONGOING
    assert at.effects == []


@pytest.mark.parametrize("version", [1, 2])
def test_fencing_at_the_end_of_the_epochs_bumps_once(version: int) -> None:
    """KAFKA-19367: two bumps make 32766 negative."""
    at = Table(version)
    last = at_epoch(at, EPOCH_MAX - 1)
    at.add(last, A, version=version)
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        at.init()
    assert [each.producer_epoch for each in at.write_markers()] == [EPOCH_MAX]
    after = at.init()
    assert after.id != last.id
    assert after.epoch == (0 if version < 2 else 1)


def test_an_exhausted_producer_continues_with_another_id() -> None:
    at = Table()
    last = at_epoch(at, EPOCH_MAX - 1)
    new = at.init(producer=last)
    assert new == (1002, 0)
    assert at.init(producer=last) == new, "the answer was lost"
    assert at.init(producer=new) == (1002, 1)
    with refused(ErrorCode.PRODUCER_FENCED):
        at.init(producer=last)


def test_a_bad_timeout_changes_nothing() -> None:
    at = Table(transaction__max__timeout__ms="1000")
    for timeout_ms in (0, -1, 1001):
        with refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT):
            at.init(timeout_ms=timeout_ms)
    assert len(at.shard) == 0
    at.init(timeout_ms=1000)
    at.init(timeout_ms=7)
    assert at.known().timeout_ms == 7


def test_without_a_producer_id_at_hand_the_client_tries_again() -> None:
    at = Table()
    at.world.has_ids = False
    with refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        at.init()
    assert at.log == []
    at.world.has_ids = True
    assert at.init().epoch == 0


def test_a_rejected_append_leaves_no_trace() -> None:
    at = Table()
    first = at.init()
    at.add(first, A)
    before = at.known()
    error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    at.rejections.append(error)
    with refused(error.code):
        at.init()
    assert at.known() is before
    assert at.effects == []
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        at.init()
    assert at.known().producer_epoch == 1, "one bump, whatever was tried before"


@pytest.mark.parametrize(("version", "stored"), [(0, b"\0\0"), (1, b"\0\1"), (2, b"\0\1")])
def test_records_have_the_version_of_the_cluster(version: int, stored: bytes) -> None:
    at = Table(version)
    at.init()
    ((key, value),) = at.log
    assert key == b"\0\0\0\3" + ID.encode()
    assert value is not None
    assert value[:2] == stored
