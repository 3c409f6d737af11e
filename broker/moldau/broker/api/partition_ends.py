"""The ends of partitions anywhere in the cluster: at this node, or by ListOffsets at the leader."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from moldau.broker.api.together import PartialAnswers
from moldau.broker.replication.ends import known_end
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.replication.partition import Partition

_LATEST: Final = -1
_CLIENT: Final = -1
Place: TypeAlias = tuple[str, int]
"""A topic's name and a partition of it."""
FoundEnds: TypeAlias = dict[Place, int | KafkaError]


def find_ends(
    node: Node, wanted: Mapping[str, Collection[int]], then: Callable[[FoundEnds], None]
) -> None:
    """Find the ends of these partitions, with one request to each other leader. `then` gets an end
    or an error for each of them: now, if this node has them all."""
    found: FoundEnds = {}
    of_leaders: dict[int, list[Place]] = {}
    for topic, indexes in wanted.items():
        known = node.image.topics.by_name(topic)
        for index in indexes:
            hosted = node.replicas.find(topic, index)
            partition = None if known is None else known.partitions.get(index)
            if hosted is not None and hosted.is_leader:
                found[topic, index] = _own_end(hosted)
            elif partition is None or node.peers is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                found[topic, index] = KafkaError(code, topic=topic, partition=index)
            else:
                of_leaders.setdefault(partition.leader, []).append((topic, index))

    def finish(answers: Sequence[FoundEnds]) -> None:
        for each in answers:
            found.update(each)
        then(found)

    together = PartialAnswers[FoundEnds](len(of_leaders), finish)
    for number, (leader, places) in enumerate(of_leaders.items()):
        put = partial(together.put, number)
        node.runtime.spawn(_ask(node, leader, places, put), name="partition-ends")


def _own_end(hosted: Partition) -> int | KafkaError:
    try:
        return known_end(hosted)
    except KafkaError as error:
        return KafkaError(error.code)


async def _ask(
    node: Node, leader: int, places: Sequence[Place], then: Callable[[FoundEnds], None]
) -> None:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for topic, index in places:
        row = ListOffsetsPartition(partition_index=index, timestamp=_LATEST)
        topics.setdefault(topic, []).append(row)
    asked = ListOffsetsRequest(
        replica_id=_CLIENT,
        topics=[ListOffsetsTopic(name=name, partitions=rows) for name, rows in topics.items()],
    )
    assert node.peers is not None
    try:
        answer = await node.peers.request(leader, asked, ListOffsetsResponse)
    except KafkaError as error:
        then(dict.fromkeys(places, KafkaError(error.code)))
        return
    found: FoundEnds = dict.fromkeys(places, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
    for topic_row in answer.topics:
        for each in topic_row.partitions:
            code = ErrorCode(each.error_code)
            end = KafkaError(code) if code else each.offset
            found[topic_row.name, each.partition_index] = end
    then(found)
