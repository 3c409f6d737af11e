"""The controller's own settings, and its interface to the settings of resources.

`ConfigSchema` is a protocol, so that decisions do not depend on the table of settings. The rows of
that table decide which values are valid; the controller decides how values are changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from moldau.broker.controller.levels import SUPPORTED, LevelRange
from moldau.deferred import dataclass

if TYPE_CHECKING:
    from moldau.broker.controller.configs import DynamicConfigs, Resource
    from moldau.broker.controller.token_changes import TokenRules
    from moldau.config import Secret


class EffectiveConfig(NamedTuple):
    """The effective value of a topic's setting, for the response of CreateTopics (KIP-525)."""

    name: str
    value: str | None
    is_read_only: bool
    source: int
    is_sensitive: bool


class ConfigSchema(Protocol):
    """The facts about settings that the controller needs."""

    def is_list(self, resource_type: int, name: str) -> bool:
        """Whether the setting is a list, so that single values can be appended or subtracted."""
        ...

    def default(self, resource_type: int, name: str, dynamic: DynamicConfigs) -> str | None:
        """Return the effective value if the resource does not set it. `dynamic` holds the dynamic
        settings of this node."""
        ...

    def check(
        self, resource: Resource, configs: Mapping[str, str], before: Mapping[str, str]
    ) -> None:
        """Raise KafkaError if the resource, which is not a broker, cannot have these settings.
        `before` holds its current settings."""
        ...

    def check_broker(self, before: DynamicConfigs, after: DynamicConfigs) -> None:
        """Raise KafkaError if a broker cannot have the settings `after`, its own and those of all
        brokers together. `before` holds the current ones."""
        ...

    def effective(
        self, resource: Resource, configs: Mapping[str, str], dynamic: DynamicConfigs
    ) -> list[EffectiveConfig]:
        """Return the effective values of all settings of the resource, by name."""
        ...


@dataclass(frozen=True, slots=True)
class Rules:
    """Values that stay the same while the controller runs."""

    cluster_id: str
    node_id: int
    configs: ConfigSchema
    num_partitions: int = 1
    replication_factor: int = 1
    min_isr: int = 1
    session_timeout_ms: int = 9_000
    rebalance_interval_ms: int | None = None
    """The interval in which leadership returns to preferred replicas; None means never."""
    unclean_interval_ms: int | None = None
    """The interval in which partitions without a leader are checked for an unclean election; None
    means never."""
    mutation_window_s: int = 11
    """The seconds over which the rate of topic changes is measured."""
    tokens: TokenRules | None = None
    """How delegation tokens are made; None means that there are none."""
    supported: Mapping[str, LevelRange] = field(default_factory=lambda: SUPPORTED)

    @property
    def token_secret(self) -> Secret | None:
        """The key that delegation tokens are signed with; None if there are none."""
        return None if self.tokens is None else self.tokens.index.secret
