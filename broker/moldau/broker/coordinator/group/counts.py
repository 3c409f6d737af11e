"""What groups count as they decide: offsets that were committed, deleted, expired, and how often
members were made to share anew.

One for a node, shared by all its shards: a counter of the node's does not begin anew when a shard
moves. Kafka's metrics of the same meaning stand in the comments; their rates are for whoever reads
the counters over time.
"""

from __future__ import annotations

from moldau.metrics import Counter, Registry

_PREFIX = "moldau.coordinator.group"


class GroupCounts:
    """Counted in place, as everything in `moldau.metrics`."""

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
