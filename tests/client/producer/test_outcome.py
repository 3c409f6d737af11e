"""When a refused batch goes again: later after each of its own tries, and at once where another
broker leads by then. No loop, no clock, no broker."""

from __future__ import annotations

from moldau.client.producer.batch import Batch
from moldau.client.producer.requests import settle_response
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID
from moldau.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.client.producer.simulated_sender import T0, Sender, metadata, sequence

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
NOBODY = LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)


class Answering(Sender):
    """A sender that hears whole answers of brokers."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[ErrorCode] = []

    def note(self, error: KafkaError) -> None:
        """Metadata may be stale."""
        self.noted.append(error.code)

    def answer_not_leader(self, batch: Batch, leader: LeaderIdAndEpoch = NOBODY) -> None:
        """The answer to a request with this batch."""
        refused = PartitionProduceResponse(
            index=0, error_code=NOT_LEADER, base_offset=-1, current_leader=leader
        )
        topic = TopicProduceResponse(name="t", topic_id=ZERO_UUID, partition_responses=[refused])
        endpoint = NodeEndpoint(node_id=3, host="b3", port=9092)
        response = ProduceResponse(responses=[topic], node_endpoints=[endpoint])
        settle_response(response, [batch], {}, self.accumulator, self, self.now)

    def goes_to(self, now: float | None = None) -> list[tuple[int, list[Batch]]]:
        """What goes out now, by broker."""
        requests = self.drain(now, {1: 5, 2: 5, 3: 5}).requests
        return [(each.node_id, each.batches) for each in requests]

    def wait_s(self) -> float:
        """How long until something is to be done."""
        wake = self.accumulator.next_wake(self.now)
        assert wake is not None
        return wake - self.now


def test_one_lost_connection_is_waited_for_once_whatever_was_under_way() -> None:
    sender = Answering()
    batches = [sender.send() for _ in range(5)]
    assert sender.sent() == batches
    for batch in batches:
        sender.refuse(batch, ErrorCode.NETWORK_EXCEPTION)
    assert 0.08 <= sender.wait_s() <= 0.12
    assert sender.sent(sender.now + 0.07) == []
    for batch in batches:
        assert sender.sent(max(sender.now, 0.12)) == [batch], "one by one, without another wait"
        sender.acknowledge(batch)


def test_the_wait_is_that_of_the_batch_that_goes_first() -> None:
    sender = Answering()
    first, behind = sender.send(), sender.send()
    assert sender.sent() == [first, behind]
    sender.refuse(first, ErrorCode.NOT_ENOUGH_REPLICAS)
    sender.refuse(behind, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    for tries in (1, 2):
        assert 0.08 * 2 ** (tries - 1) <= sender.wait_s() <= 0.12 * 2 ** (tries - 1)
        assert sender.sent(sender.now + sender.wait_s()) == [first]
        sender.refuse(first, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert sender.sent(sender.now + sender.wait_s()) == [first]
    sender.acknowledge(first)
    assert sender.sent() == [behind]
    fresh = sender.send()
    assert sender.sent() == [fresh]
    sender.refuse(behind, ErrorCode.NOT_ENOUGH_REPLICAS)
    sender.refuse(fresh, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert 0.16 <= sender.wait_s() <= 0.24, "it was sent twice, the other one once"


def test_a_leader_that_the_answer_names_gets_the_batch_at_once() -> None:
    """KIP-951. All that was under way comes back first, and goes again in order."""
    sender = Answering()
    batches = [sender.send() for _ in range(3)]
    assert sender.goes_to() == [(1, [each]) for each in batches]
    for batch in batches:
        assert sender.goes_to() == []
        sender.answer_not_leader(batch, LeaderIdAndEpoch(leader_id=2, leader_epoch=1))
    for number, batch in enumerate(batches):
        assert sender.goes_to() == [(2, [batch])]
        assert sequence(batch) == (0, number)
        sender.acknowledge(batch)
    assert sender.now == 0.0


def test_a_leader_that_was_not_known_is_reached_where_the_answer_says() -> None:
    sender = Answering()
    batch = sender.send()
    sender.goes_to()
    sender.answer_not_leader(batch, LeaderIdAndEpoch(leader_id=3, leader_epoch=1))
    assert sender.noted == []
    assert sender.metadata.brokers[3].address == ("b3", 9092)
    assert sender.goes_to() == [(3, [batch])]


def test_the_new_leader_is_waited_for_too_if_it_refuses() -> None:
    sender = Answering()
    batch = sender.send()
    sender.goes_to()
    named = LeaderIdAndEpoch(leader_id=2, leader_epoch=1)
    sender.answer_not_leader(batch, named)
    assert sender.goes_to() == [(2, [batch])]
    sender.answer_not_leader(batch, named)
    assert sender.noted == [NOT_LEADER], "metadata are asked for"
    assert sender.goes_to() == []
    assert 0.16 <= sender.wait_s() <= 0.24


def test_who_is_told_of_no_leader_waits_for_metadata_that_name_one() -> None:
    sender = Answering()
    batch = sender.send()
    sender.goes_to()
    sender.answer_not_leader(batch)
    assert sender.noted == [NOT_LEADER]
    assert sender.goes_to() == []
    assert sender.metadata.moved(T0, 2, 1, None)
    assert sender.goes_to() == [(2, [batch])]


def test_a_partition_that_gets_a_leader_is_not_kept_waiting() -> None:
    sender = Answering()
    batch = sender.send()
    sender.metadata = metadata((-1, 2))
    for _ in range(4):
        assert sender.drain(sender.now + 1.3).has_leaderless
    assert sender.wait_s() >= 0.64
    sender.metadata = metadata((1, 2))
    assert sender.goes_to() == [(1, [batch])]
    sender.refuse(batch, ErrorCode.NOT_ENOUGH_REPLICAS)
    sender.metadata = metadata((-1, 2))
    assert sender.drain(sender.now + 0.12).has_leaderless
    assert sender.wait_s() <= 0.12, "counted anew"
