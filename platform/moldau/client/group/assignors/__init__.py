"""How the members of a classic group share partitions: range, roundrobin, sticky and its
cooperative kind, with the results of Java's classes, and whatever plugins bring.

The door is `load_assignors`; what an assignor is stands in `assignor`.
"""

from __future__ import annotations

from moldau.client.group.assignors.assignor import (
    NO_GENERATION,
    Assignment,
    Assignor,
    Rebalance,
    Share,
    Subscription,
    Topics,
)
from moldau.client.group.assignors.installed import AssignorGiven, load_assignors
from moldau.client.group.assignors.ranges import RangeAssignor
from moldau.client.group.assignors.round_robin import RoundRobinAssignor
from moldau.client.group.assignors.sticky import CooperativeStickyAssignor, StickyAssignor

__all__ = [
    "NO_GENERATION",
    "Assignment",
    "Assignor",
    "AssignorGiven",
    "CooperativeStickyAssignor",
    "RangeAssignor",
    "Rebalance",
    "RoundRobinAssignor",
    "Share",
    "StickyAssignor",
    "Subscription",
    "Topics",
    "load_assignors",
]
