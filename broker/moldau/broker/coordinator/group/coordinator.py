"""The group coordinator of a node: finds the shard of a group, and lets it decide.

A group belongs to the partition of `__consumer_offsets` that its id hashes to; the node that leads
the partition coordinates the group. How many partitions there are is what the topic has: it must
not grow, in Kafka either.
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
    """One for a node."""

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
        """Looked up anew when the settings are other ones: every commit asks."""
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

    # Asked by handlers.

    def partition_of(self, group_id: str) -> int | None:
        """Where the group belongs; None while there is no topic."""
        count = self.home.partition_count(OFFSETS_TOPIC)
        return coordinator_partition(group_id, count) if count else None

    def submit(self, group_id: str, decide: DecideGroup, on_answer: OnAnswer) -> None:
        """Let the group's shard decide. `on_answer` is called once, perhaps before this returns;
        it is the ticket of the decision."""
        try:
            shell = self._shell_of(group_id)
        except KafkaError as error:
            on_answer(error)
            return
        shell.run(decide, on_answer)

    def gather(self, group_id: str, decide: DecideGroup, on_answer: OnAnswer) -> None:
        """As `submit`, for what may share a batch with others (`ShardShell.gather`)."""
        try:
            shell = self._shell_of(group_id)
        except KafkaError as error:
            on_answer(error)
            return
        shell.gather(decide, on_answer)

    def tables(self) -> Iterator[Groups]:
        """Those of all shards that are here. KafkaError when one is still loading; one that could
        not be loaded has no groups."""
        for shell in self._runtime:
            if not shell.is_closed():
                shell.check()
                yield shell.shard

    def loaded(self) -> Iterator[tuple[int, Groups]]:
        """The shards that are here and ready, by partition."""
        for shell in self._runtime:
            if shell.is_active():
                yield shell.partition.index, shell.shard

    def _shell_of(self, group_id: str) -> ShardShell[Groups]:
        index = self.partition_of(group_id)
        if index is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return self._runtime.shell(index)

    # Told by the server.

    def elect(self, index: int, leader_epoch: int = 0) -> None:
        """This node leads that partition of the topic. May be told again."""
        self._runtime.elect(index, leader_epoch)

    def resign(self, index: int) -> None:
        """It does not, or not any more."""
        self._runtime.resign(index)

    def drop_unled(self) -> None:
        """A directory failed."""
        self._runtime.drop_unled()

    def on_topics_changed(self, changed: Collection[str], deleted: Collection[str]) -> None:
        """Topics came, went or got partitions; `deleted` are among `changed`."""
        for shell in self._runtime:
            shell.each(lambda groups, now_ms: groups.on_topics_changed(changed, deleted, now_ms))

    def close(self) -> None:
        """The node stops: who is parked hears NOT_COORDINATOR."""
        self._runtime.close()
