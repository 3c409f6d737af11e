"""The hosts of access rules: every host, an address, or a network such as 10.0.0.0/8.

Kafka knows no networks; such a rule matches no client there.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import Final

_ANY: Final = "*"
_KEPT: Final = 4096


def host_matches(rule_host: str, host: str) -> bool:
    """Whether a rule for `rule_host` is about a client at `host`."""
    if rule_host in (_ANY, host):
        return True
    return "/" in rule_host and _is_within(rule_host, host)


@lru_cache(_KEPT)
def _is_within(network: str, host: str) -> bool:
    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False
