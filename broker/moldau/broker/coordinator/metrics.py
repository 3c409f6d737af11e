"""Metrics of the shards of one coordinator.

The comments name Kafka's metrics of the same meaning. There is no event queue here: a request is
decided as soon as it is read, so there is no counterpart of Kafka's queue time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from moldau.metrics import SECONDS, Counter, Histogram, Registry

if TYPE_CHECKING:
    from moldau.broker.coordinator.running_shard import ShardState

_LOADING_SECONDS: Final = (0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0)
_PROCESSING_SECONDS: Final = (0.00001, 0.000025, 0.00005, *SECONDS)


class CoordinatorMetrics:
    """The metrics of one coordinator on one node. `name` is its part of the metrics' names."""

    __slots__ = (
        "_by_name",
        "_decisions",
        "_prefix",
        "_registry",
        "loading",
        "parked",
        "processing",
    )

    def __init__(self, registry: Registry, name: str) -> None:
        self._registry = registry
        self._prefix = f"moldau.coordinator.{name}"
        self.loading: Histogram = registry.histogram(
            f"{self._prefix}.load",  # partition-load-time
            "How long it took to read a partition of the coordinator's log.",
            bounds=_LOADING_SECONDS,
        )
        self.processing: Histogram = registry.histogram(
            f"{self._prefix}.processing",  # event-processing-time-ms
            "How long it took to decide, and to append what was decided.",
            bounds=_PROCESSING_SECONDS,
        )
        self._decisions = registry.counters(
            f"{self._prefix}.decisions",
            "Decisions, by the request or event that caused them.",
            "{decision}",
            labels=("decision",),
        )
        self._by_name: dict[str, Counter] = {}
        self.parked: Histogram = registry.histogram(
            f"{self._prefix}.parked",  # event-purgatory-time-ms
            "How long answers waited for the in-sync replicas.",
        )

    def processed(self, name: str, seconds: float) -> None:
        """Count a decision, and note its duration."""
        self.processing.observe(seconds)
        counter = self._by_name.get(name)
        if counter is None:
            counter = self._by_name[name] = self._decisions.bind(name)
        counter.value += 1

    def watch(self, shells: Shells) -> None:
        """Count these shards at each scrape."""
        for state in ("loading", "active", "failed"):
            self._registry.read_gauge(
                f"{self._prefix}.partitions.{state}",  # num-partitions
                f"Partitions of the coordinator's log that this node leads and that are {state}.",
                "{partition}",
                read=partial(_count, shells, state),
            )


class Shells(Protocol):
    """The shards on this node."""

    def states(self) -> Iterator[ShardState]: ...


def _count(shells: Shells, name: str) -> int:
    """Return the number of shards in a state. A closed shard in the table failed to load."""
    shown = "closed" if name == "failed" else name
    return sum(each.value == shown for each in shells.states())
