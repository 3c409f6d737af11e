"""What the controller takes from its settings, and what it asks about settings of others.

`ConfigSchema` is a protocol, so that decisions do not depend on the table of settings: what is a
legal value is decided by the rows, how values are changed is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from moldau.broker.controller.levels import SUPPORTED, LevelRange

if TYPE_CHECKING:
    from moldau.broker.controller.configs import DynamicConfigs, Resource


class EffectiveConfig(NamedTuple):
    """A setting of a topic as it is in force, for the answer to CreateTopics (KIP-525)."""

    name: str
    value: str | None
    is_read_only: bool
    source: int
    is_sensitive: bool


class ConfigSchema(Protocol):
    """What is known of settings."""

    def is_list(self, resource_type: int, name: str) -> bool:
        """Whether the setting holds several values, so that some can be added or taken away."""
        ...

    def default(self, resource_type: int, name: str, dynamic: DynamicConfigs) -> str | None:
        """The value in force where the resource says nothing; `dynamic` was set for this node."""
        ...

    def check(
        self, resource: Resource, configs: Mapping[str, str], before: Mapping[str, str]
    ) -> None:
        """Raises KafkaError when the resource, which is no broker, cannot have these settings;
        `before` are those that it has now."""
        ...

    def check_broker(self, before: DynamicConfigs, after: DynamicConfigs) -> None:
        """Raises KafkaError when a broker cannot have the settings `after`, of its own and of all
        brokers together; `before` are those that are set now."""
        ...

    def effective(
        self, resource: Resource, configs: Mapping[str, str], dynamic: DynamicConfigs
    ) -> list[EffectiveConfig]:
        """All settings of the resource, by name, as they are in force."""
        ...


@dataclass(frozen=True, slots=True)
class Rules:
    """What stays the same while the controller runs."""

    cluster_id: str
    node_id: int
    configs: ConfigSchema
    num_partitions: int = 1
    replication_factor: int = 1
    min_isr: int = 1
    session_timeout_ms: int = 9_000
    rebalance_interval_ms: int | None = None
    """How often leaderships go back to preferred replicas; None: never by themselves."""
    unclean_interval_ms: int | None = None
    """How often partitions without a leader are looked at that may lose records to have one."""
    supported: Mapping[str, LevelRange] = field(default_factory=lambda: SUPPORTED)
