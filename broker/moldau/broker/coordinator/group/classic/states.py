"""The states of a classic group, and the one table that says which follows which.

A group is born Empty. The first member that joins, and later whoever comes, goes, or changes what
it subscribes to, makes it PreparingRebalance: all members are to join. When they have, or their
time is up, the next generation begins: CompletingRebalance while the leader works out the
assignment, Stable when the assignment is in the log; Empty if nobody joined. Dead is the end: the
group is deleted, or its partition of `__consumer_offsets` is led elsewhere.

    Empty --------> PreparingRebalance <------------------+
      ^               |         |    ^                    |
      +---------------+         v    |                    |
       nobody joined  CompletingRebalance --------> Stable
                                          leader's sync
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class State(Enum):
    """By the names that DescribeGroups and ListGroups show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: Final[Mapping[State, frozenset[State]]] = {
    State.EMPTY: frozenset((State.PREPARING_REBALANCE, State.DEAD)),
    State.PREPARING_REBALANCE: frozenset((State.COMPLETING_REBALANCE, State.EMPTY, State.DEAD)),
    State.COMPLETING_REBALANCE: frozenset((State.STABLE, State.PREPARING_REBALANCE, State.DEAD)),
    State.STABLE: frozenset((State.PREPARING_REBALANCE, State.DEAD)),
    State.DEAD: frozenset(),
}
"""From each state, where it may go."""
