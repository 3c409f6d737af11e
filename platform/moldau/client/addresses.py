"""Where a broker listens: `host:port`, as people write it."""

from __future__ import annotations

from typing import Final, NamedTuple

from moldau.errors import ConfigError

_PORT_MAX: Final = 65_535


class Address(NamedTuple):
    """A host, by name or number, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """`kafka.example:9092`, `[::1]:9092`, or with a protocol before it, which Kafka allows too."""
    rest = text.strip()
    if "://" in rest:
        protocol, _, rest = rest.partition("://")
        if protocol.upper() != "PLAINTEXT":
            raise ConfigError("only PLAINTEXT addresses can be connected to", address=text)
    host, colon, port = rest.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigError("an IPv6 address needs brackets: [::1]:9092", address=text)
    number = int(port) if port.isascii() and port.isdecimal() and len(port) <= 5 else 0
    if not colon or not host or not 0 < number <= _PORT_MAX:
        raise ConfigError("an address must be host:port", address=text)
    return Address(host, number)
