"""The admin client: what a person does to a cluster, one method an action.

    async with Admin(bootstrap_servers="localhost:9092") as admin:
        await admin.create_topic(NewTopic("orders", partitions=6))
        print(await admin.list_topics())

Calls that name one thing raise the KafkaError. Of those that name several, the ones whose answer
has a place for a KafkaError give each its result or its error: `describe_topics`, `create_topics`,
`delete_topics`, `describe_topics_by_id`, `delete_topics_by_id`, `delete_records`,
`describe_groups`, `delete_groups`, `groups_progress`, `delete_group_offsets`, `elect_leaders`,
`alter_partition_reassignments` and `alter_replica_log_dirs`. All others raise the first KafkaError
for all of them: `partitions`, `list_offsets`, `eligible_replicas`, `describe_log_dirs`,
`group_offsets`, `remove_members`, `update_features`, and `alter_group_offsets`, whose error has
what became of each. What may work later is tried again until `default.api.timeout.ms` is over.

Arguments of the wrong kind or out of range are refused before anything is sent, by a TypeError or
ValueError that names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self, Unpack

from moldau.client.admin.cluster import ClusterAdmin
from moldau.client.admin.configs import ConfigAdmin
from moldau.client.admin.options import AdminOptions
from moldau.client.admin.partitions import PartitionAdmin
from moldau.client.admin.progress import ProgressAdmin
from moldau.client.settings import rows
from moldau.client.settings.every_client import WITHOUT_MEANING_TO_ADMINS, Given
from moldau.client.settings.opening import Life, comes_with_start, reach
from moldau.link.cluster import Cluster
from moldau.runtime import Runtime


class Admin(ProgressAdmin, PartitionAdmin, ConfigAdmin, ClusterAdmin):
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
        self._world = Life("admin client", runtime)

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
