"""What `moldau top` shows: two looks at a cluster become rates, tables and JSON. No IO.

Rates are those of offsets and of log sizes, so they work with any Kafka. Offsets of transactions'
markers count as records; a log that became smaller, by retention, has the rate 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from moldau.deferred import dataclass
from moldau.errors.amounts import counted

Cells = tuple[str, ...]
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_KIB: Final = 1024
_LARGE: Final = 100


@dataclass(frozen=True, slots=True)
class BrokerLook:
    """A broker. `size_bytes` is None if it did not answer; `behind` counts replicas that are not in
    sync."""

    broker: int
    address: str
    rack: str | None
    is_up: bool
    is_controller: bool
    leads: int
    replicas: int
    behind: int
    size_bytes: int | None
    bytes_per_second: float | None = None

    @property
    def name(self) -> str:
        """The id, with a mark at that of the controller."""
        return f"{self.broker}{'*' if self.is_controller else ''}"

    @property
    def state(self) -> str:
        """Whether it is up, as text."""
        return "up" if self.is_up else "down"


@dataclass(frozen=True, slots=True)
class TopicLook:
    """A topic: the sums of its end offsets and of the sizes of its leaders' logs, if known."""

    topic: str
    partitions: int
    end_offset: int | None
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class GroupLook:
    """A group that reads topics."""

    group: str
    state: str
    members: int
    lag: int


@dataclass(frozen=True, slots=True)
class PartitionLook:
    """A partition with replicas that are not in sync; `leader` is None without one."""

    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TransactionLook:
    """An open transaction. `open_s` is None if its start is unknown."""

    transactional_id: str
    state: str
    producer_id: int
    open_s: float | None


@dataclass(frozen=True, slots=True)
class Look:
    """A cluster at one moment. What could not be asked is an empty list, and named in `silent`."""

    cluster: str
    at_s: float
    brokers: Sequence[BrokerLook]
    topics: Sequence[TopicLook]
    groups: Sequence[GroupLook]
    under_replicated: Sequence[PartitionLook]
    transactions: Sequence[TransactionLook]
    silent: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Rate:
    """What came in a second since the look before; None at the first look."""

    records: float | None = None
    bytes: float | None = None


def rates(now: Look, before: Look | None) -> dict[str, Rate]:
    """Return the rates of each topic."""
    if before is None:
        return {each.topic: Rate() for each in now.topics}
    seconds = max(now.at_s - before.at_s, 1e-3)
    known = {each.topic: each for each in before.topics}
    return {
        each.topic: Rate(
            _rate(each.end_offset, known[each.topic].end_offset, seconds),
            _rate(each.size_bytes, known[each.topic].size_bytes, seconds),
        )
        if each.topic in known
        else Rate()
        for each in now.topics
    }


def _rate(now: int | None, before: int | None, seconds: float) -> float | None:
    return None if now is None or before is None else max(now - before, 0) / seconds


def busiest(now: Look, by_topic: Mapping[str, Rate], count: int) -> list[TopicLook]:
    """Return the topics with the most records a second, then bytes, then the largest."""

    def order(each: TopicLook) -> tuple[float, float, int, str]:
        rate = by_topic[each.topic]
        return -(rate.records or 0), -(rate.bytes or 0), -(each.size_bytes or 0), each.topic

    return sorted(now.topics, key=order)[:count]


def laggards(now: Look, count: int) -> list[GroupLook]:
    """Return the groups with the most lag."""
    return sorted(now.groups, key=lambda each: (-each.lag, each.group))[:count]


def headline(now: Look) -> str:
    """Return the cluster as one line."""
    down = sum(not each.is_up for each in now.brokers)
    parts = [
        counted(len(now.brokers), "broker") + (f" ({down} down)" if down else ""),
        counted(len(now.topics), "topic"),
        counted(sum(each.partitions for each in now.topics), "partition"),
        counted(len(now.groups), "group"),
        f"{len(now.under_replicated)} under-replicated",
        counted(len(now.transactions), "open transaction"),
    ]
    silent = f"; no answer about {', '.join(now.silent)}" if now.silent else ""
    return f"cluster {now.cluster}: {', '.join(parts)}{silent}"


def tables(now: Look, before: Look | None, count: int) -> Iterator[tuple[Cells, list[Cells]]]:
    """Yield the header and the rows of each table. Tables about trouble come only if there is."""
    yield (
        ("BROKER", "ADDRESS", "STATE", "LEADS", "REPLICAS", "SIZE"),
        [
            (
                each.name,
                each.address,
                each.state,
                str(each.leads),
                str(each.replicas),
                size(each.size_bytes),
            )
            for each in now.brokers
        ],
    )
    by_topic = rates(now, before)
    yield (
        ("TOPIC", "PARTITIONS", "RECORDS/S", "BYTES/S", "SIZE"),
        [
            (
                each.topic,
                str(each.partitions),
                pace(by_topic[each.topic].records),
                size(by_topic[each.topic].bytes),
                size(each.size_bytes),
            )
            for each in busiest(now, by_topic, count)
        ],
    )
    if now.groups:
        yield (
            ("GROUP", "STATE", "MEMBERS", "LAG"),
            [
                (each.group, each.state, str(each.members), str(each.lag))
                for each in laggards(now, count)
            ],
        )
    if now.under_replicated:
        yield (
            ("UNDER-REPLICATED", "LEADER", "REPLICAS", "IN SYNC"),
            [
                (
                    f"{each.topic}-{each.partition}",
                    "none" if each.leader is None else str(each.leader),
                    ",".join(map(str, each.replicas)),
                    ",".join(map(str, each.in_sync)) or "-",
                )
                for each in now.under_replicated[:count]
            ],
        )
    if now.transactions:
        yield (
            ("OPEN TRANSACTION", "STATE", "PRODUCER", "OPEN FOR"),
            [
                (
                    each.transactional_id,
                    each.state,
                    str(each.producer_id),
                    "-" if each.open_s is None else f"{each.open_s:.0f} s",
                )
                for each in _oldest_first(now.transactions)[:count]
            ],
        )


def _oldest_first(transactions: Sequence[TransactionLook]) -> list[TransactionLook]:
    return sorted(transactions, key=lambda each: (-(each.open_s or 0), each.transactional_id))


def pace(value: float | None) -> str:
    """Return records a second as text."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= _LARGE else f"{value:.1f}"


def size(value: float | None) -> str:
    """Return bytes, or bytes a second, as text with a unit."""
    if value is None:
        return "-"
    power = 0
    while value >= _KIB and power < len(_UNITS) - 1:
        value /= _KIB
        power += 1
    return f"{value:.0f} {_UNITS[power]}" if power == 0 else f"{value:.1f} {_UNITS[power]}"


def document(now: Look, before: Look | None) -> dict[str, Any]:
    """Return a look as data for JSON: everything, sorted as in the tables."""
    by_topic = rates(now, before)
    everything = len(now.topics) + len(now.groups)
    return {
        "cluster": now.cluster,
        "brokers": [
            {
                "broker": each.broker,
                "address": each.address,
                "up": each.is_up,
                "controller": each.is_controller,
                "leads": each.leads,
                "replicas": each.replicas,
                "size_bytes": each.size_bytes,
            }
            for each in now.brokers
        ],
        "topics": [
            {
                "topic": each.topic,
                "partitions": each.partitions,
                "end_offset": each.end_offset,
                "size_bytes": each.size_bytes,
                "records_per_second": by_topic[each.topic].records,
                "bytes_per_second": by_topic[each.topic].bytes,
            }
            for each in busiest(now, by_topic, everything)
        ],
        "groups": [
            {
                "group": each.group,
                "state": each.state,
                "members": each.members,
                "lag": each.lag,
            }
            for each in laggards(now, everything)
        ],
        "under_replicated": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "leader": each.leader,
                "replicas": list(each.replicas),
                "in_sync": list(each.in_sync),
            }
            for each in now.under_replicated
        ],
        "transactions": [
            {
                "transactional_id": each.transactional_id,
                "state": each.state,
                "producer_id": each.producer_id,
                "open_seconds": each.open_s,
            }
            for each in _oldest_first(now.transactions)
        ],
        "silent": list(now.silent),
    }
