"""Asking leaders where the log of an epoch ends: how a consumer finds out about truncation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from moldau.client.cluster import Cluster
from moldau.client.metadata import NO_LEADER, TopicPartition
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

_CONSUMER: Final = -1
# Before that a consumer needed rights on the whole cluster to ask.
_FOR_CONSUMERS: Final = 3


class EpochEnd(NamedTuple):
    """Where the log of the largest epoch ends that is not above the one asked for; -1 both where
    there is none."""

    epoch: int
    end_offset: int


Ends = dict[TopicPartition, "EpochEnd | KafkaError"]


async def ends_of_epochs(
    cluster: Cluster, leader: int, epochs: Mapping[TopicPartition, int]
) -> Ends | None:
    """The ends as that leader has them, each or its error; None if the broker cannot tell."""
    connection = await cluster.connection(leader)
    served = connection.versions.by_key.get(OffsetForLeaderEpochRequest.spec.key or 0)
    if served is None or served.last < _FOR_CONSUMERS:
        return None
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
    found: Ends = {}
    for topic in answer.topics:
        for each in topic.partitions:
            where = TopicPartition(topic.topic, each.partition)
            if each.error_code:
                error = KafkaError(each.error_code, topic=where.topic, partition=where.partition)
                cluster.note(error)
                found[where] = error
            else:
                found[where] = EpochEnd(each.leader_epoch, each.end_offset)
    return found


async def ends_by_leader(cluster: Cluster, epochs: Mapping[TopicPartition, int]) -> Ends:
    """As `ends_of_epochs` of all leaders; a leader that cannot tell agrees with everything.

    Where a leader is missing or fails, metadata is asked for: nothing else talks of partitions
    that are being held against their leader, so nobody else would find out about the next one.
    """
    by_leader = cluster.metadata.by_leader(epochs)

    async def ask(leader: int, chosen: Iterable[TopicPartition]) -> Ends:
        wanted = {where: epochs[where] for where in chosen}
        if leader == NO_LEADER:
            cluster.request_refresh()
            return dict.fromkeys(wanted, KafkaError(ErrorCode.LEADER_NOT_AVAILABLE))
        try:
            found = await ends_of_epochs(cluster, leader, wanted)
        except KafkaError as error:
            cluster.request_refresh()
            return dict.fromkeys(wanted, error)
        if found is None:
            return {where: EpochEnd(epoch, 2**63 - 1) for where, epoch in wanted.items()}
        return found

    ends: Ends = {}
    for answer in await asyncio.gather(*(ask(*each) for each in by_leader.items())):
        ends |= answer
    return ends
