"""The hosts of access rules: every host, an address, or a network such as 10.0.0.0/8 or fe80::/10.

A text is a network here exactly if Apache Kafka 4.4 takes it for one: octets and groups may have
leading zeros, bits of the host may be set, and an IPv4 address in IPv6's form is none.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

_ANY: Final = "*"
_KEPT: Final = 4096
_IPV4: Final = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}/\d{1,2}", re.ASCII)
_PREFIX_LENGTH: Final = re.compile(r"[+-]?\d+")
_LEADING_ZEROS: Final = re.compile(r"(?<![0-9A-Fa-f])0+(?=[0-9A-Fa-f])")


def host_matches(rule_host: str, host: str) -> bool:
    """Whether a rule for `rule_host` is about a client at `host`."""
    if rule_host in (_ANY, host):
        return True
    return is_network(rule_host) and _is_within(rule_host, host)


def is_network(rule_host: str) -> bool:
    """Whether the host of a rule is meant to be a network. `network_of` says whether it is one."""
    return "/" in rule_host


@lru_cache(_KEPT)
def network_of(rule_host: str) -> IPv4Network | IPv6Network | None:
    """Return the network of a rule's host; None if the text is not one."""
    try:
        return _ipv6(rule_host) if ":" in rule_host else _ipv4(rule_host)
    except ValueError:
        return None


def _ipv4(text: str) -> IPv4Network | None:
    if _IPV4.fullmatch(text) is None:
        return None
    address, _, length = text.partition("/")
    octets = ".".join(str(int(each)) for each in address.split("."))
    return IPv4Network((octets, int(length)), strict=False)


def _ipv6(text: str) -> IPv6Network | None:
    written, _, length = text.partition("/")
    if _PREFIX_LENGTH.fullmatch(length) is None:
        return None
    if written.startswith("[") and written.endswith("]"):
        written = written[1:-1]
    written, is_scoped, scope = written.partition("%")
    if is_scoped and not scope:
        return None
    address = IPv6Address(_LEADING_ZEROS.sub("", written))
    if address.ipv4_mapped is not None:
        return None
    return IPv6Network((int(address), int(length)), strict=False)


@lru_cache(_KEPT)
def _is_within(rule_host: str, host: str) -> bool:
    network = network_of(rule_host)
    if network is None:
        return False
    try:
        return ip_address(host) in network
    except ValueError:
        return False
