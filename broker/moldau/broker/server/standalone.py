"""The default settings of a standalone node, for a user that gives none.

They set what other nodes need a file for: roles, ids, listeners on this machine only, and a
replication factor of one for the internal topics.
"""

from __future__ import annotations

from typing import Final

from moldau.config import Layer, overrides
from moldau.errors import ConfigError

CLIENTS: Final = "PLAINTEXT"
CONTROLLER: Final = "CONTROLLER"
LOCAL: Final = "localhost"
PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
_EVERY_ADDRESS: Final = ("0.0.0.0", "::")  # noqa: S104 (this is how users write it)


def standalone_layer(directory: str, host: str = LOCAL, port: int = PORT) -> Layer:
    """Return all required settings, to be overlaid with the user's settings."""
    controller = f"{LOCAL}:{CONTROLLER_PORT if port != CONTROLLER_PORT else PORT}"
    return overrides(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"{CLIENTS}://{_bracketed(host)}:{port},{CONTROLLER}://{controller}",
            "controller.listener.names": CONTROLLER,
            "controller.quorum.bootstrap.servers": controller,
            "inter.broker.listener.name": CLIENTS,
            "log.dirs": directory,
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
    )


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def parse_listen(text: str) -> tuple[str, int]:
    """Parse `port`, `host:port` or `:port` (every address), as `--listen` takes it."""
    host, colon, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ConfigError("give a port, host:port or :port", listen=text)
    bare = host.removeprefix("[").removesuffix("]")
    if bare in _EVERY_ADDRESS:
        bare = ""
    return (bare if colon else LOCAL), int(port)
