"""AlterPartitionReassignments and ListPartitionReassignments on one broker: what stays, what is
refused, and with which code."""

from __future__ import annotations

from moldau.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.differential.talk import Talk, versions

ALL = versions(AlterPartitionReassignmentsRequest)
LISTED = versions(ListPartitionReassignmentsRequest)


def alter(
    *places: tuple[str, int, list[int] | None], may_grow: bool = True
) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=may_grow,
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[ReassignablePartition(partition_index=index, replicas=replicas)],
            )
            for name, index, replicas in places
        ],
    )


def listed(*places: tuple[str, list[int]]) -> ListPartitionReassignmentsRequest:
    return ListPartitionReassignmentsRequest(
        topics=[
            ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
            for name, indexes in places
        ]
    )


async def scenario(talk: Talk) -> None:
    await talk.topic("t", 2)
    for label, request in {
        "to where it is": alter(("t", 0, [1])),
        "cancel what does not move": alter(("t", 0, None)),
        "to no broker": alter(("t", 0, [])),
        "to a broker that is not there": alter(("t", 0, [9])),
        "to one that is there and one that is not": alter(("t", 0, [1, 9])),
        "twice to the same": alter(("t", 0, [1, 1])),
        "to a negative number": alter(("t", 0, [-1])),
        "an unknown topic": alter(("nope", 0, [1])),
        "cancel of an unknown topic": alter(("nope", 0, None)),
        "an unknown partition": alter(("t", 9, [1])),
        "several": alter(("t", 0, [1]), ("nope", 0, [1]), ("u", 0, None)),
        "nothing": alter(),
    }.items():
        await talk.ask(label, request, ALL)
    for label, request_of in {
        "all moves": ListPartitionReassignmentsRequest(topics=None),
        "of some": listed(("t", [0, 9]), ("nope", [0])),
        "of none": listed(),
    }.items():
        await talk.ask(label, request_of, LISTED)
