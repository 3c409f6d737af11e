"""Guards of requests about topics: Metadata, DescribeTopicPartitions, CreateTopics, DeleteTopics.

Invariant: a client without DESCRIBE does not learn whether a topic exists. The id of a topic is no
secret, so a request by id gets TOPIC_AUTHORIZATION_FAILED, with the id and without a name.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from moldau.broker.api.authorized_operations import ALL_OF_CLUSTER, ALL_OF_TOPIC
from moldau.broker.api.refused import refused_rows
from moldau.broker.api.rights.guard import GuardedMessage, changed
from moldau.broker.decision.authorizer import CLUSTER_NAME
from moldau.errors.codes import ErrorCode
from moldau.ids import ZERO_UUID
from moldau.protocol.acl_operations import NOT_ASKED, AclOperation, AclResource
from moldau.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from moldau.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from moldau.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from moldau.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from moldau.broker.api.rights.guard import Client

_TOPIC: Final = AclResource.TOPIC
_DESCRIBE: Final = AclOperation.DESCRIBE
_FAILED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_ALWAYS_CREATES_UNTIL: Final = 3
_IDS_SINCE: Final = 12
"""Two versions before have a field for ids, and a request with one is refused as a whole."""
_REASON: Final = "Authorization failed."


def guard_metadata(client: Client, message: MetadataRequest, version: int) -> GuardedMessage:
    """DESCRIBE on each topic, and CREATE for those that the request would create."""
    asked = message.topics
    refused: list[MetadataResponseTopic] = []
    guarded = message
    is_of_all = asked is None or (version == 0 and not asked)
    if asked is not None and not is_of_all:
        has_ids = version >= _IDS_SINCE
        names = [
            each.name or (client.name_of(each.topic_id) if has_ids else None) for each in asked
        ]
        described = client.allowed(_TOPIC, _DESCRIBE, (each for each in names if each))
        uncreatable = _uncreatable(client, message, described, version)
        left = []
        for name, topic in zip(names, asked, strict=True):
            if name is None or (name in described and name not in uncreatable):
                left.append(topic)
            else:
                topic_id = topic.topic_id if topic.name is None else ZERO_UUID
                refused += refused_rows(MetadataResponseTopic, [topic], _FAILED, topic_id=topic_id)
        guarded = changed(message, topics=left)

    def finish(response: MetadataResponse) -> None:
        if is_of_all:
            shown = client.allowed(_TOPIC, _DESCRIBE, (each.name or "" for each in response.topics))
            response.topics = [each for each in response.topics if each.name in shown]
        _set_operations(client, message, response)
        response.topics = [*response.topics, *refused]

    if refused and not guarded.topics and version == 0:
        # Nothing is left, and an empty list would mean all.
        return GuardedMessage(
            changed(guarded, topics=None), lambda response: _only(response, refused)
        )
    return GuardedMessage(guarded, finish)


def _only(response: MetadataResponse, topics: list[MetadataResponseTopic]) -> None:
    response.topics = topics


def _uncreatable(
    client: Client, message: MetadataRequest, described: Collection[str], version: int
) -> Collection[str]:
    """Return the missing topics that the client asks to create, and may not."""
    asks = message.allow_auto_topic_creation or version <= _ALWAYS_CREATES_UNTIL
    if not (asks and client.creates_topics):
        return ()
    missing = [name for name in described if client.id_of(name) is None]
    if not missing or client.may_on_cluster(AclOperation.CREATE):
        return ()
    creatable = client.allowed(_TOPIC, AclOperation.CREATE, missing)
    return frozenset(missing).difference(creatable)


def _set_operations(client: Client, message: MetadataRequest, response: MetadataResponse) -> None:
    if message.include_topic_authorized_operations:
        for each in response.topics:
            if each.name is not None:
                bits = client.operations(_TOPIC, ALL_OF_TOPIC, each.name)
                each.topic_authorized_operations = bits
    if response.cluster_authorized_operations != NOT_ASKED:
        response.cluster_authorized_operations = cluster_operations(client)


def cluster_operations(client: Client) -> int:
    """Return the operations on the cluster that the client may perform; none without DESCRIBE."""
    if not client.may_on_cluster(_DESCRIBE):
        return 0
    return client.operations(AclResource.CLUSTER, ALL_OF_CLUSTER, CLUSTER_NAME)


def guard_topic_partitions(
    client: Client, message: DescribeTopicPartitionsRequest, version: int
) -> GuardedMessage:
    """DESCRIBE on each topic. Without names, only topics with the right are in the response."""
    names = [each.name for each in message.topics]
    allowed = client.allowed(_TOPIC, _DESCRIBE, names)
    out = dict.fromkeys(each for each in names if each not in allowed)
    refused = refused_rows(DescribeTopicPartitionsResponseTopic, out, _FAILED)

    def finish(response: DescribeTopicPartitionsResponse) -> None:
        shown = response.topics
        if not names:
            seen = client.allowed(_TOPIC, _DESCRIBE, (each.name or "" for each in shown))
            shown = [each for each in shown if each.name in seen]
        for each in shown:
            if each.name is not None and each.topic_authorized_operations != NOT_ASKED:
                bits = client.operations(_TOPIC, ALL_OF_TOPIC, each.name)
                each.topic_authorized_operations = bits
        response.topics = [*shown, *refused]
        if names and not left:
            response.topics, response.next_cursor = refused, None

    left = [each for each in message.topics if each.name in allowed]
    if refused and not left:  # an empty list would mean all
        return GuardedMessage(changed(message, response_partition_limit=1, cursor=None), finish)
    return GuardedMessage(changed(message, topics=left), finish)


def guard_create(
    client: Client, message: CreateTopicsRequest, version: int
) -> GuardedMessage | None:
    """CREATE on the cluster or on each topic. The settings of a new topic are in the response only
    with DESCRIBE_CONFIGS on it (KIP-525)."""
    names = [each.name for each in message.topics]
    allowed: Collection[str] = names
    if not client.may_on_cluster(AclOperation.CREATE):
        allowed = client.allowed(_TOPIC, AclOperation.CREATE, names)
    shown = client.allowed(_TOPIC, AclOperation.DESCRIBE_CONFIGS, names)
    out = dict.fromkeys(each for each in names if each not in allowed)
    refused = refused_rows(CreatableTopicResult, out, _FAILED, _REASON)

    def finish(response: CreateTopicsResponse) -> None:
        for each in response.topics:
            if each.name not in shown and not each.error_code:
                each.topic_config_error_code = _FAILED
                each.configs = []
                each.num_partitions = each.replication_factor = -1
        response.topics = [*response.topics, *refused]

    left = [each for each in message.topics if each.name in allowed]
    return GuardedMessage(changed(message, topics=left), finish)


def guard_delete(
    client: Client, message: DeleteTopicsRequest, version: int
) -> GuardedMessage | None:
    """DELETE on the cluster or on each topic. The name of a topic that was named by its id is in
    the response only with DESCRIBE."""
    if client.may_on_cluster(AclOperation.DELETE):
        return None
    states = message.topics or [
        DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in message.topic_names
    ]
    names = [each.name or client.name_of(each.topic_id) for each in states]
    known = [each for each in names if each]
    described = client.allowed(_TOPIC, _DESCRIBE, known)
    deletable = client.allowed(_TOPIC, AclOperation.DELETE, known)
    refused: list[DeletableTopicResult] = []
    left = []
    for name, state in zip(names, states, strict=True):
        is_missing = client.id_of(name) is None if name else True
        if not name or name in deletable or (is_missing and name in described):
            left.append(state)
            continue
        shown = state.name if state.name or name not in described else name
        refused += refused_rows(DeletableTopicResult, [state], _FAILED, _REASON, name=shown)
    if not refused:
        return None

    def finish(response: DeleteTopicsResponse) -> None:
        response.responses = [*response.responses, *refused]

    if message.topics:
        return GuardedMessage(changed(message, topics=left), finish)
    return GuardedMessage(changed(message, topic_names=[each.name for each in left]), finish)
