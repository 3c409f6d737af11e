"""The topology as a graph of nodes: a member is asked for it, and the group keeps it."""

from __future__ import annotations

from typing import cast

import pytest

from moldau.broker.coordinator.group.streams.graph import NODES_MAX, RETRY_MS
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
    TopologyDescription,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from tests.broker.coordinator.streams.shard import GROUP, Member, Shard, ready


def graph(nodes: int = 1) -> TopologyDescription:
    made = [
        TopologyDescriptionNode(
            name=f"n{at}", node_type=1, source_topics=["lines"], stores=[], successors=[]
        )
        for at in range(nodes)
    ]
    subtopology = TopologyDescriptionSubtopology(subtopology_id="0", nodes=made)
    return TopologyDescription(subtopologies=[subtopology], global_stores=[])


def give(shard: Shard, member_id: str = "a", epoch: int = 0, nodes: int = 1) -> int:
    message = StreamsGroupTopologyDescriptionUpdateRequest(
        group_id=GROUP,
        member_id=member_id,
        topology_epoch=epoch,
        topology_description=graph(nodes),
    )
    shard.do(shard.groups.on_request(message, shard.context(0), "graph", shard.now_ms))
    answer = cast(StreamsGroupTopologyDescriptionUpdateResponse, shard.heard["graph"])
    return answer.error_code


def joined() -> tuple[Shard, Member, Member]:
    shard = ready()
    a, b = (shard.member(each, version=1) for each in "ab")
    a.join()
    b.join()
    return shard, a, b


def test_one_member_at_a_time_is_asked_until_the_graph_is_known() -> None:
    shard, a, b = joined()
    assert a.beat().topology_description_required
    assert not b.beat().topology_description_required
    shard.now_ms += RETRY_MS
    assert b.beat().topology_description_required
    assert shard.group.graph() is None
    assert give(shard) == ErrorCode.NONE
    assert shard.group.graph() == graph()
    shard.now_ms += RETRY_MS
    assert not a.beat().topology_description_required


def test_a_client_of_the_first_version_is_not_asked() -> None:
    shard = ready()
    a = shard.member("a")
    a.join()
    assert not a.beat().topology_description_required


def test_a_graph_of_another_epoch_or_of_no_member_is_refused() -> None:
    shard, _, _ = joined()
    for member_id, epoch, code in (
        ("x", 0, ErrorCode.UNKNOWN_MEMBER_ID),
        ("a", 1, ErrorCode.INVALID_REQUEST),
    ):
        with pytest.raises(KafkaError) as refused:
            give(shard, member_id, epoch)
        assert refused.value.code is code


def test_a_graph_that_is_too_large_is_not_asked_for_again() -> None:
    shard, a, _ = joined()
    with pytest.raises(KafkaError) as refused:
        give(shard, nodes=NODES_MAX + 1)
    assert refused.value.code is ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED
    assert not a.beat().topology_description_required
    assert shard.group.graph() is None
