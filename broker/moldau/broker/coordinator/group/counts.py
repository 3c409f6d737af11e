"""Counters of groups: offsets that were committed, deleted and expired, and rebalances.

A node has one set of counters for all its shards, so they do not start again when a shard moves.
The comments name Kafka's metrics of the same meaning. Kafka's rates can be computed from the
counters over time.
"""

from __future__ import annotations

from moldau.metrics import Counter, Registry

_PREFIX = "moldau.coordinator.group"


class GroupCounts:
    """The counters. Decisions increment them in place, as everything in `moldau.metrics`."""

    __slots__ = (
        "classic_rebalances",
        "consumer_rebalances",
        "offsets_committed",
        "offsets_deleted",
        "offsets_expired",
    )

    def __init__(self, registry: Registry) -> None:
        counter = registry.counter
        self.offsets_committed: Counter = counter(
            f"{_PREFIX}.offsets.committed",  # offset-commit-count
            "Offsets that were committed.",
            "{offset}",
        )
        self.offsets_deleted: Counter = counter(
            f"{_PREFIX}.offsets.deleted",  # offset-deletion-count
            "Offsets that were deleted on request.",
            "{offset}",
        )
        self.offsets_expired: Counter = counter(
            f"{_PREFIX}.offsets.expired",  # offset-expiration-count
            "Offsets that were deleted because they were too old.",
            "{offset}",
        )
        self.classic_rebalances: Counter = counter(
            f"{_PREFIX}.classic.rebalances",  # group-completed-rebalance-count
            "Rebalances of classic groups that came to an assignment.",
            "{rebalance}",
        )
        self.consumer_rebalances: Counter = counter(
            f"{_PREFIX}.consumer.rebalances",  # consumer-group-rebalance-count
            "Times that a consumer group (KIP-848) was to find a new assignment.",
            "{rebalance}",
        )
