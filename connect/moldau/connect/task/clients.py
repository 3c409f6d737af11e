"""The settings of the clients that a worker opens for a connector. No IO.

A client gets the settings that all clients of the worker share, then the worker's for its kind
(`producer.`, `consumer.`, `admin.`), then the connector's overrides (`producer.override.` and so
on). `connector.client.config.override.policy` says what a connector may set: All, None, Principal
(only its identity to the cluster), or Allowlist (KIP-1188: the names in
`connector.client.config.override.allowlist`). Places of tokens are `token_places`' matter.

Invariant: a setting that the policy forbids is rejected with its key, never silently dropped.
"""

from __future__ import annotations

from typing import Any, Final

from moldau.client import Admin, Consumer, Producer
from moldau.config.problems import BadSettings
from moldau.connect.task.settings import Config, beneath, client_settings, listed
from moldau.connect.task.token_places import refused_places
from moldau.errors import ConfigError

POLICY: Final = "connector.client.config.override.policy"
ALLOWLIST: Final = "connector.client.config.override.allowlist"
KINDS: Final = ("producer", "consumer", "admin")
OF_PRINCIPAL: Final = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})
_SUFFIX: Final = "connectorclientconfigoverridepolicy"
_POLICIES: Final = ("all", "none", "principal", "allowlist")


def policy_of(worker: Config) -> str:
    """Return the policy in lower case. The setting is its name, or Kafka's class name. Raise
    ConfigError if it is unknown."""
    text = worker.get(POLICY, "").strip()
    name = text.rpartition(".")[2].lower().removesuffix(_SUFFIX) or "all"
    if name not in _POLICIES:
        raise ConfigError("must be All, None, Principal or Allowlist", setting=POLICY, value=text)
    return name


def refused_overrides(config: Config, worker: Config) -> dict[str, str]:
    """Return the keys of the connector's config that the policy forbids, each with the reason."""
    policy = policy_of(worker)
    if policy == "all":
        return {}
    allowed = frozenset[str]()
    if policy == "principal":
        allowed = OF_PRINCIPAL
    elif policy == "allowlist":
        allowed = frozenset(listed(worker, ALLOWLIST))
    reason = f"The worker's {POLICY} {worker[POLICY].strip()} does not allow to override this"
    if allowed:
        reason += f"; allowed are {', '.join(sorted(allowed))}"
    return {
        f"{kind}.override.{name}": reason
        for kind in KINDS
        for name in beneath(config, f"{kind}.override.")
        if name not in allowed
    }


def wrong_overrides(config: Config) -> dict[str, str]:
    """Return the keys of the connector's config that its clients do not know or whose values are
    invalid, each with the reason. A client is created for this check and never started."""
    clients: dict[str, Any] = {"producer": Producer, "consumer": Consumer, "admin": Admin}
    found: dict[str, str] = {}
    for kind, client in clients.items():
        own = beneath(config, f"{kind}.override.")
        if not own:
            continue
        base = {"bootstrap.servers": "localhost:9092"}
        if kind == "consumer":
            base["group.id"] = "connect"
        try:
            client({**base, **own})
        except BadSettings as error:
            for problem in error.problems:
                name = f"{kind}.override.{problem.name}"
                if problem.name not in own:  # a problem of several settings together
                    name = f"{kind}.override.{next(iter(own))}"
                parts = [problem.shown, problem.reason]
                reason = " ".join(part for part in parts if part)
                reason += f"; allowed: {problem.allowed}" if problem.allowed else ""
                reason += f'; did you mean "{problem.nearest}"?' if problem.nearest else ""
                found.setdefault(name, reason)
    return found


def overrides(config: Config, worker: Config, kind: str) -> dict[str, str]:
    """Return the resolved config's overrides for this kind. Raise ConfigError if the policy forbids
    one, or one names a place of tokens that the worker does not allow."""
    prefix = f"{kind}.override."
    refused = {**refused_places(config, worker), **refused_overrides(config, worker)}
    for name, reason in refused.items():
        if name.startswith(prefix):
            raise ConfigError(reason, setting=name)
    return beneath(config, prefix)


def settings_for(config: Config, worker: Config, kind: str) -> dict[str, str]:
    """Return all settings of a client of this kind."""
    return {**client_settings(worker, f"{kind}."), **overrides(config, worker, kind)}
