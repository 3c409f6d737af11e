"""Deletes topics and everything in them."""

from __future__ import annotations

from moldau.ids import ZERO_UUID
from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Int16, Int32, String, TopicName, Uuid


class DeleteTopicState(Struct):
    """A topic by name, or by id when the name is null."""

    name: TopicName | None = field(default=None)
    topic_id: Uuid


class DeleteTopicsRequest(
    Request, key=20, versions="1-6", flexible="4+", listeners=("broker", "controller")
):
    """Topics by name, or (version 6, KIP-516) by name or id."""

    topics: list[DeleteTopicState] = field(since=6, default_factory=list)
    topic_names: list[TopicName] = field(until=5, default_factory=list, ignorable=True)
    timeout_ms: Int32


class DeletableTopicResult(Struct):
    """The outcome for one topic."""

    # null when an unknown id was given
    name: TopicName | None = field(nullable_since=6, map_key=True)
    topic_id: Uuid = field(since=6, default=ZERO_UUID, ignorable=True)
    error_code: Int16
    error_message: String | None = field(since=5, default=None, ignorable=True)


class DeleteTopicsResponse(Response, key=20, versions="1-6", flexible="4+"):
    """The outcome for each topic."""

    throttle_time_ms: Int32 = field(default=0, ignorable=True)
    responses: list[DeletableTopicResult]
