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


class AdminCalls(BlockingClient, twin_of=AsyncAdmin):
    """Each hands its call to the loop and waits for the answer. Their texts are those of the
    asyncio client."""

    _client: AsyncAdmin

    def describe_cluster(
        self, *, include_fenced: bool = False, authorized_operations: bool = False
    ) -> ClusterDescription:
        return self._call(
            self._client.describe_cluster(
                include_fenced=include_fenced, authorized_operations=authorized_operations
            )
        )

    def describe_features(self) -> dict[str, int]:
        return self._call(self._client.describe_features())

    def supported_features(self, broker: int | None = None) -> dict[str, tuple[int, int]]:
        return self._call(self._client.supported_features(broker))

    def update_features(
        self,
        levels: Mapping[str, int],
        *,
        downgrade: Downgrade | None = None,
        dry_run: bool = False,
    ) -> None:
        self._call(self._client.update_features(levels, downgrade=downgrade, dry_run=dry_run))

    def unregister_broker(self, broker: int) -> None:
        self._call(self._client.unregister_broker(broker))

    def unregister_controller(self, controller: int) -> None:
        self._call(self._client.unregister_controller(controller))

    def describe_api_versions(self, broker: int | None = None) -> dict[int, tuple[int, int]]:
        return self._call(self._client.describe_api_versions(broker))

    def describe_quorum(self) -> Quorum:
        return self._call(self._client.describe_quorum())

    def add_voter(
        self, node: int, directory_id: Uuid, listeners: Mapping[str, tuple[str, int]]
    ) -> None:
        self._call(self._client.add_voter(node, directory_id, listeners))

    def remove_voter(self, node: int, directory_id: Uuid) -> None:
        self._call(self._client.remove_voter(node, directory_id))

    def describe_log_dirs(self, brokers: Iterable[int] | None = None) -> list[LogDir]:
        return self._call(self._client.describe_log_dirs(brokers))

    def describe_producers(self, where: PartitionGiven) -> list[ActiveProducer]:
        return self._call(self._client.describe_producers(where))

    def describe_configs(
        self, resource: Resource, *, names: Iterable[str] | None = None, documentation: bool = False
    ) -> list[ConfigEntry]:
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
        return self._call(self._client.list_config_resources(types))

    def eligible_replicas(self, *topics: str) -> dict[TopicPartition, EligibleReplicas]:
        return self._call(self._client.eligible_replicas(*topics))

    def elect_leaders(
        self,
        partitions: Iterable[PartitionGiven] | None = None,
        *,
        election: Election = Election.PREFERRED,
    ) -> Outcomes:
        return self._call(self._client.elect_leaders(partitions, election=election))

    def alter_partition_reassignments(
        self, replicas: ByPartition[Sequence[int] | None]
    ) -> Outcomes:
        return self._call(self._client.alter_partition_reassignments(replicas))

    def list_partition_reassignments(
        self, partitions: Iterable[PartitionGiven] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        return self._call(self._client.list_partition_reassignments(partitions))

    def alter_replica_log_dirs(
        self, directories: Mapping[tuple[TopicPartition, int], str]
    ) -> dict[tuple[TopicPartition, int], KafkaError | None]:
        return self._call(self._client.alter_replica_log_dirs(directories))

    def list_topics(self, *, internal: bool = False) -> list[Topic]:
        return self._call(self._client.list_topics(internal=internal))

    def describe_topics(
        self, names: Iterable[str], *, authorized_operations: bool = False
    ) -> dict[str, Topic | KafkaError]:
        return self._call(
            self._client.describe_topics(names, authorized_operations=authorized_operations)
        )

    def describe_topics_by_id(
        self, ids: Iterable[Uuid], *, authorized_operations: bool = False
    ) -> dict[Uuid, Topic | KafkaError]:
        return self._call(
            self._client.describe_topics_by_id(ids, authorized_operations=authorized_operations)
        )

    def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        return self._call(self._client.create_topics(topics, validate_only=validate_only))

    def create_topic(self, topic: NewTopic) -> CreatedTopic:
        return self._call(self._client.create_topic(topic))

    def delete_topics(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        return self._call(self._client.delete_topics(names))

    def delete_topics_by_id(self, ids: Iterable[Uuid]) -> dict[Uuid, KafkaError | None]:
        return self._call(self._client.delete_topics_by_id(ids))

    def delete_topic(self, name: str) -> None:
        self._call(self._client.delete_topic(name))

    def create_partitions(
        self,
        topic: str,
        count: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        self._call(
            self._client.create_partitions(
                topic, count, assignments=assignments, validate_only=validate_only
            )
        )

    def partitions(self, *topics: str) -> list[TopicPartition]:
        return self._call(self._client.partitions(*topics))

    def led_partitions(self, chosen: Iterable[PartitionGiven]) -> list[TopicPartition]:
        return self._call(self._client.led_partitions(chosen))

    def list_offsets(self, wanted: ByPartition[int], *, is_committed: bool = False) -> Found:
        return self._call(self._client.list_offsets(wanted, is_committed=is_committed))

    def delete_records(self, before: ByPartition[int]) -> dict[TopicPartition, int | KafkaError]:
        return self._call(self._client.delete_records(before))

    def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> list[ListedGroup]:
        return self._call(self._client.list_groups(states=states, types=types))

    def describe_groups(
        self, groups: Iterable[str], *, authorized_operations: bool = False
    ) -> dict[str, GroupDescription | KafkaError]:
        return self._call(
            self._client.describe_groups(groups, authorized_operations=authorized_operations)
        )

    def describe_group(
        self, group: str, *, authorized_operations: bool = False
    ) -> GroupDescription:
        return self._call(
            self._client.describe_group(group, authorized_operations=authorized_operations)
        )

    def delete_groups(self, groups: Iterable[str]) -> dict[str, KafkaError | None]:
        return self._call(self._client.delete_groups(groups))

    def delete_group(self, group: str) -> None:
        self._call(self._client.delete_group(group))

    def group_progress(self, group: str) -> GroupProgress:
        return self._call(self._client.group_progress(group))

    def groups_progress(self, groups: Iterable[str]) -> dict[str, GroupProgress | KafkaError]:
        return self._call(self._client.groups_progress(groups))

    def group_offsets(
        self,
        group: str,
        partitions: Iterable[PartitionGiven] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._call(
            self._client.group_offsets(group, partitions, require_stable=require_stable)
        )

    def alter_group_offsets(
        self, group: str, offsets: ByPartition[int | OffsetAndMetadata]
    ) -> None:
        self._call(self._client.alter_group_offsets(group, offsets))

    def delete_group_offsets(
        self, group: str, partitions: Iterable[PartitionGiven]
    ) -> dict[TopicPartition, KafkaError | None]:
        return self._call(self._client.delete_group_offsets(group, partitions))

    def remove_members(
        self,
        group: str,
        *,
        instance_ids: Iterable[str] = (),
        member_ids: Iterable[str] = (),
        reason: str = "",
    ) -> None:
        self._call(
            self._client.remove_members(
                group, instance_ids=instance_ids, member_ids=member_ids, reason=reason
            )
        )

    def remove_all_members(self, group: str, *, reason: str = "") -> None:
        self._call(self._client.remove_all_members(group, reason=reason))
