"""The cluster itself: its brokers, log directories, quorum and features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum

from moldau.client.admin.requests import Requests, at_once, error_of, value_of
from moldau.client.base import arguments
from moldau.client.base.arguments import PartitionGiven
from moldau.client.base.unknown_topic import final
from moldau.deferred import dataclass
from moldau.errors.codes import KafkaError, raise_for
from moldau.ids import ZERO_UUID, Uuid
from moldau.link.addresses import Address
from moldau.link.arguments import str_of, told
from moldau.link.cluster import ANY_BROKER
from moldau.link.connection import Connection
from moldau.link.metadata import Broker, Metadata, TopicPartition
from moldau.protocol.acl_operations import AclOperation, operations_in
from moldau.protocol.messages import add_raft_voter as adding
from moldau.protocol.messages import describe_cluster as describing
from moldau.protocol.messages import describe_log_dirs as disks
from moldau.protocol.messages import describe_producers as producers
from moldau.protocol.messages import describe_quorum as quorum
from moldau.protocol.messages import remove_raft_voter as removing
from moldau.protocol.messages import unregister_broker as unregistering
from moldau.protocol.messages import unregister_controller as forgetting
from moldau.protocol.messages import update_features as features
from moldau.protocol.messages.metadata import MetadataRequest, MetadataResponse


class Downgrade(IntEnum):
    """How far a feature may be lowered."""

    SAFE = 2
    """Only if no metadata is lost."""
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
    """Brokers that are registered and not alive; empty unless requested."""
    authorized_operations: frozenset[AclOperation] | None = None
    """The operations that this client may do to the cluster; None unless requested."""


@dataclass(frozen=True, slots=True)
class LogDirReplica:
    """A replica in a log directory; `is_future` while it is being moved there."""

    where: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory of a broker; -1 bytes are unknown, `error` is why it cannot be used."""

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
    """The id of its metadata directory; zeros if the quorum does not know it."""


@dataclass(frozen=True, slots=True)
class Quorum:
    """The metadata quorum, as its leader reports it."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A producer that a partition's leader knows; -1 as `transaction_start_offset` means none."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    transaction_start_offset: int
    coordinator_epoch: int = -1
    """Of the coordinator that wrote its last marker there; -1 if there was none."""


class Brokers:
    """Describes and changes brokers, log directories, quorum and features."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def describe(
        self, include_fenced: bool, authorized_operations: bool
    ) -> ClusterDescription:
        arguments.flag(include_fenced, "include_fenced")
        arguments.flag(authorized_operations, "authorized_operations")
        connection = await self.connection()
        try:
            connection.version_of(describing.DescribeClusterRequest)
        except KafkaError:
            return await self._describe_old(authorized_operations)
        request = describing.DescribeClusterRequest(
            include_cluster_authorized_operations=authorized_operations,
            endpoint_type=_BROKERS,
            include_fenced_brokers=include_fenced,
        )
        answer = await self._requests.ask(request, describing.DescribeClusterResponse)
        raise_for("DescribeCluster", answer.error_code, answer.error_message or "")
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

    async def _describe_old(self, authorized_operations: bool) -> ClusterDescription:
        """Describe the cluster from metadata, for brokers before Kafka 2.8."""
        request = MetadataRequest(
            topics=[],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=authorized_operations,
        )
        answer = await self._requests.ask(request, MetadataResponse)
        known = Metadata()
        known.update(answer)
        return ClusterDescription(
            known.cluster_id,
            known.controller_id,
            tuple(known.brokers[each] for each in sorted(known.brokers)),
            authorized_operations=operations_in(answer.cluster_authorized_operations),
        )

    async def connection(self, broker: int | None = None) -> Connection:
        """Return a connection to that broker, or to any."""
        node_id = ANY_BROKER if broker is None else arguments.broker_of(broker)
        return await self._requests.cluster.connection(node_id)

    async def update_features(
        self, levels: Mapping[str, int], downgrade: Downgrade | None, dry_run: bool
    ) -> None:
        kind = _UPGRADE
        if downgrade is not None:
            kind = int(arguments.member_of(Downgrade, downgrade, "downgrade"))
        request = features.UpdateFeaturesRequest(
            feature_updates=[
                features.FeatureUpdateKey(
                    feature=name,
                    max_version_level=arguments.within(level, "a feature's level", _LEVELS),
                    upgrade_type=kind,
                )
                for name, level in arguments.by_name(levels, "feature").items()
            ],
            validate_only=arguments.flag(dry_run, "dry_run"),
        )
        answer = await self._requests.ask_controller(request, features.UpdateFeaturesResponse)
        for each in answer.results:
            raise_for(
                "UpdateFeatures", each.error_code, each.error_message or "", feature=each.feature
            )

    async def unregister(self, broker: int) -> None:
        request = unregistering.UnregisterBrokerRequest(broker_id=arguments.broker_of(broker))
        response = unregistering.UnregisterBrokerResponse
        await self._requests.ask_controller(request, response, broker=broker)

    async def unregister_controller(self, controller: int) -> None:
        request = forgetting.UnregisterControllerRequest(
            controller_id=arguments.broker_of(controller)
        )
        response = forgetting.UnregisterControllerResponse
        await self._requests.ask_controller(request, response, controller=controller)

    async def quorum(self) -> Quorum:
        partition = quorum.DescribeQuorumRequestPartitionData(partition_index=0)
        topic = quorum.DescribeQuorumRequestTopicData(
            topic_name=_METADATA_TOPIC, partitions=[partition]
        )
        request = quorum.DescribeQuorumRequest(topics=[topic])
        answer = await self._requests.ask(request, quorum.DescribeQuorumResponse)
        raise_for("DescribeQuorum", answer.error_code, answer.error_message or "")
        found = answer.topics[0].partitions[0]
        raise_for("DescribeQuorum", found.error_code, found.error_message or "")
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
        request = adding.AddRaftVoterRequest(
            cluster_id=self._requests.cluster.metadata.cluster_id,
            timeout_ms=self._requests.timeout_ms,
            voter_id=arguments.broker_of(node),
            voter_directory_id=arguments.uuid_of(
                directory_id, "a directory's id", "parse_uuid gives"
            ),
            listeners=_voter_listeners(listeners),
        )
        await self._requests.ask_controller(request, adding.AddRaftVoterResponse, node=node)

    async def remove_voter(self, node: int, directory_id: Uuid) -> None:
        request = removing.RemoveRaftVoterRequest(
            cluster_id=self._requests.cluster.metadata.cluster_id,
            voter_id=arguments.broker_of(node),
            voter_directory_id=arguments.uuid_of(
                directory_id, "a directory's id", "parse_uuid gives"
            ),
        )
        await self._requests.ask_controller(request, removing.RemoveRaftVoterResponse, node=node)

    async def log_dirs(self, brokers: Iterable[int] | None) -> list[LogDir]:
        chosen = arguments.brokers_of(
            await self._requests.brokers() if brokers is None else brokers
        )
        request = disks.DescribeLogDirsRequest(topics=None)

        async def ask(broker: int) -> list[LogDir]:
            answer = await self._requests.ask(request, disks.DescribeLogDirsResponse, broker)
            raise_for("DescribeLogDirs", answer.error_code, broker=broker)
            return [_log_dir(broker, each) for each in answer.results]

        found = await at_once(chosen, ask)
        return [each for broker in chosen for each in value_of(found[broker])]

    async def producers(self, where: PartitionGiven) -> list[ActiveProducer]:
        where = arguments.partition_of(where)
        topic = producers.TopicRequest(name=where.topic, partition_indexes=[where.partition])
        request = producers.DescribeProducersRequest(topics=[topic])
        cluster = self._requests.cluster

        async def attempt() -> list[ActiveProducer]:
            cluster.look_at([where.topic])
            await cluster.refresh()
            try:
                leader = await cluster.leader(where)
            except KafkaError as unknown:
                raise final(unknown) from None
            response = producers.DescribeProducersResponse
            answer = await self._requests.ask_once(request, response, leader)
            found = answer.topics[0].partitions[0]
            raise_for(
                "DescribeProducers", found.error_code, found.error_message or "", **where._asdict()
            )
            return [
                ActiveProducer(
                    each.producer_id,
                    each.producer_epoch,
                    each.last_sequence,
                    each.last_timestamp,
                    each.current_txn_start_offset,
                    each.coordinator_epoch,
                )
                for each in found.active_producers
            ]

        return await cluster.retry(attempt)


def _replica(answer: quorum.ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        answer.replica_id,
        answer.log_end_offset,
        answer.last_fetch_timestamp,
        answer.last_caught_up_timestamp,
        answer.replica_directory_id,
    )


def _log_dir(broker: int, answer: disks.DescribeLogDirsResult) -> LogDir:
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
    error = error_of("DescribeLogDirs", answer.error_code, path=answer.log_dir)
    return LogDir(broker, answer.log_dir, answer.total_bytes, answer.usable_bytes, replicas, error)


def _voter_listeners(given: Mapping[str, object]) -> list[adding.Listener]:
    found = []
    for name, address in arguments.by_name(given, "listener").items():
        if not isinstance(address, tuple) or len(address) != 2:
            raise TypeError(f"the address of {name} is (host, port), not {told(address)}")
        host = str_of(address[0], f"the host of {name}")
        port = arguments.within(address[1], f"the port of {name}", range(1, 2**16))
        found.append(adding.Listener(name=name, host=host, port=port))
    return found
