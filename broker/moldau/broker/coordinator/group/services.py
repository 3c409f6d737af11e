"""The services of the node that groups may use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection
    from random import Random

    from moldau.broker.coordinator.group.contract import Cluster
    from moldau.broker.coordinator.group.counts import GroupCounts
    from moldau.broker.coordinator.group.offsets import Offsets
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
