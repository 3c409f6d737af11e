"""The ends of partitions that this node leads, that others lead, and that are not to be had."""

from __future__ import annotations

from typing import Any, cast

from moldau.broker.api.partition_ends import FoundEnds, find_ends
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link import Peers
from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from moldau.protocol.messages.produce import ProduceResponse
from moldau.protocol.schemas.metadata_log import PartitionChangeRecord
from tests.broker.api.requests import batch, produce
from tests.broker.api.serving import Serving, serving
from tests.broker.controller.cluster import topic

ELSEWHERE = 2


class OtherNodes:
    """Answers ListOffsets for partitions of other nodes; node 3 cannot be reached."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, ListOffsetsRequest]] = []

    async def request(self, node_id: int, message: ListOffsetsRequest, kind: Any) -> Any:
        self.asked.append((node_id, message))
        if node_id != ELSEWHERE:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION)
        topics = [
            ListOffsetsTopicResponse(
                name=each.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=row.partition_index,
                        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER if row.partition_index else 0,
                        offset=70,
                    )
                    for row in each.partitions
                    if row.partition_index < 2
                ],
            )
            for each in message.topics
        ]
        return ListOffsetsResponse(topics=topics)


def codes(found: FoundEnds) -> dict[tuple[str, int], int | str]:
    return {
        place: end.code.name if isinstance(end, KafkaError) else end for place, end in found.items()
    }


def create_elsewhere(at: Serving, name: str, partitions: int, leader: int) -> None:
    """Create a topic that another node leads, and of which this node has nothing."""
    (result,) = at.cluster.create(topic(name, partitions))
    assert result.error_code == 0, result
    made = at.node.image.topics.by_name(name)
    assert made is not None
    at.cluster.append(
        [
            PartitionChangeRecord(
                partition_id=index,
                topic_id=made.topic_id,
                leader=leader,
                isr=[leader],
                replicas=[leader],
            )
            for index in made.partitions
        ]
    )


async def find(at: Serving, wanted: dict[str, range]) -> FoundEnds:
    answers: list[FoundEnds] = []
    find_ends(at.node, wanted, answers.append)
    while not answers:
        await at.pass_ms(1)
    return answers[0]


@serving()
async def test_ends_come_from_the_leaders_with_one_request_to_each(at: Serving) -> None:
    others = OtherNodes()
    at.node.peers = cast(Peers, others)
    at.create("here", 2)
    (row,) = (await at.ask(produce("here", batch()), ProduceResponse, 12)).responses
    assert row.partition_responses[0].error_code == 0
    for name, leader in (("there", ELSEWHERE), ("also-there", ELSEWHERE), ("away", 3)):
        create_elsewhere(at, name, 3 if name == "there" else 1, leader)
    wanted = {name: range(1) for name in ("also-there", "away", "unknown")}
    found = await find(at, {"here": range(2), "there": range(3), **wanted})
    assert codes(found) == {
        ("here", 0): 1,
        ("here", 1): 0,
        ("there", 0): 70,
        ("there", 1): "NOT_LEADER_OR_FOLLOWER",
        ("there", 2): "UNKNOWN_SERVER_ERROR",
        ("also-there", 0): 70,
        ("away", 0): "NETWORK_EXCEPTION",
        ("unknown", 0): "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert sorted(node for node, _ in others.asked) == [ELSEWHERE, 3]


@serving()
async def test_a_node_without_peers_knows_only_its_own_ends(at: Serving) -> None:
    at.create("here")
    found = await find(at, {"here": range(1), "unknown": range(1)})
    assert codes(found) == {("here", 0): 0, ("unknown", 0): "UNKNOWN_TOPIC_OR_PARTITION"}
