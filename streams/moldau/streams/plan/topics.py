"""Topics that an app makes for itself, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from moldau.deferred import dataclass
from moldau.streams.plan.partitioners import MURMUR2, Partitioning
from moldau.streams.state.spec import OWN_TIMES

TOPOLOGY_SUFFIX: Final = "-moldau-topology"
"""How the names of topics end that keep a topology: no app takes such a topic for its input."""


@dataclass(frozen=True, slots=True)
class RepartitionTopic:
    """A topic that carries records to the partition of their new key.

    Records below the committed offset are purged. `partitions` is None if it follows from the
    inputs (see plan.partitions). `partitioning` places its keys, unless it `is_free`: then a
    function of the app chooses the partitions.
    """

    name: str
    partitions: int | None = None
    partitioning: Partitioning = MURMUR2
    is_free: bool = False

    def config(self) -> dict[str, str]:
        return {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "segment.bytes": str(50 * 1024 * 1024),
            **OWN_TIMES,
        }


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic that the app makes, with the partition count that it must have."""

    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)


def topology_topic(app: str) -> str:
    """Return the name of the topic that keeps an app's topology."""
    return f"{app}{TOPOLOGY_SUFFIX}"
