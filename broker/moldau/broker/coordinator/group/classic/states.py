"""The states of a classic group, and the only table of their transitions.

A group starts Empty. The first member that joins makes it PreparingRebalance, and so does any later
member that joins, leaves, or changes its subscription: all members must join again. After they have
joined or the rebalance timeout is over, the next generation begins. It is CompletingRebalance while
the leader computes the assignment, and Stable after the assignment is in the log. If no member
joined, it is Empty. Dead is final: the group is deleted, or another broker leads its partition of
`__consumer_offsets`.

    Empty --------> PreparingRebalance <------------------+
      ^               |         |    ^                    |
      +---------------+         v    |                    |
        none joined   CompletingRebalance --------> Stable
                                          leader's sync
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class State(Enum):
    """The states, with the names that DescribeGroups and ListGroups show."""

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
"""The states that may follow each state."""
