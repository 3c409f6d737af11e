"""The topology of a group as a graph of nodes, which a member gives on request (KIP-1331).

It is not in the log: the coordinator keeps the graph of the current topology epoch in memory and
asks a member for it when it has none, so the next coordinator asks anew. Kafka leaves the storage
to a plugin; there is none here, so each group has its graph as long as it has members.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.protocol.messages.streams_group_topology_description_update import (
        TopologyDescription,
        TopologyDescriptionNode,
    )

NODES_MAX: Final = 10_000
"""The most nodes of a graph that is kept."""
RETRY_MS: Final = 30_000
"""How long a member that was asked is waited for before another one is asked."""


def nodes_of(description: TopologyDescription) -> Iterator[TopologyDescriptionNode]:
    """Yield all nodes of a graph."""
    for subtopology in description.subtopologies:
        yield from subtopology.nodes
    for store in description.global_stores:
        yield from (store.source, store.processor)


class GraphStatus(IntEnum):
    """What StreamsGroupDescribe says about the graph, with its number in the protocol."""

    NOT_REQUESTED = 0
    NOT_STORED = 1
    ERROR = 2
    AVAILABLE = 3


@dataclass(slots=True)
class TopologyGraph:
    """The graph of the group's topology, if it is known."""

    epoch: int | None = None
    """The topology epoch of the graph; also of one that was refused."""
    description: TopologyDescription | None = None
    asked_ms: int | None = None

    def asks(self, epoch: int, now_ms: int) -> bool:
        """Whether a member of the current topology epoch is to give the graph. Notes that it is
        asked."""
        if self.epoch == epoch or not self._is_due(now_ms):
            return False
        self.asked_ms = now_ms
        return True

    def _is_due(self, now_ms: int) -> bool:
        return self.asked_ms is None or now_ms - self.asked_ms >= RETRY_MS

    def put(self, epoch: int, description: TopologyDescription) -> None:
        """Keep a graph. Raise STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED if it is too large; then
        no member is asked for it again."""
        self.epoch, self.description, self.asked_ms = epoch, None, None
        if sum(1 for _ in nodes_of(description)) > NODES_MAX:
            text = f"a topology description has at most {NODES_MAX} nodes"
            raise KafkaError(ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, text)
        self.description = description

    def of(self, epoch: int) -> TopologyDescription | None:
        """Return the graph of this topology epoch, if it is known."""
        return self.description if self.epoch == epoch else None
