"""Gives a streams group its topology as a graph of nodes (KIP-1331, Kafka 4.4)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import GroupId, Int8, Int16, Int32, String, TopicName


class TopologyDescriptionNode(Struct):
    """A node of the topology. Its type is 1 for a source, 2 for a processor, 3 for a sink."""

    name: String
    node_type: Int8
    source_topics: list[TopicName]
    sink_topic: TopicName | None = field(default=None)
    stores: list[String]
    successors: list[String]


class TopologyDescriptionSubtopology(Struct):
    """The nodes of a subtopology."""

    subtopology_id: String
    nodes: list[TopologyDescriptionNode]


class TopologyDescriptionGlobalStore(Struct):
    """A global store: the source that feeds it, and the processor that fills it."""

    source: TopologyDescriptionNode
    processor: TopologyDescriptionNode


class TopologyDescription(Struct):
    """The topology as a graph of nodes."""

    subtopologies: list[TopologyDescriptionSubtopology]
    global_stores: list[TopologyDescriptionGlobalStore]


class StreamsGroupTopologyDescriptionUpdateRequest(
    Request, key=93, versions="0", flexible="0+", listeners=("broker",)
):
    """The description of the topology that a member runs."""

    group_id: GroupId
    member_id: String
    topology_epoch: Int32
    topology_description: TopologyDescription


class StreamsGroupTopologyDescriptionUpdateResponse(Response, key=93, versions="0", flexible="0+"):
    """Whether the description was taken."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
