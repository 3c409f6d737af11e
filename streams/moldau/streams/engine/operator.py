"""The object behind a step that keeps state: its stores, its clock, and what follows it.

A task shares with users' operators the record that runs, and a request to commit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from moldau.streams.engine.batches import Headers
from moldau.streams.state.journal import UndoLog

# The value of a table for a key, and its time.
Row = tuple[Any, int]
Getter = Callable[[Any], Row | None]
# is_newest(key, time): whether no later update of the key has come.
IsNewest = Callable[[Any, int], bool]
# forward(key, value, time, headers)
ForwardRecord = Callable[[Any, Any, int, Headers | None], None]
# forward(key, new value, old value, time, headers)

NEVER = 2**63 - 1
UNKNOWN_TIME: Final = -1
"""The time of the clock that an operator has not seen yet."""


def _nowhere() -> None:
    """Return None: no record runs."""


class Current:
    """The record that runs. The task sets `place`; it is called only when an operator needs it."""

    def __init__(self) -> None:
        self.partition = -1
        self.place: Callable[[], tuple[str, int] | None] = _nowhere
        """Returns the topic and the offset of the record that runs."""
        self.is_commit_wanted = False
        self.has_timer_fired = False

    @property
    def is_record(self) -> bool:
        """Whether a record runs."""
        return self.place is not _nowhere

    def end(self) -> None:
        """Clear the record: the next call comes from the clock or a commit, not from a record."""
        self.place = _nowhere


class Clock:
    """The stream time of one operator. `next_close` is when the next open window closes."""

    __slots__ = ("next_close", "time")

    def __init__(self) -> None:
        self.time = -1
        self.next_close = NEVER

    def turn_back(self, time: int) -> None:
        self.time = time


def _unwoven(*_: Any) -> None:
    raise AssertionError("an operator forwards nothing before its network is woven")


def _unguarded(call: Callable[..., None], _: int = 0) -> Callable[..., None]:
    return call


class Operator:
    """The object behind a step. The network sets `forward`, which takes output to later steps."""

    idle_ms: int | None = None
    # The attributes that a record or the clock changes, besides the clock's own.
    scalars: tuple[str, ...] = ("keyless",)
    # The number of records left out because they have no key.
    keyless = 0
    # The wall clock when the operator starts.
    now_ms = 0
    # The key and the former value of the update that goes to later steps now; see engine.flight.
    in_flight: tuple[Any, Any] | None = None
    # Takes records that come too late, if a step follows for them.
    on_late: ForwardRecord | None = None

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.forward: Callable[..., None] = _unwoven
        # As `forward`, for output that no single record caused: policies decide on failures.
        self.emit: Callable[..., None] = _unwoven
        # As `emit`, for many rows of arguments.
        self.emit_all: Callable[[list[Any]], None] = _unwoven
        # guard(call, n): as `emit`, for call(key, value, time, headers) with a value of parent n.
        self.guard: Callable[[Callable[..., None], int], Callable[..., None]] = _unguarded
        # As `guard`, for a call by the clock, which has no row.
        self.guard_timed: Callable[[Callable[..., None]], Callable[..., None]] = _unguarded
        # None if nothing is logged. What an operator changes besides `scalars` it logs itself.
        self.undo: UndoLog | None = None

    def remember(self) -> None:
        """Log the clock and the scalars, before they change."""
        if self.undo is not None:
            scalars = [getattr(self, name) for name in self.scalars]
            before = self.clock.time, self.clock.next_close
            self.undo.append((self._put_back, before, scalars))

    def _put_back(self, clock: tuple[int, int], scalars: list[Any]) -> None:
        self.clock.time, self.clock.next_close = clock
        for name, value in zip(self.scalars, scalars, strict=True):
            setattr(self, name, value)

    def entry(self, parent: str) -> Callable[..., None]:
        """Return the function that takes input from `parent`, for a step without inline code."""
        raise AssertionError(f"{type(self).__name__} takes nothing from {parent}")

    def on_wall_clock(self, now_ms: int) -> None:
        """Run what is due by the wall clock, which has advanced."""

    def start(self) -> None:
        """Take over the restored state."""

    def announce(self) -> None:
        """Emit what is held back until a commit."""

    def expire(self) -> None:
        """Drop what is out of retention. Called after a flush, so nothing is dirty."""

    def end(self) -> None:
        """End the operator: the task ends, after its last commit."""

    def advance(self, time: int) -> None:
        """Advance the clock without a record."""
        self.remember()
        self.clock.time = max(self.clock.time, time)
