"""Names of client settings, for commands that share an environment with clients."""

from __future__ import annotations


def is_client_setting(name: str) -> bool:
    """Whether a producer, a consumer or an admin has a setting of that name."""
    from moldau.client.settings.rows import ADMIN_SETTINGS, CONSUMER_SETTINGS, PRODUCER_SETTINGS

    tables = (ADMIN_SETTINGS, CONSUMER_SETTINGS, PRODUCER_SETTINGS)
    return any(table.find(name) is not None for table in tables)
