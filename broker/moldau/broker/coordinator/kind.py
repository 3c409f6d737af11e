"""What makes a kind of coordinator: one row of the table in `moldau.broker.server.coordinators`.

The key type is the one of FindCoordinator. A key belongs to the partition of the kind's internal
topic that it hashes to, and the node that leads the partition coordinates the key.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Generic

from moldau.broker.coordinator.running_shard import CarryOut, no_effects
from moldau.broker.coordinator.shard import S
from moldau.deferred import dataclass

if TYPE_CHECKING:
    from moldau.broker.coordinator.coordinator import Coordinator
    from moldau.broker.coordinator.running_shard import ShardSettings
    from moldau.config import Settings
    from moldau.metrics import Registry
    from moldau.protocol.schemas.coordinator_log import CoordinatorLog


class KeyType(IntEnum):
    """The kinds of keys that have a coordinator, with their numbers in FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


@dataclass(frozen=True, slots=True)
class CoordinatorKind(Generic[S]):
    """One kind of coordinator."""

    key_type: KeyType
    schema: CoordinatorLog
    """The internal topic, and the schemas of its records."""
    make: Callable[[], S]
    """Creates an empty shard."""
    terms: Callable[[Settings], ShardSettings]
    """Returns the values of the settings that the runtime of its shards uses."""
    carry_out: CarryOut = no_effects
    """Carries out the effects of its decisions."""
    close: Callable[[], None] = lambda: None
    """Ends the effects that are being carried out, after the shards have closed."""
    declare: Callable[[Registry, Coordinator[S]], None] = lambda registry, coordinator: None
    """Declares the metrics of its own, once for a node."""

    @property
    def name(self) -> str:
        """Its part of the names of metrics."""
        return self.key_type.name.lower()

    @property
    def topic(self) -> str:
        """The internal topic."""
        return self.schema.topic
