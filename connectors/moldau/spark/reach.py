"""Check at once that Spark's master or Spark Connect server accepts connections.

Without this check Spark tries three times, for a minute, and reports the failure between the frames
of a Java stack trace. One connection finds it immediately.
"""

from __future__ import annotations

import re
import socket
from typing import Final
from urllib.parse import urlsplit

from moldau.errors import ConfigError

_TIMEOUT_S: Final = 10.0
_PORTS: Final = {"spark": 7077, "sc": 15002}
_ERRORS: Final = {
    "spark": ("no Spark master answers: start it, or correct the master", "master"),
    "sc": ("no Spark Connect server answers: start it, or correct the address", "remote"),
}

_COUNT: Final = r"[1-9]\d*"
_HOST: Final = r"(?:\[[0-9a-fA-F:.]+\]|[^\s/,:;\[\]]+)"
_MASTERS: Final = (
    re.compile(rf"local(?:\[(?:{_COUNT}|\*)(?:\s*,\s*{_COUNT})?\])?"),
    re.compile(r"local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"),
    re.compile(rf"spark://{_HOST}:\d{{1,5}}(?:,{_HOST}:\d{{1,5}})*"),
    re.compile(r"k8s://\S+"),
    re.compile(r"yarn"),
)
_REMOTE: Final = re.compile(rf"sc://{_HOST}(?::\d{{1,5}})?(?:/(?:;[^;=\s]+=[^;\s]*)*;?)?")


def is_master(text: str) -> bool:
    """Whether this is a master that Spark knows."""
    return any(each.fullmatch(text.strip()) for each in _MASTERS)


def is_remote(text: str) -> bool:
    """Whether this is the address of a Spark Connect server."""
    return _REMOTE.fullmatch(text.strip()) is not None


class Unavailable(ConfigError):
    """Something that the config names is missing, in use, or does not answer: a later try can
    succeed with the same config."""


def check_master(master: str) -> None:
    """Raise ConfigError unless this is a master that Spark knows, and it accepts connections."""
    if not is_master(master):
        raise ConfigError(
            "Spark has no such master: use local[*], spark://HOST:7077, k8s://... or yarn",
            master=master,
        )
    check_reachable(master)


def check_remote(remote: str) -> None:
    """Raise ConfigError unless this is the address of a Spark Connect server that answers."""
    if not is_remote(remote):
        raise ConfigError(
            "use the address of a Spark Connect server: sc://HOST:15002",
            remote=remote.partition("/;")[0],
        )
    check_reachable(remote)


def check_reachable(url: str) -> None:
    """Raise Unavailable unless one host of a `spark://` or `sc://` address accepts a connection.

    Addresses of other kinds are not checked here."""
    scheme, _, rest = url.partition("://")
    if scheme not in _PORTS:
        return
    causes = []
    for address in rest.partition("/")[0].split(","):
        parts = urlsplit(f"//{address}")
        try:
            host, port = parts.hostname or "", parts.port or _PORTS[scheme]
            socket.create_connection((host, port), _TIMEOUT_S).close()
        except (OSError, ValueError) as error:
            causes.append(f"{address}: {getattr(error, 'strerror', None) or error}")
        else:
            return
    message, name = _ERRORS[scheme]
    # The text after the first `;` may be a token: leave it out.
    raise Unavailable(message, **{name: url.partition("/;")[0]}, cause="; ".join(causes))
