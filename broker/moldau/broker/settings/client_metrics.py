"""The settings of a client metrics subscription (KIP-714): metrics, clients, interval."""

from __future__ import annotations

from moldau.broker.settings.syntax import SELECTOR
from moldau.config import CLUSTER_WIDE, INT, LIST, Setting, between, list_of

# fmt: off
interval_ms = Setting(
    "interval.ms", INT, 300_000, check=between(100, 3_600_000), dynamic=CLUSTER_WIDE,
    doc="How often a client pushes its metrics.")
match = Setting("match", LIST, (), check=list_of(item=SELECTOR), dynamic=CLUSTER_WIDE,
    doc="Which clients are meant: `selector=regular expression` items that must all fit.")
metrics = Setting("metrics", LIST, (), check=list_of(), dynamic=CLUSTER_WIDE,
    doc="Which metrics are pushed: prefixes of their names, `*` for all; nothing means none.")
