"""The numbers of groups and offsets, counted when the metrics are read.

The comments name Kafka's metrics of the same meaning.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from moldau.broker.coordinator.group.classic.states import ClassicGroupState
from moldau.broker.coordinator.group.contract import GroupKind

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.coordinator import GroupCoordinator
    from moldau.metrics import Registry

_PREFIX: Final = "moldau.coordinator.group"

CONSUMER_STATES: Final = ("Empty", "Assigning", "Reconciling", "Stable")
"""The states of `consumer.state.GroupState`, which is imported with the first consumer group."""


def declare(registry: Registry, coordinator: GroupCoordinator) -> None:
    """Declare the metrics, once for a node."""
    gauge = registry.read_gauge
    gauge(
        f"{_PREFIX}.offsets",  # NumOffsets
        "Offsets that groups have committed.",
        "{offset}",
        read=lambda: sum(groups.offsets.count() for _, groups in coordinator.loaded()),
    )
    states = {
        GroupKind.CLASSIC: [
            each.value for each in ClassicGroupState if each is not ClassicGroupState.DEAD
        ],
        GroupKind.CONSUMER: CONSUMER_STATES,
    }
    for kind, names in states.items():
        gauge(
            f"{_PREFIX}.{kind.value}.groups",  # group-count
            f"Groups of the {kind.value} protocol.",
            "{group}",
            read=partial(_count, coordinator, kind),
        )
        for name in names:
            gauge(
                # NumGroupsStable ..., consumer-group-count
                f"{_PREFIX}.{kind.value}.groups.{_snake(name)}",
                f"Groups of the {kind.value} protocol in the state {name}.",
                "{group}",
                read=partial(_count, coordinator, kind, name),
            )


def _count(coordinator: GroupCoordinator, kind: GroupKind, state: str | None = None) -> int:
    return sum(
        group.kind is kind and state in (None, group.state_name)
        for _, groups in coordinator.loaded()
        for group in groups
    )


def _snake(name: str) -> str:
    """Convert a state's name for metrics: `PreparingRebalance` to `preparing_rebalance`."""
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in name).lstrip("_")
