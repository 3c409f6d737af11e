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
from moldau.client.admin.partitions import Election, EligibleReplicas, Outcomes, Reassignment
from moldau.client.admin.progress import GroupProgress
from moldau.client.admin.topics import CreatedTopic, NewTopic
from moldau.client.consumer.offsets import Found
from moldau.client.group.descriptions import GroupDescription, ListedGroup
from moldau.client.settings.arguments import ByPartition, OffsetAndMetadata, PartitionGiven
from moldau.client.sync.client import BlockingClient
from moldau.errors.codes import KafkaError
from moldau.ids import Uuid
from moldau.link.metadata import Topic, TopicPartition


class AdminCalls(BlockingClient):
    """Each hands its call to the loop and waits for the answer."""

    _client: AsyncAdmin

    def describe_cluster(
        self, *, include_fenced: bool = False, authorized_operations: bool = False
    ) -> ClusterDescription:
        """Its id and its living brokers; the others too (Kafka 4.0, KIP-1073), and what this client
        may do to the cluster, if asked for."""
        return self._call(
            self._client.describe_cluster(
                include_fenced=include_fenced, authorized_operations=authorized_operations
            )
        )

    def describe_features(self) -> dict[str, int]:
        """The level of each feature that the cluster has agreed on."""
        return self._call(self._client.describe_features())

    def supported_features(self, broker: int | None = None) -> dict[str, tuple[int, int]]:
        """The levels, from and to, that a broker, or any of them, could work with."""
        return self._call(self._client.supported_features(broker))

    def update_features(
        self,
        levels: Mapping[str, int],
        *,
        downgrade: Downgrade | None = None,
        dry_run: bool = False,
    ) -> None:
        """Raises features to these levels, all or none; with `downgrade` lowers them. `dry_run`
        only says whether it could be done."""
        self._call(self._client.update_features(levels, downgrade=downgrade, dry_run=dry_run))

    def unregister_broker(self, broker: int) -> None:
        """Forgets a broker that has gone for good; it must have stopped."""
        self._call(self._client.unregister_broker(broker))

    def describe_api_versions(self, broker: int | None = None) -> dict[int, tuple[int, int]]:
        """The versions that a broker, or any of them, serves by API key."""
        return self._call(self._client.describe_api_versions(broker))

    def describe_quorum(self) -> Quorum:
        """The controllers that keep the metadata log."""
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
        """The log directories of these brokers, or of all, with the replicas in them. KafkaError
        when one of them cannot be asked."""
        return self._call(self._client.describe_log_dirs(brokers))

    def describe_producers(self, where: PartitionGiven) -> list[ActiveProducer]:
        """The idempotent producers that the leader of a partition remembers; KafkaError, at once,
        if the partition does not exist."""
        return self._call(self._client.describe_producers(where))

    def describe_configs(
        self, resource: Resource, *, names: Iterable[str] | None = None, documentation: bool = False
    ) -> list[ConfigEntry]:
        """All settings of a resource, or those of these names."""
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
        """Changes settings of a resource, all or none; `append` and `subtract` are for lists.
        `validate_only` only says whether it could be done."""
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
        """What has settings of its own; of all types unless some are named."""
        return self._call(self._client.list_config_resources(types))

    def eligible_replicas(self, *topics: str) -> dict[TopicPartition, EligibleReplicas]:
        """The replicas that could lead each partition of these topics, or of all, when none is in
        sync any more. KafkaError if a topic does not exist, or a broker is before Kafka 3.8."""
        return self._call(self._client.eligible_replicas(*topics))

    def elect_leaders(
        self,
        partitions: Iterable[PartitionGiven] | None = None,
        *,
        election: Election = Election.PREFERRED,
    ) -> Outcomes:
        """Elects now, for these partitions or for all. An unclean election may lose records. A
        partition that needs none has the error ELECTION_NOT_NEEDED, or is left out of all."""
        return self._call(self._client.elect_leaders(partitions, election=election))

    def alter_partition_reassignments(
        self, replicas: ByPartition[Sequence[int] | None]
    ) -> Outcomes:
        """Starts to move partitions to these brokers, the preferred leader first; None cancels the
        move of a partition. What was started goes on by itself: see
        `list_partition_reassignments`."""
        return self._call(self._client.alter_partition_reassignments(replicas))

    def list_partition_reassignments(
        self, partitions: Iterable[PartitionGiven] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """The moves that are under way, of these partitions or of all."""
        return self._call(self._client.list_partition_reassignments(partitions))

    def alter_replica_log_dirs(
        self, directories: Mapping[tuple[TopicPartition, int], str]
    ) -> dict[tuple[TopicPartition, int], KafkaError | None]:
        """Moves replicas, each told by partition and broker, to another directory of their broker.
        The move goes on by itself: see `describe_log_dirs`. What one broker begins is told though
        another fails; a KafkaError is raised only when all of them do."""
        return self._call(self._client.alter_replica_log_dirs(directories))

    def list_topics(self, *, internal: bool = False) -> list[Topic]:
        """All topics by name, those of the brokers themselves only if asked for."""
        return self._call(self._client.list_topics(internal=internal))

    def describe_topics(
        self, names: Iterable[str], *, authorized_operations: bool = False
    ) -> dict[str, Topic | KafkaError]:
        """Each topic, or why it cannot be described; what this client may do to it too if asked
        for."""
        return self._call(
            self._client.describe_topics(names, authorized_operations=authorized_operations)
        )

    def describe_topics_by_id(
        self, ids: Iterable[Uuid], *, authorized_operations: bool = False
    ) -> dict[Uuid, Topic | KafkaError]:
        """As `describe_topics`: a topic that was deleted and made again has another id."""
        return self._call(
            self._client.describe_topics_by_id(ids, authorized_operations=authorized_operations)
        )

    def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Makes topics, or only says whether they could be made."""
        return self._call(self._client.create_topics(topics, validate_only=validate_only))

    def create_topic(self, topic: NewTopic) -> CreatedTopic:
        """As `create_topics` for one; raises the KafkaError."""
        return self._call(self._client.create_topic(topic))

    def delete_topics(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        """Deletes topics with all their records."""
        return self._call(self._client.delete_topics(names))

    def delete_topics_by_id(self, ids: Iterable[Uuid]) -> dict[Uuid, KafkaError | None]:
        """As `delete_topics`: cannot hit a topic that was made again under the same name."""
        return self._call(self._client.delete_topics_by_id(ids))

    def delete_topic(self, name: str) -> None:
        """As `delete_topics` for one; raises the KafkaError."""
        self._call(self._client.delete_topic(name))

    def create_partitions(
        self,
        topic: str,
        count: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Makes the topic have `count` partitions in all. Keys go to other ones from then on."""
        self._call(
            self._client.create_partitions(
                topic, count, assignments=assignments, validate_only=validate_only
            )
        )

    def partitions(self, *topics: str) -> list[TopicPartition]:
        """All partitions of these topics; KafkaError for one that the cluster does not know."""
        return self._call(self._client.partitions(*topics))

    def led_partitions(self, chosen: Iterable[PartitionGiven]) -> list[TopicPartition]:
        """Those of them that exist and have a leader at present."""
        return self._call(self._client.led_partitions(chosen))

    def list_offsets(self, wanted: ByPartition[int], *, is_committed: bool = False) -> Found:
        """The offset for each partition's timestamp in ms, or for an end of its log, see
        `moldau.client.consumer.offsets`. KafkaError, at once, if a topic does not exist;
        a partition that its topic may yet get is waited for."""
        return self._call(self._client.list_offsets(wanted, is_committed=is_committed))

    def delete_records(self, before: ByPartition[int]) -> dict[TopicPartition, int | KafkaError]:
        """Deletes the records below an offset (`TO_THE_END`: all). For each partition where its log
        begins then, or why nothing was deleted there: what fails for one is done for the others.
        REQUEST_TIMED_OUT says that a leader was asked and has not answered: its records may be
        deleted or not. Raises a KafkaError only when no leader of any of them was reached."""
        return self._call(self._client.delete_records(before))

    def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> list[ListedGroup]:
        """All groups of the cluster, or those in these states (Stable, Empty, ...) and of these
        types (classic, consumer, share, streams), by name."""
        return self._call(self._client.list_groups(states=states, types=types))

    def describe_groups(
        self, groups: Iterable[str], *, authorized_operations: bool = False
    ) -> dict[str, GroupDescription | KafkaError]:
        """State, members and what each of them reads; what this client may do to the group too if
        asked for."""
        return self._call(
            self._client.describe_groups(groups, authorized_operations=authorized_operations)
        )

    def describe_group(
        self, group: str, *, authorized_operations: bool = False
    ) -> GroupDescription:
        """As `describe_groups` for one; raises the KafkaError."""
        return self._call(
            self._client.describe_group(group, authorized_operations=authorized_operations)
        )

    def delete_groups(self, groups: Iterable[str]) -> dict[str, KafkaError | None]:
        """Deletes groups that have no members, with their offsets."""
        return self._call(self._client.delete_groups(groups))

    def delete_group(self, group: str) -> None:
        """As `delete_groups` for one; raises the KafkaError."""
        self._call(self._client.delete_group(group))

    def group_progress(self, group: str) -> GroupProgress:
        """State, members, committed offsets and lag; KafkaError if the group does not exist."""
        return self._call(self._client.group_progress(group))

    def groups_progress(self, groups: Iterable[str]) -> dict[str, GroupProgress | KafkaError]:
        """As `group_progress` for several; logs that several groups read are asked once."""
        return self._call(self._client.groups_progress(groups))

    def group_offsets(
        self,
        group: str,
        partitions: Iterable[PartitionGiven] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group has committed, of these partitions or of all. `require_stable`: waits for
        transactions that are about to commit offsets."""
        return self._call(
            self._client.group_offsets(group, partitions, require_stable=require_stable)
        )

    def alter_group_offsets(
        self, group: str, offsets: ByPartition[int | OffsetAndMetadata]
    ) -> None:
        """Makes the group go on elsewhere. It must have no members. OffsetsNotStored where a
        partition could not be altered: what can be done for the others is done, and `results` has
        each."""
        self._call(self._client.alter_group_offsets(group, offsets))

    def delete_group_offsets(
        self, group: str, partitions: Iterable[PartitionGiven]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Forgets what the group has committed of partitions that none of its members reads."""
        return self._call(self._client.delete_group_offsets(group, partitions))

    def remove_members(
        self,
        group: str,
        *,
        instance_ids: Iterable[str] = (),
        member_ids: Iterable[str] = (),
        reason: str = "",
    ) -> None:
        """Removes members of a classic group: static ones by instance id, others by member id.
        KafkaError names the first one that could not be removed."""
        self._call(
            self._client.remove_members(
                group, instance_ids=instance_ids, member_ids=member_ids, reason=reason
            )
        )

    def remove_all_members(self, group: str, *, reason: str = "") -> None:
        """Removes all members of a classic group; its consumers join again if they still run."""
        self._call(self._client.remove_all_members(group, reason=reason))
