"""Find listeners that are open to the whole network, so that the operator is always warned."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from moldau.broker.settings import Listener

_LOCAL: Final = "localhost"


def exposed(listeners: Iterable[Listener]) -> list[Listener]:
    """Return the listeners without logins and encryption whose address is not only this machine's.
    A host name counts as open, except `localhost`: its address may change."""
    return [
        each
        for each in listeners
        if each.security_protocol == "PLAINTEXT" and not is_local(each.host)
    ]


def is_local(host: str) -> bool:
    """Whether the address is this machine's alone."""
    if host.lower() == _LOCAL:
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
