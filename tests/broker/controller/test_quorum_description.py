"""DescribeQuorum as Apache Kafka 4.3.1 answers it, by the leader of a quorum of one."""

from __future__ import annotations

import pytest

from moldau.broker.controller.image import Image
from moldau.broker.controller.quorum_description import QuorumView, describe_quorum
from moldau.broker.raft.voters import DYNAMIC, STATIC, Voter, Voters
from moldau.ids import ZERO_UUID
from moldau.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    Listener,
)
from moldau.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
)
from moldau.runtime import Runtime
from moldau.runtime.simulated import Options, Simulation
from tests.broker.controller.cluster import Cluster
from tests.broker.controller.controller_node import Node

METADATA = "__cluster_metadata"
DISK = b"d" * 16
ALONE = Voters(STATIC, (Voter(1),))
ON_DISK = Voters(DYNAMIC, (Voter(1, DISK, (("CONTROLLER", "h", 9093),)),))


def asking(*topics: tuple[str, list[int]]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            DescribeQuorumRequestTopicData(
                topic_name=name,
                partitions=[DescribeQuorumRequestPartitionData(partition_index=n) for n in numbers],
            )
            for name, numbers in topics
        ]
    )


def describe(
    request: DescribeQuorumRequest,
    version: int = 2,
    voters: Voters = ALONE,
    image: Image | None = None,
) -> DescribeQuorumResponse:
    view = QuorumView(1, 4, 323, 324, voters, now_ms=1_000)
    response = describe_quorum(Image() if image is None else image, view, request, version)
    return DescribeQuorumResponse.decode(response.encode(version), version)


@pytest.mark.parametrize("version", range(3))
def test_the_leader_tells_itself(version: int) -> None:
    response = describe(asking((METADATA, [0])), version)
    assert response.error_code == 0
    (topic,) = response.topics
    (partition,) = topic.partitions
    assert (topic.topic_name, partition.partition_index, partition.error_code) == (METADATA, 0, 0)
    assert (partition.leader_id, partition.leader_epoch) == (1, 4)
    assert (partition.high_watermark, partition.observers) == (323, [])
    (voter,) = partition.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (1, 324)
    at = 1_000 if version >= 1 else -1
    assert (voter.last_fetch_timestamp, voter.last_caught_up_timestamp) == (at, at)
    assert [each.node_id for each in response.nodes] == ([1] if version >= 2 else [])


@pytest.mark.parametrize("version", range(2))
def test_older_versions_have_no_place_for_disks_and_addresses(version: int) -> None:
    response = describe(asking((METADATA, [0])), version, voters=ON_DISK)
    (voter,) = response.topics[0].partitions[0].current_voters
    assert (voter.replica_directory_id, response.nodes) == (ZERO_UUID, [])


@pytest.mark.parametrize(
    "topics",
    [
        [("t", [0])],
        [(METADATA, [1])],
        [(METADATA, [0, 1])],
        [(METADATA, [0]), ("t", [0])],
    ],
)
def test_anything_but_the_metadata_log_is_unknown(topics: list[tuple[str, list[int]]]) -> None:
    response = describe(asking(*topics))
    assert (response.error_code, response.nodes) == (0, [])
    told = [
        (topic.topic_name, [(one.partition_index, one.error_code) for one in topic.partitions])
        for topic in response.topics
    ]
    assert told == [(name, [(number, 3) for number in numbers]) for name, numbers in topics]


def test_who_asks_for_nothing_gets_nothing() -> None:
    assert describe(asking()).topics == []
    (topic,) = describe(asking((METADATA, []))).topics
    assert topic.partitions == []


def test_voters_of_the_log_have_their_disk_and_address() -> None:
    response = describe(asking((METADATA, [0])), voters=ON_DISK)
    (voter,) = response.topics[0].partitions[0].current_voters
    assert voter.replica_directory_id == DISK
    (node,) = response.nodes
    assert [(each.name, each.host, each.port) for each in node.listeners] == [
        ("CONTROLLER", "h", 9093)
    ]


def test_voters_of_the_settings_have_the_address_that_they_registered() -> None:
    cluster = Cluster()
    cluster.ask(
        ControllerRegistrationRequest(
            controller_id=1,
            incarnation_id=DISK,
            zk_migration_ready=False,
            listeners=[Listener(name="CONTROLLER", host="x", port=1, security_protocol=0)],
            features=[],
        ),
        ControllerRegistrationResponse,
    )
    (node,) = describe(asking((METADATA, [0])), image=cluster.image).nodes
    assert [(each.host, each.port) for each in node.listeners] == [("x", 1)]


def test_the_controller_at_work_answers_from_its_quorum() -> None:
    answers: list[DescribeQuorumResponse] = []

    async def main(runtime: Runtime) -> None:
        node = Node(runtime)
        await node.create("orders")
        response = await node.ask(asking((METADATA, [0])))
        assert isinstance(response, DescribeQuorumResponse)
        answers.append(response)
        (partition,) = response.topics[0].partitions
        assert partition.high_watermark == node.quorum.high_watermark
        assert partition.current_voters[0].log_end_offset == node.quorum.log_end_offset
        assert (partition.leader_id, partition.leader_epoch) == (1, node.quorum.epoch)
        node.quorum.leader.high_watermark = None  # as in a leader that was just elected
        response = await node.ask(asking((METADATA, [0])))
        assert isinstance(response, DescribeQuorumResponse)
        assert response.topics[0].partitions[0].high_watermark == -1

    with Simulation(5, Options()) as world:
        world.add_node("a", main)
        world.run_for(5)
    assert len(answers) == 1
