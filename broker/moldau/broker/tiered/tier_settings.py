"""The conversion of settings to what the remote work uses.

Invariant: only this module knows which setting is which number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.broker.settings import tiered, topic
from moldau.broker.settings.retention import AS_LOCAL_RETENTION, local_limit
from moldau.broker.tiered.copying import CopyLag
from moldau.broker.tiered.expiry import Retention
from moldau.broker.tiered.remote_log import TierSettings
from moldau.broker.tiered.remote_work import WorkLimits
from moldau.objects.store_address import StoreConfig, parse_address
from moldau.runtime.backoff import Backoff

if TYPE_CHECKING:
    from moldau.broker.settings import ResourceSettings
    from moldau.config import Settings


def tier_settings(settings: ResourceSettings) -> TierSettings | None:
    """Return what the settings of a topic say; None if nothing remote is done for it, and what may
    be there is kept.

    A topic with remote storage cannot be made compacted, but a broker's `log.cleanup.policy` may
    make it so. That switches nothing off."""
    policy = settings[topic.cleanup_policy]
    is_remote = settings[topic.remote_storage_enable]
    is_removed = settings[topic.remote_log_delete_on_disable]
    is_on = settings.broker[tiered.remote_log_storage_system_enable]
    if not is_on or not (is_remote or is_removed) or (is_remote and "compact" in policy):
        return None
    whole = Retention()
    if "delete" in policy:
        whole = Retention(settings[topic.retention_ms], settings[topic.retention_bytes])
    local = Retention(
        local_limit(settings[topic.local_retention_ms], whole.ms),
        local_limit(settings[topic.local_retention_bytes], whole.size_bytes),
    )
    lag_ms = settings[topic.remote_copy_lag_ms]
    lag_bytes = settings[topic.remote_copy_lag_bytes]
    return TierSettings(
        lag=CopyLag(
            local.ms if lag_ms == AS_LOCAL_RETENTION else lag_ms,
            local.size_bytes if lag_bytes == AS_LOCAL_RETENTION else lag_bytes,
        ),
        retention=whole,
        local_retention=local,
        is_copied=not settings[topic.remote_log_copy_disable],
        is_remote=is_remote,
    )


def work_limits(settings: Settings) -> WorkLimits:
    """Return the limits of a node's remote work."""
    return WorkLimits(
        copies_max=settings[tiered.remote_log_manager_copier_thread_pool_size],
        deletions_max=settings[tiered.remote_log_manager_expiration_thread_pool_size],
        copy_bytes_per_s_max=settings[tiered.remote_log_manager_copy_max_bytes_per_second],
        interval_ms=settings[tiered.remote_log_manager_task_interval_ms],
        orphan_grace_ms=settings[tiered.remote_storage_orphan_grace_ms],
        retry=Backoff(
            settings[tiered.remote_log_manager_task_retry_backoff_ms],
            settings[tiered.remote_log_manager_task_retry_backoff_max_ms],
            settings[tiered.remote_log_manager_task_retry_jitter],
        ),
    )


def store_config(settings: Settings) -> StoreConfig | None:
    """Return how the store of a node's settings is reached; None if they name no store. Raise
    ConfigError for an address that cannot work."""
    address = settings[tiered.remote_storage]
    if address is None:
        return None
    return StoreConfig(
        parse_address(address, tiered.remote_storage.name),
        settings[tiered.remote_storage_endpoint],
        settings[tiered.remote_storage_region],
        settings[tiered.remote_storage_path_style],
    )
