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


class ClassicGroupState(Enum):
    """The states, with the names that DescribeGroups and ListGroups show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: Final[Mapping[ClassicGroupState, frozenset[ClassicGroupState]]] = {
    ClassicGroupState.EMPTY: frozenset(
        (ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD)
    ),
    ClassicGroupState.PREPARING_REBALANCE: frozenset(
        (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.EMPTY, ClassicGroupState.DEAD)
    ),
    ClassicGroupState.COMPLETING_REBALANCE: frozenset(
        (ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD)
    ),
    ClassicGroupState.STABLE: frozenset(
        (ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD)
    ),
    ClassicGroupState.DEAD: frozenset(),
}
"""The states that may follow each state."""
