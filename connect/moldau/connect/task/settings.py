"""Reads a task's configs: the settings that all connectors share, and those of its clients.

Configs were checked when they were posted. A value that is still wrong (a reference that resolved
to an invalid one) is a ConfigError that names the key.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.deferred import dataclass
from moldau.errors import ConfigError

Config = Mapping[str, str]

SHARED_BY_CLIENTS = (
    "bootstrap.servers",
    "client.dns.lookup",
    "metadata.cluster.check.enable",
    "metadata.max.age.ms",
    "metadata.recovery.strategy",
    "oauth",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "security.protocol",
    "socket.connection.setup.timeout.ms",
)
_SHARED_PREFIXES = ("sasl.", "ssl.")


def whole(config: Config, name: str, default: int) -> int:
    """Return the whole number of a setting."""
    text = config.get(name)
    if text is None or not text.strip():
        return default
    try:
        return int(text)
    except ValueError:
        raise ConfigError("must be a whole number", setting=name, value=text) from None


def truth(config: Config, name: str, default: bool) -> bool:
    """Return the boolean of a setting."""
    text = config.get(name, "").strip().lower()
    if text in ("true", "false"):
        return text == "true"
    if not text:
        return default
    raise ConfigError("must be true or false", setting=name, value=text)


def listed(config: Config, name: str) -> list[str]:
    """Return the items of a setting, separated by commas."""
    return [item.strip() for item in config.get(name, "").split(",") if item.strip()]


def beneath(config: Config, prefix: str) -> dict[str, str]:
    """Return the settings that begin with `prefix`, without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in config.items()
        if name.startswith(prefix)
    }


def client_settings(worker: Config, *prefixes: str) -> dict[str, str]:
    """Return the settings of a client of the worker: the shared ones, then those of each prefix."""
    found = {
        name: value
        for name, value in worker.items()
        if name in SHARED_BY_CLIENTS or name.startswith(_SHARED_PREFIXES)
    }
    for prefix in prefixes:
        found.update(beneath(worker, prefix))
    if "admin." in prefixes:  # admin.listeners.* are settings of the REST API
        found = {name: value for name, value in found.items() if not name.startswith("listeners")}
    return found


@dataclass(frozen=True, slots=True)
class ErrorSettings:
    """The settings `errors.*` of a connector."""

    retry_timeout_ms: int = 0
    retry_delay_max_ms: int = 60_000
    tolerates: bool = False
    logs: bool = False
    logs_messages: bool = False
    dead_letter_topic: str = ""
    dead_letter_replicas: int = -1
    has_context_headers: bool = False

    @classmethod
    def of(cls, config: Config) -> ErrorSettings:
        tolerance = config.get("errors.tolerance", "none").strip().lower()
        if tolerance not in ("none", "all"):
            raise ConfigError("must be none or all", setting="errors.tolerance", value=tolerance)
        dlq = "errors.deadletterqueue.topic."
        return cls(
            whole(config, "errors.retry.timeout", 0),
            whole(config, "errors.retry.delay.max.ms", 60_000),
            tolerance == "all",
            truth(config, "errors.log.enable", False),
            truth(config, "errors.log.include.messages", False),
            config.get(f"{dlq}name", "").strip(),
            whole(config, f"{dlq}replication.factor", -1),
            truth(config, "errors.deadletterqueue.context.headers.enable", False),
        )
