"""Typed keywords of the clients: those of every client. Made of the settings' rows.

`python -m tests.client.settings.options` makes this module anew.
"""

from collections.abc import Sequence
from typing import TypedDict


class ConnectionOptions(TypedDict, total=False):
    """Kafka's settings with underscores for dots."""

    bootstrap_servers: str | Sequence[str]
    """Where to look for the cluster first: host:port, several separated by commas."""

    client_id: str
    """What this client calls itself in the broker's logs and quotas."""

    request_timeout_ms: int | str
    """A connection that leaves a request without an answer for this long is closed, and the request
    tried again where that is safe. Default: 30000."""

    default_api_timeout_ms: int | str
    """How long a call may take with all its retries, if it is not told otherwise. Default:
    60000."""

    start_timeout_ms: int | str
    """How long a client's start waits for a cluster that is not up yet. 0 fails at once. Default:
    30000."""

    retry_backoff_ms: int | str
    """How long to wait before the first retry; each further one waits twice as long. Default:
    100."""

    retry_backoff_max_ms: int | str
    """The longest wait between retries. Default: 1000."""

    reconnect_backoff_ms: int | str
    """How long to wait before a broker is connected to again after a failure; twice as long after
    each further one. Default: 50."""

    reconnect_backoff_max_ms: int | str
    """The longest wait before a broker is connected to again. Default: 1000."""

    socket_connection_setup_timeout_ms: int | str
    """How long a connection may take until the broker has said which versions it speaks. Default:
    10000."""

    metadata_max_age_ms: int | str
    """Metadata older than this is asked for again even if nothing hints at a change. Default:
    300000."""

    security_protocol: str
    """How brokers are talked to. Only PLAINTEXT is built so far; anything else is refused. Default:
    PLAINTEXT."""

    config_providers: str | Sequence[str]
    """Where references in values are looked up. A client looks up none: refused."""
