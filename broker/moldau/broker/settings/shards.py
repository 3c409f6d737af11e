"""How the shards of a host share its load: see docs/operations.md, "A hot shard"."""

from __future__ import annotations

from collections.abc import Iterator

from moldau.config import BOOLEAN, INT, LONG, Setting, Settings, at_least, between

# fmt: off
moldau_shards_balance_enable = Setting("moldau.shards.balance.enable", BOOLEAN, True,
    doc="Whether a node of several shards moves partitions from a hot shard to another by itself. "
    "Kafka has no such setting.")
moldau_shards_balance_window_ms = Setting(
    "moldau.shards.balance.window.ms", LONG, 60_000, check=between(1_000, 86_400_000),
    doc="How long a shard is measured before a partition of it moves, and after one has. A "
    "partition that was moved stays for ten times as long. Kafka has no such setting.")
moldau_shards_balance_hot_percent = Setting(
    "moldau.shards.balance.hot.percent", INT, 80, check=between(1, 100),
    doc="How much of a core a shard uses when it is hot. A partition moves to a shard that uses "
    "three eighths of that less, which is 30 points. Kafka has no such setting.")
moldau_shards_balance_copy_bytes_max = Setting(
    "moldau.shards.balance.copy.bytes.max", LONG, 1 << 30, check=at_least(0),
    doc="The largest partition that is copied to another shard of the host. Where an in-sync "
    "replica is there already, only its leader moves, whatever its size; 0 copies nothing. Kafka "
    "has no such setting.")
# fmt: on


def balance_notices(settings: Settings, *, is_sharded: bool) -> Iterator[str]:
    """Yield a notice for each of these settings that is given and has no effect."""
    switch = moldau_shards_balance_enable
    others = (
        moldau_shards_balance_window_ms,
        moldau_shards_balance_hot_percent,
        moldau_shards_balance_copy_bytes_max,
    )
    why = "this node has one shard" if not is_sharded else f"{switch.name} is false"
    for row in others if is_sharded else (switch, *others):
        if settings.is_given(row) and not (is_sharded and settings[switch]):
            yield f"{row.name} has no effect: {why} ({settings.source(row)})"
