"""The group coordinator of a node: finds the shard of a group, and passes decisions to it.

A group belongs to the partition of `__consumer_offsets` that its id hashes to. The node that leads
the partition coordinates the group. The number of partitions is that of the topic; it must not
grow, in Kafka either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

from moldau.broker.coordinator.group import metrics as group_metrics
from moldau.broker.coordinator.group.groups import Groups
from moldau.broker.coordinator.group.offsets import Offsets
from moldau.broker.coordinator.group.world import ShardWorld
from moldau.broker.coordinator.metrics import CoordinatorMetrics
from moldau.broker.coordinator.runtime import CoordinatorRuntime
from moldau.broker.coordinator.shard import Decide
from moldau.broker.coordinator.shell import Ground, ShardShell, Terms
from moldau.broker.settings import offset as settings
from moldau.broker.settings.coordinator import group_coordinator_append_linger_ms
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.schemas.coordinator_log import GROUP_LOG
from moldau.records import Codec, coordinator_partition

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.contract import GroupMakers
    from moldau.broker.coordinator.group.world import Home
    from moldau.broker.coordinator.parked import OnAnswer
    from moldau.broker.replication.replicas import Replicas
    from moldau.config import Settings
    from moldau.runtime import Runtime

OFFSETS_TOPIC: Final = GROUP_LOG.topic

DecideGroup: TypeAlias = "Decide[Groups]"


class GroupCoordinator:
    """The group coordinator. There is one on each node."""

    def __init__(
        self, runtime: Runtime, replicas: Replicas, home: Home, makers: GroupMakers
    ) -> None:
        self.home = home
        self._makers = makers
        metrics = CoordinatorMetrics(home.metrics, "group")
        ground = Ground(
            runtime=runtime,
            purgatory=replicas.purgatory,
            log=home.log,
            schema=GROUP_LOG,
            terms=self._terms,
            metrics=metrics,
        )
        self._known_terms: tuple[Settings, Terms] | None = None
        self._runtime = CoordinatorRuntime(ground, replicas, self._shard)
        metrics.watch(self._runtime)
        group_metrics.declare(home.metrics, self)

    def _shard(self) -> Groups:
        offsets = Offsets()
        return Groups(ShardWorld(self.home, offsets), self._makers, offsets)

    def _terms(self) -> Terms:
        """Return the values of the settings, cached because every commit calls this."""
        now, known = self.home.settings, self._known_terms
        if known is None or known[0] is not now:
            terms = Terms(
                Codec(now[settings.offsets_topic_compression_codec]),
                now[settings.offsets_load_buffer_size],
                now[settings.offsets_commit_timeout_ms],
                now[group_coordinator_append_linger_ms],
            )
            known = self._known_terms = now, terms
        return known[1]

    # Called by handlers.

    def partition_of(self, group_id: str) -> int | None:
        """Return the partition of the group; None while the topic does not exist."""
        count = self.home.partition_count(OFFSETS_TOPIC)
        return coordinator_partition(group_id, count) if count else None

    def submit(self, group_id: str, decide: DecideGroup, on_answer: OnAnswer) -> None:
        """Let the group's shard decide. `on_answer` is called once, perhaps before this returns; it
        is the ticket of the decision."""
        try:
            shell = self._shell_of(group_id)
        except KafkaError as error:
            on_answer(error)
            return
        shell.run(decide, on_answer)

    def gather(self, group_id: str, decide: DecideGroup, on_answer: OnAnswer) -> None:
        """Decide like `submit`, but the outcome may share a batch with others
        (`ShardShell.gather`)."""
        try:
            shell = self._shell_of(group_id)
        except KafkaError as error:
            on_answer(error)
            return
        shell.gather(decide, on_answer)

    def tables(self) -> Iterator[Groups]:
        """Yield the tables of all shards on this node. Raise KafkaError if one is still loading. A
        shard that could not be loaded has no groups and is left out."""
        for shell in self._runtime:
            if not shell.is_closed():
                shell.check()
                yield shell.shard

    def loaded(self) -> Iterator[tuple[int, Groups]]:
        """Yield the loaded shards on this node, by partition."""
        for shell in self._runtime:
            if shell.is_active():
                yield shell.partition.index, shell.shard

    def _shell_of(self, group_id: str) -> ShardShell[Groups]:
        index = self.partition_of(group_id)
        if index is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return self._runtime.shell(index)

    # Called by the server.

    def elect(self, index: int, leader_epoch: int = 0) -> None:
        """Load the shard of this partition, which this node leads. May be called repeatedly."""
        self._runtime.elect(index, leader_epoch)

    def resign(self, index: int) -> None:
        """Close the shard of this partition, which this node does not lead, or no longer."""
        self._runtime.resign(index)

    def drop_unled(self) -> None:
        """Close the shards that this node no longer leads, after a directory failed."""
        self._runtime.drop_unled()

    def on_topics_changed(self, changed: Collection[str], deleted: Collection[str]) -> None:
        """React to topics that were created, deleted or extended. `deleted` are among `changed`."""
        for shell in self._runtime:
            shell.each(lambda groups, now_ms: groups.on_topics_changed(changed, deleted, now_ms))

    def close(self) -> None:
        """Stop the coordinator. Parked requests are answered with NOT_COORDINATOR."""
        self._runtime.close()
