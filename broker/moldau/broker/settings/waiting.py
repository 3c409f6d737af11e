"""Settings whose part of Kafka is not built yet: accepted, and mentioned at the start if given.

Settings that must not be ignored (an authorizer, TLS on a listener) are rejected instead, see
`unbuilt`; the settings here would not change any existing part. When a part is built, delete its
line here; tests/broker/settings/test_meaning.py finds settings that no code reads and no message
mentions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_LOGINS: Final = "logins"
_OAUTH: Final = "OAuth tokens by their scopes"
_PLUGINS: Final = "logins that are renewed by plugins"
_QUOTAS: Final = "quotas"
_QUORUM: Final = "finer control of the quorum"
_FOLLOWERS: Final = "finer control of followers"
_REPORTERS: Final = "metrics by Kafka's reporters"
_TIERED: Final = "tiered storage"

# By name, or by a prefix of names if it ends with a dot.
WAITING: Final[Mapping[str, str]] = {
    "alter.log.dirs.replication.quota.": _QUOTAS,
    "controller.performance.": "a watch on slow controller events",
    "controller.quorum.append.linger.ms": _QUORUM,
    "controller.quorum.auto.join.enable": _QUORUM,
    "controller.socket.timeout.ms": _QUORUM,
    "group.coordinator.cached.buffer.max.bytes": "buffers of coordinators that are kept",
    "log.dir.failure.timeout.ms": _QUORUM,
    "metadata.max.idle.interval.ms": _QUORUM,
    "metric.reporters": _REPORTERS,
    "metrics.": _REPORTERS,
    "num.replica.fetchers": _FOLLOWERS,
    "principal.builder.class": _LOGINS,
    "remote.log.index.file.cache.ttl.ms": _TIERED,
    "remote.log.manager.follower.thread.pool.size": _TIERED,
    "remote.log.manager.thread.pool.size": _TIERED,
    "remote.log.metadata.custom.": _TIERED,
    "remote.log.metadata.manager.class.": _TIERED,
    "remote.log.metadata.manager.listener.": _TIERED,
    "remote.log.storage.manager.": _TIERED,
    "replica.socket.receive.buffer.bytes": _FOLLOWERS,
    "sasl.login.callback.handler.class": _PLUGINS,
    "sasl.login.class": _PLUGINS,
    "sasl.login.refresh.": _PLUGINS,
    "sasl.oauthbearer.jwt.validator.": "plugins for tokens",
    "sasl.oauthbearer.scope.": _OAUTH,
    "share.coordinator.cached.buffer.max.bytes": "buffers of coordinators that are kept",
    "ssl.allow.": "checks of the names in a new certificate",
    "socket.connection.setup.timeout.": _FOLLOWERS,
    "unstable.": "versions that Kafka has not settled",
}


def waits_for(name: str) -> str | None:
    """Return the part of Kafka that the setting of this name belongs to, if it is not built yet."""
    what = WAITING.get(name)
    if what is not None:
        return what
    for beginning, part in WAITING.items():
        if beginning.endswith(".") and name.startswith(beginning):
            return part
    return None
