"""Config providers: they replace `${provider:path:key}` with a secret when a task starts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Set
from typing import NamedTuple

from moldau.connect.api.plugin import Plugin


class ProvidedValues(NamedTuple):
    """Values by key. After `ttl_ms` milliseconds they must be read again (None: never)."""

    values: Mapping[str, str]
    ttl_ms: int | None = None


class ConfigProvider(Plugin, ABC):
    """A source of config values. One instance serves a worker."""

    def configure(self, props: Mapping[str, str]) -> None:
        """Set the provider up. `props` have no prefix `config.providers.<name>.param.`."""
        self.config = self.config_model.of(props)

    @abstractmethod
    def get(self, path: str, keys: Set[str]) -> ProvidedValues:
        """Return the values of `keys` at `path`. Raise ConfigError for one missing or forbidden."""

    def close(self) -> None:
        """Release all resources."""
        return
