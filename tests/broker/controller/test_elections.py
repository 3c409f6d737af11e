"""Leaderships that go back to preferred replicas, asked for and by themselves."""

from __future__ import annotations

from dataclasses import replace

from moldau.broker.controller.controller import MOST, Controller
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    TopicPartitions,
)
from tests.broker.controller.cluster import Cluster, topic


class Led(Cluster):
    """With periodic work, every ten and every twenty seconds."""

    def __init__(self, *brokers: int) -> None:
        super().__init__(*brokers)
        self.rules = replace(
            self.rules,
            session_timeout_ms=10**9,
            rebalance_interval_ms=10_000,
            unclean_interval_ms=20_000,
        )
        self.controller = Controller(self.rules, self.image)
        self.controller.take_over(self.now_ms, is_own_broker_up=True)

    def tick(self, seconds: int) -> int:
        """How many records that gives."""
        self.now_ms += seconds * 1000
        count = 0
        while records := self.controller.on_tick(self.inputs):
            self.append(records)
            count += len(records)
        self.check_fold()
        return count

    def leaders(self, name: str) -> list[int]:
        known = self.image.topics.by_name(name)
        assert known is not None
        return [each.leader for each in known.partitions.values()]

    def elect(self, kind: int, name: str, *partitions: int) -> list[ErrorCode]:
        return [ErrorCode(each.error_code) for each in self.results(kind, name, *partitions)]

    def results(self, kind: int, name: str, *partitions: int) -> list[PartitionResult]:
        request = ElectLeadersRequest(
            election_type=kind,
            topic_partitions=[TopicPartitions(topic=name, partitions=list(partitions))],
        )
        answer = self.ask(request, ElectLeadersResponse)
        return answer.replica_election_results[0].partition_result


def test_a_preferred_replica_leads_again_after_the_interval() -> None:
    cluster = Led(1, 2)
    cluster.create(topic("t", placed={0: [1, 2], 1: [2, 1], 2: [1, 2]}))
    cluster.beat(1, want_fence=True)
    assert cluster.leaders("t") == [2, 2, 2]
    cluster.beat(1)
    assert cluster.tick(11) == 0, "it is not in sync yet"
    known = cluster.image.topics.by_name("t")
    assert known is not None
    known.partitions[0] = replace(known.partitions[0], isr=(1, 2))
    known.partitions[2] = replace(known.partitions[2], isr=(1, 2))
    assert _leaders_after(cluster, 9) == [2, 2, 2]
    assert _leaders_after(cluster, 2) == [1, 2, 1]


def _leaders_after(cluster: Led, seconds: int) -> list[int]:
    cluster.now_ms += seconds * 1000
    while records := cluster.controller.on_tick(cluster.inputs):
        cluster.image.replay_all(records)
    return cluster.leaders("t")


def test_without_the_setting_no_leadership_goes_back_by_itself() -> None:
    cluster = Led(1, 2)
    cluster.create(topic("t", placed={0: [1, 2]}))
    known = cluster.image.topics.by_name("t")
    assert known is not None
    known.partitions[0] = replace(known.partitions[0], leader=2)
    cluster.controller = Controller(
        replace(cluster.rules, rebalance_interval_ms=None), cluster.image
    )
    cluster.controller.take_over(cluster.now_ms, is_own_broker_up=True)
    cluster.now_ms += 100_000
    assert cluster.controller.on_tick(cluster.inputs) == ()


def test_a_batch_of_elections_is_bounded_and_the_rest_follows_at_once() -> None:
    cluster = Led(1, 2)
    count = MOST + 5
    for name in ("a", "b"):
        cluster.create(topic(name, placed={number: [2, 1] for number in range(count // 2 + 1)}))
    for known in cluster.image.topics.by_id.values():
        for number, partition in known.partitions.items():
            known.partitions[number] = replace(partition, leader=1)
    cluster.now_ms += 11_000
    first = cluster.controller.on_tick(cluster.inputs)
    cluster.image.replay_all(first)
    second = cluster.controller.on_tick(cluster.inputs)
    cluster.image.replay_all(second)
    assert (len(first), len(second)) == (MOST, 2 * (count // 2 + 1) - MOST)
    assert cluster.controller.on_tick(cluster.inputs) == ()


def test_a_topic_that_may_lose_records_gets_a_leader_after_its_interval() -> None:
    cluster = Led(1, 2)
    for name, configs in (("strict", {}), ("loose", {"unclean.leader.election.enable": "true"})):
        cluster.create(topic(name, placed={0: [1, 2]}, configs=dict(configs)))
    cluster.beat(2, want_fence=True)
    cluster.beat(1, want_fence=True)
    cluster.beat(2)
    assert cluster.leaders("strict") == [-1]
    cluster.tick(21)
    assert cluster.leaders("strict") == [-1]
    assert cluster.leaders("loose") == [2]


def test_elections_that_are_asked_for_have_kafkas_codes() -> None:
    cluster = Led(1, 2, 3)
    cluster.create(topic("t", placed={0: [1, 2]}), topic("u", placed={0: [3]}))
    assert cluster.elect(0, "t", 0, 7) == [
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    (partition,), (missing,) = cluster.results(0, "t", 7), cluster.results(0, "v", 0)
    assert partition.error_message == "partition t-7 does not exist"
    assert missing.error_message == "topic v does not exist"
    cluster.beat(1, want_fence=True)
    assert cluster.elect(0, "t", 0) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    cluster.beat(3, want_fence=True)
    assert cluster.elect(1, "u", 0) == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    assert cluster.elect(1, "t", 0) == [ErrorCode.ELECTION_NOT_NEEDED]
