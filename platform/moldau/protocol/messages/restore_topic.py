"""Creates a topic that a restore fills: with the id and the leader epochs that it had (moldau's own
API, which only moldau's clients are told of).

The topic takes records by RestoreRecords alone until its restore ends, and remembers until then
which backup it comes from. A topic that is there with this id is left as it is.
"""

from __future__ import annotations

from typing import Final

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bool, Int16, Int32, Int64, String, TopicName, Uuid

RESTORING: Final = "moldau.restoring"
"""The setting that marks such a topic in the metadata. It cannot be set by a request, and no
description shows it; its removal ends the restore."""


class RestorableConfig(Struct):
    """One setting of the topic."""

    name: String
    value: String


class RestoreTopicRequest(
    Request, key=20001, versions="0", flexible="0+", listeners=("broker", "controller")
):
    """The topic as it was. Each partition begins in its leader epoch, which must be above those of
    all its batches; no producer gets an id below `producer_id_end` any more, unless the topic is
    there and whole. `backup` names what the topic is filled with."""

    name: TopicName
    topic_id: Uuid
    replication_factor: Int16
    leader_epochs: list[Int32]
    configs: list[RestorableConfig]
    producer_id_end: Int64
    backup: String
    timeout_ms: Int32


class RestoreTopicResponse(Response, key=20001, versions="0", flexible="0+"):
    """Whether the topic still takes records of a restore, and of which backup. All producer ids
    that were given out before the request are below `next_producer_id`."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    is_restoring: Bool = field(default=False)
    backup: String = field(default="")
    next_producer_id: Int64 = field(default=0)
