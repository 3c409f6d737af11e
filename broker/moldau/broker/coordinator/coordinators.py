"""All coordinators of a node, by their key types and by their topics."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from moldau.broker.coordinator.coordinator import Coordinator

if TYPE_CHECKING:
    from moldau.broker.coordinator.coordinator import CoordinatorNode
    from moldau.broker.coordinator.kind import CoordinatorKind, KeyType

AnyCoordinator: TypeAlias = "Coordinator[Any]"


class Coordinators:
    """One coordinator of each kind."""

    def __init__(self, node: CoordinatorNode, kinds: Iterable[CoordinatorKind[Any]]) -> None:
        self._all: tuple[AnyCoordinator, ...] = tuple(Coordinator(kind, node) for kind in kinds)
        self.by_key_type: dict[int, AnyCoordinator] = {}
        self._by_topic: dict[str, AnyCoordinator] = {}
        for each in self._all:
            assert each.kind.key_type not in self.by_key_type
            self.by_key_type[each.kind.key_type] = each
            self._by_topic[each.kind.topic] = each

    def of(self, key_type: KeyType) -> AnyCoordinator:
        """Return the coordinator of these keys. Raise KeyError if there is none."""
        return self.by_key_type[key_type]

    def of_topic(self, topic: str) -> AnyCoordinator | None:
        """Return the coordinator whose shards are the partitions of this topic."""
        return self._by_topic.get(topic)

    # Called by the server.

    def drop_unled(self) -> None:
        """Close the shards that this node no longer leads, after a directory failed."""
        for each in self._all:
            each.drop_unled()

    def on_topics_changed(self, changed: Collection[str], deleted: Collection[str]) -> None:
        """React to topics that were created, deleted or extended. `deleted` are among `changed`."""
        for each in self._all:
            each.on_topics_changed(changed, deleted)

    def close(self) -> None:
        """Stop all coordinators. Parked requests are answered with NOT_COORDINATOR."""
        for each in self._all:
            each.close()
