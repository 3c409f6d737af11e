"""A run of offsets in the window of a share partition, and what the window says of it."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

NO_MEMBER: Final = ""


class RecordState(IntEnum):
    """The states of a record, with their numbers in the stored state. ACQUIRED is never stored."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


TRANSITIONS: Final[dict[RecordState, frozenset[RecordState]]] = {
    RecordState.AVAILABLE: frozenset({RecordState.ACQUIRED, RecordState.ARCHIVED}),
    RecordState.ACQUIRED: frozenset(
        {RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED}
    ),
    RecordState.ACKNOWLEDGED: frozenset(),
    RecordState.ARCHIVED: frozenset(),
}
"""The states that may follow each state."""
FINAL: Final = frozenset(state for state, next_states in TRANSITIONS.items() if not next_states)


class AcknowledgeType(IntEnum):
    """What a member says of a record, with its numbers in requests."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class AcquiredRange(NamedTuple):
    """Offsets that a member has acquired. Both ends are included, as in responses."""

    first: int
    last: int
    deliveries: int
    """How often they were delivered, this time included."""


class StoredRun(NamedTuple):
    """Offsets in a state that is stored. Both ends are included, as in records."""

    first: int
    last: int
    state: int
    delivery_count: int
    rest_ms: int = 0
    """Until when they are not delivered; 0 if they may be. The window counts by its own clock, what
    is stored by the wall clock."""


class Letter(NamedTuple):
    """Offsets that go to the dead letter topic, and why. Both ends are included."""

    first: int
    last: int
    deliveries: int
    reason: str


class Piece:
    """A run of offsets in one state. Both ends are included."""

    __slots__ = (
        *(
            "batch_size",
            "deliveries",
            "due_ms",
            "first",
            "is_buried",
            "is_burying",
            "last",
            "member_id",
        ),
        *("pending", "pending_due_ms", "state"),
    )

    def __init__(self, first: int, last: int, state: RecordState, deliveries: int) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.deliveries = deliveries
        self.batch_size = last - first + 1
        """How many records the batch had when it was first delivered, or loaded. Its pieces keep
        the number."""
        self.member_id = NO_MEMBER
        """The holder of the lock while it is acquired."""
        self.due_ms = 0
        """When the lock ends. Of an available piece: until when it rests, or 0."""
        self.pending: RecordState | None = None
        """The state that it gets when the change is stored."""
        self.pending_due_ms = 0
        """Until when it rests then."""
        self.is_burying = False
        """Whether its records go to the dead letter topic first, before the change is stored."""
        self.is_buried = False
        """Whether its records are in the dead letter topic already: no second letter is written."""

    def __repr__(self) -> str:
        return f"<Piece {self.first}-{self.last} {self.state.name} {self.deliveries}>"

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def is_available(self) -> bool:
        is_free = self.pending is None and not self.due_ms
        return is_free and self.state is RecordState.AVAILABLE

    @property
    def is_resting(self) -> bool:
        """Whether it is available, but not yet."""
        return self.state is RecordState.AVAILABLE and self.due_ms > 0

    @property
    def is_final(self) -> bool:
        return self.state in FINAL

    def split(self, offset: int) -> Piece:
        """Cut the piece before `offset`, and return the second part."""
        assert self.first < offset <= self.last
        rest = Piece(offset, self.last, self.state, self.deliveries)
        rest.batch_size = self.batch_size
        rest.member_id, rest.due_ms, rest.pending = self.member_id, self.due_ms, self.pending
        rest.pending_due_ms, rest.is_buried = self.pending_due_ms, self.is_buried
        self.last = offset - 1
        return rest

    def move(self, state: RecordState, rest_ms: int = 0) -> None:
        """Go to another state, without a holder."""
        assert state in TRANSITIONS[self.state], f"{self} -> {state.name}"
        self.state = state
        self.due_ms = rest_ms
        self.member_id = NO_MEMBER
        self.pending = None
