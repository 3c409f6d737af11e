"""AssignReplicasToDirs: the controller learns where replicas lie (KIP-858)."""

from __future__ import annotations

from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    AssignReplicasToDirsResponse,
)
from tests.broker.controller.cluster import Cluster, topic

FIRST, SECOND, GONE = (bytes(8) + b"\7" * 7 + bytes([number]) for number in range(3))


def cluster() -> Cluster:
    """Broker 1 with two directories, the others with one."""
    found = Cluster()
    found.register(1, log_dirs=[FIRST, SECOND])
    found.beat(1)
    found.join(2)
    found.join(3)
    (created,) = found.create(topic("t", placed={0: [1, 3], 1: [1, 2], 2: [2, 3]}))
    assert created.error_code == 0
    return found


def assign(
    at: Cluster, directory: bytes, indexes: list[int], *, epoch: int | None = None, name: str = "t"
) -> list[int]:
    known = at.image.topics.by_name(name)
    topic_id = bytes(15) + b"\x77" if known is None else known.topic_id
    request = AssignReplicasToDirsRequest(
        broker_id=1,
        broker_epoch=at.epochs[1] if epoch is None else epoch,
        directories=[
            AssignReplicasToDirsRequestDirectoryData(
                id=directory,
                topics=[
                    AssignReplicasToDirsRequestTopicData(
                        topic_id=topic_id,
                        partitions=[
                            AssignReplicasToDirsRequestPartitionData(partition_index=index)
                            for index in indexes
                        ],
                    )
                ],
            )
        ],
    )
    answer = at.ask(request, AssignReplicasToDirsResponse)
    if answer.error_code:
        return [answer.error_code]
    ((rows,),) = [
        [each.partitions for each in directory.topics] for directory in answer.directories
    ]
    assert [row.partition_index for row in rows] == indexes
    return [row.error_code for row in rows]


def test_a_replica_is_where_its_broker_says() -> None:
    at = cluster()
    assert assign(at, SECOND, [0, 1]) == [0, 0]
    known = at.image.topics.by_name("t")
    assert known is not None
    assert known.partitions[0].directory_of(1) == SECOND
    assert known.partitions[1].directory_of(1) == SECOND
    assert known.partitions[1].directory_of(2) == at.image.brokers.by_id[2].log_dirs[0]
    assert known.partitions[1].leader_epoch == 0
    written = len(at.log)
    assert assign(at, SECOND, [0, 1]) == [0, 0]
    assert len(at.log) == written, "that is known"
    at.check_fold()


def test_what_is_refused() -> None:
    at = cluster()
    assert assign(at, SECOND, [0], epoch=-1) == [ErrorCode.STALE_BROKER_EPOCH]
    assert assign(at, SECOND, [2, 9]) == [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert assign(at, SECOND, [0], name="nope") == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_a_replica_in_a_directory_that_is_gone_does_not_lead() -> None:
    at = cluster()
    assert assign(at, GONE, [1]) == [0]
    known = at.image.topics.by_name("t")
    assert known is not None
    assert known.partitions[1].leader == 2
    assert known.partitions[1].isr == (2,)
    assert known.partitions[1].directory_of(1) == GONE
    at.check_fold()
