"""`Admin`'s calls that wait, made from the asyncio client (tests/client/sync).

`python -m tests.client.sync.twins` makes this module anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from moldau.client.admin.admin import Admin as AsyncAdmin
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
from moldau.client.base.blocking import BlockingClient
from moldau.client.base.offsets import Found
from moldau.client.group.descriptions import GroupDescription, ListedGroup
from moldau.errors.codes import KafkaError
from moldau.ids import Uuid
from moldau.link.metadata import Topic, TopicPartition
from moldau.protocol.election import Election


class AdminCalls(BlockingClient):
    """Each hands its call to the loop and waits for the answer."""

    _client: AsyncAdmin

    def describe_cluster(
        self, *, include_fenced: bool = False, authorized_operations: bool = False
    ) -> ClusterDescription:
        """Return the cluster's id and its live brokers; with `include_fenced` also the fenced ones
        (Kafka 4.0, KIP-1073), and on request the operations that this client may do."""
        return self._call(
            self._client.describe_cluster(
                include_fenced=include_fenced, authorized_operations=authorized_operations
            )
        )

    def describe_features(self) -> dict[str, int]:
        """Return the level of each feature that the cluster has agreed on."""
        return self._call(self._client.describe_features())

    def supported_features(self, broker: int | None = None) -> dict[str, tuple[int, int]]:
        """Return the lowest and highest supported level of each feature, at this or any broker."""
        return self._call(self._client.supported_features(broker))

    def update_features(
        self,
        levels: Mapping[str, int],
        *,
        downgrade: Downgrade | None = None,
        dry_run: bool = False,
    ) -> None:
        """Raise features to these levels, all or none; with `downgrade` lower them. `dry_run` only
        checks whether it could be done."""
        self._call(self._client.update_features(levels, downgrade=downgrade, dry_run=dry_run))

    def unregister_broker(self, broker: int) -> None:
        """Remove a broker that has gone for good from the cluster. It must be stopped."""
        self._call(self._client.unregister_broker(broker))

    def describe_api_versions(self, broker: int | None = None) -> dict[int, tuple[int, int]]:
        """Return the supported versions of each API, by its key, at this or any broker."""
        return self._call(self._client.describe_api_versions(broker))

    def describe_quorum(self) -> Quorum:
        """Return the controllers that store the metadata log."""
        return self._call(self._client.describe_quorum())

    def add_voter(
        self, node: int, directory_id: Uuid, listeners: Mapping[str, tuple[str, int]]
    ) -> None:
        """Add a controller to the voters (KIP-853). It must have caught up with the metadata log.

        `directory_id` is that of its metadata directory; `listeners` has a host and port by the
        name of each listener."""
        self._call(self._client.add_voter(node, directory_id, listeners))

    def remove_voter(self, node: int, directory_id: Uuid) -> None:
        """Remove a controller from the voters. It may go on reading the metadata log."""
        self._call(self._client.remove_voter(node, directory_id))

    def describe_log_dirs(self, brokers: Iterable[int] | None = None) -> list[LogDir]:
        """Return the log directories of these brokers, or of all, with their replicas. Raise
        KafkaError if a broker does not answer."""
        return self._call(self._client.describe_log_dirs(brokers))

    def describe_producers(self, where: PartitionGiven) -> list[ActiveProducer]:
        """Return the idempotent producers that the leader of a partition knows. Raise KafkaError at
        once if the partition does not exist."""
        return self._call(self._client.describe_producers(where))

    def describe_configs(
        self, resource: Resource, *, names: Iterable[str] | None = None, documentation: bool = False
    ) -> list[ConfigEntry]:
        """Return all settings of a resource, or those with these names."""
        return self._call(
            self._client.describe_configs(resource, names=names, documentation=documentation)
        )

    def alter_configs(
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
        self._call(
            self._client.alter_configs(
                resource,
                set_to=set_to,
                unset=unset,
                append=append,
                subtract=subtract,
                validate_only=validate_only,
            )
        )

    def list_config_resources(self, types: Iterable[ResourceType] = ()) -> list[Resource]:
        """Return the resources that have settings of their own, of these types or of all."""
        return self._call(self._client.list_config_resources(types))

    def eligible_replicas(self, *topics: str) -> dict[TopicPartition, EligibleReplicas]:
        """Return the replicas that could lead each partition if none is in sync any more, of these
        topics or all. Raise KafkaError for an unknown topic, or a broker older than Kafka 3.8."""
        return self._call(self._client.eligible_replicas(*topics))

    def elect_leaders(
        self,
        partitions: Iterable[PartitionGiven] | None = None,
        *,
        election: Election = Election.PREFERRED,
    ) -> Outcomes:
        """Elect leaders now, for these partitions or for all. An unclean election may lose records.
        A named partition that needs no election gets the error ELECTION_NOT_NEEDED; without names
        it is left out."""
        return self._call(self._client.elect_leaders(partitions, election=election))

    def alter_partition_reassignments(
        self, replicas: ByPartition[Sequence[int] | None]
    ) -> Outcomes:
        """Start to move partitions to these brokers, the preferred leader first; None cancels a
        move. The move continues in the background: see `list_partition_reassignments`."""
        return self._call(self._client.alter_partition_reassignments(replicas))

    def list_partition_reassignments(
        self, partitions: Iterable[PartitionGiven] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Return the running moves of these partitions, or all."""
        return self._call(self._client.list_partition_reassignments(partitions))

    def alter_replica_log_dirs(
        self, directories: Mapping[tuple[TopicPartition, int], str]
    ) -> dict[tuple[TopicPartition, int], KafkaError | None]:
        """Move replicas, each a pair of partition and broker, to another directory of their broker.
        The move continues in the background: see `describe_log_dirs`. If some brokers fail, their
        replicas have the error; a KafkaError is raised only if all fail."""
        return self._call(self._client.alter_replica_log_dirs(directories))

    def list_topics(self, *, internal: bool = False) -> list[Topic]:
        """Return all topics, sorted by name; the brokers' internal topics only with `internal`."""
        return self._call(self._client.list_topics(internal=internal))

    def describe_topics(
        self, names: Iterable[str], *, authorized_operations: bool = False
    ) -> dict[str, Topic | KafkaError]:
        """Return each topic or its error; on request with the operations allowed to this client."""
        return self._call(
            self._client.describe_topics(names, authorized_operations=authorized_operations)
        )

    def describe_topics_by_id(
        self, ids: Iterable[Uuid], *, authorized_operations: bool = False
    ) -> dict[Uuid, Topic | KafkaError]:
        """Describe topics by id, as `describe_topics`: one that was created again has a new id."""
        return self._call(
            self._client.describe_topics_by_id(ids, authorized_operations=authorized_operations)
        )

    def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Create topics; with `validate_only` only check whether they could be created."""
        return self._call(self._client.create_topics(topics, validate_only=validate_only))

    def create_topic(self, topic: NewTopic) -> CreatedTopic:
        """Create one topic. Raise its KafkaError."""
        return self._call(self._client.create_topic(topic))

    def delete_topics(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete topics with all their records."""
        return self._call(self._client.delete_topics(names))

    def delete_topics_by_id(self, ids: Iterable[Uuid]) -> dict[Uuid, KafkaError | None]:
        """Delete topics by id: never one that was created again with the same name."""
        return self._call(self._client.delete_topics_by_id(ids))

    def delete_topic(self, name: str) -> None:
        """Delete one topic with all its records. Raise its KafkaError."""
        self._call(self._client.delete_topic(name))

    def create_partitions(
        self,
        topic: str,
        count: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Raise the number of partitions to `count` in all. Keys then map to other partitions."""
        self._call(
            self._client.create_partitions(
                topic, count, assignments=assignments, validate_only=validate_only
            )
        )

    def partitions(self, *topics: str) -> list[TopicPartition]:
        """Return all partitions of these topics. Raise KafkaError for an unknown topic."""
        return self._call(self._client.partitions(*topics))

    def led_partitions(self, chosen: Iterable[PartitionGiven]) -> list[TopicPartition]:
        """Return those of the partitions that exist and have a leader now."""
        return self._call(self._client.led_partitions(chosen))

    def list_offsets(self, wanted: ByPartition[int], *, is_committed: bool = False) -> Found:
        """Return the offset for each partition's timestamp in ms, or for an end of its log, see
        `moldau.client.base.offsets`. Raise KafkaError at once if a topic does not exist; a
        missing partition of an existing topic is retried."""
        return self._call(self._client.list_offsets(wanted, is_committed=is_committed))

    def delete_records(self, before: ByPartition[int]) -> dict[TopicPartition, int | KafkaError]:
        """Delete the records below an offset (`TO_THE_END`: all). Return for each partition the new
        start of its log, or why nothing was deleted there.

        An error of one partition does not affect the others. REQUEST_TIMED_OUT may mean that a
        leader got the request and has not answered: its records may be deleted or not. KafkaError
        is raised only if no leader at all was reached."""
        return self._call(self._client.delete_records(before))

    def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> list[ListedGroup]:
        """Return all groups of the cluster, sorted by name, or those in these states (Stable,
        Empty, ...) and of these types (classic, consumer, share, streams)."""
        return self._call(self._client.list_groups(states=states, types=types))

    def describe_groups(
        self, groups: Iterable[str], *, authorized_operations: bool = False
    ) -> dict[str, GroupDescription | KafkaError]:
        """Return state, members and assignments of each group; on request also the operations that
        this client may do."""
        return self._call(
            self._client.describe_groups(groups, authorized_operations=authorized_operations)
        )

    def describe_group(
        self, group: str, *, authorized_operations: bool = False
    ) -> GroupDescription:
        """Describe one group. Raise its KafkaError."""
        return self._call(
            self._client.describe_group(group, authorized_operations=authorized_operations)
        )

    def delete_groups(self, groups: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete groups that have no members, with their offsets."""
        return self._call(self._client.delete_groups(groups))

    def delete_group(self, group: str) -> None:
        """Delete one group that has no members, with its offsets. Raise its KafkaError."""
        self._call(self._client.delete_group(group))

    def group_progress(self, group: str) -> GroupProgress:
        """Return state, members, committed offsets and lag. KafkaError for an unknown group."""
        return self._call(self._client.group_progress(group))

    def groups_progress(self, groups: Iterable[str]) -> dict[str, GroupProgress | KafkaError]:
        """Return several groups' progress; the end of a log that several read is requested once."""
        return self._call(self._client.groups_progress(groups))

    def group_offsets(
        self,
        group: str,
        partitions: Iterable[PartitionGiven] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's committed offsets, of these partitions or of all. With
        `require_stable` wait for transactions that are about to commit offsets."""
        return self._call(
            self._client.group_offsets(group, partitions, require_stable=require_stable)
        )

    def alter_group_offsets(
        self, group: str, offsets: ByPartition[int | OffsetAndMetadata]
    ) -> None:
        """Set the group's committed offsets. It must have no members. OffsetsNotStored is raised if
        some could not be stored: all others are, and `results` has each."""
        self._call(self._client.alter_group_offsets(group, offsets))

    def delete_group_offsets(
        self, group: str, partitions: Iterable[PartitionGiven]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Delete the group's committed offsets of partitions that none of its members reads."""
        return self._call(self._client.delete_group_offsets(group, partitions))

    def remove_members(
        self,
        group: str,
        *,
        instance_ids: Iterable[str] = (),
        member_ids: Iterable[str] = (),
        reason: str = "",
    ) -> None:
        """Remove members of a classic group: static ones by instance id, others by member id.
        KafkaError names the first one that could not be removed."""
        self._call(
            self._client.remove_members(
                group, instance_ids=instance_ids, member_ids=member_ids, reason=reason
            )
        )

    def remove_all_members(self, group: str, *, reason: str = "") -> None:
        """Remove all members of a classic group. Consumers that still run join again."""
        self._call(self._client.remove_all_members(group, reason=reason))
