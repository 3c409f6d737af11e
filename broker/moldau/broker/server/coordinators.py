"""The table of coordinators. A new kind of coordinator is one row here.

FindCoordinator, the loading and unloading of shards, metrics and shutdown follow from the row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from moldau.broker.api.coordination import ShareStatesNode, TransactionsNode
from moldau.broker.coordinator.coordinator import CoordinatorNode
from moldau.broker.coordinator.coordinators import Coordinators
from moldau.broker.coordinator.group.coordinator import groups_kind
from moldau.broker.coordinator.share.coordinator import shares_kind
from moldau.broker.coordinator.transaction.coordinator import transactions_kind
from moldau.broker.server.late_transactions import LateTransactions
from moldau.broker.server.markers import MarkerWriter
from moldau.broker.server.share_states import StateInitializer

if TYPE_CHECKING:
    from moldau.broker.api.node import Node


class Watching(Protocol):
    """A part that looks at the node from time to time, until it is closed."""

    def close(self) -> None: ...


def coordinators_of(
    node: Node, watch: Callable[[Node], Watching] = LateTransactions
) -> Coordinators:
    """Return the coordinators of a node, without any shard. `watch` starts to look for transactions
    that are open for too long, on the running event loop."""
    markers, late = MarkerWriter(node), watch(node)

    def close_transactions() -> None:
        markers.close()
        late.close()

    def close_shares() -> None:
        node.shares.close()
        node.share_persister.close()
        node.dead_letters.close()

    return Coordinators(
        coordinator_node(node),
        (
            groups_kind(node.coordinator_node, StateInitializer(node).carry_out),
            transactions_kind(TransactionsNode(node), markers.carry_out, close_transactions),
            shares_kind(ShareStatesNode(node), node.log, close_shares),
        ),
    )


def coordinator_node(node: Node) -> CoordinatorNode:
    """Return what coordinators of every kind use of the node."""

    def partition_count(topic: str) -> int:
        known = node.image.topics.by_name(topic)
        return 0 if known is None else len(known.partitions)

    return CoordinatorNode(
        runtime=node.runtime,
        replicas=node.replicas,
        log=node.log,
        metrics=node.metrics,
        settings=lambda: node.settings,
        partition_count=partition_count,
    )
