"""Errors about partitions as clients get them: the code, the message, and the current leader.

Invariant: a partition in the metadata is never called unknown. If it is not on this broker, another
broker leads it. Only NOT_LEADER_OR_FOLLOWER makes a client fetch metadata and find that leader.
"""

from __future__ import annotations

from typing import Final

from moldau.broker.api.node import Node
from moldau.broker.controller.topics import NO_LEADER
from moldau.deferred import dataclass
from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid

UNKNOWN_TOPICS: Final = frozenset(
    (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
)
NO_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class Lead:
    """The leader of a partition, and its address for clients of the request's listener."""

    leader_id: int = NO_LEADER
    leader_epoch: int = NO_EPOCH
    host: str = ""
    port: int = 0
    rack: str | None = None

    @property
    def is_reachable(self) -> bool:
        return self.host != ""


def message_of(error: KafkaError) -> str:
    """Return the error's reason with its facts, without the code, which is a separate field."""
    return MoldauError.__str__(error)


def client_error(node: Node, topic: str, index: int, error: KafkaError) -> KafkaError:
    """Return the error that the client gets: see the module's invariant."""
    if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        known = node.image.topics.by_name(topic)
        if known is not None and index in known.partitions:
            return KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, topic=topic, partition=index, node=node.node_id
            )
    return error


def client_error_by_id(node: Node, topic_id: Uuid, index: int, error: KafkaError) -> KafkaError:
    """Return the error that a client gets if it names the topic by its id."""
    if error.code in UNKNOWN_TOPICS:
        known = node.image.topics.by_id.get(topic_id)
        if known is None:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, topic_id=topic_id.hex())
        if index in known.partitions:
            return KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                topic=known.name,
                partition=index,
                node=node.node_id,
            )
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic=known.name, partition=index)
    return error


def superseded(node: Node, topic: str, index: int) -> KafkaError:
    """Return the error for a topic id that does not exist any more. It depends on the topic's name:
    a topic that has the name now is another one, of which the client has read nothing."""
    try:
        node.replicas.partition(topic, index)
    except KafkaError as error:
        return client_error(node, topic, index, error)
    return KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, topic=topic, partition=index)


def lead_of(node: Node, topic: str, topic_id: Uuid, index: int, listener: str) -> Lead:
    """Return the partition's leader in the metadata (KIP-951). Without `topic`, the id counts."""
    topics = node.image.topics
    known = topics.by_name(topic) if topic else topics.by_id.get(topic_id)
    partition = None if known is None else known.partitions.get(index)
    if partition is None:
        return Lead()
    at = node.endpoint_of(partition.leader, listener)
    if at is None:
        return Lead(partition.leader, partition.leader_epoch)
    broker = node.image.brokers.by_id.get(partition.leader)
    rack = None if broker is None else broker.rack
    return Lead(partition.leader, partition.leader_epoch, *at, rack)
