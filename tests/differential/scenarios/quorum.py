"""DescribeQuorum and UpdateFeatures."""

from __future__ import annotations

from moldau.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from tests.differential.talk import Talk, versions


def describe(*places: tuple[str, list[int]]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            DescribeQuorumRequestTopicData(
                topic_name=name,
                partitions=[
                    DescribeQuorumRequestPartitionData(partition_index=index) for index in indexes
                ],
            )
            for name, indexes in places
        ]
    )


async def scenario(talk: Talk) -> None:
    await talk.topic("t")
    for label, request in {
        "the quorum": describe(("__cluster_metadata", [0])),
        "another partition": describe(("__cluster_metadata", [9])),
        "two partitions": describe(("__cluster_metadata", [0, 1])),
        "another topic": describe(("t", [0])),
        "no topic of that name": describe(("nope", [0])),
        "nothing": describe(),
    }.items():
        await talk.ask(label, request, versions(DescribeQuorumRequest))
