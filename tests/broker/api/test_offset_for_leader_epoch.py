"""OffsetForLeaderEpoch: where an epoch ended."""

from __future__ import annotations

from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from moldau.protocol.schemas.metadata_log import PartitionChangeRecord
from tests.broker.api.requests import batch, produce
from tests.broker.api.serving import Serving, serving


async def end_of(
    at: Serving, epoch: int, *, topic: str = "t", index: int = 0, knows: int = -1, version: int = 4
) -> tuple[int, int, int]:
    """Error, epoch, end."""
    asked = OffsetForLeaderPartition(
        partition=index, current_leader_epoch=knows, leader_epoch=epoch
    )
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])]
    )
    answer = await at.ask(request, OffsetForLeaderEpochResponse, version)
    ((row,),) = [each.partitions for each in answer.topics]
    assert row.partition == index
    return row.error_code, row.leader_epoch, row.end_offset


@serving()
async def test_epochs_end_where_the_next_one_begins(at: Serving) -> None:
    topic_id = at.create("t")
    assert await end_of(at, 0) == (0, 0, 0)
    at.send(produce("t", batch(3)), 12)
    for _ in range(2):
        at.cluster.append(
            [PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=1, isr=[1])]
        )
        at.lead("t")
    assert await end_of(at, 1) == (0, 0, 3), "it began and nothing was written in it"
    assert await end_of(at, 2) == (0, 2, 3)
    at.send(produce("t", batch(2)), 12)
    for version in (2, 3, 4):
        assert await end_of(at, 0, version=version) == (0, 0, 3)
        assert await end_of(at, 1, version=version) == (0, 0, 3), "nothing was written in it"
        assert await end_of(at, 2, version=version) == (0, 2, 5)
        assert await end_of(at, 3, version=version) == (0, -1, -1)
        assert await end_of(at, -1, version=version) == (0, -1, -1)


@serving()
async def test_errors(at: Serving) -> None:
    at.create("t")
    assert (await end_of(at, 0, topic="nope"))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await end_of(at, 0, index=4))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await end_of(at, 0, knows=5) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    at.replicas.remove("t", 0)
    assert (await end_of(at, 0))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
