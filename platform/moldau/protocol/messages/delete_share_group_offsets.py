"""Makes a share group without members forget topics (KIP-932)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import GroupId, Int16, Int32, String, TopicName, Uuid


class DeleteShareGroupOffsetsRequestTopic(Struct):
    """A topic to forget."""

    topic_name: TopicName


class DeleteShareGroupOffsetsRequest(
    Request, key=92, versions="0", flexible="0+", listeners=("broker",)
):
    """The group and the topics to forget."""

    group_id: GroupId
    topics: list[DeleteShareGroupOffsetsRequestTopic]


class DeleteShareGroupOffsetsResponseTopic(Struct):
    """The outcome for one topic."""

    topic_name: TopicName
    topic_id: Uuid
    error_code: Int16
    error_message: String | None = field(default=None)


class DeleteShareGroupOffsetsResponse(Response, key=92, versions="0", flexible="0+"):
    """An error code for each topic."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic]
