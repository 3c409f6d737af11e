"""References in a connector config, such as `${file:/run/secrets/db.properties:password}`.

A config is stored as it was written. It is resolved when a connector or task starts and when it is
validated, and the resolved values are never shown. A reference that cannot be resolved is an error;
Kafka would use the text `${..}` as the password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from moldau.connect.api.provider import ConfigProvider
from moldau.connect.plugins.catalogue import Catalogue, PluginKind
from moldau.connect.plugins.stages import aliases, with_prefix
from moldau.errors import ConfigError

_REFERENCE = re.compile(r"\$\{([^}:]*):(?:([^}:]*):)?([^}]*?)\}")
_WELL_KNOWN = frozenset({"env", "file", "directory"})


class ResolvedConfig(NamedTuple):
    """A config with references replaced, and the milliseconds after which it may be outdated."""

    props: dict[str, str]
    ttl_ms: int | None


class Resolver:
    """Resolves references with the config providers of a worker."""

    def __init__(self, providers: Mapping[str, ConfigProvider]) -> None:
        self._providers = dict(providers)

    @classmethod
    def of(cls, catalogue: Catalogue, worker_props: Mapping[str, str]) -> Resolver:
        """Return the providers that a worker config names: `config.providers=env` and
        `config.providers.env.class`, with their settings under `config.providers.env.param.`."""
        providers = {}
        for alias in aliases(worker_props, "config.providers"):
            prefix = f"config.providers.{alias}."
            name = worker_props.get(prefix + "class")
            if not name:
                raise ConfigError(f"{prefix}class is missing: name the config provider")
            provider = catalogue.find(PluginKind.CONFIG_PROVIDER, name).cls()
            assert isinstance(provider, ConfigProvider)
            provider.configure(with_prefix(worker_props, prefix + "param."))
            providers[alias] = provider
        return cls(providers)

    def resolve(self, props: Mapping[str, str]) -> ResolvedConfig:
        """Replace every reference. Raise ConfigError, with the names of settings and no values."""
        ttls: list[int] = []
        problems: list[str] = []
        resolved = {}
        for name, text in props.items():
            try:
                resolved[name] = _REFERENCE.sub(lambda found: self._value(found, ttls), text)
            except ConfigError as error:
                problems.append(f"{name}: {error}")
        if problems:
            raise ConfigError("; ".join(problems))
        return ResolvedConfig(resolved, min(ttls, default=None))

    def close(self) -> None:
        for provider in self._providers.values():
            provider.close()

    def _is_ours(self, alias: str) -> bool:
        return alias in self._providers or alias in _WELL_KNOWN

    def _value(self, found: re.Match[str], ttls: list[int]) -> str:
        alias, path, name = found.group(1), found.group(2) or "", found.group(3)
        provider = self._providers.get(alias)
        if provider is None:
            if alias in _WELL_KNOWN:
                raise ConfigError(
                    f"the worker has no config provider {alias!r}; "
                    f"set config.providers={alias} in the worker config"
                )
            return found.group()
        values, ttl_ms = provider.get(path, {name})
        if ttl_ms is not None:
            ttls.append(ttl_ms)
        value = values.get(name)
        if value is None:
            raise ConfigError(f"the config provider {alias!r} has no such key", key=name)
        return value
