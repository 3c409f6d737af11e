"""The kind of coordinator for groups: its shards are the partitions of `__consumer_offsets`.

The numbers of groups and offsets, counted when the metrics are read.

The comments name Kafka's metrics of the same meaning.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from moldau.broker.coordinator.coordinator import Coordinator
from moldau.broker.coordinator.group.classic.states import ClassicGroupState
from moldau.broker.coordinator.group.contract import GroupKind
from moldau.broker.coordinator.group.groups import Groups
from moldau.broker.coordinator.group.kinds import Kinds
from moldau.broker.coordinator.group.offsets import Offsets
from moldau.broker.coordinator.kind import CoordinatorKind, KeyType
from moldau.broker.coordinator.running_shard import CarryOut, ShardSettings, no_effects
from moldau.broker.settings import offset as settings
from moldau.broker.settings.coordinator import group_coordinator_append_linger_ms
from moldau.protocol.schemas.coordinator_log import GROUP_LOG
from moldau.records import Codec

if TYPE_CHECKING:
    from collections.abc import Collection
    from random import Random

    from moldau.broker.coordinator.group.contract import Cluster
    from moldau.broker.coordinator.group.counts import GroupCounts
    from moldau.broker.decision.context import RequestContext
    from moldau.broker.settings import ResourceSettings
    from moldau.config import Settings
    from moldau.logging import Logger
    from moldau.metrics import Registry
    from moldau.runtime import Clock


class NodeServices(Protocol):
    """The node with its current state."""

    @property
    def settings(self) -> Settings: ...

    @property
    def cluster(self) -> Cluster: ...

    @property
    def random(self) -> Random: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def log(self) -> Logger: ...

    @property
    def metrics(self) -> Registry: ...

    @property
    def counts(self) -> GroupCounts: ...

    def group_settings(self, group_id: str) -> ResourceSettings: ...

    def describable(self, context: RequestContext, topics: Collection[str]) -> Collection[str]: ...

    def creatable(self, context: RequestContext, topics: Collection[str]) -> Collection[str]: ...


class ShardGroupServices:
    """The `GroupServices` of the groups of one shard."""

    def __init__(self, node: NodeServices, offsets: Offsets) -> None:
        self._node = node
        self._offsets = offsets

    @property
    def settings(self) -> Settings:
        return self._node.settings

    @property
    def cluster(self) -> Cluster:
        return self._node.cluster

    @property
    def random(self) -> Random:
        return self._node.random

    @property
    def log(self) -> Logger:
        return self._node.log

    @property
    def counts(self) -> GroupCounts:
        return self._node.counts

    def group_settings(self, group_id: str) -> ResourceSettings:
        return self._node.group_settings(group_id)

    def wall_ms(self, now_ms: int) -> int:
        """Convert `now_ms` to wall time. Both clocks are read now, so a changed wall clock takes
        effect from the next record on."""
        clock = self._node.clock
        return clock.wall_ms() - clock.monotonic_ns() // 1_000_000 + now_ms

    def has_offsets(self, group_id: str) -> bool:
        return self._offsets.has_any(group_id)

    def describable(self, context: RequestContext, topics: Collection[str]) -> Collection[str]:
        return self._node.describable(context, topics)

    def creatable(self, context: RequestContext, topics: Collection[str]) -> Collection[str]:
        return self._node.creatable(context, topics)


_PREFIX: Final = "moldau.coordinator.group"

CONSUMER_STATES: Final = ("Empty", "Assigning", "Reconciling", "Stable")
"""The states of `consumer.state.GroupState`, which is imported with the first consumer group."""

STREAMS_STATES: Final = ("Empty", "NotReady", "Assigning", "Reconciling", "Stable")
"""The states of `streams.state.GroupState`, which is imported with the first streams group."""


def declare(registry: Registry, coordinator: GroupCoordinator) -> None:
    """Declare the metrics, once for a node."""
    gauge = registry.read_gauge
    gauge(
        f"{_PREFIX}.offsets",  # NumOffsets
        "Offsets that groups have committed.",
        "{offset}",
        read=lambda: sum(groups.offsets.count() for _, groups in coordinator.loaded()),
    )
    states = {
        GroupKind.CLASSIC: [
            each.value for each in ClassicGroupState if each is not ClassicGroupState.DEAD
        ],
        GroupKind.CONSUMER: CONSUMER_STATES,
        GroupKind.STREAMS: STREAMS_STATES,
    }
    for kind, names in states.items():
        gauge(
            f"{_PREFIX}.{kind.value}.groups",  # group-count
            f"Groups of the {kind.value} protocol.",
            "{group}",
            read=partial(_count, coordinator, kind),
        )
        for name in names:
            gauge(
                # NumGroupsStable ..., consumer-group-count
                f"{_PREFIX}.{kind.value}.groups.{_snake(name)}",
                f"Groups of the {kind.value} protocol in the state {name}.",
                "{group}",
                read=partial(_count, coordinator, kind, name),
            )


def _count(coordinator: GroupCoordinator, kind: GroupKind, state: str | None = None) -> int:
    return sum(
        group.kind is kind and state in (None, group.state_name)
        for _, groups in coordinator.loaded()
        for group in groups
    )


def _snake(name: str) -> str:
    """Convert a state's name for metrics: `PreparingRebalance` to `preparing_rebalance`."""
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in name).lstrip("_")


OFFSETS_TOPIC: Final = GROUP_LOG.topic

GroupCoordinator: TypeAlias = "Coordinator[Groups]"


def groups_kind(node: NodeServices, carry_out: CarryOut = no_effects) -> CoordinatorKind[Groups]:
    """Return the kind for groups that use the services of this node. `carry_out` sets up the states
    of share groups."""

    kinds = Kinds()

    def make() -> Groups:
        offsets = Offsets()
        return Groups(ShardGroupServices(node, offsets), kinds, offsets)

    return CoordinatorKind(KeyType.GROUP, GROUP_LOG, make, _terms, carry_out, declare=declare)


def _terms(now: Settings) -> ShardSettings:
    return ShardSettings(
        Codec(now[settings.offsets_topic_compression_codec]),
        now[settings.offsets_load_buffer_size],
        now[settings.offsets_commit_timeout_ms],
        now[group_coordinator_append_linger_ms],
    )
