"""The admin client: what a person does to a cluster, one method an action.

    async with Admin(bootstrap_servers="localhost:9092") as admin:
        await admin.create_topic(NewTopic("orders", partitions=6))
        print(await admin.list_topics())

Calls that name one thing raise the KafkaError. Of those that name several, the ones whose answer
has a place for a KafkaError give each its result or its error, and all others raise the first one.
`alter_group_offsets` raises an error that has what became of each. What may work later is tried
again until `default.api.timeout.ms` is over.

Arguments of the wrong kind or out of range are refused before anything is sent, by a TypeError or
ValueError that names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Self, Unpack

from moldau.client.admin.cluster import (
    ActiveProducer,
    Brokers,
    ClusterDescription,
    Downgrade,
    LogDir,
    Quorum,
)
from moldau.client.admin.configs import (
    APPEND,
    SET,
    SUBTRACT,
    ConfigEntry,
    Configs,
    Resource,
    ResourceType,
)
from moldau.client.admin.groups import Groups
from moldau.client.admin.partitions import (
    Election,
    EligibleReplicas,
    Outcomes,
    Partitions,
    Reassignment,
)
from moldau.client.admin.progress import GroupProgress, Progress
from moldau.client.admin.requests import Requests, value_of
from moldau.client.admin.topics import CreatedTopic, NewTopic, Topics
from moldau.client.consumer.offsets import Found
from moldau.client.group.descriptions import GroupDescription, ListedGroup
from moldau.client.settings import rows
from moldau.client.settings.arguments import ByPartition, OffsetAndMetadata, PartitionGiven
from moldau.client.settings.given import WITHOUT_MEANING_TO_ADMINS, Given
from moldau.client.settings.lifecycle import Lifecycle, comes_with_start, reach
from moldau.client.settings.options import AdminOptions
from moldau.errors.codes import KafkaError
from moldau.ids import Uuid
from moldau.link.cluster import Cluster
from moldau.link.metadata import Topic, TopicPartition
from moldau.runtime import Runtime


class Admin:
    """Topics, partitions, settings, brokers, groups. Belongs to the event loop that it was started
    in."""

    _cluster: Cluster = comes_with_start("admin client")

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        runtime: Runtime | None = None,
        **options: Unpack[AdminOptions],
    ) -> None:
        """`settings` by Kafka's names, `options` the same with underscores: these win. What only
        producers and consumers have is passed over in `settings`, which may be theirs too."""
        self._given = Given(
            settings or {},
            options,
            without_meaning=WITHOUT_MEANING_TO_ADMINS,
            of_others=rows.OF_PRODUCERS_AND_CONSUMERS,
        )
        self.settings = rows.resolve(rows.ADMIN_SETTINGS, self._given.settings, {})
        self._world = Lifecycle("admin client", runtime)
        requests = self._requests = Requests(self._world)
        self._brokers = Brokers(requests)
        self._configs = Configs(requests)
        self._groups = Groups(requests)
        self._partitions = Partitions(requests)
        self._topics = Topics(requests)
        self._progress = Progress(requests, self._topics, self._groups)

    def __repr__(self) -> str:
        return self._world.shown(self, self.settings)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Connects; KafkaError when no bootstrap server can be reached. Does nothing when it is
        started; ClientClosed after a close."""
        async with self._world.opening(self._close) as is_new:
            if is_new:
                self._given.tell("admin", self.settings)
                self._cluster = Cluster(self._world.enter(), self.settings)
                self._requests.cluster = self._cluster
                await reach(self._cluster, "admin")

    async def aclose(self) -> None:
        """Closes its connections. May be called again."""
        if "_cluster" in vars(self):
            self._cluster.check_loop()
        self._world.is_closed = True
        await self._close()

    async def _close(self) -> None:
        if "_cluster" in vars(self):
            await self._cluster.aclose()
        await self._world.aclose()

    # The cluster

    async def describe_cluster(
        self, *, include_fenced: bool = False, authorized_operations: bool = False
    ) -> ClusterDescription:
        """Its id and its living brokers; the others too (Kafka 4.0, KIP-1073), and what this client
        may do to the cluster, if asked for."""
        return await self._brokers.describe(include_fenced, authorized_operations)

    async def describe_features(self) -> dict[str, int]:
        """The level of each feature that the cluster has agreed on."""
        return dict((await self._brokers.connection()).features)

    async def supported_features(self, broker: int | None = None) -> dict[str, tuple[int, int]]:
        """The levels, from and to, that a broker, or any of them, could work with."""
        return dict((await self._brokers.connection(broker)).supported_features)

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        downgrade: Downgrade | None = None,
        dry_run: bool = False,
    ) -> None:
        """Raises features to these levels, all or none; with `downgrade` lowers them. `dry_run`
        only says whether it could be done."""
        await self._brokers.update_features(levels, downgrade, dry_run)

    async def unregister_broker(self, broker: int) -> None:
        """Forgets a broker that has gone for good; it must have stopped."""
        await self._brokers.unregister(broker)

    async def describe_api_versions(self, broker: int | None = None) -> dict[int, tuple[int, int]]:
        """The versions that a broker, or any of them, serves by API key."""
        versions = (await self._brokers.connection(broker)).versions
        return {key: (each.first, each.last) for key, each in versions.by_key.items()}

    async def describe_quorum(self) -> Quorum:
        """The controllers that keep the metadata log."""
        return await self._brokers.quorum()

    async def add_voter(
        self, node: int, directory_id: Uuid, listeners: Mapping[str, tuple[str, int]]
    ) -> None:
        """Add a controller to the voters (KIP-853). It must have caught up with the metadata log.

        `directory_id` is that of its metadata directory; `listeners` has a host and port by the
        name of each listener.
        """
        await self._brokers.add_voter(node, directory_id, listeners)

    async def remove_voter(self, node: int, directory_id: Uuid) -> None:
        """Remove a controller from the voters. It may go on reading the metadata log."""
        await self._brokers.remove_voter(node, directory_id)

    async def describe_log_dirs(self, brokers: Iterable[int] | None = None) -> list[LogDir]:
        """The log directories of these brokers, or of all, with the replicas in them. KafkaError
        when one of them cannot be asked."""
        return await self._brokers.log_dirs(brokers)

    async def describe_producers(self, where: PartitionGiven) -> list[ActiveProducer]:
        """The idempotent producers that the leader of a partition remembers; KafkaError, at once,
        if the partition does not exist."""
        return await self._brokers.producers(where)

    # Settings

    async def describe_configs(
        self, resource: Resource, *, names: Iterable[str] | None = None, documentation: bool = False
    ) -> list[ConfigEntry]:
        """All settings of a resource, or those of these names."""
        return await self._configs.describe(resource, names, documentation)

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
        """Changes settings of a resource, all or none; `append` and `subtract` are for lists.
        `validate_only` only says whether it could be done."""
        by_operation = {SET: set_to, APPEND: append, SUBTRACT: subtract}
        await self._configs.alter(resource, by_operation, unset, validate_only)

    async def list_config_resources(self, types: Iterable[ResourceType] = ()) -> list[Resource]:
        """What has settings of its own; of all types unless some are named."""
        return await self._configs.resources(types)

    # Leaders and replicas

    async def eligible_replicas(self, *topics: str) -> dict[TopicPartition, EligibleReplicas]:
        """The replicas that could lead each partition of these topics, or of all, when none is in
        sync any more. KafkaError if a topic does not exist, or a broker is before Kafka 3.8."""
        return await self._partitions.eligible(topics)

    async def elect_leaders(
        self,
        partitions: Iterable[PartitionGiven] | None = None,
        *,
        election: Election = Election.PREFERRED,
    ) -> Outcomes:
        """Elects now, for these partitions or for all. An unclean election may lose records. A
        partition that needs none has the error ELECTION_NOT_NEEDED, or is left out of all."""
        return await self._partitions.elect(partitions, election)

    async def alter_partition_reassignments(
        self, replicas: ByPartition[Sequence[int] | None]
    ) -> Outcomes:
        """Starts to move partitions to these brokers, the preferred leader first; None cancels the
        move of a partition. What was started goes on by itself: see
        `list_partition_reassignments`."""
        return await self._partitions.reassign(replicas)

    async def list_partition_reassignments(
        self, partitions: Iterable[PartitionGiven] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """The moves that are under way, of these partitions or of all."""
        return await self._partitions.reassignments(partitions)

    async def alter_replica_log_dirs(
        self, directories: Mapping[tuple[TopicPartition, int], str]
    ) -> dict[tuple[TopicPartition, int], KafkaError | None]:
        """Moves replicas, each told by partition and broker, to another directory of their broker.
        The move goes on by itself: see `describe_log_dirs`. What one broker begins is told though
        another fails; a KafkaError is raised only when all of them do."""
        return await self._partitions.alter_log_dirs(directories)

    # Topics and records

    async def list_topics(self, *, internal: bool = False) -> list[Topic]:
        """All topics by name, those of the brokers themselves only if asked for."""
        return await self._topics.all(internal)

    async def describe_topics(
        self, names: Iterable[str], *, authorized_operations: bool = False
    ) -> dict[str, Topic | KafkaError]:
        """Each topic, or why it cannot be described; what this client may do to it too if asked
        for."""
        return await self._topics.describe(names, authorized_operations)

    async def describe_topics_by_id(
        self, ids: Iterable[Uuid], *, authorized_operations: bool = False
    ) -> dict[Uuid, Topic | KafkaError]:
        """As `describe_topics`: a topic that was deleted and made again has another id."""
        return await self._topics.describe_by_id(ids, authorized_operations)

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Makes topics, or only says whether they could be made."""
        return await self._topics.create(topics, validate_only)

    async def create_topic(self, topic: NewTopic) -> CreatedTopic:
        """As `create_topics` for one; raises the KafkaError."""
        return value_of((await self._topics.create([topic]))[topic.name])

    async def delete_topics(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        """Deletes topics with all their records."""
        return await self._topics.delete(names)

    async def delete_topics_by_id(self, ids: Iterable[Uuid]) -> dict[Uuid, KafkaError | None]:
        """As `delete_topics`: cannot hit a topic that was made again under the same name."""
        return await self._topics.delete_by_id(ids)

    async def delete_topic(self, name: str) -> None:
        """As `delete_topics` for one; raises the KafkaError."""
        value_of((await self._topics.delete([name]))[name])

    async def create_partitions(
        self,
        topic: str,
        count: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Makes the topic have `count` partitions in all. Keys go to other ones from then on."""
        await self._topics.grow(topic, count, assignments, validate_only)

    async def partitions(self, *topics: str) -> list[TopicPartition]:
        """All partitions of these topics; KafkaError for one that the cluster does not know."""
        return await self._topics.partitions(topics)

    async def led_partitions(self, chosen: Iterable[PartitionGiven]) -> list[TopicPartition]:
        """Those of them that exist and have a leader at present."""
        return await self._topics.led(chosen)

    async def list_offsets(self, wanted: ByPartition[int], *, is_committed: bool = False) -> Found:
        """The offset for each partition's timestamp in ms, or for an end of its log, see
        `moldau.client.consumer.offsets`. KafkaError, at once, if a topic does not exist;
        a partition that its topic may yet get is waited for."""
        return await self._topics.offsets(wanted, is_committed)

    async def delete_records(
        self, before: ByPartition[int]
    ) -> dict[TopicPartition, int | KafkaError]:
        """Deletes the records below an offset (`TO_THE_END`: all). For each partition where its log
        begins then, or why nothing was deleted there: what fails for one is done for the others.
        REQUEST_TIMED_OUT says that a leader was asked and has not answered: its records may be
        deleted or not. Raises a KafkaError only when no leader of any of them was reached."""
        return await self._topics.delete_records(before)

    # Groups

    async def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> list[ListedGroup]:
        """All groups of the cluster, or those in these states (Stable, Empty, ...) and of these
        types (classic, consumer, share, streams), by name."""
        return await self._groups.all(states, types)

    async def describe_groups(
        self, groups: Iterable[str], *, authorized_operations: bool = False
    ) -> dict[str, GroupDescription | KafkaError]:
        """State, members and what each of them reads; what this client may do to the group too if
        asked for."""
        return await self._groups.describe(groups, authorized_operations)

    async def describe_group(
        self, group: str, *, authorized_operations: bool = False
    ) -> GroupDescription:
        """As `describe_groups` for one; raises the KafkaError."""
        return value_of((await self._groups.describe([group], authorized_operations))[group])

    async def delete_groups(self, groups: Iterable[str]) -> dict[str, KafkaError | None]:
        """Deletes groups that have no members, with their offsets."""
        return await self._groups.delete(groups)

    async def delete_group(self, group: str) -> None:
        """As `delete_groups` for one; raises the KafkaError."""
        value_of((await self._groups.delete([group]))[group])

    async def group_progress(self, group: str) -> GroupProgress:
        """State, members, committed offsets and lag; KafkaError if the group does not exist."""
        return value_of((await self._progress.of_groups([group]))[group])

    async def groups_progress(self, groups: Iterable[str]) -> dict[str, GroupProgress | KafkaError]:
        """As `group_progress` for several; logs that several groups read are asked once."""
        return await self._progress.of_groups(groups)

    async def group_offsets(
        self,
        group: str,
        partitions: Iterable[PartitionGiven] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group has committed, of these partitions or of all. `require_stable`: waits for
        transactions that are about to commit offsets."""
        return await self._groups.offsets(group, partitions, require_stable)

    async def alter_group_offsets(
        self, group: str, offsets: ByPartition[int | OffsetAndMetadata]
    ) -> None:
        """Makes the group go on elsewhere. It must have no members. OffsetsNotStored where a
        partition could not be altered: what can be done for the others is done, and `results` has
        each."""
        await self._groups.alter_offsets(group, offsets)

    async def delete_group_offsets(
        self, group: str, partitions: Iterable[PartitionGiven]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Forgets what the group has committed of partitions that none of its members reads."""
        return await self._groups.delete_offsets(group, partitions)

    async def remove_members(
        self,
        group: str,
        *,
        instance_ids: Iterable[str] = (),
        member_ids: Iterable[str] = (),
        reason: str = "",
    ) -> None:
        """Removes members of a classic group: static ones by instance id, others by member id.
        KafkaError names the first one that could not be removed."""
        await self._groups.remove_members(group, instance_ids, member_ids, reason)

    async def remove_all_members(self, group: str, *, reason: str = "") -> None:
        """Removes all members of a classic group; its consumers join again if they still run."""
        await self._groups.remove_all_members(group, reason)
