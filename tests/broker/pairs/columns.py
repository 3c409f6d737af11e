"""The columns of the broker's cases: what may meet in one cluster, and what cannot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "client": ("ours", "librdkafka", "aiokafka", "java", "franz-go"),
    "nodes": ("1", "2 shards", "3"),
    "door": ("plain", "secure"),
    "codec": ("none", "gzip", "snappy", "lz4", "zstd"),
    "sender": ("plain", "idempotent", "transactional", "pipelined", "aborting"),
    "group": ("classic", "consumer", "share"),
    "isolation": ("read_uncommitted", "read_committed"),
    "topic": ("usual", "compacted", "small segments", "short retention", "tiered"),
    "quota": ("none", "bytes"),
    "change": (
        "none",
        "partitions",
        "leader",
        "settings",
        "new topics",
        "other topic made anew",
        "source made anew",
    ),
    "fault": ("none", "kill", "stop", "pause", "kill all", "kill client", "disconnect"),
}
"""Names and choices. A new feature of the broker is a choice here, or a column."""

TRANSACTIONAL: Final = ("transactional", "pipelined", "aborting")
"""Senders of transactions. A pipelined one has up to five requests in flight, a record in each. An
aborting one has small transactions, and aborts one soon after each that it commits."""


def allowed(case: Mapping[str, str]) -> bool:
    """Whether the case, or the part of one, is possible."""
    return not any(all(case.get(n) in these for n, these in rule.items()) for rule in IMPOSSIBLE)


IMPOSSIBLE: Final[tuple[Mapping[str, tuple[str, ...]], ...]] = (
    # aiokafka has classic groups alone.
    {"client": ("aiokafka",), "group": ("consumer", "share")},
    # librdkafka's share consumer is not in its Python package.
    {"client": ("librdkafka",), "group": ("share",)},
    # A broker that is gone from the metadata is none for it any more, but its
    # send_offsets_to_transaction waits for that one for ever, whatever its timeout says
    # (librdkafka's issues 5456 and 5511; bench/notes-tests.md has its log).
    {
        "client": ("librdkafka",),
        "sender": TRANSACTIONAL,
        "nodes": ("2 shards", "3"),
        "fault": ("kill", "stop", "kill all"),
    },
    # A share group's acknowledgements are part of no transaction (KIP-932).
    {"group": ("share",), "sender": TRANSACTIONAL},
    # One node has one place for a leader.
    {"nodes": ("1",), "change": ("leader", "new topics")},
    # Others keep the positions of the topic that is gone: where the new one has grown past them
    # before they ask, they begin in its middle.
    {
        "client": ("librdkafka", "aiokafka", "java", "franz-go"),
        "change": ("source made anew",),
    },
    # aiokafka has one request in flight for a node.
    {"client": ("aiokafka",), "sender": ("pipelined",)},
)
