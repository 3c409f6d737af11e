"""The kind of coordinator for groups: its shards are the partitions of `__consumer_offsets`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from moldau.broker.coordinator.coordinator import Coordinator
from moldau.broker.coordinator.group import metrics as group_metrics
from moldau.broker.coordinator.group.groups import Groups
from moldau.broker.coordinator.group.kinds import Kinds
from moldau.broker.coordinator.group.offsets import Offsets
from moldau.broker.coordinator.group.services import ShardGroupServices
from moldau.broker.coordinator.kind import CoordinatorKind, KeyType
from moldau.broker.coordinator.running_shard import CarryOut, ShardSettings, no_effects
from moldau.broker.settings import offset as settings
from moldau.broker.settings.coordinator import group_coordinator_append_linger_ms
from moldau.protocol.schemas.coordinator_log import GROUP_LOG
from moldau.records import Codec

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.services import NodeServices
    from moldau.config import Settings

OFFSETS_TOPIC: Final = GROUP_LOG.topic

GroupCoordinator: TypeAlias = "Coordinator[Groups]"


def groups_kind(node: NodeServices, carry_out: CarryOut = no_effects) -> CoordinatorKind[Groups]:
    """Return the kind for groups that use the services of this node. `carry_out` sets up the states
    of share groups."""

    kinds = Kinds()

    def make() -> Groups:
        offsets = Offsets()
        return Groups(ShardGroupServices(node, offsets), kinds, offsets)

    return CoordinatorKind(
        KeyType.GROUP, GROUP_LOG, make, _terms, carry_out, declare=group_metrics.declare
    )


def _terms(now: Settings) -> ShardSettings:
    return ShardSettings(
        Codec(now[settings.offsets_topic_compression_codec]),
        now[settings.offsets_load_buffer_size],
        now[settings.offsets_commit_timeout_ms],
        now[group_coordinator_append_linger_ms],
    )
