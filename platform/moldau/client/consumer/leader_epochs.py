"""Asking leaders where the log of an epoch ends: how a consumer finds out about truncation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from moldau.client.consumer.offsets import left_out
from moldau.errors.codes import KafkaError
from moldau.link.cluster import Cluster
from moldau.link.metadata import TopicPartition
from moldau.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

_CONSUMER: Final = -1
# Before that a consumer needed rights on the whole cluster to ask.
_FOR_CONSUMERS: Final = 3
_ANY_END: Final = 2**63 - 1


class EpochEnd(NamedTuple):
    """Where the log of the largest epoch ends that is not above the one asked for; -1 both where
    there is none."""

    epoch: int
    end_offset: int


Ends = dict[TopicPartition, "EpochEnd | KafkaError"]


async def ends_of_epochs(
    cluster: Cluster, leader: int, epochs: Mapping[TopicPartition, int]
) -> Ends:
    """One try: the ends as that leader has them, each or its error; one that cannot tell agrees
    with everything. KafkaError when it gives no answer at all."""
    connection = await cluster.connection(leader)
    served = connection.versions.by_key.get(OffsetForLeaderEpochRequest.spec.key or 0)
    if served is None or served.last < _FOR_CONSUMERS:
        return {where: EpochEnd(epoch, _ANY_END) for where, epoch in epochs.items()}
    by_topic: dict[str, list[OffsetForLeaderPartition]] = {}
    for where, epoch in epochs.items():
        known = cluster.metadata.partition(where)
        wanted = OffsetForLeaderPartition(
            partition=where.partition,
            current_leader_epoch=-1 if known is None else known.leader_epoch,
            leader_epoch=epoch,
        )
        by_topic.setdefault(where.topic, []).append(wanted)
    request = OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER,
        topics=[
            OffsetForLeaderTopic(topic=name, partitions=found) for name, found in by_topic.items()
        ],
    )
    answer = await cluster.call(request, OffsetForLeaderEpochResponse, node_id=leader)
    found: Ends = {where: left_out(where, connection.address) for where in epochs}
    for topic in answer.topics:
        for each in topic.partitions:
            where = TopicPartition(topic.topic, each.partition)
            if each.error_code:
                error = KafkaError(each.error_code, **where._asdict())
                cluster.note(error)
                found[where] = error
            else:
                found[where] = EpochEnd(each.leader_epoch, each.end_offset)
    return found
