"""AlterPartition: which changes of an ISR the controller takes, and with which code it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerState,
)
from tests.broker.controller.cluster import Cluster, topic


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(1, 2, 3)
    made.create(topic("t", placed={0: [1, 2, 3]}))
    return made


def alter(
    cluster: Cluster, isr: list[int], asker: int = 1, **changes: Any
) -> AlterPartitionResponsePartitionData:
    """The leader asks for that ISR, on the ground of what it knows."""
    known = cluster.image.topics.by_name("t")
    assert known is not None
    partition = known.partitions[0]
    epochs = changes.pop("epochs", {})
    fields: dict[str, Any] = {
        "partition_index": 0,
        "leader_epoch": partition.leader_epoch,
        "new_isr_with_epochs": [
            BrokerState(broker_id=each, broker_epoch=epochs.get(each, cluster.epochs[each]))
            for each in isr
        ],
        "partition_epoch": partition.partition_epoch,
    }
    row = AlterPartitionRequestPartitionData(**(fields | changes))
    request = AlterPartitionRequest(
        broker_id=asker,
        broker_epoch=cluster.epochs[asker],
        topics=[AlterPartitionRequestTopicData(topic_id=known.topic_id, partitions=[row])],
    )
    answer = cluster.ask(request, AlterPartitionResponse)
    assert not answer.error_code
    cluster.check_fold()
    return answer.topics[0].partitions[0]


def isr(cluster: Cluster) -> set[int]:
    known = cluster.image.topics.by_name("t")
    assert known is not None
    return set(known.partitions[0].isr)


def test_members_leave_and_join(cluster: Cluster) -> None:
    told = alter(cluster, [1, 2])
    assert (told.error_code, told.isr, told.partition_epoch) == (0, [1, 2], 1)
    assert isr(cluster) == {1, 2}
    told = alter(cluster, [1, 2, 3])
    assert (told.error_code, told.partition_epoch) == (0, 2)
    assert isr(cluster) == {1, 2, 3}


def test_the_same_isr_again_changes_nothing(cluster: Cluster) -> None:
    before = len(cluster.log)
    assert alter(cluster, [3, 2, 1]).error_code == ErrorCode.NONE
    assert len(cluster.log) == before


@pytest.mark.parametrize(
    ("isr_wanted", "changes", "code"),
    [
        ([1, 2], {"leader_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ([1, 2], {"partition_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ([1, 2], {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ([1, 2], {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        ([2, 3], {}, ErrorCode.INVALID_REQUEST),
        ([1, 2], {"asker": 2}, ErrorCode.INVALID_REQUEST),
        ([1, 2], {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ([1, 2], {"epochs": {2: 1}}, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_a_change_on_another_ground_is_refused(
    cluster: Cluster, isr_wanted: list[int], changes: dict[str, Any], code: ErrorCode
) -> None:
    assert alter(cluster, isr_wanted, **changes).error_code == code
    assert isr(cluster) == {1, 2, 3}


def test_a_fenced_broker_does_not_join(cluster: Cluster) -> None:
    cluster.beat(3, want_fence=True)
    assert isr(cluster) == {1, 2}
    assert alter(cluster, [1, 2, 3]).error_code == ErrorCode.INELIGIBLE_REPLICA
    cluster.beat(3)
    assert alter(cluster, [1, 2, 3]).error_code == ErrorCode.NONE


def test_an_earlier_incarnation_of_the_leader_is_refused(cluster: Cluster) -> None:
    request = AlterPartitionRequest(broker_id=1, broker_epoch=0, topics=[])
    answer = cluster.ask(request, AlterPartitionResponse)
    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
