"""A restart of all nodes of a cluster, one after the other: which is next, and what it waits for.

Invariants: a node is restarted only while every replica of every other node is in sync and every
other voter has all metadata, so that at most one node is missing at a time. Brokers come first,
then controllers; the active controller is the last, so that the quorum elects once.

The progress is kept in a file, because the program that rolls, or its host, may die too. The node
that was being restarted then is restarted again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import field
from typing import Any

from moldau.deferred import dataclass
from moldau.errors import BadGiven
from moldau.operations.availability import (
    Failure,
    Risk,
    RiskKind,
    SeenCluster,
    healthy_voters,
    leader_now_ms,
    risks,
)


@dataclass(slots=True)
class RollProgress:
    """Which nodes are to be restarted, which have been, and which one is being restarted."""

    cluster_id: str
    nodes: list[int]
    done: list[int] = field(default_factory=list)
    current: int | None = None

    @property
    def left(self) -> list[int]:
        """The nodes that have not been restarted."""
        return [each for each in self.nodes if each not in self.done]

    def finish(self, node: int) -> None:
        """Note that the node is back."""
        self.done.append(node)
        self.current = None

    def text(self) -> str:
        """Return it as JSON."""
        facts = {"cluster": self.cluster_id, "nodes": self.nodes, "done": self.done}
        return json.dumps({**facts, "current": self.current}) + "\n"

    @classmethod
    def parse(cls, text: str, path: str) -> RollProgress:
        """Return the progress in a file. Raise BadGiven that names the file."""
        try:
            found: Any = json.loads(text)
            ids = [int(each) for each in found["nodes"]]
            done = [int(each) for each in found["done"]]
            current = found["current"]
            return cls(str(found["cluster"]), ids, done, None if current is None else int(current))
        except (ValueError, KeyError, TypeError) as error:
            raise BadGiven(f"{path} is not the progress of a roll: remove it") from error


def next_node(seen: SeenCluster, progress: RollProgress) -> int | None:
    """Return the node to restart now; None after the last. The one that was being restarted is
    the first."""
    if progress.current is not None:
        return progress.current
    quorum = seen.quorum
    voters = set() if quorum is None else {each.node_id for each in quorum.voters}
    active = None if quorum is None else quorum.leader_id
    return min(progress.left, key=lambda each: (each == active, each in voters, each), default=None)


def order_of(seen: SeenCluster, progress: RollProgress) -> list[int]:
    """Return the nodes that are left, in the order of now; another controller may lead later."""
    rest = RollProgress(progress.cluster_id, progress.left, [], progress.current)
    found = []
    while (node := next_node(seen, rest)) is not None:
        rest.finish(node)
        found.append(node)
    return found


def waits_for(seen: SeenCluster, known: Collection[int], node: int | None = None) -> list[str]:
    """Return what must be in sync before `node` may be restarted, a line each; without a node:
    before the last restart is over. `known` are the ids of all brokers."""
    lines = []
    alive = {each.node_id for each in seen.described.brokers}
    lines += [f"broker {each} is down" for each in sorted({*known} - alive - {node})]
    for topic, each in seen.not_in_sync():
        missing = sorted({*each.replicas} - {*each.isr} - {node})
        if missing:
            ids = ", ".join(map(str, missing))
            lines.append(f"{topic}-{each.index}: not in sync on {ids}")
        elif each.leader < 0 and node not in each.replicas:
            lines.append(f"{topic}-{each.index}: it has no leader")
    quorum = seen.quorum
    if quorum is not None:
        if quorum.leader_id < 0:
            lines.append("the metadata quorum has no leader")
        behind = {each.node_id for each in quorum.voters} - healthy_voters(quorum) - {node}
        lines += [f"voter {each} is behind or down" for each in sorted(behind)]
    return lines


def has_returned(seen: SeenCluster, node: int, restarted: SeenCluster) -> bool:
    """Whether the node has read metadata since `restarted`, a view from after its restart. Until
    then it may seem well because its last process read some a moment ago."""
    quorum, before = seen.quorum, restarted.quorum
    if quorum is None or before is None or node == quorum.leader_id:
        return True
    replicas = {each.node_id: each for each in (*quorum.observers, *quorum.voters)}
    if node not in replicas:
        return False
    fetched_ms = replicas[node].last_fetch_ms
    if quorum.leader_epoch != before.leader_epoch:
        return fetched_ms > 0  # this leader has heard of it since its election
    return fetched_ms > leader_now_ms(before)


def pauses_of(seen: SeenCluster, nodes: Sequence[int]) -> list[Risk]:
    """Return what cannot be read or written while one of these nodes restarts, even when all is in
    sync: topics with too few replicas."""
    failures = [Failure(f"node {each}", frozenset({each})) for each in nodes]
    names = {each.name for each in failures}
    lasting = (RiskKind.UNREADABLE, RiskKind.UNWRITABLE, RiskKind.NO_QUORUM)
    return [
        each for each in risks(seen, failures) if each.failure in names and each.kind in lasting
    ]
