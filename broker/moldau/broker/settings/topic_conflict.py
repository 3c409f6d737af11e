"""Check combinations of a topic's settings when they are set: Kafka's own rules.

Stored settings are not checked again: a later rule must not make a topic unusable.
"""

from __future__ import annotations

from moldau.broker.settings import tiered
from moldau.broker.settings.resource import ResourceSettings
from moldau.broker.settings.retention import (
    AS_RETENTION,
    exceeds_local,
    exceeds_retention,
    local_limit,
)
from moldau.broker.settings.topic import (
    cleanup_policy,
    local_retention_bytes,
    local_retention_ms,
    max_compaction_lag_ms,
    min_compaction_lag_ms,
    remote_copy_lag_bytes,
    remote_copy_lag_ms,
    remote_log_copy_disable,
    remote_log_delete_on_disable,
    remote_storage_enable,
    retention_bytes,
    retention_ms,
)


def topic_conflicts(
    settings: ResourceSettings, before: ResourceSettings | None = None
) -> tuple[str, ...]:
    """Return the problems of these settings of a topic together with the broker's. `before` are the
    previous settings of an existing topic."""
    found = []
    if settings[min_compaction_lag_ms] > settings[max_compaction_lag_ms]:
        found.append(f"{min_compaction_lag_ms.name} must not exceed {max_compaction_lag_ms.name}")
    if settings[remote_storage_enable]:
        found.extend(_remote_conflicts(settings))
    elif before is not None and before[remote_storage_enable]:
        found.extend(_leaving_remote_conflicts(settings))
    return tuple(found)


def _leaving_remote_conflicts(settings: ResourceSettings) -> list[str]:
    if settings[remote_log_delete_on_disable]:
        return []
    return [
        f"without {remote_storage_enable.name} remote segments are lost: set "
        f"{remote_log_delete_on_disable.name}=true if they shall be, or keep it and set "
        f"{remote_log_copy_disable.name}=true to only read them"
    ]


def _remote_conflicts(settings: ResourceSettings) -> list[str]:
    found = []
    if not settings.broker[tiered.remote_log_storage_system_enable]:
        system = tiered.remote_log_storage_system_enable.name
        found.append(f"{remote_storage_enable.name} needs {system}=true on the brokers")
    if "compact" in settings[cleanup_policy]:
        found.append(
            "Remote log storage is unsupported for the compacted topics: "
            f"{remote_storage_enable.name} goes only with {cleanup_policy.name}=delete"
        )
    for local, whole, lag in (
        (local_retention_ms, retention_ms, remote_copy_lag_ms),
        (local_retention_bytes, retention_bytes, remote_copy_lag_bytes),
    ):
        if exceeds_retention(settings[local], settings[whole]):
            found.append(f"{local.name} must not exceed {whole.name}")
        if exceeds_local(settings[lag], local_limit(settings[local], settings[whole])):
            found.append(f"{lag.name} must not exceed {local.name}")
        is_same = settings[local] in (AS_RETENTION, settings[whole])
        if settings[remote_log_copy_disable] and not is_same:
            found.append(
                f"with {remote_log_copy_disable.name} nothing more is copied: {local.name} must be "
                f"the same as {whole.name}"
            )
    return found
