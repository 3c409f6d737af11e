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
    Setting,
    SettingTable,
    at_least,
    one_of,
    one_of_ignoring_case,
)

_SOCKET: Final = "the operating system sizes the buffers of sockets."
_REBOOTSTRAP: Final = (
    "the bootstrap servers are asked again as soon as no known broker can be reached."
)
_NO_SHARE_GROUP: Final = "a Consumer is no member of a share group."
_NO_METRICS: Final = "an Admin keeps no metrics."

UNUSED_BY_ALL: Final[tuple[Setting[Any], ...]] = (
    Setting(
        "client.dns.lookup",
        STRING,
        None,
        "all addresses behind a name are tried, one after the other, within "
        "socket.connection.setup.timeout.ms.",
        check=one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    ),
    Setting("connections.max.idle.ms", LONG, None, "a connection stays until the broker ends it."),
    Setting(
        "enable.metrics.push",
        BOOLEAN,
        None,
        "metrics are not sent to brokers; `metrics()` has them.",
    ),
    Setting(
        "metadata.recovery.rebootstrap.trigger.ms", LONG, None, _REBOOTSTRAP, check=at_least(0)
    ),
    Setting(
        "metadata.recovery.strategy",
        STRING,
        None,
        _REBOOTSTRAP,
        check=one_of_ignoring_case("rebootstrap", "none"),
    ),
    Setting(
        "metric.reporters", LIST, None, "there is no JMX; `metrics()` and `registry` have them."
    ),
    Setting(
        "metrics.recording.level",
        STRING,
        None,
        "every metric is recorded.",
        check=one_of("INFO", "DEBUG", "TRACE"),
    ),
    Setting("receive.buffer.bytes", INT, None, _SOCKET, check=at_least(-1)),
    Setting("security.providers", STRING, None, "there is no Java."),
    Setting("send.buffer.bytes", INT, None, _SOCKET, check=at_least(-1)),
    Setting(
        "socket.connection.setup.timeout.max.ms",
        LONG,
        None,
        "every attempt has socket.connection.setup.timeout.ms.",
    ),
)
UNUSED_BY_PRODUCERS: Final[tuple[Setting[Any], ...]] = (
    Setting("transaction.timeout.ms", INT, None, "there is no transactional.id."),
)
UNUSED_BY_CONSUMERS: Final[tuple[Setting[Any], ...]] = (
    Setting(
        "share.acknowledgement.mode",
        STRING,
        None,
        _NO_SHARE_GROUP,
        check=one_of_ignoring_case("implicit", "explicit"),
    ),
    Setting(
        "share.acquire.mode",
        STRING,
        None,
        _NO_SHARE_GROUP,
        check=one_of_ignoring_case("batch_optimized", "record_limit"),
    ),
)
UNUSED_BY_ADMINS: Final[tuple[Setting[Any], ...]] = (
    Setting("metrics.num.samples", INT, None, _NO_METRICS, check=at_least(1)),
    Setting("metrics.sample.window.ms", LONG, None, _NO_METRICS, check=at_least(0)),
    Setting(
        "retries",
        INT,
        None,
        "what may work later is tried again until default.api.timeout.ms is over.",
        check=at_least(0),
    ),
)
UNUSED: Final = SettingTable(
    (*UNUSED_BY_ALL, *UNUSED_BY_PRODUCERS, *UNUSED_BY_CONSUMERS, *UNUSED_BY_ADMINS)
)


def reasons(rows: Iterable[Setting[Any]]) -> dict[str, str]:
    """By name, why each changes nothing."""
    return {row.name: row.doc.rstrip(".") for row in rows}
