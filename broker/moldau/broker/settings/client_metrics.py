"""The settings of a client metrics subscription (KIP-714): metrics, clients, interval."""

from __future__ import annotations

from moldau.broker.settings.syntax import SELECTOR
from moldau.config import INT, LIST, Setting, UpdateMode, between, list_of

interval_ms = Setting(
    "interval.ms",
    INT,
    300_000,
    "How often a client pushes its metrics.",
    check=between(100, 3_600_000),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
match = Setting(
    "match",
    LIST,
    (),
    "Which clients are meant: `selector=regular expression` items that must all fit.",
    check=list_of(item=SELECTOR),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
metrics = Setting(
    "metrics",
    LIST,
    (),
    "Which metrics are pushed: prefixes of their names, `*` for all; nothing means none.",
    check=list_of(),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
