"""Typed keywords of the clients: those of `GroupMember`. Made of the settings' rows.

`python -m tests.client.settings.options` makes this module anew.
"""

from moldau.client.settings.connection_options import ConnectionOptions


class MemberOptions(ConnectionOptions, total=False):
    """Kafka's settings with underscores for dots."""

    group_instance_id: str | None
    """Makes this a static member (KIP-345): when it comes back under this name before its session
    ends, it finds its partitions again without a rebalance."""

    session_timeout_ms: int | str
    """A member that is not heard of for this long is taken for dead. For the classic protocol.
    Default: 45000."""

    heartbeat_interval_ms: int | str
    """How often a member tells that it lives; a third of the session timeout at most is wise. For
    the classic protocol. Default: 3000."""

    rebalance_timeout_ms: int | str
    """How long the group waits for a member to join again when it rebalances: a member that takes
    longer is removed. For GroupMember; a consumer has max.poll.interval.ms instead. Default:
    60000."""
