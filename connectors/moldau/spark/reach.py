"""Whether Spark's master or Spark Connect server is there, before Spark tries for a minute.

Spark tells of an unreachable master after three attempts, and between Java's frames. One connection
says it at once.
"""

from __future__ import annotations

import socket
from typing import Final
from urllib.parse import urlsplit

from moldau.errors import ConfigError

_TIMEOUT_S: Final = 10.0
_PORTS: Final = {"spark": 7077, "sc": 15002}
_WHAT: Final = {
    "spark": ("no Spark master answers: start it, or correct the master", "master"),
    "sc": ("no Spark Connect server answers: start it, or correct the address", "remote"),
}


def check_reachable(url: str) -> None:
    """ConfigError unless one of the hosts of `spark://` or `sc://` takes a connection. Addresses of
    other kinds are Spark's to check."""
    scheme, _, rest = url.partition("://")
    if scheme not in _PORTS:
        return
    causes = []
    for place in rest.partition("/")[0].split(","):
        parts = urlsplit(f"//{place}")
        try:
            host, port = parts.hostname or "", parts.port or _PORTS[scheme]
            socket.create_connection((host, port), _TIMEOUT_S).close()
        except (OSError, ValueError) as error:
            causes.append(f"{place}: {getattr(error, 'strerror', None) or error}")
        else:
            return
    words, name = _WHAT[scheme]
    # What follows the first `;` may be a token.
    raise ConfigError(words, **{name: url.partition("/;")[0]}, cause="; ".join(causes))
