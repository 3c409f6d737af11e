"""Settings that Kafka's clients have and that change nothing here: the text of a row is the reason.

They are checked all the same, as Kafka checks them: a value that it refuses is a mistake of the
user. Those that Kafka takes any value of the type for have no check.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from moldau.config import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    STRING,
    Check,
    Kind,
    Setting,
    SettingTable,
    at_least,
    one_of,
    one_of_ignoring_case,
    sendable,
)

_SOCKET: Final = "the operating system sizes the buffers of sockets."
_REBOOTSTRAP: Final = (
    "the bootstrap servers are asked again as soon as no known broker can be reached."
)
_NO_SHARE_GROUP: Final = "a Consumer is no member of a share group."
_NO_RACKS: Final = "a record's partition is chosen without regard to racks."
_NO_METRICS: Final = "an Admin keeps no metrics."


def _unused(
    name: str, kind: Kind[Any], reason: str, check: Check[Any] | None = None
) -> Setting[Any]:
    if check is None:
        return Setting(name, kind, None, reason)
    return Setting(name, kind, None, reason, check=check)


UNUSED_BY_ALL: Final[tuple[Setting[Any], ...]] = (
    _unused(
        "bootstrap.resolve.timeout.ms",
        LONG,
        "names are resolved with each connection; start.timeout.ms limits how long a start waits.",
        at_least(0),
    ),
    _unused(
        "client.dns.lookup",
        STRING,
        "all addresses behind a name are tried, one after the other, within "
        "socket.connection.setup.timeout.ms.",
        one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    ),
    _unused("connections.max.idle.ms", LONG, "a connection stays until the broker ends it."),
    _unused(
        "enable.metrics.push", BOOLEAN, "metrics are not sent to brokers; `metrics()` has them."
    ),
    _unused("metadata.recovery.rebootstrap.trigger.ms", LONG, _REBOOTSTRAP, at_least(0)),
    _unused("metric.reporters", LIST, "there is no JMX; `metrics()` and `registry` have them."),
    _unused(
        "metrics.recording.level",
        STRING,
        "every metric is recorded.",
        one_of("INFO", "DEBUG", "TRACE"),
    ),
    _unused("receive.buffer.bytes", INT, _SOCKET, at_least(-1)),
    _unused("security.providers", STRING, "there is no Java."),
    _unused("send.buffer.bytes", INT, _SOCKET, at_least(-1)),
    _unused(
        "socket.connection.setup.timeout.max.ms",
        LONG,
        "every attempt has socket.connection.setup.timeout.ms.",
    ),
)
UNUSED_BY_PRODUCERS: Final[tuple[Setting[Any], ...]] = (
    _unused("client.rack", STRING, _NO_RACKS, sendable()),
    _unused("partitioner.rack.aware", BOOLEAN, _NO_RACKS),
)
UNUSED_BY_CONSUMERS: Final[tuple[Setting[Any], ...]] = (
    _unused(
        "share.acknowledgement.mode",
        STRING,
        _NO_SHARE_GROUP,
        one_of_ignoring_case("implicit", "explicit"),
    ),
    _unused(
        "share.acquire.mode",
        STRING,
        _NO_SHARE_GROUP,
        one_of_ignoring_case("batch_optimized", "record_limit"),
    ),
)
UNUSED_BY_ADMINS: Final[tuple[Setting[Any], ...]] = (
    _unused("metrics.num.samples", INT, _NO_METRICS, at_least(1)),
    _unused("metrics.sample.window.ms", LONG, _NO_METRICS, at_least(0)),
    _unused(
        "retries",
        INT,
        "what may work later is tried again until default.api.timeout.ms is over.",
        at_least(0),
    ),
)
UNUSED: Final = SettingTable(
    (*UNUSED_BY_ALL, *UNUSED_BY_PRODUCERS, *UNUSED_BY_CONSUMERS, *UNUSED_BY_ADMINS)
)


def reasons(rows: Iterable[Setting[Any]]) -> dict[str, str]:
    """By name, why each changes nothing."""
    return {row.name: row.doc.rstrip(".") for row in rows}
