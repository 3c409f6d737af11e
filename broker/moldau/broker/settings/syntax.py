"""The syntax inside values: endpoints, voters, maps, selectors, and their checks.

Each parser returns None for text that does not follow its syntax. A check uses the same function,
so code that uses a setting's value never finds an invalid one. Combinations of several settings are
checked in `moldau.broker.settings.listener`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from moldau.config import Check
from moldau.config.kinds import split_at_commas
from moldau.deferred import dataclass, deferred_pattern

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SELECTORS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
PORT_MAX = 65_535
INT_MAX = 2**31 - 1

_HOST = r"\[?(?P<host>[0-9a-zA-Z\-%._:]*)\]?"
_ENDPOINT = deferred_pattern(rf"(?P<name>.+)://{_HOST}:(?P<port>[0-9]{{1,5}})")
_ADDRESS = deferred_pattern(rf"(?:[0-9a-zA-Z\-%._]*://)?{_HOST}:(?P<port>[0-9]{{1,5}})")
_HOST_NAME = deferred_pattern(r"[0-9a-zA-Z\-%._:]*")
_WHOLE = deferred_pattern(r"[+-]?[0-9]{1,10}")
_SIGNED = r"[-+]?[0-9]{1,18}"
_DURATION = deferred_pattern(
    rf"(?P<sign>[-+]?)P(?:(?P<days>{_SIGNED})D)?"
    rf"(?P<time>T(?:(?P<hours>{_SIGNED})H)?(?:(?P<minutes>{_SIGNED})M)?"
    rf"(?:(?P<seconds>{_SIGNED})(?:[.,](?P<fraction>[0-9]{{0,9}}))?S)?)?",
    re.IGNORECASE,
)
_BY_DURATION = "by_duration:"
_DELAY = deferred_pattern(r"([0-9]{1,9})(ms|s|m|h|d|)")
_DELAY_UNITS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port. An empty host means every address, for a listener."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Voter:
    """One controller of a fixed quorum."""

    node_id: int
    address: Address


def parse_address(text: str) -> Address | None:
    """Parse `host:port`; an IPv6 host may be in brackets."""
    found = _ADDRESS.fullmatch(text)
    return None if found is None else _address(found)


def parse_endpoint(text: str) -> tuple[str, Address] | None:
    """Parse `NAME://host:port`. Return the listener's name in upper case, and its address."""
    found = _ENDPOINT.fullmatch(text)
    address = None if found is None else _address(found)
    return None if found is None or address is None else (found["name"].upper(), address)


def _address(found: re.Match[str]) -> Address | None:
    port = int(found["port"])
    return Address(found["host"], port) if port <= PORT_MAX else None


def parse_voter(text: str) -> Voter | None:
    """Parse `id@host:port`."""
    identity, _, where = text.partition("@")
    node_id, address = _int(identity), parse_address(where)
    return None if node_id is None or address is None else Voter(node_id, address)


def _int(text: str) -> int | None:
    if _WHOLE.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -INT_MAX - 1 <= number <= INT_MAX else None


def parse_map(text: str) -> dict[str, str] | None:
    """Parse `key:value` items. A key may contain colons, as an IPv6 address does. The last one of
    equal keys wins."""
    items = list(split_at_commas(text))
    while items and not items[-1]:
        items.pop()
    pairs = {}
    for item in items:
        key, colon, value = item.rpartition(":")
        if not colon:
            return None
        pairs[key.strip()] = value.strip()
    return pairs


def parse_host_limits(text: str) -> dict[str, int] | None:
    """Parse `host:count` items."""
    pairs = parse_map(text)
    if pairs is None:
        return None
    limits = {}
    for host, count in pairs.items():
        limit = _int(count)
        if limit is None or _HOST_NAME.fullmatch(host) is None:
            return None
        limits[host] = limit
    return limits


def parse_protocol_map(text: str) -> dict[str, str] | None:
    """Parse `NAME:PROTOCOL` items: the security protocol of each listener, in upper case."""
    pairs = parse_map(text)
    if pairs is None:
        return None
    protocols = {name.upper(): protocol.upper() for name, protocol in pairs.items()}
    fits = len(protocols) == len(pairs) and set(protocols.values()) <= set(SECURITY_PROTOCOLS)
    return protocols if fits and "" not in protocols else None


def parse_selector(text: str) -> tuple[str, re.Pattern[str]] | None:
    """Parse `selector=regular expression`: a property of a client, and the pattern for it."""
    parts = text.rstrip("=").split("=")
    if len(parts) != 2 or parts[0].strip() not in SELECTORS:
        return None
    try:
        return parts[0].strip(), re.compile(parts[1].strip())
    except (re.error, OverflowError, RecursionError):
        return None


def parse_offset_reset(text: str) -> tuple[str, int] | None:
    """Parse `earliest`, `latest` or `by_duration:PT1H`. Return it, and the milliseconds back."""
    if text in ("earliest", "latest"):
        return text, 0
    if not text.startswith(_BY_DURATION):
        return None
    duration = _duration_ms(text.removeprefix(_BY_DURATION))
    return None if duration is None or duration < 0 else ("by_duration", duration)


def _duration_ms(text: str) -> int | None:
    """Parse an ISO 8601 duration like Java: parts may have signs, and a part must follow `T`."""
    found = _DURATION.fullmatch(text)
    if found is None or found["time"] in ("T", "t"):
        return None
    days, hours, minutes, seconds = (
        int(found[part] or 0) for part in ("days", "hours", "minutes", "seconds")
    )
    if found["days"] is None and found["time"] is None:
        return None
    nanos = int((found["fraction"] or "").ljust(9, "0"))
    if (found["seconds"] or "").startswith("-"):
        nanos = -nanos
    whole = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    total = whole * 1_000_000_000 + nanos
    return (-total if found["sign"] == "-" else total) // 1_000_000


def parse_delay(text: str) -> int:
    """Parse a delay such as `500ms`, `10s`, `5m`, `1h` or `1d`. Return milliseconds, which a plain
    number is, or -1 if it is none."""
    found = _DELAY.fullmatch(text.strip())
    return -1 if found is None else int(found[1]) * _DELAY_UNITS[found[2]]


def _are_throttled_replicas(items: tuple[str, ...]) -> bool:
    is_all = "".join(items) == "*"
    return is_all or all(re.fullmatch(r"([0-9]+:[0-9]+)?", item) for item in items)


def _parsed_by(parse: Callable[[str], object], allowed: str) -> Check[str]:
    return Check(allowed, lambda text: parse(text) is not None)


ADDRESS = _parsed_by(parse_address, "host:port")
ENDPOINT = _parsed_by(parse_endpoint, "NAME://host:port")
VOTER = _parsed_by(parse_voter, "id@host:port")
HOST_LIMITS = _parsed_by(parse_host_limits, "host:count items separated by commas")
PROTOCOL_MAP = _parsed_by(
    parse_protocol_map,
    f"NAME:PROTOCOL items separated by commas, with {', '.join(SECURITY_PROTOCOLS)}",
)
SELECTOR = _parsed_by(
    parse_selector, f"selector=regular expression, with the selectors {', '.join(SELECTORS)}"
)
OFFSET_RESET = _parsed_by(parse_offset_reset, "earliest, latest or by_duration:PnDTnHnMn.nS")
DELAYS: Check[tuple[str, ...]] = Check(
    "delays such as 500ms, 10s, 5m, 1h or 1d, separated by commas",
    lambda items: all(parse_delay(item) >= 0 for item in items),
)
DLQ_TOPIC: Check[str] = Check(
    "a topic name that begins with `dlq.`, or nothing",
    lambda text: not text or re.fullmatch(r"dlq\.[a-zA-Z0-9._-]{1,245}", text) is not None,
)
KAFKA_DLQ_TOPIC: Check[str] = Check(
    "a topic name that does not start with '__', or nothing", lambda text: text[:2] != "__"
)
THROTTLED_REPLICAS: Check[tuple[str, ...]] = Check(
    "partition:broker items, or *", _are_throttled_replicas
)
