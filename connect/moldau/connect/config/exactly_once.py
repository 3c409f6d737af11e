"""The setting `exactly.once.source.support` of a worker, and the names of transactions. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.errors import ConfigError

SUPPORT: Final = "exactly.once.source.support"
_VALUES: Final = ("disabled", "preparing", "enabled")


def support_of(worker: Mapping[str, str]) -> str:
    """Return disabled, preparing or enabled. Raise ConfigError for another value."""
    text = worker.get(SUPPORT, "").strip().lower() or _VALUES[0]
    if text not in _VALUES:
        raise ConfigError(
            "must be disabled, preparing or enabled", setting=SUPPORT, value=worker[SUPPORT]
        )
    return text


def is_exactly_once(worker: Mapping[str, str]) -> bool:
    """Whether the sources of this worker write in transactions."""
    return support_of(worker) == "enabled"


def is_leader_transactional(worker: Mapping[str, str]) -> bool:
    """Whether the leader writes configs in transactions, so that an earlier leader is fenced."""
    return support_of(worker) != "disabled"


def transactional_id(cluster: str, connector: str, task: int) -> str:
    """Return the transactional id of a source task, as Kafka Connect names it."""
    return f"{cluster}-{connector}-{task}"


def leader_id(cluster: str) -> str:
    """Return the transactional id of the leader of a group of workers."""
    return f"connect-cluster-{cluster}"
