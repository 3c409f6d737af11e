"""Moves of partitions: what the controller writes when they begin, end, or are called off."""

from __future__ import annotations

from random import Random

import pytest

from moldau.broker.controller.topics import Partition
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    BrokerState,
)
from moldau.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from tests.broker.controller.cluster import Cluster, topic


class Moves:
    """A topic of one partition, and who may move it."""

    def __init__(self, *replicas: int, configs: dict[str, str | None] | None = None) -> None:
        self.cluster = Cluster(1, 2, 3, 4, 5)
        self.cluster.create(topic("t", placed={0: list(replicas)}, configs=configs))

    @property
    def partition(self) -> Partition:
        known = self.cluster.image.topics.by_name("t")
        assert known is not None
        return known.partitions[0]

    def marks(self) -> tuple[tuple[int, ...], ...]:
        """Replicas, those added, those removed, in sync."""
        found = self.partition
        return found.replicas, found.adding_replicas, found.removing_replicas, found.isr

    def directories(self) -> tuple[bytes, ...]:
        return self.partition.directories

    def move(
        self, replicas: list[int] | None, name: str = "t", *, may_grow: bool = True
    ) -> ErrorCode:
        asked = ReassignablePartition(partition_index=0, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            allow_replication_factor_change=may_grow,
            topics=[ReassignableTopic(name=name, partitions=[asked])],
        )
        answer = self.cluster.ask(request, AlterPartitionReassignmentsResponse)
        assert answer.error_code == 0
        self.cluster.check_fold()
        row = answer.responses[0].partitions[0]
        is_told = row.error_code not in (0, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        assert bool(row.error_message) == is_told
        return ErrorCode(row.error_code)

    def in_sync(self, *isr: int) -> ErrorCode:
        """The leader says that these are."""
        known = self.cluster.image.topics.by_name("t")
        assert known is not None
        partition, cluster = self.partition, self.cluster
        row = AlterPartitionRequestPartitionData(
            partition_index=0,
            leader_epoch=partition.leader_epoch,
            new_isr_with_epochs=[
                BrokerState(broker_id=each, broker_epoch=cluster.epochs[each]) for each in isr
            ],
            partition_epoch=partition.partition_epoch,
        )
        request = AlterPartitionRequest(
            broker_id=partition.leader,
            broker_epoch=cluster.epochs[partition.leader],
            topics=[AlterPartitionRequestTopicData(topic_id=known.topic_id, partitions=[row])],
        )
        answer = cluster.ask(request, AlterPartitionResponse)
        cluster.check_fold()
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    def listed(self) -> list[tuple[list[int], list[int], list[int]]]:
        request = ListPartitionReassignmentsRequest(topics=None)
        answer = self.cluster.ask(request, ListPartitionReassignmentsResponse)
        return [
            (each.replicas, each.adding_replicas, each.removing_replicas)
            for one in answer.topics
            for each in one.partitions
        ]


def test_a_move_ends_when_all_that_are_added_are_in_sync() -> None:
    moves = Moves(1, 2, 3)
    assert moves.move([3, 4, 5]) is ErrorCode.NONE
    assert moves.marks() == ((3, 4, 5, 1, 2), (4, 5), (1, 2), (1, 2, 3))
    assert moves.listed() == [([3, 4, 5, 1, 2], [4, 5], [1, 2])]
    assert moves.partition.leader == 1
    assert moves.in_sync(1, 2, 3, 4) is ErrorCode.NONE
    assert moves.partition.adding_replicas == (4, 5)
    # The leader is one of those that leave: it hears that another leads now.
    assert moves.in_sync(1, 2, 3, 4, 5) is ErrorCode.NEW_LEADER_ELECTED
    assert moves.marks() == ((3, 4, 5), (), (), (3, 4, 5))
    assert (moves.partition.leader, moves.partition.leader_epoch) == (3, 1)
    assert moves.listed() == []


def test_a_leader_that_stays_gets_a_new_epoch_so_that_removed_followers_are_refused() -> None:
    moves = Moves(1, 2)
    moves.move([1, 3])
    assert moves.partition.leader_epoch == 0
    assert moves.in_sync(1, 2, 3) is ErrorCode.NONE
    assert moves.marks() == ((1, 3), (), (), (1, 3))
    assert (moves.partition.leader, moves.partition.leader_epoch) == (1, 1)


def test_each_replica_keeps_its_directory() -> None:
    moves = Moves(1, 2)
    before = {each: moves.partition.directory_of(each) for each in (1, 2)}
    moves.move([4, 2])
    known = moves.cluster.image.brokers.by_id[4].log_dirs[0]
    assert moves.directories() == (known, before[2], before[1])
    assert moves.in_sync(1, 2, 4) is ErrorCode.NEW_LEADER_ELECTED
    assert moves.directories() == (known, before[2])


def test_replicas_that_only_leave_leave_at_once() -> None:
    moves = Moves(1, 2, 3)
    assert moves.move([2]) is ErrorCode.NONE
    assert moves.marks() == ((2,), (), (), (2,))
    assert moves.partition.leader == 2
    assert moves.move([2, 1]) is ErrorCode.NONE
    assert moves.marks() == ((2, 1), (1,), (), (2,))


def test_replicas_that_leave_wait_for_one_that_stays_to_be_in_sync() -> None:
    moves = Moves(1, 2)
    assert moves.in_sync(1) is ErrorCode.NONE
    assert moves.move([2]) is ErrorCode.NONE
    assert moves.marks() == ((2, 1), (), (1,), (1,))
    assert moves.in_sync(1, 2) is ErrorCode.NEW_LEADER_ELECTED
    assert moves.marks() == ((2,), (), (), (2,))


def test_another_order_is_no_move() -> None:
    moves = Moves(1, 2, 3)
    assert moves.move([3, 2, 1]) is ErrorCode.NONE
    assert moves.marks() == ((3, 2, 1), (), (), (1, 2, 3))
    assert moves.listed() == []
    before = len(moves.cluster.log)
    assert moves.move([3, 2, 1]) is ErrorCode.NONE
    assert len(moves.cluster.log) == before


def test_a_cancelled_move_leaves_what_was_there() -> None:
    moves = Moves(1, 2)
    moves.move([4, 5])
    assert moves.in_sync(1, 2, 4) is ErrorCode.NONE
    assert moves.move(None) is ErrorCode.NONE
    assert moves.marks() == ((1, 2), (), (), (1, 2))
    assert (moves.partition.leader, moves.partition.leader_epoch) == (1, 1)
    assert moves.move(None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_move_that_is_replaced_goes_back_to_the_first_replicas_when_cancelled() -> None:
    moves = Moves(1, 2)
    moves.move([3, 4])
    moves.move([3, 5])
    assert moves.marks() == ((3, 5, 1, 2), (3, 5), (1, 2), (1, 2))
    moves.move(None)
    assert moves.marks() == ((1, 2), (), (), (1, 2))


def test_to_cancel_is_refused_where_only_added_replicas_are_in_sync() -> None:
    moves = Moves(1)
    moves.move([2, 3])
    assert moves.in_sync(1, 2) is ErrorCode.NONE
    moves.cluster.beat(1, want_fence=True)
    assert moves.marks() == ((2, 3, 1), (2, 3), (1,), (2,))
    assert moves.move(None) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert moves.partition.leader == 2


def test_to_cancel_may_lose_records_where_the_topic_allows_it() -> None:
    moves = Moves(1, configs={"unclean.leader.election.enable": "true"})
    moves.move([2, 3])
    assert moves.in_sync(1, 2) is ErrorCode.NONE
    moves.cluster.beat(1, want_fence=True)
    assert moves.move(None) is ErrorCode.NONE
    assert moves.marks()[:3] == ((1,), (), ())


@pytest.mark.parametrize(
    ("replicas", "code"),
    [
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 9], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, -1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_replicas_that_cannot_be_are_refused(replicas: list[int] | None, code: ErrorCode) -> None:
    moves = Moves(1, 2)
    assert moves.move(replicas) is code
    assert moves.move([1], "other") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert moves.marks() == ((1, 2), (), (), (1, 2))


def test_another_replication_factor_is_refused_where_the_request_says_so() -> None:
    moves = Moves(1, 2)
    assert moves.move([1, 2, 3], may_grow=False) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert moves.move([4, 5], may_grow=False) is ErrorCode.NONE
    assert moves.move([1, 5], may_grow=False) is ErrorCode.NONE
    assert moves.move([1], may_grow=False) is ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_some_replica_in_sync_has_been_so_without_a_break(seed: int) -> None:
    """Moves, cancels, brokers that go and come: the log is what its snapshot says, the replicas in
    sync are among the replicas, and an ISR never holds only replicas that were not in it before."""
    random = Random(seed)
    moves = Moves(*random.sample(range(1, 6), random.randrange(1, 4)))
    cluster = moves.cluster
    for _ in range(60):
        before, caught_up = moves.partition, set[int]()
        match random.randrange(6):
            case 0:
                moves.move(random.sample(range(1, 6), random.randrange(1, 4)))
            case 1:
                moves.move(None)
            case 2:
                cluster.beat(random.randrange(1, 6), want_fence=True)
            case 3:
                cluster.beat(random.randrange(1, 6))
            case _ if before.has_leader:
                active = cluster.image.brokers.active_ids()
                alive = [each for each in before.replicas if each in active]
                caught_up = {before.leader, *random.sample(alive, random.randrange(len(alive) + 1))}
                moves.in_sync(*sorted(caught_up))
        after = moves.partition
        cluster.check_fold()
        assert set(after.isr) <= set(after.replicas)
        assert set(after.adding_replicas) <= set(after.replicas)
        assert set(after.removing_replicas) <= set(after.replicas)
        assert not set(after.adding_replicas) & set(after.removing_replicas)
        assert len(after.directories) == len(after.replicas)
        assert after.leader in (-1, *after.isr)
        told = {*before.isr, *before.elr, *caught_up}
        assert set(after.isr) & told or not after.isr or after.partition_epoch == 0
