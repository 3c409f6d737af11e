"""The cluster itself: its brokers, disks, quorum and features."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from moldau.client.admin.requests import AdminRequests, error_of
from moldau.client.consumer.absence import final
from moldau.client.settings import rows
from moldau.client.settings.arguments import (
    Partition,
    broker_of,
    brokers_of,
    by_name,
    flag,
    member_of,
    partition_of,
    within,
)
from moldau.errors.codes import KafkaError, raise_for
from moldau.ids import ZERO_UUID, Uuid
from moldau.link.addresses import Address
from moldau.link.arguments import str_of, told
from moldau.link.cluster import ANY_BROKER
from moldau.link.metadata import Broker, Metadata, TopicPartition
from moldau.protocol.acl_operations import AclOperation, operations_in
from moldau.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from moldau.protocol.messages.add_raft_voter import Listener as VoterListener
from moldau.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from moldau.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from moldau.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from moldau.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    ReplicaState,
)
from moldau.protocol.messages.metadata import MetadataRequest, MetadataResponse
from moldau.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from moldau.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from moldau.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


class Downgrade(IntEnum):
    """How far a feature may be lowered."""

    SAFE = 2
    """Only where nothing is lost."""
    UNSAFE = 3


_UPGRADE = 1
_METADATA_TOPIC = "__cluster_metadata"
_BROKERS = 1
_LEVELS = range(2**15)


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster's id and its brokers."""

    cluster_id: str | None
    controller_id: int
    brokers: tuple[Broker, ...]
    fenced: tuple[Broker, ...] = ()
    """Registered, and not alive; only where they were asked for."""
    authorized_operations: frozenset[AclOperation] | None = None
    """What this client may do to the cluster; None unless that was asked for."""


@dataclass(frozen=True, slots=True)
class LogDirReplica:
    """A replica in a log directory; `is_future` while it is being moved there."""

    where: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory of a broker; -1 bytes are unknown, `error` says what is wrong with it."""

    broker: int
    path: str
    total_bytes: int
    usable_bytes: int
    replicas: tuple[LogDirReplica, ...]
    error: KafkaError | None


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A voter or observer of the metadata quorum; times in ms, -1 if unknown."""

    node_id: int
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int
    directory_id: Uuid = ZERO_UUID
    """Of its disk; zeros where the quorum does not know it."""


@dataclass(frozen=True, slots=True)
class Quorum:
    """The metadata quorum as its leader sees it."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A producer that a partition remembers; -1 where there is no transaction."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    transaction_start_offset: int


class ClusterAdmin(AdminRequests):
    """Brokers, disks, quorum, features."""

    async def describe_cluster(
        self, *, include_fenced: bool = False, authorized_operations: bool = False
    ) -> ClusterDescription:
        """Its id and its living brokers; the others too (Kafka 4.0, KIP-1073), and what this client
        may do to the cluster, if asked for."""
        flag(include_fenced, "include_fenced")
        flag(authorized_operations, "authorized_operations")
        connection = await self._cluster.connection()
        try:
            connection.version_of(DescribeClusterRequest)
        except KafkaError:
            return await self._describe_old_cluster(authorized_operations)
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=authorized_operations,
            endpoint_type=_BROKERS,
            include_fenced_brokers=include_fenced,
        )
        answer = await self._ask(request, DescribeClusterResponse)
        raise_for(answer.error_code, answer.error_message or "")
        alive: list[Broker] = []
        fenced: list[Broker] = []
        for each in sorted(answer.brokers, key=lambda each: each.broker_id):
            found = fenced if each.is_fenced else alive
            found.append(Broker(each.broker_id, Address(each.host, each.port), each.rack))
        return ClusterDescription(
            answer.cluster_id,
            answer.controller_id,
            tuple(alive),
            tuple(fenced),
            operations_in(answer.cluster_authorized_operations),
        )

    async def _describe_old_cluster(self, authorized_operations: bool) -> ClusterDescription:
        """Before Kafka 2.8 metadata has it all."""
        request = MetadataRequest(
            topics=[],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=authorized_operations,
        )
        answer = await self._ask(request, MetadataResponse)
        known = Metadata()
        known.update(answer)
        return ClusterDescription(
            known.cluster_id,
            known.controller_id,
            tuple(known.brokers[each] for each in sorted(known.brokers)),
            authorized_operations=operations_in(answer.cluster_authorized_operations),
        )

    async def describe_features(self) -> dict[str, int]:
        """The level of each feature that the cluster has agreed on."""
        connection = await self._cluster.connection()
        return dict(connection.features)

    async def supported_features(self, broker: int | None = None) -> dict[str, tuple[int, int]]:
        """The levels, from and to, that a broker, or any of them, could work with."""
        connection = await self._cluster.connection(_any_or(broker))
        return dict(connection.supported_features)

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        downgrade: Downgrade | None = None,
        dry_run: bool = False,
    ) -> None:
        """Raises features to these levels, all or none; with `downgrade` lowers them. `dry_run`
        only says whether it could be done."""
        kind = _UPGRADE
        if downgrade is not None:
            kind = int(member_of(Downgrade, downgrade, "downgrade"))
        wanted = by_name(levels, "feature")
        request = UpdateFeaturesRequest(
            feature_updates=[
                FeatureUpdateKey(
                    feature=name,
                    max_version_level=within(level, "a feature's level", _LEVELS),
                    upgrade_type=kind,
                )
                for name, level in wanted.items()
            ],
            validate_only=flag(dry_run, "dry_run"),
        )
        answer = await self._ask_controller(request, UpdateFeaturesResponse)
        raise_for(answer.error_code, answer.error_message or "")
        for each in answer.results:
            raise_for(each.error_code, each.error_message or "", feature=each.feature)

    async def unregister_broker(self, broker: int) -> None:
        """Forgets a broker that has gone for good; it must have stopped."""
        request = UnregisterBrokerRequest(broker_id=broker_of(broker))
        answer = await self._ask_controller(request, UnregisterBrokerResponse)
        raise_for(answer.error_code, answer.error_message or "", broker=broker)

    async def describe_api_versions(self, broker: int | None = None) -> dict[int, tuple[int, int]]:
        """The versions that a broker, or any of them, serves by API key."""
        connection = await self._cluster.connection(_any_or(broker))
        return {key: (each.first, each.last) for key, each in connection.versions.by_key.items()}

    async def describe_quorum(self) -> Quorum:
        """The controllers that keep the metadata log."""
        partition = DescribeQuorumRequestPartitionData(partition_index=0)
        topic = DescribeQuorumRequestTopicData(topic_name=_METADATA_TOPIC, partitions=[partition])
        answer = await self._ask(DescribeQuorumRequest(topics=[topic]), DescribeQuorumResponse)
        raise_for(answer.error_code, answer.error_message or "")
        found = answer.topics[0].partitions[0]
        raise_for(found.error_code, found.error_message or "")
        return Quorum(
            found.leader_id,
            found.leader_epoch,
            found.high_watermark,
            tuple(map(_replica, found.current_voters)),
            tuple(map(_replica, found.observers)),
        )

    async def add_voter(
        self, node: int, directory_id: Uuid, listeners: Mapping[str, tuple[str, int]]
    ) -> None:
        """Add a controller to the voters (KIP-853). It must have caught up with the metadata log.

        `directory_id` is that of its metadata directory; `listeners` has a host and port by the
        name of each listener.
        """
        request = AddRaftVoterRequest(
            cluster_id=self._cluster.metadata.cluster_id,
            timeout_ms=self._cluster.settings[rows.request_timeout_ms],
            voter_id=broker_of(node),
            voter_directory_id=_directory_id(directory_id),
            listeners=_voter_listeners(listeners),
        )
        answer = await self._ask_controller(request, AddRaftVoterResponse)
        raise_for(answer.error_code, answer.error_message or "", node=node)

    async def remove_voter(self, node: int, directory_id: Uuid) -> None:
        """Remove a controller from the voters. It may go on reading the metadata log."""
        request = RemoveRaftVoterRequest(
            cluster_id=self._cluster.metadata.cluster_id,
            voter_id=broker_of(node),
            voter_directory_id=_directory_id(directory_id),
        )
        answer = await self._ask_controller(request, RemoveRaftVoterResponse)
        raise_for(answer.error_code, answer.error_message or "", node=node)

    async def describe_log_dirs(self, brokers: Iterable[int] | None = None) -> list[LogDir]:
        """The log directories of these brokers, or of all, with the replicas in them. KafkaError
        when one of them cannot be asked."""
        if brokers is None:
            await self._cluster.refresh()
            brokers = sorted(self._cluster.metadata.brokers)
        chosen = brokers_of(brokers)
        request = DescribeLogDirsRequest(topics=None)
        answers = await asyncio.gather(
            *(self._ask(request, DescribeLogDirsResponse, node_id=each) for each in chosen)
        )
        found = []
        for broker, answer in zip(chosen, answers, strict=True):
            raise_for(answer.error_code, broker=broker)
            found += [_log_dir(broker, each) for each in answer.results]
        return found

    async def describe_producers(self, where: Partition) -> list[ActiveProducer]:
        """The idempotent producers that the leader of a partition remembers; KafkaError, at once,
        when there is no such partition."""
        where = partition_of(where)
        topic = TopicRequest(name=where.topic, partition_indexes=[where.partition])
        request = DescribeProducersRequest(topics=[topic])

        async def attempt() -> list[ActiveProducer]:
            self._cluster.look_at([where.topic])
            await self._cluster.refresh()
            try:
                leader = await self._cluster.leader(where)
            except KafkaError as unknown:
                raise final(unknown) from None
            answer = await self._cluster.call(request, DescribeProducersResponse, node_id=leader)
            found = answer.topics[0].partitions[0]
            error = error_of(
                found.error_code, found.error_message, topic=where.topic, partition=where.partition
            )
            if error is not None:
                raise error
            return list(map(_producer, found.active_producers))

        return await self._cluster.retry(attempt)


def _any_or(broker: int | None) -> int:
    return ANY_BROKER if broker is None else broker_of(broker)


def _replica(answer: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        answer.replica_id,
        answer.log_end_offset,
        answer.last_fetch_timestamp,
        answer.last_caught_up_timestamp,
        answer.replica_directory_id,
    )


def _log_dir(broker: int, answer: DescribeLogDirsResult) -> LogDir:
    replicas = tuple(
        LogDirReplica(
            TopicPartition(topic.name, each.partition_index),
            each.partition_size,
            each.offset_lag,
            each.is_future_key,
        )
        for topic in answer.topics
        for each in topic.partitions
    )
    error = KafkaError(answer.error_code, path=answer.log_dir) if answer.error_code else None
    return LogDir(broker, answer.log_dir, answer.total_bytes, answer.usable_bytes, replicas, error)


def _producer(answer: ProducerState) -> ActiveProducer:
    return ActiveProducer(
        answer.producer_id,
        answer.producer_epoch,
        answer.last_sequence,
        answer.last_timestamp,
        answer.current_txn_start_offset,
    )


def _directory_id(given: object) -> bytes:
    if not isinstance(given, bytes):
        raise TypeError(f"a directory's id is 16 bytes, as parse_uuid gives, not {told(given)}")
    if len(given) != len(ZERO_UUID):
        raise ValueError(f"a directory's id is 16 bytes, not {len(given)}: {told(given)}")
    return given


def _voter_listeners(given: Mapping[str, object]) -> list[VoterListener]:
    found = []
    for name, address in by_name(given, "listener").items():
        if not isinstance(address, tuple) or len(address) != 2:
            raise TypeError(f"the address of {name} is (host, port), not {told(address)}")
        host = str_of(address[0], f"the host of {name}")
        port = within(address[1], f"the port of {name}", range(1, 2**16))
        found.append(VoterListener(name=name, host=host, port=port))
    return found
