"""FindCoordinator: the broker that coordinates a group, a transaction or a share partition.

The coordinator of a key is the leader of the partition of its internal topic that the key hashes
to. The first request creates the topic, and is answered with COORDINATOR_NOT_AVAILABLE meanwhile,
as in Kafka. The node creates it for itself, so a client needs no right to create topics. Keys of a
kind without a coordinator get COORDINATOR_NOT_AVAILABLE.

This API is served even where groups are not used. librdkafka takes a broker without FindCoordinator
for one from before Kafka 0.8.2, and then silently sends uncompressed what it should compress with
lz4. An error that clients do not retry would reach those consumers of librdkafka that only have
partitions assigned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from moldau.broker.api.listener_view import ListenerView
from moldau.broker.api.metadata import create_topics
from moldau.broker.coordinator.kind import KeyType
from moldau.broker.coordinator.share.state import SharePartitionKey
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest

_NOBODY: Final = -1
_MANY_SINCE: Final = 4
_SHARES_SINCE: Final = 6


def serve(node: Node, request: ApiRequest) -> None:
    """Answer for each key, in the form of the request's version."""
    asked = cast(FindCoordinatorRequest, request.decode())
    version = request.arrival.version
    view = ListenerView.of(node, request)
    keys = asked.coordinator_keys if version >= _MANY_SINCE else [asked.key]
    found = [_find(node, view, asked.key_type, key, version) for key in keys]
    response = FindCoordinatorResponse()
    if version >= _MANY_SINCE:
        response.coordinators = found
    else:
        (only,) = found
        response.error_code = only.error_code
        response.error_message = only.error_message or ErrorCode.NONE.name
        response.node_id, response.host, response.port = only.node_id, only.host, only.port
    request.answer(response)
    coordinator = node.coordinators.by_key_type.get(asked.key_type)
    is_missing = any(each.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE for each in found)
    if is_missing and coordinator is not None:
        _make_topic(node, coordinator.kind.topic)


def _find(node: Node, view: ListenerView, key_type: int, key: str, version: int) -> Coordinator:
    if key_type not in KeyType.__members__.values() or (
        key_type == KeyType.SHARE and version < _SHARES_SINCE
    ):
        return _no_coordinator(key, ErrorCode.INVALID_REQUEST, f"no such key type: {key_type}")
    if key_type == KeyType.SHARE:
        try:
            key_of_shard = str(SharePartitionKey.parse(key))
        except ValueError:
            return _no_coordinator(key, ErrorCode.INVALID_REQUEST, "")
    else:
        key_of_shard = key
    coordinator = node.coordinators.by_key_type.get(key_type)
    if coordinator is None:
        text = f"this broker has no coordinators of {KeyType(key_type).name.lower()}s"
        return _no_coordinator(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, text)
    name = coordinator.kind.topic
    topic, index = node.image.topics.by_name(name), coordinator.partition_of(key_of_shard)
    if topic is None or index is None:
        text = f"{name} is being created"
        return _no_coordinator(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, text)
    at = view.address(topic.partitions[index].leader)
    if at is None or at.is_fenced:
        return _no_coordinator(
            key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the partition has no leader"
        )
    return Coordinator(
        key=key,
        node_id=at.broker_id,
        host=at.host,
        port=at.port,
        error_code=ErrorCode.NONE,
        error_message="",
    )


def _no_coordinator(key: str, code: ErrorCode, message: str) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=_NOBODY,
        host="",
        port=_NOBODY,
        error_code=code,
        error_message=message,
    )


def _make_topic(node: Node, topic: str) -> None:
    if node.image.topics.by_name(topic) is None:
        create_topics(node, (topic,), None)
