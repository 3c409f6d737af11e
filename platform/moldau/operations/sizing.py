"""How large a cluster must be for a load: a calculation from measured costs. Pure.

    estimate(Load(in_mb_s=50, out_mb_s=100))

Each number that was measured is a row of `MEASURED`, with the table of bench/results/ that it is
from; a test compares them. What was not measured follows from these by the rules in `estimate`,
and docs/sizing.md says which numbers are which. Rates are of values, before compression, in MB of
10**6 bytes; a core is one of the machine on which the rows were measured.
"""

from __future__ import annotations

from math import ceil, log
from typing import Final

from moldau.deferred import dataclass
from moldau.errors import ConfigError

CODECS: Final = ("none", "lz4", "zstd")
_KB: Final = 1_000
_DAY_S: Final = 86_400


@dataclass(frozen=True, slots=True)
class Row:
    """One measured number."""

    name: str
    value: float
    unit: str
    page: str
    """The page of bench/results/."""
    table: str
    case: str


def _broker(name: str, value: float, unit: str, table: str, case: str = "moldau") -> Row:
    return Row(name, value, unit, "broker", table, case)


_CPU: Final = "seconds a GB of values"
MEASURED: Final = (
    _broker("produce 100 none", 4.037, _CPU, "produce 100 B none, Java: broker CPU"),
    _broker("produce 100 lz4", 3.344, _CPU, "produce 100 B lz4, Java: broker CPU"),
    _broker("produce 100 zstd", 6.119, _CPU, "produce 100 B zstd, Java: broker CPU"),
    _broker("produce 1000 none", 2.857, _CPU, "produce 1 KB none, Java: broker CPU"),
    _broker("produce 1000 lz4", 2.632, _CPU, "produce 1 KB lz4, Java: broker CPU"),
    _broker("produce 1000 zstd", 4.042, _CPU, "produce 1 KB zstd, Java: broker CPU"),
    _broker("produce 10000 none", 2.356, _CPU, "produce 10 KB none, Java: broker CPU"),
    _broker("produce 10000 lz4", 2.491, _CPU, "produce 10 KB lz4, Java: broker CPU"),
    _broker("produce 10000 zstd", 3.253, _CPU, "produce 10 KB zstd, Java: broker CPU"),
    _broker("consume 100", 0.739, _CPU, "consume 100 B, librdkafka: broker CPU"),
    _broker("consume 1000", 0.253, _CPU, "consume 1 KB, librdkafka: broker CPU"),
    _broker("consume 10000", 0.317, _CPU, "consume 10 KB, librdkafka: broker CPU"),
    Row(
        "produce over TLS", 2.557, _CPU,
        "security", "produce 1 KB over TLS, librdkafka: broker CPU", "moldau",
    ),
    Row(
        "consume over TLS", 1.532, _CPU,
        "security", "consume 1 KB over TLS, librdkafka: broker CPU", "moldau",
    ),
    _broker("memory in use", 49.22, "MB", "resident after all of the above"),
    _broker("memory with 1 partition", 43.87, "MB", "restart with 1 partition: resident then"),
    _broker(
        "memory with 1,000 partitions", 56.03, "MB", "restart with 1,000 partitions: resident then"
    ),
    _broker("idle connection", 3_658, "resident bytes", "an idle connection", "each"),
    Row(
        "three nodes", 101.6, "MB/s",
        "cluster", "Produce, 1 KB, acks=all, three replicas", "moldau",
    ),
)  # fmt: skip
_BY_NAME: Final = {row.name: row.value for row in MEASURED}

PRODUCE_PLAIN_LIBRDKAFKA: Final = 0.86
"""The CPU, s a GB, of the producer over TLS without TLS (bench/notes-broker.md)."""
FORMAT_BYTES: Final = 10
"""What the format of the log adds to a value: 110 bytes for 100, in batches of 50 without keys."""
PARTITIONS_MAX: Final = 10_000
"""The replicas of a node that were measured."""
BUSY: Final = 0.6
"""The part of a core that a shard uses at most: the rest is for peaks."""
FULL: Final = 0.75
"""The part of a disk that is filled at most."""
CACHED_S: Final = 60
"""The time of writes that stay in the page cache, for readers near the end of the log."""
SYSTEM_MB: Final = 1_000
"""The memory of the operating system and of what else runs there."""


@dataclass(frozen=True, slots=True)
class Load:
    """What the cluster must carry."""

    in_mb_s: float
    out_mb_s: float
    record_bytes: int = 1_000
    retention_s: float = 7 * _DAY_S
    replicas: int = 3
    partitions: int = 100
    codec: str = "none"
    compressed_to: float = 1.0
    """The size of compressed values, as a part of their size before."""
    connections: int = 100
    has_tls: bool = False
    cores: int = 4
    """The cores of a node."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The size of a cluster; sizes and rates are of one node."""

    nodes: int
    shards: int
    cores_busy: float
    """The cores of all nodes that are busy, without reserve."""
    memory_mb: float
    """Of the broker's processes."""
    machine_memory_mb: float
    """With the page cache for readers near the end, and the system."""
    disk_gb: float
    network_in_mb_s: float
    network_out_mb_s: float
    may_fail: int
    """How many nodes may fail while every partition takes writes, if `min.insync.replicas` is that
    much below the replicas."""
    notes: tuple[str, ...]


def estimate(load: Load) -> Estimate:
    """Return the smallest cluster that carries the load, with one node down if there are replicas.
    Raise ConfigError if a number makes no sense."""
    _check(load)
    followers = load.replicas - 1
    read = _by_size("consume", load.record_bytes)
    append = _by_size("produce", load.record_bytes, " none")
    written = _by_size("produce", load.record_bytes, f" {load.codec}")
    leading = written + (
        _extra("produce over TLS", PRODUCE_PLAIN_LIBRDKAFKA) if load.has_tls else 0
    )
    reading = read + (_extra("consume over TLS", _BY_NAME["consume 1000"]) if load.has_tls else 0)
    busy = (
        load.in_mb_s * (leading + followers * (read + append) * load.compressed_to)
        + load.out_mb_s * reading
    ) / _KB
    spare = 1 if followers else 0
    least = 3 if load.replicas == 2 else load.replicas
    nodes = max(least, ceil(busy / BUSY / (load.cores - 1)) + spare)
    shards = max(1, ceil(busy / BUSY / (nodes - spare)))
    size = load.compressed_to * (1 + FORMAT_BYTES / load.record_bytes)
    stored = load.in_mb_s * size
    held = stored * load.replicas / nodes
    memory = shards * _BY_NAME["memory in use"] + _of_partitions(load, nodes) + _of_clients(load)
    return Estimate(
        nodes,
        shards,
        busy,
        memory,
        memory + held * CACHED_S + SYSTEM_MB,
        held * load.retention_s / _KB / FULL,
        held,
        (load.out_mb_s * size + stored * followers) / nodes,
        followers // 2,
        tuple(_notes(load, nodes, shards)),
    )


def _check(load: Load) -> None:
    """Raise ConfigError for what is not possible."""
    wrong = [
        name
        for name, is_right in (
            ("in and out must be 0 or more", min(load.in_mb_s, load.out_mb_s) >= 0),
            ("record size must be 1 byte or more", load.record_bytes >= 1),
            ("replicas must be 1 or more", load.replicas >= 1),
            ("partitions must be 1 or more", load.partitions >= 1),
            ("retention must be positive", load.retention_s > 0),
            ("compressed-to must be above 0 and at most 1", 0 < load.compressed_to <= 1),
            (f"codec must be one of {', '.join(CODECS)}", load.codec in CODECS),
            ("cores must be 2 or more", load.cores >= 2),
            ("connections must be 0 or more", load.connections >= 0),
        )
        if not is_right
    ]
    if wrong:
        raise ConfigError("; ".join(wrong))


def _by_size(name: str, record_bytes: int, ending: str = "") -> float:
    """Return the cost for a size of records: between measured sizes on a line over the logarithm,
    beyond them that of the nearest one, below 100 bytes more by as much as records are more."""
    sizes = (100, 1_000, 10_000)
    costs = [_BY_NAME[f"{name} {size}{ending}"] for size in sizes]
    if record_bytes < sizes[0]:
        return costs[0] * sizes[0] / record_bytes
    for number in (1, 2):
        low, high = sizes[number - 1], sizes[number]
        if record_bytes <= high:
            part = log(record_bytes / low) / log(high / low)
            return costs[number - 1] + part * (costs[number] - costs[number - 1])
    return costs[-1]


def _extra(name: str, plain: float) -> float:
    return _BY_NAME[name] - plain


def _of_partitions(load: Load, nodes: int) -> float:
    """Return the MB of a node's replicas."""
    each = (_BY_NAME["memory with 1,000 partitions"] - _BY_NAME["memory with 1 partition"]) / 999
    return each * load.partitions * load.replicas / nodes


def _of_clients(load: Load) -> float:
    """Return the MB of connections: a client has one to each node."""
    return load.connections * _BY_NAME["idle connection"] / 10**6


def _notes(load: Load, nodes: int, shards: int) -> list[str]:
    """Return what the reader should know about this result."""
    notes = []
    if shards > 1:
        notes.append(f"start each node with --shards {shards}: a broker uses one core")
    if load.replicas == 1:
        notes.append("one replica: a lost disk loses its records, and no node is spare")
    if load.replicas == 2:
        notes.append(
            "two replicas: a failed node stops writes with acks=all, or min.insync.replicas is 1"
        )
    if load.record_bytes < 100 or load.record_bytes > 10_000:
        notes.append("records of 100 to 10,000 bytes were measured: other sizes are extrapolated")
    if load.codec != "none" and load.compressed_to == 1:
        notes.append("give --compressed-to: disk and network are calculated without compression")
    if load.codec == "none" and load.compressed_to < 1:
        notes.append("give --codec: the work of brokers is calculated without compression")
    if load.partitions * load.replicas > PARTITIONS_MAX * nodes:
        notes.append(
            f"more than {PARTITIONS_MAX:,} replicas in a node were not measured: take more nodes"
        )
    return notes
