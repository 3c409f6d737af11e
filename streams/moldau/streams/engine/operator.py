"""The object behind a step that keeps state: its stores, its clock, and what follows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.streams.engine.batches import Headers
from moldau.streams.engine.clock import Clock

# The value of a table for a key, and its time.
Row = tuple[Any, int]
Getter = Callable[[Any], Row | None]
# is_newest(key, time): whether no later update of the key has come.
IsNewest = Callable[[Any, int], bool]
# forward(key, value, time, headers)
ForwardRecord = Callable[[Any, Any, int, Headers | None], None]
# forward(key, new value, old value, time, headers)
ForwardUpdate = Callable[[Any, Any, Any, int, Headers | None], None]


def _unwoven(*_: Any) -> None:
    raise AssertionError("an operator forwards nothing before its network is woven")


def _unguarded(call: Callable[..., None], _: int) -> Callable[..., None]:
    return call


class Operator:
    """The object behind a step. The network sets `forward`, which takes output to later steps."""

    idle_ms: int | None = None
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
        self.clock.time = max(self.clock.time, time)
