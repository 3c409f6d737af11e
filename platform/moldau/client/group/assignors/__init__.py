"""The assignors of classic groups: range, roundrobin, sticky and its cooperative variant, with the
same results as Java's classes, and those of plugins.

`load_assignors` is the entry point; the module `assignor` defines what an assignor is.
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
    "NO_GENERATION", "Assignment", "Assignor", "AssignorGiven", "CooperativeStickyAssignor",
    "RangeAssignor", "Rebalance", "RoundRobinAssignor", "Share", "StickyAssignor", "Subscription",
    "Topics", "load_assignors",
]  # fmt: skip
