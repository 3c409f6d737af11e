"""Kafka's settings of a worker that have no default of ours: those that are built, those that are
ignored with a warning because nothing depends on them, and values that are refused because a worker
cannot do what they promise. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from moldau.connect.config.model import Problem
from moldau.connect.storage.configs import DEFAULT_ALGORITHM
from moldau.connect.task.settings import SHARED_BY_CLIENTS, Config, listed
from moldau.connect.worker.kafka_settings_table import ROWS
from moldau.deferred import dataclass
from moldau.errors import ConfigError
from moldau.link.security_settings import SECURITY_ROWS, WITHOUT_EFFECT

BUILT: Final = frozenset({*SHARED_BY_CLIENTS, *(row.name for row in ROWS if row.default is None)})
"""Settings without a default of ours that a worker or its clients read."""

_BY_PIP: Final = "connectors are Python packages, installed with pip beside the worker"
_METRICS: Final = "a worker serves its metrics at GET /metrics"
_BY_SYSTEM: Final = "the operating system chooses"
IGNORED: Final[Mapping[str, str]] = {
    "auto.include.jmx.reporter": _METRICS,
    "bootstrap.resolve.timeout.ms": "names are resolved with each connection",
    "client.id": "clients are named after their connectors",
    "connections.max.idle.ms": "idle connections stay open",
    "inter.worker.key.size": "keys have 256 bits",
    "metadata.recovery.rebootstrap.trigger.ms": "clients return to bootstrap.servers by themselves",
    "metric.reporters": _METRICS,
    "metrics.num.samples": _METRICS,
    "metrics.recording.level": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    "offset.storage.file.filename": "`moldau connect run --state DIR` keeps offsets in DIR",
    "plugin.discovery": _BY_PIP,
    "plugin.path": _BY_PIP,
    "receive.buffer.bytes": _BY_SYSTEM,
    "send.buffer.bytes": _BY_SYSTEM,
    "security.providers": "Python has no providers of this kind",
    "socket.connection.setup.timeout.max.ms": "socket.connection.setup.timeout.ms counts",
    "worker.sync.timeout.ms": "a worker reads the configs before it takes its share of them",
    "worker.unsync.backoff.ms": "a worker reads the configs before it takes its share of them",
}
"""Settings without an effect, and the reason. Each is a warning."""
IGNORED_PREFIXES: Final[Mapping[str, str]] = {
    "admin.listeners.https.": "the settings of listeners.https. count for both",
    "metrics.context.": _METRICS,
    **WITHOUT_EFFECT,
}
OF_LOGINS: Final = frozenset(
    each.name for each in SECURITY_ROWS if each.name.startswith(("sasl.", "ssl."))
)
"""Encryption and logins of all clients of a worker, unless `producer.` and so on say otherwise."""


@dataclass(frozen=True, slots=True)
class AllowedValues:
    """The values of a setting that a worker can serve, in lower case, and what else to do."""

    values: tuple[str, ...]
    otherwise: str
    is_list: bool = False

    def takes(self, text: str) -> bool:
        items = [item.strip().lower() for item in text.split(",") if item.strip()]
        if self.is_list:
            return not items or any(item in self.values for item in items)
        return text.strip().lower() in self.values


_PINNED: Final = AllowedValues(("",), "remove it: the installed version of a package is used")
REFUSED: Final[Mapping[str, AllowedValues]] = {
    "header.converter.plugin.version": _PINNED,
    "inter.worker.key.generation.algorithm": AllowedValues(
        ("", DEFAULT_ALGORITHM.lower()), f"set it to {DEFAULT_ALGORITHM}"
    ),
    "inter.worker.signature.algorithm": AllowedValues(
        ("", DEFAULT_ALGORITHM.lower()), f"set it to {DEFAULT_ALGORITHM}"
    ),
    "inter.worker.verification.algorithms": AllowedValues(
        (DEFAULT_ALGORITHM.lower(),), f"add {DEFAULT_ALGORITHM}", is_list=True
    ),
    "key.converter.plugin.version": _PINNED,
    "response.http.headers.config": AllowedValues(
        ("",), "remove it, and add headers in a proxy before the REST API"
    ),
    "rest.advertised.listener": AllowedValues(
        ("", "http", "https"), "set it to the protocol of listeners, or remove it"
    ),
    "value.converter.plugin.version": _PINNED,
}
"""Settings with values that a worker refuses."""


def check_promises(given: Config) -> None:
    """Raise ConfigError for a value that promises what a worker cannot do."""
    for name, allowed in REFUSED.items():
        if not allowed.takes(given.get(name, "")):
            raise ConfigError(f"cannot be served: {allowed.otherwise}", setting=name,
                              value=given[name])  # fmt: skip
    for name in ("listeners", "admin.listeners"):
        found = listed(given, name)
        if len(found) > 1:
            raise ConfigError("must be one address", setting=name, value=given[name])


def ignored_settings(given: Config) -> Iterator[Problem]:
    """Yield a warning for each setting that has no effect here."""
    for name in given:
        reason = IGNORED.get(name) or next(
            (text for prefix, text in IGNORED_PREFIXES.items() if name.startswith(prefix)), None
        )
        if reason is not None:
            yield Problem(name, f'The worker ignores "{name}": {reason}')
