"""The address of a broker: `host:port`, as users write it."""

from __future__ import annotations

from typing import Final, NamedTuple

from moldau.errors import ConfigError

_PORT_MAX: Final = 65_535
_PART_MAX: Final = 63
"""The limit of a name between two dots, from DNS."""


class Address(NamedTuple):
    """A host, by name or number, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def fault(self) -> str | None:
        """Why no broker can have this address, whatever the network is; None if one can."""
        if not 0 < self.port <= _PORT_MAX:
            return f"a port is a number from 1 to {_PORT_MAX}"
        parts = self.host.removesuffix(".").split(".")
        if "" in parts:
            return "the host's name has a dot with nothing before it"
        if max(map(len, parts)) > _PART_MAX:
            return f"a part of the host's name is longer than {_PART_MAX} characters"
        if "\0" in self.host or not _can_be_looked_up(self.host):
            return "the host's name has characters that no name has"
        return None


def parse_address(text: str) -> Address:
    """Return the address in `kafka.example:9092`, `[::1]:9092`, or with a protocol, as Kafka
    allows.

    Raise ConfigError, which says what is wrong, if it is not an address.
    """
    address = split_address(text)
    if address.fault is not None:
        raise ConfigError(address.fault, address=text)
    return address


def split_address(text: str) -> Address:
    """Return the address as `parse_address` does, even if no such host can exist."""
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


def _can_be_looked_up(host: str) -> bool:
    """Whether Python can pass the name to the system's resolver."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True
