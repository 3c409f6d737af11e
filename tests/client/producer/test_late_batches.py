"""What may still be on its way to a broker when it is out of order, and what cannot be."""

from __future__ import annotations

import pytest

from moldau.client.producer.batch import Batch
from moldau.errors.codes import ErrorCode
from tests.client.producer.simulated_sender import T0, Sender, sequence


def under_way() -> tuple[Sender, Batch, Batch]:
    """Two batches, behind one that is acknowledged; the second is the younger."""
    sender = Sender(delivery_timeout_s=10.0)
    before = sender.send(now=0.0)
    sender.sent()
    sender.acknowledge(before)
    first, second = sender.send(now=0.0), sender.send(now=5.0)
    assert sender.sent() == [first, second]
    return sender, first, second


def test_a_batch_that_was_always_answered_goes_on_behind_one_that_may_be_on_its_way() -> None:
    sender = Sender(delivery_timeout_s=10.0)
    first = sender.send(now=0.0)
    second = sender.send(now=5.0)
    assert sender.sent() == [first, second]
    sender.refuse(second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    sender.refuse(first, ErrorCode.NETWORK_EXCEPTION)
    sender.accumulator.expire(11.0)
    assert sender.newly_failed() == [first]
    assert sender.sent(11.0) == [second]
    assert sequence(second) == (1, 0), "what was sent first was refused"
    sender.acknowledge(second)
    assert second.error is None


@pytest.mark.parametrize("code", [ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE])
def test_behind_one_that_is_refused_whenever_it_arrives_a_batch_goes_on(code: ErrorCode) -> None:
    sender, first, second = under_way()
    for batch in (first, second):
        sender.refuse(batch, ErrorCode.NETWORK_EXCEPTION)
    assert sender.sent(6.0) == [first]
    sender.refuse(first, code)
    assert sender.newly_failed() == [first]
    assert sender.sent(7.0) == [second]
    sender.refuse(second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert sender.sent(8.0) == [second]
    assert sequence(second) == (1, 0)


def test_where_all_were_answered_nothing_is_on_its_way() -> None:
    """1. The leader goes while two wait for replicas. 2. The first one's time runs out. 3. The new
    leader has neither."""
    sender, first, second = under_way()
    for batch in (first, second):
        sender.refuse(batch, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    sender.accumulator.expire(11.0)
    assert sender.newly_failed() == [first]
    assert sender.sent(11.0) == [second]
    sender.refuse(second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert sender.sent(12.0) == [second]
    assert sequence(second) == (1, 0)


def test_what_has_failed_cannot_arrive_once_one_behind_it_is_stored() -> None:
    sender, first, second = under_way()
    sender.refuse(first, ErrorCode.NETWORK_EXCEPTION)
    sender.acknowledge(second)
    sender.accumulator.expire(11.0)
    assert sender.newly_failed() == [first]
    queue = sender.accumulator.queue(T0)
    assert (queue.hung_number, queue.has_hung) == (first.number, False)
