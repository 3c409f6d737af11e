"""The addresses that options and settings of servers take."""

from __future__ import annotations

from typing import Final

from moldau.cli.command import UsageError

_PORT_MAX: Final = 65_535


def host_and_port(text: str, option: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT; without a host it is this machine alone. Raise
    UsageError, which names the option."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > _PORT_MAX:
        raise UsageError(f"{option} takes HOST:PORT, not {text!r}")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)
