"""The settings of connections and of the search for a cluster, by Kafka's names: one row each.

Every kind of client has these rows in its own table.
"""

from __future__ import annotations

from typing import Final

from moldau.config import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    REQUIRED,
    STRING,
    Check,
    Setting,
    Settings,
    at_least,
    list_of,
    one_of_ignoring_case,
    rows_in,
    sendable,
)
from moldau.errors import ConfigError
from moldau.link.addresses import Address, parse_address, split_address
from moldau.link.security_settings import SECURITY_ROWS


def _is_address(text: str) -> bool:
    try:
        split_address(text)
    except ConfigError:
        return False
    return True


# fmt: off
bootstrap_servers = Setting(
    "bootstrap.servers", LIST, REQUIRED,
    check=list_of(item=Check("host:port", _is_address), empty_allowed=False),
    doc="Where to look for the cluster first: host:port, several separated by commas.")
client_id = Setting("client.id", STRING, "", check=sendable(),
    doc="What this client calls itself in the broker's logs and quotas.")
request_timeout_ms = Setting("request.timeout.ms", INT, 30_000, check=at_least(1),
    doc="A connection that leaves a request without an answer for this long is closed, and the "
    "request tried again where that is safe.")
default_api_timeout_ms = Setting("default.api.timeout.ms", INT, 60_000, check=at_least(1),
    doc="How long a call may take with all its retries, if it is not told otherwise.")
start_timeout_ms = Setting("start.timeout.ms", INT, 30_000, check=at_least(0),
    doc="How long a client's start waits for a cluster that is not up yet. 0 fails at once.")
retry_backoff_ms = Setting("retry.backoff.ms", LONG, 100, check=at_least(0),
    doc="How long to wait before the first retry; each further one waits twice as long.")
retry_backoff_max_ms = Setting("retry.backoff.max.ms", LONG, 1_000, check=at_least(0),
    doc="The longest wait between retries.")
reconnect_backoff_ms = Setting("reconnect.backoff.ms", LONG, 50, check=at_least(0),
    doc="How long to wait before a broker is connected to again after a failure; twice as long "
    "after each further one.")
reconnect_backoff_max_ms = Setting("reconnect.backoff.max.ms", LONG, 1_000, check=at_least(0),
    doc="The longest wait before a broker is connected to again.")
connection_setup_timeout_ms = Setting(
    "socket.connection.setup.timeout.ms", LONG, 10_000, check=at_least(1),
    doc="How long a connection may take until the broker has said which versions it speaks.")
metadata_max_age_ms = Setting("metadata.max.age.ms", LONG, 300_000, check=at_least(0),
    doc="Metadata older than this is asked for again even if nothing hints at a change.")
metadata_recovery_strategy = Setting(
    "metadata.recovery.strategy", STRING, "rebootstrap",
    check=one_of_ignoring_case("rebootstrap", "none"),
    doc="`none` has the effect of `metadata.cluster.check.enable=false`. The bootstrap servers are "
    "asked again in any case as soon as no known broker can be reached.")
metadata_cluster_check_enable = Setting("metadata.cluster.check.enable", BOOLEAN, True,
    doc="Whether a broker is told, when a connection is opened, which broker of which cluster is "
    "meant. Another one refuses the client then, which looks for the right one. Brokers before "
    "Kafka 4.4 do not check it.")
config_providers = Setting("config.providers", LIST, (),
    doc="Where references in values are looked up. A client looks up none: refused.")
# fmt: on

CONNECTION_ROWS: Final = (*rows_in(globals()), *SECURITY_ROWS)
OPEN_PREFIXES: Final = ("config.providers.",)


def hosts_have_names(settings: Settings) -> str | None:
    """Check that hosts can have these names: a rule of a table. Return the error or None."""
    for text in settings[bootstrap_servers]:
        fault = split_address(text).fault
        if fault is not None:
            return f"{bootstrap_servers.name} has {text!r}: {fault}"
    return None


def nothing_unbuilt(settings: Settings) -> str | None:
    """Check that no setting asks for a missing feature, which must not be ignored silently."""
    if settings[config_providers]:
        return "config.providers: a client looks up no references, give it the values themselves"
    return None


def addresses(settings: Settings) -> tuple[Address, ...]:
    """Return the addresses of the bootstrap servers."""
    return tuple(map(parse_address, settings[bootstrap_servers]))
