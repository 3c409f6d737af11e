"""Typed keywords of the clients; docs/client-settings.md says what each one does.

`python -m tests.client.settings.options` makes this module of the settings' rows.
"""

from moldau.client.settings.options import ClientOptions


class MemberOptions(ClientOptions, total=False):
    """Those of `GroupMember`."""

    group_instance_id: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    rebalance_timeout_ms: int
