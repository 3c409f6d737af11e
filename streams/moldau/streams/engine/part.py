"""What stands behind a step that keeps something: its stores, its clock, what follows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.streams.engine.batches import Headers
from moldau.streams.engine.clock import Clock

# The value of a table for a key, and its time.
Row = tuple[Any, int]
Getter = Callable[[Any], Row | None]
# is_newest(key, time): no later update of the key has come.
IsNewest = Callable[[Any, int], bool]
# forward(key, value, time, headers)
ForwardRecord = Callable[[Any, Any, int, Headers | None], None]
# forward(key, new value, old value, time, headers)
ForwardUpdate = Callable[[Any, Any, Any, int, Headers | None], None]


def _unwoven(*_: Any) -> None:
    raise AssertionError("a part forwards nothing before its network is woven")


def _unguarded(call: Callable[..., None], _: int) -> Callable[..., None]:
    return call


class Part:
    """The network sets `forward`, which takes what the step gives to the steps after it."""

    idle_ms: int | None = None
    # Records left out because they have no key.
    keyless = 0
    # The wall clock when the part starts.
    now_ms = 0
    # Takes records that come too late, where something follows that wants them.
    on_late: ForwardRecord | None = None

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.forward: Callable[..., None] = _unwoven
        # As `forward`, for what no single record sets off: failures go by the operators' policies.
        self.emit: Callable[..., None] = _unwoven
        # As `emit`, for many rows of arguments.
        self.emit_all: Callable[[list[Any]], None] = _unwoven
        # As `emit` for a call(key, value, time, headers) with a value of the parent of that number.
        self.guard: Callable[[Callable[..., None], int], Callable[..., None]] = _unguarded

    def entry(self, parent: str) -> Callable[..., None]:
        """The function that takes what `parent` gives, for a step that is not written inline."""
        raise AssertionError(f"{type(self).__name__} takes nothing from {parent}")

    def on_wall_clock(self, now_ms: int) -> None:
        """Time has gone on."""

    def start(self) -> None:
        """Take up the state that was restored."""

    def announce(self) -> None:
        """Emit what is held back until a commit."""

    def expire(self) -> None:
        """Drop what is out of retention. Nothing is dirty: it comes after a flush."""

    def end(self) -> None:
        """The task ends, after its last commit."""

    def advance(self, time: int) -> None:
        """The clock goes on without a record."""
        self.clock.time = max(self.clock.time, time)
