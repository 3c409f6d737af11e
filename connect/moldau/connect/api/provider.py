"""Config providers: they put secrets in the place of `${provider:path:key}` when a task starts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Set
from typing import NamedTuple

from moldau.connect.api.plugin import Plugin


class ProvidedValues(NamedTuple):
    """Values by key, and after how many milliseconds they must be read again (None: never)."""

    values: Mapping[str, str]
    ttl_ms: int | None = None


class ConfigProvider(Plugin, ABC):
    """A place that values come from. One instance serves a worker."""

    def configure(self, props: Mapping[str, str]) -> None:
        """`props` are the worker's `config.providers.<name>.param.*`, without that prefix."""
        self.config = self.config_model.of(props)

    @abstractmethod
    def get(self, path: str, keys: Set[str]) -> ProvidedValues:
        """The values of `keys` at `path`; ConfigError if one is missing or not allowed."""

    def close(self) -> None:
        """Release what was opened."""
        return
