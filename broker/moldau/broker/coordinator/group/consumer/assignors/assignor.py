"""The input and the output of an assignor.

Contract: every partition of every subscribed topic is assigned to exactly one member that
subscribes to the topic, and a member gets nothing else. The same input gives the same output, so
that two coordinators with the same log agree. An assignor runs on the broker's event loop, so its
cost must be near-linear.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Protocol

from moldau.broker.coordinator.group.consumer.partitions import NO_PARTITIONS, Partitions
from moldau.deferred import dataclass
from moldau.ids import Uuid


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """One member, with the facts that an assignor needs."""

    topics: frozenset[Uuid]
    """The ids of the existing topics that it subscribes to. Members with the same subscription
    share one set."""
    assigned: Partitions = field(default_factory=lambda: NO_PARTITIONS)
    """The member's previous target assignment."""
    instance_id: str | None = None
    rack_id: str | None = None


class Assignor(Protocol):
    """An assignor: a function of the members (by id) and the partition count of each topic."""

    def __call__(
        self, members: Mapping[str, MemberSpec], partition_counts: Mapping[Uuid, int]
    ) -> dict[str, Partitions]: ...


def want_the_same(members: Mapping[str, MemberSpec]) -> bool:
    """Whether all members subscribe to the same topics."""
    specs = iter(members.values())
    first = next(specs).topics
    return all(spec.topics is first or spec.topics == first for spec in specs)
