"""The reader of a fetch: a consumer, or another broker that is a follower.

What it may read, and from which replica, is the same for all partitions of a request.

Choose the replica that a consumer should read from: one in its rack (KIP-392). Pure.

Invariants: only a replica in sync that holds the offset is named, and never the leader itself: the
consumer is there already. A leader in the consumer's rack is the nearest. Without a rack, or
without a replica in it, the consumer reads from the leader.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from moldau.broker.api.fetch_session import RequestedFetch, Row
from moldau.broker.api.node import Node
from moldau.broker.api.refusal import UNKNOWN_TOPICS, client_error, client_error_by_id, superseded
from moldau.broker.replication.partition import LOG_END, READ_COMMITTED, READ_UNCOMMITTED
from moldau.broker.settings import fetch as fetch_settings
from moldau.broker.settings.replication import RACK_AWARE, replica_selector_class
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import FetchRequest

if TYPE_CHECKING:
    from moldau.broker.replication.partition import Partition


def nearby_replica(
    rack: str,
    leader_id: int,
    racks: Mapping[int, str | None],
    followers: Mapping[int, tuple[int, int]],
) -> int | None:
    """Return the most advanced follower in the rack; None means the leader. `racks` has the brokers
    that consumers can reach. `followers` are in sync and hold the offset; each has its log end and
    the time when it last had all records."""
    if not rack or racks.get(leader_id) == rack:
        return None
    near = [each for each in followers if racks.get(each) == rack]
    return max(near, key=lambda each: (*followers[each], -each), default=None)


NO_EPOCH: Final = -1
NO_BROKER_EPOCH: Final = -1
_FOLLOWERS_SINCE: Final = 11
_TOPIC_IDS_SINCE: Final = 13
_REPLICA_STATE_SINCE: Final = 15
_NS_PER_MS: Final = 1_000_000


class FetchReader:
    """The client or follower that reads, and its limits for all partitions of a request."""

    __slots__ = (
        "is_follower",
        "is_rack_aware",
        "isolation_level",
        "max_bytes",
        "may_read_followers",
        "min_bytes",
        "node",
        "rack",
        "replica_epoch",
        "replica_id",
        "uses_topic_ids",
        "version",
    )

    def __init__(self, node: Node, message: FetchRequest, version: int) -> None:
        self.node = node
        self.version = version
        self.uses_topic_ids = version >= _TOPIC_IDS_SINCE
        self.replica_epoch = NO_BROKER_EPOCH
        if version >= _REPLICA_STATE_SINCE:
            state = message.replica_state
            self.replica_id, self.replica_epoch = state.replica_id, state.replica_epoch
        else:
            self.replica_id = message.replica_id
        self.is_follower = self.replica_id >= 0
        self.may_read_followers = version >= _FOLLOWERS_SINCE and not self.is_follower
        self.is_rack_aware = node.settings[replica_selector_class] in RACK_AWARE
        self.rack = message.rack_id if self.is_rack_aware and self.may_read_followers else ""
        self.isolation_level = message.isolation_level
        if self.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
            raise KafkaError(ErrorCode.INVALID_REQUEST, isolation_level=self.isolation_level)
        if self.is_follower:
            self.isolation_level = LOG_END
        self.max_bytes = min(message.max_bytes, node.settings[fetch_settings.fetch_max_bytes])
        self.min_bytes = min(message.min_bytes, self.max_bytes)

    def find(self, wanted: RequestedFetch) -> Partition:
        """Return the replica to read from. Raise KafkaError if it does not exist or this reader may
        not read it."""
        asked = wanted.asked
        replicas, near = self.node.replicas, self.may_read_followers
        if self.uses_topic_ids:
            find_by_id = replicas.readable_by_id if near else replicas.partition_by_id
            partition = find_by_id(wanted.topic_id, asked.partition)
            wanted.known_as = partition.topic
        else:
            find = replicas.readable if near else replicas.partition
            partition = find(wanted.topic, asked.partition)
        # In a fetch any negative epoch means none, as in Kafka; in other requests only -1 does.
        current_leader_epoch: int = asked.current_leader_epoch
        if current_leader_epoch < NO_EPOCH:
            current_leader_epoch = NO_EPOCH
        partition.check_epoch(current_leader_epoch, must_lead=not near)
        if self.is_follower:
            self._check_follower(partition, current_leader_epoch)
        return partition

    def _check_follower(self, partition: Partition, current_leader_epoch: int) -> None:
        """Reject a reader that is not another assigned replica of the partition. If the request has
        a leader epoch, the error is UNKNOWN_LEADER_EPOCH: the reader's metadata may be newer or
        older."""
        topic = self.node.image.topics.by_id.get(partition.topic_id)
        known = None if topic is None else topic.partitions.get(partition.index)
        replica_id = self.replica_id
        if known is None or replica_id == self.node.node_id or replica_id not in known.replicas:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if current_leader_epoch != NO_EPOCH:
                code = ErrorCode.UNKNOWN_LEADER_EPOCH
            raise KafkaError(
                code,
                "the reader is not a replica of the partition",
                topic=partition.topic,
                partition=partition.index,
                replica=replica_id,
            )

    def nearby_replica(self, partition: Partition, offset: int) -> int | None:
        """Return the replica in the consumer's rack to read from; None means this one."""
        if not self.rack or not partition.is_leader:
            return None
        node = self.node
        followers = partition.leadership.caught_up_replicas(offset)
        racks = {
            each.broker_id: each.rack
            for each in node.image.brokers.by_id.values()
            if not each.is_fenced
            and (each.broker_id in followers or each.broker_id == node.node_id)
        }
        return nearby_replica(self.rack, node.node_id, racks, followers)

    def is_held_up(self, partition: Partition) -> bool:
        """Whether the follower must wait because of the replication quota: its partition is
        throttled and the quota is exceeded. A follower in the ISR never waits, because writes wait
        for it."""
        if not partition.is_send_throttled or self.replica_id in partition.leadership.isr:
            return False
        return self.node.replicas.quotas.sent.is_exceeded(self._now_ms())

    def note_sent(self, rows: list[Row]) -> None:
        """Count the sent bytes of throttled partitions for the replication quota."""
        replicas = self.node.replicas
        for _, wanted, data in rows:
            size = len(data.records or b"")
            if size:
                found = replicas.find(wanted.known_as or wanted.topic, data.partition_index)
                if found is not None and found.is_send_throttled:
                    replicas.quotas.sent.record(size, self._now_ms())

    def _now_ms(self) -> int:
        return self.node.runtime.clock.monotonic_ns() // _NS_PER_MS

    def client_error(self, wanted: RequestedFetch, error: KafkaError) -> KafkaError:
        node, index = self.node, wanted.asked.partition
        if not self.uses_topic_ids:
            return client_error(node, wanted.topic, index, error)
        topic = node.image.topics.by_id.get(wanted.topic_id)
        if topic is not None:
            wanted.known_as = topic.name
        elif wanted.known_as and error.code in UNKNOWN_TOPICS:
            return superseded(node, wanted.known_as, index)
        return client_error_by_id(node, wanted.topic_id, index, error)
