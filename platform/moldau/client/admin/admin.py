"""The admin client: administers a cluster, one method for each action.

    async with Admin(bootstrap_servers="localhost:9092") as admin:
        await admin.create_topic(NewTopic("orders", partitions=6))
        print(await admin.list_topics())

A call for one thing raises its KafkaError. A call for several returns the result or error of each
if its return type includes KafkaError; the others raise the first error. `alter_group_offsets`
raises an error that contains the result of each. Retriable errors are retried until
`default.api.timeout.ms` is over.

Arguments of a wrong type or out of range raise a TypeError or ValueError that names them, before
anything is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Self, Unpack

from moldau.client.admin.parts import Parts
from moldau.client.admin.requests import Requests, value_of
from moldau.client.base.given import admin_settings
from moldau.client.base.lifecycle import Lifecycle, comes_with_start, reach
from moldau.link.cluster import Cluster
from moldau.protocol.election import Election

if TYPE_CHECKING:
    from moldau.client.admin.cluster import (
        ActiveProducer,
        ClusterDescription,
        Downgrade,
        LogDir,
        Quorum,
    )
    from moldau.client.admin.configs import ConfigEntry, Resource, ResourceType
    from moldau.client.admin.partitions import EligibleReplicas, Outcomes, Reassignment
    from moldau.client.admin.progress import GroupProgress
    from moldau.client.admin.topics import CreatedTopic, NewTopic
    from moldau.client.base.arguments import ByPartition, OffsetAndMetadata, PartitionGiven
    from moldau.client.base.offsets import Found
    from moldau.client.group.descriptions import GroupDescription, ListedGroup
    from moldau.client.settings.options import AdminOptions
    from moldau.errors.codes import KafkaError
    from moldau.ids import Uuid
    from moldau.link.metadata import Topic, TopicPartition
    from moldau.runtime import Runtime


class Admin:
    """An admin client for topics, partitions, settings, brokers and groups. It is bound to the
    event loop that starts it."""

    _cluster: Cluster = comes_with_start("admin client")

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        runtime: Runtime | None = None,
        **options: Unpack[AdminOptions],
    ) -> None:
        """Take `settings` by Kafka's names; `options` (underscores for dots) override them. In
        `settings`, those that only producers and consumers have are ignored."""
        self._given, self.settings = admin_settings(settings or {}, options)
        self._world = Lifecycle("admin client", runtime)
        self._requests = Requests(self._world)
        self._parts = Parts(self._requests)

    def __repr__(self) -> str:
        return self._world.shown(self, self.settings)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Connect. Raise KafkaError if no bootstrap server can be reached, ClientClosed after a
        close. A second call does nothing."""
        async with self._world.opening(self._close) as is_new:
            if is_new:
                self._given.log_notices("admin", self.settings)
                self._cluster = self._world.cluster = Cluster(
                    self._world.enter(), self.settings, tokens=self._given.objects.get("oauth")
                )
                self._requests.cluster = self._cluster
                await reach(self._cluster, "admin")

    async def aclose(self) -> None:
        """Close the connections. May be called again."""
        self._world.check_loop()
        self._world.is_closed = True
        await self._close()

    async def _close(self) -> None:
        await self._world.disconnect()
        await self._world.aclose()

    # The cluster

    async def describe_cluster(
        self, *, include_fenced: bool = False, authorized_operations: bool = False
    ) -> ClusterDescription:
        """Return the cluster's id and its live brokers; with `include_fenced` also the fenced ones
        (Kafka 4.0, KIP-1073), and on request the operations that this client may do."""
        return await self._parts.brokers.describe(include_fenced, authorized_operations)

    async def describe_features(self) -> dict[str, int]:
        """Return the level of each feature that the cluster has agreed on."""
        connection = await self._parts.brokers.connection()
        await connection.learn_versions()
        return dict(connection.features)

    async def supported_features(self, broker: int | None = None) -> dict[str, tuple[int, int]]:
        """Return the lowest and highest supported level of each feature, at this or any broker."""
        return dict((await self._parts.brokers.connection(broker)).supported_features)

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        downgrade: Downgrade | None = None,
        dry_run: bool = False,
    ) -> None:
        """Raise features to these levels, all or none; with `downgrade` lower them. `dry_run` only
        checks whether it could be done."""
        await self._parts.brokers.update_features(levels, downgrade, dry_run)

    async def unregister_broker(self, broker: int) -> None:
        """Remove a broker that has gone for good from the cluster. It must be stopped."""
        await self._parts.brokers.unregister(broker)

    async def unregister_controller(self, controller: int) -> None:
        """Remove the registration of a controller that has gone for good (Kafka 4.4). One that runs
        registers again; `remove_voter` takes its vote."""
        await self._parts.brokers.unregister_controller(controller)

    async def describe_api_versions(self, broker: int | None = None) -> dict[int, tuple[int, int]]:
        """Return the supported versions of each API, by its key, at this or any broker."""
        versions = (await self._parts.brokers.connection(broker)).versions
        return {key: (each.first, each.last) for key, each in versions.by_key.items()}

    async def describe_quorum(self) -> Quorum:
        """Return the controllers that store the metadata log."""
        return await self._parts.brokers.quorum()

    async def add_voter(
        self, node: int, directory_id: Uuid, listeners: Mapping[str, tuple[str, int]]
    ) -> None:
        """Add a controller to the voters (KIP-853). It must have caught up with the metadata log.

        `directory_id` is that of its metadata directory; `listeners` has a host and port by the
        name of each listener.
        """
        await self._parts.brokers.add_voter(node, directory_id, listeners)

    async def remove_voter(self, node: int, directory_id: Uuid) -> None:
        """Remove a controller from the voters. It may go on reading the metadata log."""
        await self._parts.brokers.remove_voter(node, directory_id)

    async def describe_log_dirs(self, brokers: Iterable[int] | None = None) -> list[LogDir]:
        """Return the log directories of these brokers, or of all, with their replicas. Raise
        KafkaError if a broker does not answer."""
        return await self._parts.brokers.log_dirs(brokers)

    async def describe_producers(self, where: PartitionGiven) -> list[ActiveProducer]:
        """Return the idempotent producers that the leader of a partition knows. Raise KafkaError at
        once if the partition does not exist."""
        return await self._parts.brokers.producers(where)

    # Settings

    async def describe_configs(
        self, resource: Resource, *, names: Iterable[str] | None = None, documentation: bool = False
    ) -> list[ConfigEntry]:
        """Return all settings of a resource, or those with these names."""
        return await self._parts.configs.describe(resource, names, documentation)

    async def alter_configs(
        self,
        resource: Resource,
        *,
        set_to: Mapping[str, str] | None = None,
        unset: Iterable[str] = (),
        append: Mapping[str, str] | None = None,
        subtract: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Change settings of a resource, all or none; `append` and `subtract` are for lists.
        `validate_only` only checks whether it could be done."""
        from moldau.client.admin.configs import APPEND, SET, SUBTRACT

        by_operation = {SET: set_to, APPEND: append, SUBTRACT: subtract}
        await self._parts.configs.alter(resource, by_operation, unset, validate_only)

    async def list_config_resources(self, types: Iterable[ResourceType] = ()) -> list[Resource]:
        """Return the resources that have settings of their own, of these types or of all."""
        return await self._parts.configs.resources(types)

    # Leaders and replicas

    async def eligible_replicas(self, *topics: str) -> dict[TopicPartition, EligibleReplicas]:
        """Return the replicas that could lead each partition if none is in sync any more, of these
        topics or all. Raise KafkaError for an unknown topic, or a broker older than Kafka 3.8."""
        return await self._parts.partitions.eligible(topics)

    async def elect_leaders(
        self,
        partitions: Iterable[PartitionGiven] | None = None,
        *,
        election: Election = Election.PREFERRED,
    ) -> Outcomes:
        """Elect leaders now, for these partitions or for all. An unclean election may lose records.
        A named partition that needs no election gets the error ELECTION_NOT_NEEDED; without names
        it is left out."""
        return await self._parts.partitions.elect(partitions, election)

    async def alter_partition_reassignments(
        self, replicas: ByPartition[Sequence[int] | None]
    ) -> Outcomes:
        """Start to move partitions to these brokers, the preferred leader first; None cancels a
        move. The move continues in the background: see `list_partition_reassignments`."""
        return await self._parts.partitions.reassign(replicas)

    async def list_partition_reassignments(
        self, partitions: Iterable[PartitionGiven] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Return the running moves of these partitions, or all."""
        return await self._parts.partitions.reassignments(partitions)

    async def alter_replica_log_dirs(
        self, directories: Mapping[tuple[TopicPartition, int], str]
    ) -> dict[tuple[TopicPartition, int], KafkaError | None]:
        """Move replicas, each a pair of partition and broker, to another directory of their broker.
        The move continues in the background: see `describe_log_dirs`. If some brokers fail, their
        replicas have the error; a KafkaError is raised only if all fail."""
        return await self._parts.partitions.alter_log_dirs(directories)

    # Topics and records

    async def list_topics(self, *, internal: bool = False) -> list[Topic]:
        """Return all topics, sorted by name; the brokers' internal topics only with `internal`."""
        return await self._parts.topics.all(internal)

    async def describe_topics(
        self, names: Iterable[str], *, authorized_operations: bool = False
    ) -> dict[str, Topic | KafkaError]:
        """Return each topic or its error; on request with the operations allowed to this client."""
        return await self._parts.topics.describe(names, authorized_operations)

    async def describe_topics_by_id(
        self, ids: Iterable[Uuid], *, authorized_operations: bool = False
    ) -> dict[Uuid, Topic | KafkaError]:
        """Describe topics by id, as `describe_topics`: one that was created again has a new id."""
        return await self._parts.topics.describe_by_id(ids, authorized_operations)

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Create topics; with `validate_only` only check whether they could be created."""
        return await self._parts.topics.create(topics, validate_only)

    async def create_topic(self, topic: NewTopic) -> CreatedTopic:
        """Create one topic. Raise its KafkaError."""
        return value_of((await self._parts.topics.create([topic]))[topic.name])

    async def delete_topics(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete topics with all their records."""
        return await self._parts.topics.delete(names)

    async def delete_topics_by_id(self, ids: Iterable[Uuid]) -> dict[Uuid, KafkaError | None]:
        """Delete topics by id: never one that was created again with the same name."""
        return await self._parts.topics.delete_by_id(ids)

    async def delete_topic(self, name: str) -> None:
        """Delete one topic with all its records. Raise its KafkaError."""
        value_of((await self._parts.topics.delete([name]))[name])

    async def create_partitions(
        self,
        topic: str,
        count: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Raise the number of partitions to `count` in all. Keys then map to other partitions."""
        await self._parts.topics.grow(topic, count, assignments, validate_only)

    async def partitions(self, *topics: str) -> list[TopicPartition]:
        """Return all partitions of these topics. Raise KafkaError for an unknown topic."""
        return await self._parts.topics.partitions(topics)

    async def led_partitions(self, chosen: Iterable[PartitionGiven]) -> list[TopicPartition]:
        """Return those of the partitions that exist and have a leader now."""
        return await self._parts.topics.led(chosen)

    async def list_offsets(self, wanted: ByPartition[int], *, is_committed: bool = False) -> Found:
        """Return the offset for each partition's timestamp in ms, or for an end of its log, see
        `moldau.client.base.offsets`. Raise KafkaError at once if a topic does not exist; a
        missing partition of an existing topic is retried."""
        return await self._parts.topics.offsets(wanted, is_committed)

    async def delete_records(
        self, before: ByPartition[int]
    ) -> dict[TopicPartition, int | KafkaError]:
        """Delete the records below an offset (`TO_THE_END`: all). Return for each partition the new
        start of its log, or why nothing was deleted there.

        An error of one partition does not affect the others. REQUEST_TIMED_OUT may mean that a
        leader got the request and has not answered: its records may be deleted or not. KafkaError
        is raised only if no leader at all was reached.
        """
        return await self._parts.topics.delete_records(before)

    # Groups

    async def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> list[ListedGroup]:
        """Return all groups of the cluster, sorted by name, or those in these states (Stable,
        Empty, ...) and of these types (classic, consumer, share, streams)."""
        return await self._parts.groups.all(states, types)

    async def describe_groups(
        self, groups: Iterable[str], *, authorized_operations: bool = False
    ) -> dict[str, GroupDescription | KafkaError]:
        """Return state, members and assignments of each group; on request also the operations that
        this client may do."""
        return await self._parts.groups.describe(groups, authorized_operations)

    async def describe_group(
        self, group: str, *, authorized_operations: bool = False
    ) -> GroupDescription:
        """Describe one group. Raise its KafkaError."""
        return value_of((await self._parts.groups.describe([group], authorized_operations))[group])

    async def delete_groups(self, groups: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete groups that have no members, with their offsets."""
        return await self._parts.groups.delete(groups)

    async def delete_group(self, group: str) -> None:
        """Delete one group that has no members, with its offsets. Raise its KafkaError."""
        value_of((await self._parts.groups.delete([group]))[group])

    async def group_progress(self, group: str) -> GroupProgress:
        """Return state, members, committed offsets and lag. KafkaError for an unknown group."""
        return value_of((await self._parts.progress.of_groups([group]))[group])

    async def groups_progress(self, groups: Iterable[str]) -> dict[str, GroupProgress | KafkaError]:
        """Return several groups' progress; the end of a log that several read is requested once."""
        return await self._parts.progress.of_groups(groups)

    async def group_offsets(
        self,
        group: str,
        partitions: Iterable[PartitionGiven] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's committed offsets, of these partitions or of all. With
        `require_stable` wait for transactions that are about to commit offsets."""
        return await self._parts.groups.offsets(group, partitions, require_stable)

    async def alter_group_offsets(
        self, group: str, offsets: ByPartition[int | OffsetAndMetadata]
    ) -> None:
        """Set the group's committed offsets. It must have no members. OffsetsNotStored is raised if
        some could not be stored: all others are, and `results` has each."""
        await self._parts.groups.alter_offsets(group, offsets)

    async def delete_group_offsets(
        self, group: str, partitions: Iterable[PartitionGiven]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Delete the group's committed offsets of partitions that none of its members reads."""
        return await self._parts.groups.delete_offsets(group, partitions)

    async def remove_members(
        self,
        group: str,
        *,
        instance_ids: Iterable[str] = (),
        member_ids: Iterable[str] = (),
        reason: str = "",
    ) -> None:
        """Remove members of a classic group: static ones by instance id, others by member id.
        KafkaError names the first one that could not be removed."""
        await self._parts.groups.remove_members(group, instance_ids, member_ids, reason)

    async def remove_all_members(self, group: str, *, reason: str = "") -> None:
        """Remove all members of a classic group. Consumers that still run join again."""
        await self._parts.groups.remove_all_members(group, reason)
