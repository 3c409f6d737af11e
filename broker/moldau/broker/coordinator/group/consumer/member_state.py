"""The state of a member on the way to its target assignment, and the allowed transitions.

A member first revokes the partitions that it loses (UNREVOKED_PARTITIONS), and only then moves to
the new epoch. There it may have to wait for partitions that other members still hold
(UNRELEASED_PARTITIONS). It gets such a partition only after the other member has released it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class MemberState(Enum):
    """The states, with their numbers in the log (record 8)."""

    STABLE = 0  # it owns its target
    UNREVOKED_PARTITIONS = 1  # it has not confirmed a revocation yet
    UNRELEASED_PARTITIONS = 2  # it waits for partitions that other members still hold
    UNKNOWN = 127  # written by a newer version than this one

    @classmethod
    def of_number(cls, number: int) -> MemberState:
        """Return the state with this number in the log; UNKNOWN for a number of later versions."""
        return _BY_NUMBER.get(number, cls.UNKNOWN)


_BY_NUMBER: Final = {state.value: state for state in MemberState}

# The states that may follow each state. A member may also stay in its state.
TRANSITIONS: Final[Mapping[MemberState, frozenset[MemberState]]] = {
    MemberState.STABLE: frozenset(
        (MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS)
    ),
    MemberState.UNREVOKED_PARTITIONS: frozenset(
        (MemberState.STABLE, MemberState.UNRELEASED_PARTITIONS)
    ),
    MemberState.UNRELEASED_PARTITIONS: frozenset(
        (MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS)
    ),
    # The member has given up everything and starts again.
    MemberState.UNKNOWN: frozenset((MemberState.STABLE, MemberState.UNRELEASED_PARTITIONS)),
}


def may_follow(before: MemberState, after: MemberState) -> bool:
    """Whether a member may change from one state to the other."""
    return before is after or after in TRANSITIONS[before]
