"""What becomes of a failed record, and the table of a batch's states. No loop, no clock."""

from __future__ import annotations

import pytest

from moldau.client.producer.batch import TRANSITIONS, State
from moldau.client.producer.failures import BATCHES_MAX
from moldau.errors.codes import ErrorCode, KafkaError
from tests.client.producer.test_accumulator import Sender


def test_a_failed_record_is_counted_unless_it_was_awaited() -> None:
    sender = Sender()
    called: list[str] = []
    awaited, ignored = sender.send(), sender.send()
    awaited.when_done(lambda: called.append("done"))
    assert sender.sent() == [awaited, ignored]
    sender.refuse(awaited, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    sender.refuse(ignored, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert called == ["done"]
    assert sender.accumulator.buffer.failures.count == 2
    awaited.mark_awaited(0)
    awaited.mark_awaited(0)
    assert sender.accumulator.buffer.failures.count == 1
    assert sender.failed() == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 1)
    assert sender.failed() is None


def test_of_many_failed_batches_the_oldest_are_only_counted() -> None:
    sender = Sender(memory_bytes=1_000_000)
    for _ in range(BATCHES_MAX + 10):
        sender.send()
    sender.accumulator.fail_all(KafkaError(ErrorCode.NETWORK_EXCEPTION))
    assert len(sender.accumulator.buffer.failures._batches) == BATCHES_MAX
    assert sender.accumulator.buffer.failures.count == BATCHES_MAX + 10
    assert sender.failed() == (ErrorCode.NETWORK_EXCEPTION, BATCHES_MAX + 10)


def test_every_state_of_a_batch_is_reached_and_the_decided_ones_are_final() -> None:
    reached = {State.OPEN}
    while more := {new for old in reached for new in TRANSITIONS[old]} - reached:
        reached |= more
    assert reached == set(State) == TRANSITIONS.keys()
    final = {state for state in State if not TRANSITIONS[state]}
    assert final == {state for state in State if state >= State.LATE}


def test_a_step_that_is_not_in_the_table_is_a_bug() -> None:
    batch = Sender().send()
    with pytest.raises(AssertionError, match="READY -> STORED"):
        batch.finish(0)
