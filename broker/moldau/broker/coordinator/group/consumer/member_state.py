"""How far a member is on the way to its target assignment, and which way it may go.

A member first gives up what is no longer its own (UNREVOKED_PARTITIONS), and only then moves to
the new epoch. There it may have to wait for partitions that others still hold
(UNRELEASED_PARTITIONS). Nothing leads from waiting to owning but the release by the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class MemberState(Enum):
    """The numbers stand in the log (record 8)."""

    STABLE = 0  # it owns its target
    UNREVOKED_PARTITIONS = 1  # it has yet to say that it gave partitions up
    UNRELEASED_PARTITIONS = 2  # it waits for partitions that other members still hold
    UNKNOWN = 127  # written by a newer version than this one

    @classmethod
    def of_number(cls, number: int) -> MemberState:
        """The state with that number in the log; UNKNOWN for a number of later versions."""
        return _BY_NUMBER.get(number, cls.UNKNOWN)


_BY_NUMBER: Final = {state.value: state for state in MemberState}

# Which state may follow which; a member may also stay where it is.
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
    # It has abandoned everything and starts anew.
    MemberState.UNKNOWN: frozenset((MemberState.STABLE, MemberState.UNRELEASED_PARTITIONS)),
}


def may_follow(before: MemberState, after: MemberState) -> bool:
    """Whether a member in the one state may be in the other next."""
    return before is after or after in TRANSITIONS[before]
