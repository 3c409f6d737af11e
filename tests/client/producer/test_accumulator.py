"""What a producer sends when, and what it does about each outcome. No loop, no clock, no broker."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from moldau.client.producer.batch import Batch, BatchState
from moldau.client.producer.buffer import Mishap
from moldau.client.producer.partitioner import Partitioner
from moldau.client.producer.queue import EPOCH_MAX, PartitionQueue
from moldau.client.producer.run import RowRun
from moldau.client.producer.topics import OutgoingTopic
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.metadata import TopicPartition
from moldau.records import Producer, open_batch
from tests import suites
from tests.client.producer.simulated_sender import (
    T0,
    T1,
    Pipeline,
    Sender,
    Wire,
    forget,
    hear,
    metadata,
    sequence,
)
from tests.client.scripted import Log

SEEDS = (1537, 1701, 1715, 2708, *range(300))
"""The first ones: something came late, and was stored twice."""
QUICK = 4 + 80


def test_a_batch_waits_for_its_linger_unless_it_is_full_or_flushed() -> None:
    sender = Sender()
    queue = sender.accumulator.queue(T0)
    batch = sender.accumulator.begin(queue, 0.0, 0, None, b"v", ())
    assert sender.sent(0.5) == []
    assert sender.accumulator.next_wake(0.5) == 1.0
    assert sender.sent(1.0) == [batch]

    late = sender.accumulator.begin(queue, 1.0, 0, None, b"v", ())
    sender.accumulator.is_flushing = True
    assert sender.sent(1.1) == [late]


def test_records_fill_a_batch_until_it_refuses_them() -> None:
    sender = Sender()
    queue = sender.accumulator.queue(T0)
    rows = [(0, None, b"x" * 20, ())] * 10
    first = sender.accumulator.extend(queue, 0.0, RowRun(rows), 0)
    assert first is not None
    batch, index, count = first
    assert (index, batch.builder is not None) == (0, True)
    assert 1 < count < 10
    second = sender.accumulator.extend(queue, 0.0, RowRun(rows), count)
    assert second is not None
    assert second[0] is not batch
    assert second[1] == 0
    assert [each.count for each in sender.sent(5.0)] == [count, second[2]]


def test_memory_is_bounded_and_given_back() -> None:
    sender = Sender(memory_bytes=450)
    first, second = sender.send(), sender.send()
    assert sender.accumulator.buffer.used_bytes < 200, "what a batch did not need is free"
    queue = sender.accumulator.queue(T0)
    while sender.accumulator.buffer.has_room:
        sender.send()
    assert sender.accumulator.extend(queue, 0.0, RowRun([(0, None, b"v", ())]), 0) is None
    for batch in sender.sent():
        sender.acknowledge(batch)
    for batch in sender.sent():
        sender.acknowledge(batch)
    assert sender.accumulator.buffer.used_bytes == 0
    assert first.is_done
    assert second.is_done


def test_a_record_that_no_request_can_hold_is_refused_with_the_setting() -> None:
    sender = Sender()
    with pytest.raises(KafkaError, match=r"max\.request\.size") as caught:
        sender.send(value=b"x" * 1001)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert sender.accumulator.buffer.used_bytes == 0
    assert sender.accumulator.unfinished() == []


def test_requests_go_to_leaders_one_batch_of_a_partition_each() -> None:
    sender = Sender()
    batches = [sender.send(T0), sender.send(T1), sender.send(T0)]
    requests = sender.drain().requests
    assert [(each.node_id, each.batches) for each in requests] == [
        (1, [batches[0]]),
        (1, [batches[2]]),
        (2, [batches[1]]),
    ]


@pytest.mark.parametrize("room", [1, 5])
def test_partitions_of_one_broker_are_served_in_turn(room: int) -> None:
    """Two batches a request, and all have more than go out: each waits for the four others."""
    sender = Sender(memory_bytes=100_000)
    sender.metadata = metadata((1,) * 5)
    partitions = [TopicPartition("t", index) for index in range(5)]
    batches = []
    for where in partitions * 6:
        sender.accumulator.queue(where).is_known = True
        batches.append(sender.send(where))
    two_bytes = batches[0].reserved_bytes + batches[1].reserved_bytes
    sender.accumulator.options = replace(sender.accumulator.options, request_bytes=two_bytes)

    served: list[TopicPartition] = []
    for _ in range(5 // room):
        for request in sender.drain(room={1: room}).requests:
            assert len(request.batches) == 2
            served += [batch.where for batch in request.batches]
    assert served == partitions * 2


def test_a_broker_gets_no_more_requests_than_it_has_room_for() -> None:
    sender = Sender()
    for _ in range(4):
        sender.send(T0)
    assert len(sender.drain(room={1: 3}).requests) == 3
    assert len(sender.drain(room={1: 0}).requests) == 0
    assert len(sender.drain(room={1: 1}).requests) == 1


def test_what_cannot_be_sent_is_told() -> None:
    sender = Sender()
    sender.send(T0)
    assert sender.drain(room={2: 5}).unreachable == {1}
    sender.metadata = metadata((-1, 2))
    drained = sender.drain()
    assert drained.has_leaderless
    assert not sender.drain().has_leaderless, "not asked for at once again"
    wake = sender.accumulator.next_wake(sender.now)
    assert wake is not None
    assert 0.08 <= wake <= 0.12
    assert sender.drain(wake).has_leaderless


def test_sequences_count_records_and_wrap() -> None:
    sender = Sender()
    queue = sender.accumulator.queue(T0)
    queue.next_sequence = 2**31 - 2
    sender.accumulator.extend(queue, 0.0, RowRun([(0, None, b"v", ())] * 3), 0)
    sender.accumulator.seal(queue)
    batch = sender.send()
    queue.producer_id, queue.producer_epoch = 7, 0
    first, second = sender.sent()
    assert second is batch
    assert sequence(first) == (0, 2**31 - 2)
    assert sequence(second) == (0, 1)


def test_a_refused_batch_and_all_behind_it_are_sent_again_in_order_one_at_a_time() -> None:
    sender = Sender()
    batches = [sender.send() for _ in range(3)]
    assert sender.sent() == batches
    fresh = sender.send()
    sender.refuse(batches[0], ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert sender.newly_failed() == []
    assert sender.sent(10.0) == [], "others are under way"
    sender.refuse(batches[2], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    sender.refuse(batches[1], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    again = []
    for second in range(3):
        sent = sender.sent(20.0 + second)
        assert len(sent) == (1 if second < 2 else 2), "behind the last one go others as ever"
        again += sent
        for batch in sent:
            sender.acknowledge(batch)
    assert again == [*batches, fresh]
    assert [batch.error for batch in again] == [None] * 4
    assert sender.accumulator.buffer.used_bytes == 0


def test_the_backoff_doubles_and_ends_with_success() -> None:
    sender = Sender()
    batch = sender.send()
    waits = []
    for _ in range(4):
        assert sender.sent() == [batch]
        sender.refuse(batch, ErrorCode.NOT_ENOUGH_REPLICAS)
        wake = sender.accumulator.next_wake(sender.now)
        assert wake is not None
        waits.append(wake - sender.now)
        assert sender.sent(wake - 0.001) == []
        sender.now = wake
    for wait, exact in zip(waits, (0.1, 0.2, 0.4, 0.8), strict=True):
        assert 0.8 * exact <= wait <= 1.2 * exact


def test_a_duplicate_is_a_success_whose_offset_nobody_knows() -> None:
    sender = Sender()
    batch = sender.send()
    sender.sent()
    sender.refuse(batch, ErrorCode.NETWORK_EXCEPTION)
    assert sender.sent(1.0) == [batch]
    sender.refuse(batch, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert sender.newly_failed() == []
    assert (batch.is_done, batch.error, batch.base_offset) == (True, None, -1)


def test_a_duplicate_of_what_was_surely_refused_is_none() -> None:
    sender = Sender()
    batch = sender.send()
    sender.sent()
    sender.refuse(batch, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert sender.sent(1.0) == [batch]
    sender.refuse(batch, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert sender.newly_failed() == [batch]
    assert batch.error is not None


def test_after_a_batch_that_failed_the_partition_goes_on_with_the_next_epoch() -> None:
    sender = Sender()
    bad, behind = sender.send(), sender.send()
    assert sender.sent() == [bad, behind]
    unsent = sender.send()
    other = sender.send(T1)
    sender.refuse(bad, ErrorCode.MESSAGE_TOO_LARGE)
    assert sender.newly_failed() == [bad]
    assert bad.error is not None
    assert sender.sent() == [other], "the partition waits for what is under way"
    sender.refuse(behind, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert sender.sent(5.0) == [behind]
    assert sequence(behind) == (1, 0)
    sender.acknowledge(behind)
    assert sender.sent(5.0) == [unsent]
    assert sequence(unsent) == (1, 1)
    assert sequence(other) == (0, 0)


def test_a_batch_that_may_be_stored_is_asked_about_before_the_epoch_changes() -> None:
    """1. Two batches are under way when the connection ends. 2. The first one's time runs out.
    3. The second may be stored: under a new epoch it could be stored twice. 4. It is not; but with
    the first it may still be on its way, and be stored then."""
    sender = Sender(delivery_timeout_s=10.0)
    log = Log(leader=1)
    before = sender.send(value=b"0", now=0.0)
    sender.sent()
    log.append(bytes(before.data or b""))
    sender.acknowledge(before)
    first = sender.send(value=b"1", now=0.0)
    second = sender.send(value=b"2", now=5.0)
    assert sender.sent() == [first, second]
    late = [bytes(each.data or b"") for each in (first, second)]
    sender.refuse(first, ErrorCode.NETWORK_EXCEPTION)
    sender.refuse(second, ErrorCode.NETWORK_EXCEPTION)
    sender.now = 11.0
    sender.accumulator.expire(11.0)
    assert sender.failed() == (ErrorCode.REQUEST_TIMED_OUT, 1)
    assert sender.sent(11.0) == [second]
    assert sequence(second) == (0, 2), "as it was"
    third = sender.send(value=b"3")
    assert log.append(bytes(second.data or b""))[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    sender.refuse(second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert second.error is not None
    assert "on their way" in str(second.error)
    for data in late:
        log.append(data)
    drained = sender.drain(12.0)
    assert sender.failed() == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 1)
    assert [batch for each in drained.requests for batch in each.batches] == [third]
    assert sequence(third) == (1, 0)
    log.append(bytes(third.data or b""))
    assert log.values() == [b"0", b"1", b"2", b"3"]


def test_after_a_gap_that_nobody_here_made_the_batch_goes_in_the_next_epoch() -> None:
    """KIP-360: the broker has lost what it acknowledged, which is no reason to lose more."""
    sender = Sender()
    before = sender.send()
    sender.sent()
    sender.acknowledge(before)
    batch, behind = sender.send(), sender.send()
    assert sender.sent() == [batch, behind]
    sender.refuse(batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    sender.refuse(behind, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert sender.sent(10.0) == [batch]
    assert sequence(batch) == (1, 0)
    sender.acknowledge(batch)
    assert sender.sent(20.0) == [behind]
    assert sequence(behind) == (1, 1)
    assert sender.accumulator.buffer.mishaps == [(Mishap.GAP, batch)], "told once"


@pytest.mark.parametrize("code", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_a_batch_that_was_overtaken_is_never_told_as_stored(code: ErrorCode) -> None:
    """1. The broker forgets the producer. 2. It refuses a batch and takes the one behind it: it
    takes any sequence. 3. The first is out of order when it is sent again."""
    sender = Sender()
    log = Log(leader=1)
    first, second, third = (sender.send(value=b"%d" % number) for number in range(3))
    sender.sent()
    sender.refuse(first, code)
    for offset, batch in enumerate((second, third)):
        assert log.append(bytes(batch.data or b"")) == (0, offset)
        sender.acknowledge(batch, offset)
    assert sender.sent(10.0) == [first]
    assert log.append(bytes(first.data or b""))[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    sender.refuse(first, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert sender.newly_failed() == [first]
    later = sender.send(value=b"later")
    assert sender.sent(20.0) == [later]
    assert sequence(later) == (1, 0)


@pytest.mark.parametrize("is_unsure", [False, True])
def test_what_is_held_is_never_told_as_stored(is_unsure: bool) -> None:
    """As above, and the answer of the second is lost: what it says at last is no proof, also where
    the log has room for the first, as others write there too."""
    sender = Sender()
    log = Log(leader=1)
    first, second = sender.send(value=b"1"), sender.send(value=b"2")
    sender.sent()
    sender.refuse(
        first,
        ErrorCode.NOT_LEADER_OR_FOLLOWER if is_unsure else ErrorCode.NOT_ENOUGH_REPLICAS,
    )
    assert log.append(bytes(second.data or b"")) == (0, 0)
    sender.refuse(second, ErrorCode.NETWORK_EXCEPTION)
    assert sender.sent(10.0) == [first]
    sender.refuse(first, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert first.state is BatchState.HELD
    assert sender.sent(20.0) == [second]
    sender.acknowledge(second, 7)
    assert second.error is None
    assert first.error is not None
    sender.drain(30.0)
    assert sender.failed() == (first.error.code, 1)
    assert sender.accumulator.buffer.used_bytes == 0


def test_a_producer_that_the_broker_forgot_begins_anew_at_the_first_try_only() -> None:
    sender = Sender()
    batch = sender.send()
    sender.sent()
    sender.refuse(batch, ErrorCode.UNKNOWN_PRODUCER_ID)
    assert sender.newly_failed() == []
    assert sender.sent(1.0) == [batch]
    assert sequence(batch) == (1, 0)
    sender.refuse(batch, ErrorCode.UNKNOWN_PRODUCER_ID)
    assert sender.newly_failed() == [batch]


@pytest.mark.parametrize("is_new", [False, True])
def test_the_first_batch_of_an_epoch_or_after_long_goes_alone(is_new: bool) -> None:
    sender = Sender()
    if is_new:
        sender.accumulator.queue(T0).is_known = False
    else:
        OutgoingTopic(sender.metadata.topics["t"], sender.accumulator).forget()
    first, second = sender.send(), sender.send()
    assert sender.sent() == [first]
    sender.refuse(first, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert sender.sent(1.0) == [first]
    sender.acknowledge(first)
    assert sender.sent(1.0) == [second]


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_a_topic_that_is_made_again_gets_nothing_new_before_what_is_under_way(
    is_forgotten: bool,
) -> None:
    """Its log knows no producer, so a later batch that came first would be taken."""
    sender = Sender()
    known = replace(sender.metadata.topics["t"], topic_id=b"a" * 16)
    topic = OutgoingTopic(known, sender.accumulator)
    topic.choose_by(Partitioner(known, 100, Random(1)))
    first, second = sender.send(), sender.send()
    assert sender.sent() == [first, second]
    topic.update(known)
    third = sender.send()
    assert sender.sent() == [third], "nothing has changed"
    again = replace(known, topic_id=b"b" * 16)
    if is_forgotten:
        topic.forget()
        OutgoingTopic(again, sender.accumulator)
    else:
        topic.update(again)
    last = sender.send()
    assert sender.sent() == []
    for batch in (first, second, third):
        sender.refuse(batch, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    for batch, place in ((first, (0, 0)), (second, (0, 1)), (third, (0, 2)), (last, (1, 0))):
        assert sender.sent(sender.now + 10) == [batch]
        assert sequence(batch) == place
        sender.acknowledge(batch)


def test_when_the_epochs_are_used_up_another_id_is_asked_for() -> None:
    sender = Sender()
    batch = sender.send()
    sender.sent()
    sender.accumulator.queue(T0).producer_epoch = EPOCH_MAX
    sender.refuse(batch, ErrorCode.MESSAGE_TOO_LARGE)
    after, elsewhere = sender.send(T0), sender.send(T1)
    sender.sent()
    assert sender.accumulator.needs_identity
    sender.accumulator.identify(Producer(8, 0))
    assert set(sender.sent(1.0)) >= {after}
    assert after.data is not None
    assert open_batch(after.data).header.producer_id == 8
    assert sequence(after) == (0, 0)
    assert not elsewhere.is_done


def test_what_is_too_late_fails_with_the_last_error() -> None:
    sender = Sender(delivery_timeout_s=10.0)
    batch = sender.send()
    sender.sent()
    sender.refuse(batch, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert sender.accumulator.next_wake(9.0) == 10.0
    sender.accumulator.expire(9.9)
    assert sender.newly_failed() == []
    sender.accumulator.expire(10.0)
    assert sender.newly_failed() == [batch]
    assert batch.error is not None
    assert batch.error.code is ErrorCode.REQUEST_TIMED_OUT
    assert "NOT_ENOUGH_REPLICAS" in str(batch.error.context["last_error"])
    assert sender.accumulator.buffer.used_bytes == 0


def test_a_late_batch_under_way_is_failed_but_keeps_its_place() -> None:
    sender = Sender(delivery_timeout_s=10.0)
    batch = sender.send(now=0.0)
    sender.sent()
    sender.accumulator.expire(10.0)
    assert sender.newly_failed() == [batch]
    after = sender.send(now=10.0)
    assert sender.sent() == [after], "pipelined behind it"
    sender.acknowledge(batch, 5)
    assert batch.error is not None
    sender.acknowledge(after, 6)
    assert sender.accumulator.buffer.used_bytes == 0
    assert sequence_of_next(sender) == (0, 2)


def sequence_of_next(sender: Sender) -> tuple[int, int]:
    sender.send()
    return sequence(sender.sent()[0])


def test_the_next_that_is_too_late_is_woken_for_whatever_is_before_it() -> None:
    sender = Sender(delivery_timeout_s=10.0)
    first = sender.send(now=0.0)
    sender.send(now=5.0)
    assert len(sender.sent()) == 2
    sender.accumulator.expire(10.0)
    assert sender.newly_failed() == [first]
    assert sender.accumulator.next_wake(10.0) == 15.0
    late = sender.send(now=12.0)
    sender.refuse(first, ErrorCode.NETWORK_EXCEPTION)
    assert late in sender.accumulator.unfinished()
    assert sender.accumulator.next_wake(12.0) == 15.0


def test_what_is_held_is_woken_for_too() -> None:
    sender = Sender(delivery_timeout_s=10.0)
    first, second = sender.send(now=0.0), sender.send(now=5.0)
    sender.sent()
    for batch in (first, second):
        sender.refuse(batch, ErrorCode.NETWORK_EXCEPTION)
    assert sender.sent(6.0) == [first]
    sender.refuse(first, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert sender.sent(8.0) == [second]
    assert sender.accumulator.next_wake(8.0) == 10.0


def test_without_idempotence_nothing_is_numbered() -> None:
    sender = Sender(is_idempotent=False)
    batch = sender.send()
    assert sender.sent() == [batch]
    assert batch.data is not None
    assert not open_batch(batch.data).header.has_producer_id
    sender.refuse(batch, ErrorCode.NETWORK_EXCEPTION)
    assert sender.sent(1.0) == [batch]
    sender.refuse(batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert batch.state is BatchState.FAILED


def test_nothing_is_sent_before_there_is_an_identity() -> None:
    sender = Sender()
    sender.accumulator.needs_identity = True
    batch = sender.send()
    assert sender.sent() == []
    sender.accumulator.fail_all(KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert batch.state is BatchState.FAILED
    assert sender.failed() == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 1)
    assert isinstance(sender.accumulator.queue(T0), PartitionQueue)
    assert sender.accumulator.unfinished() == []


def test_a_broker_that_came_back_with_only_the_last_batch_in_mind_gets_nothing_twice() -> None:
    sender = Sender()
    log = Log(leader=1)
    batches = [sender.send(value=b"%d" % number) for number in range(3)]
    for batch in sender.sent():
        assert log.append(bytes(batch.data or b""))[0] == 0
    later = sender.send(value=b"3")
    for batch in batches:
        sender.refuse(batch, ErrorCode.NETWORK_EXCEPTION)
    forget(log)
    for batch in batches[:2]:
        assert sender.sent(sender.now + 10) == [batch]
        assert log.append(bytes(batch.data or b""))[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        sender.refuse(batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        assert batch.state is BatchState.HELD
    assert sender.sent(sender.now + 10) == [batches[2]]
    assert log.append(bytes(batches[2].data or b"")) == (0, 2)
    sender.acknowledge(batches[2], 2)
    assert [each.error is None for each in batches] == [False, False, True], "nobody can tell"
    assert sender.sent(sender.now + 10) == [later]
    assert sequence(later) == (1, 0)
    log.append(bytes(later.data or b""))
    assert log.values() == [b"0", b"1", b"2", b"3"]


def test_batches_that_are_held_and_turn_out_not_to_be_there_go_on_in_a_new_epoch() -> None:
    sender = Sender()
    first, second = sender.send(value=b"1"), sender.send(value=b"2")
    sender.sent()
    for batch in (first, second):
        sender.refuse(batch, ErrorCode.NETWORK_EXCEPTION)
    assert sender.sent(10.0) == [first]
    sender.refuse(first, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert first.state is BatchState.HELD
    assert sender.sent(20.0) == [second]
    sender.refuse(second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert sender.sent(30.0) == [first]
    assert sequence(first) == (1, 0)
    sender.acknowledge(first)
    assert sender.sent(30.0) == [second]
    assert sequence(second) == (1, 1)
    sender.acknowledge(second)
    assert sender.accumulator.buffer.used_bytes == 0


def test_what_is_held_fails_when_nobody_can_tell_any_more_whether_it_is_there() -> None:
    sender = Sender()
    first, second = sender.send(value=b"1"), sender.send(value=b"2")
    sender.sent()
    for batch in (first, second):
        sender.refuse(batch, ErrorCode.NETWORK_EXCEPTION)
    sender.sent(10.0)
    sender.refuse(first, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    sender.sent(20.0)
    sender.refuse(second, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert sender.drain(30.0).requests == []
    assert sender.failed() == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 2)
    assert first.error is not None
    assert first.error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_what_is_held_fails_in_its_time_too() -> None:
    sender = Sender()
    first, second = sender.send(value=b"1"), sender.send(value=b"2")
    sender.sent()
    for batch in (first, second):
        sender.refuse(batch, ErrorCode.NETWORK_EXCEPTION)
    sender.sent(10.0)
    sender.refuse(first, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert first in sender.accumulator.unfinished()
    sender.accumulator.expire(101.0)
    assert (first.state, second.state) == (BatchState.LATE, BatchState.FAILED)
    sender.drain(102.0)
    assert sender.accumulator.buffer.used_bytes == 0


@pytest.mark.parametrize("seed", suites.seeds(SEEDS, quick=QUICK))
def test_whatever_happens_records_are_stored_once_and_in_order(seed: int) -> None:
    """Against a log that keeps Kafka's rules, with answers lost, requests lost or late, batches
    refused for a while or for good, and times that run out."""
    random = Random(seed)
    sender = Sender(delivery_timeout_s=3.0, in_flight_max=random.choice([1, 3, 5]))
    sender.accumulator.queue(T0).is_known = False
    log = Log(leader=1)
    wire = Wire(random, log)
    pipeline: Pipeline = []
    numbers: dict[Batch, bytes] = {}
    while len(numbers) < 60 or sender.accumulator.unfinished() or pipeline:
        sender.now += random.uniform(0, 0.3)
        if len(numbers) < 60 and random.random() < 0.6:
            value = b"%04d" % len(numbers)
            numbers[sender.send(value=value)] = value
        sender.accumulator.expire(sender.now)
        for batch in sender.sent():
            pipeline.append((batch, *wire.arrive(batch)))
        while pipeline and random.random() < (0.05 if wire.hung else 0.5):
            if not hear(sender, pipeline):
                wire.end()
                if random.random() < 0.5:
                    forget(log)
        wire.arrive_late()
    values = [each or b"" for each in log.values()]
    assert values == sorted(set(values)), "in order, and none twice"
    for batch, value in numbers.items():
        if batch.error is None:
            assert value in values
    sender.drain()
    assert sender.accumulator.buffer.used_bytes == 0
