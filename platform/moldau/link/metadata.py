"""A client's knowledge of its cluster: brokers, topics, and the leaders of partitions. No IO.

Invariants: a partition's leader epoch never decreases while the topic keeps its id, because brokers
learn of an election at different times and an old response must not undo a new one; a topic with
another id is a new topic; a topic with an error in the response is forgotten, but its error is
kept, so that waiting for it can end with that error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field, replace
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol

from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError, error_from
from moldau.ids import ZERO_UUID, Uuid
from moldau.link.addresses import Address
from moldau.protocol.acl_operations import AclOperation, operations_in
from moldau.protocol.declare import Request
from moldau.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

NO_LEADER: Final = -1
NO_EPOCH: Final = -1


class TopicPartition(NamedTuple):
    """A partition by the name of its topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Broker:
    """A living broker and its address."""

    node_id: int
    address: Address
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Partition:
    """Leader and replicas of a partition. Without a leader, `leader` is -1 and `error` says why."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and its partitions, in the order of their numbers."""

    name: str
    topic_id: Uuid
    partitions: tuple[Partition, ...]
    is_internal: bool = False
    authorized_operations: frozenset[AclOperation] | None = None
    """The operations that this client may do on the topic; None unless they were requested."""

    @property
    def has_id(self) -> bool:
        """Whether the topic has an id; topics of clusters before Kafka 2.8 have none."""
        return self.topic_id != ZERO_UUID


@dataclass(slots=True)
class Metadata:
    """The newest metadata; `updates` counts how often they were updated."""

    cluster_id: str | None = None
    controller_id: int = -1
    brokers: dict[int, Broker] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    refused: dict[str, ErrorCode] = field(default_factory=dict)
    updates: int = 0
    _names: dict[Uuid, str] = field(default_factory=dict)

    def update(self, response: MetadataResponse) -> None:
        """Take over a broker's response. Topics that were not requested stay as they are."""
        self.updates += 1
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self.brokers = {
            each.node_id: Broker(each.node_id, Address(each.host, each.port), each.rack)
            for each in response.brokers
        }
        for answered in response.topics:
            if answered.name is not None:
                self._update_topic(answered.name, answered)

    def _update_topic(self, name: str, answered: MetadataResponseTopic) -> None:
        error = ErrorCode(answered.error_code)
        if error and not answered.partitions:
            self.refused[name] = error
            if error is not ErrorCode.LEADER_NOT_AVAILABLE:
                self.forget(name)
            return
        self.refused.pop(name, None)
        known = self.topics.get(name)
        if known is not None and known.topic_id != answered.topic_id:
            self.forget(name)
            known = None
        before = {each.index: each for each in known.partitions} if known is not None else {}
        ordered = sorted(answered.partitions, key=lambda each: each.partition_index)
        partitions = (_newer(before.get(each.partition_index), each) for each in ordered)
        self.topics[name] = Topic(
            name,
            answered.topic_id,
            tuple(partitions),
            answered.is_internal,
            operations_in(answered.topic_authorized_operations),
        )
        if answered.topic_id != ZERO_UUID:
            self._names[answered.topic_id] = name

    def keep_only(self, response: MetadataResponse, wanted: Iterable[str]) -> None:
        """Forget all topics that this response does not name, since it names every topic."""
        there = {each.name for each in response.topics}
        for name in [*self.topics, *wanted]:
            if name not in there:
                self.forget(name)
                self.refused[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def forget(self, name: str) -> None:
        """Forget a topic that was deleted, or replaced by another one with the same name."""
        topic = self.topics.pop(name, None)
        if topic is not None:
            self._names.pop(topic.topic_id, None)

    def forget_brokers(self) -> None:
        """Forget all brokers, as the cluster moved (KIP-1102); only bootstrap servers are left."""
        self.brokers = {}

    def forget_broker(self, node_id: int) -> None:
        """Forget a broker that is not at its address any more (KIP-1242)."""
        self.brokers = {each: broker for each, broker in self.brokers.items() if each != node_id}

    def name_of(self, topic_id: Uuid) -> str | None:
        """Return the name of the topic with this id; None if it is unknown."""
        return self._names.get(topic_id)

    def partition(self, where: TopicPartition) -> Partition | None:
        """Return what is known of the partition; None if nothing is."""
        topic = self.topics.get(where.topic)
        if topic is None or not 0 <= where.partition < len(topic.partitions):
            return None
        return topic.partitions[where.partition]

    def leader_of(self, where: TopicPartition) -> int:
        """Return the broker that leads the partition, or -1."""
        partition = self.partition(where)
        return NO_LEADER if partition is None else partition.leader

    def moved(
        self, where: TopicPartition, leader: int, epoch: int, address: Address | None
    ) -> bool:
        """Take over a leader that a broker's response named (KIP-951). Return whether it is new."""
        known = self.partition(where)
        if known is None or leader < 0 or epoch <= known.leader_epoch:
            return False
        if leader not in self.brokers:
            if address is None:
                return False
            self.brokers[leader] = Broker(leader, address)
        topic = self.topics[where.topic]
        partitions = list(topic.partitions)
        partitions[where.partition] = replace(
            known, leader=leader, leader_epoch=epoch, error=ErrorCode.NONE
        )
        self.topics[where.topic] = replace(topic, partitions=tuple(partitions))
        return True

    def racks_of(self, name: str) -> list[frozenset[str]] | None:
        """Return the racks of the replicas of each partition; None if the topic is unknown."""
        topic = self.topics.get(name)
        if topic is None:
            return None
        racks = {node: each.rack for node, each in self.brokers.items()}
        return [
            frozenset(rack for node in each.replicas if (rack := racks.get(node)))
            for each in topic.partitions
        ]

    def by_leader(self, wanted: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Return the partitions by their leader, if it is alive; those without one are under -1."""
        found: dict[int, list[TopicPartition]] = {}
        for where in wanted:
            leader = self.leader_of(where)
            found.setdefault(leader if leader in self.brokers else NO_LEADER, []).append(where)
        return found

    def why_not_led(self, where: TopicPartition) -> KafkaError:
        """Return the error for a partition that `by_leader` has under -1."""
        facts = {"topic": where.topic, "partition": where.partition}
        try:
            self.check(where)
        except KafkaError as error:
            return KafkaError(error.code, error.reason, **{**error.context, **facts})
        known = self.partition(where)
        if known is not None and known.leader != NO_LEADER:
            reason = "the broker that leads the partition is not among those that are alive"
            return KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, reason, **facts, leader=known.leader)
        code = known.error if known is not None and known.error else ErrorCode.LEADER_NOT_AVAILABLE
        return KafkaError(code, "no broker is known that leads the partition", **facts)

    def check(self, where: TopicPartition) -> None:
        """Raise KafkaError if it is certain that the partition does not exist."""
        refused = self.refused.get(where.topic)
        if refused is not None and not self.topics.get(where.topic):
            raise error_from("Metadata", refused, topic=where.topic)
        topic = self.topics.get(where.topic)
        if topic is not None and not 0 <= where.partition < len(topic.partitions):
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "the topic has no such partition",
                topic=where.topic,
                partition=where.partition,
                partitions=len(topic.partitions),
            )


def _newer(known: Partition | None, answered: MetadataResponsePartition) -> Partition:
    epoch = answered.leader_epoch
    if known is not None and NO_EPOCH < epoch < known.leader_epoch:
        return known
    return Partition(
        answered.partition_index,
        answered.leader_id,
        epoch,
        tuple(answered.replica_nodes),
        tuple(answered.isr_nodes),
        tuple(answered.offline_replicas),
        ErrorCode(answered.error_code),
    )


def by_topic(
    partitions: Iterable[TopicPartition],
    make: Callable[[TopicPartition], Any] = attrgetter("partition"),
) -> dict[str, list[Any]]:
    """Return, by topic, the results of `make` for its partitions; by default their numbers."""
    found: dict[str, list[Any]] = {}
    for where in partitions:
        found.setdefault(where.topic, []).append(make(where))
    return found


class Speaker(Protocol):
    """An object that knows which versions of requests a broker supports."""

    def version_of(self, request: type[Request], *, at_most: int | None = None) -> int: ...


class Listener(Protocol):
    """An object with the cluster's metadata, to which errors about stale metadata are reported."""

    metadata: Metadata

    def note(self, error: KafkaError) -> None: ...
