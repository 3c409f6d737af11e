"""What the work under way has changed in a task, so that it can be undone.

A record, a row that a deferred operator passes on, and an emit are units: an attempt that fails
leaves nothing behind. Each change is logged as a call that undoes it, and the calls are made in
reverse. Objects log only if they have an undo log: a task has one if some policy goes on after a
failure. Without one, a failure ends the task, and the last commit holds.

Why a log of changes: operators read what they have written, so nothing can be held back until the
unit is whole; and copies of stores for each record would cost more than the record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

UndoLog = list[tuple[Any, ...]]
"""Calls, as function and arguments. They change plain state, and log nothing themselves."""

MISSING: Final = object()


def put_back(mapping: dict[Any, Any], key: Any, old: Any) -> None:
    """Give a key its old value; remove it if that is MISSING."""
    if old is MISSING:
        mapping.pop(key, None)
    else:
        mapping[key] = old


class StoreClock:
    """The clock of a store: the highest time that it has seen, unless that is undone."""

    clock: int
    undo: UndoLog | None

    def advance(self, time: int) -> None:
        """Advance the clock."""
        if time > self.clock:
            if self.undo is not None:
                self.undo.append((self._turn_back, self.clock))
            self.clock = time

    def _turn_back(self, time: int) -> None:
        self.clock = time


class Journal:
    """The undo log of a task, and where the unit in it began."""

    def __init__(self, *, is_on: bool) -> None:
        self._calls: UndoLog = []
        self.undo: UndoLog | None = self._calls if is_on else None
        """None if nothing is logged."""
        self.mark = 0
        """Where the present row began, in a loop over rows."""

    def __len__(self) -> int:
        return len(self._calls)

    def log(self, function: Callable[..., object], *arguments: Any) -> None:
        """Log the call that undoes a change."""
        if self.undo is not None:
            self._calls.append((function, *arguments))

    def clear(self) -> None:
        """Forget all changes: what was under way is whole."""
        self._calls.clear()

    def roll_back(self, mark: int = 0) -> None:
        """Undo all changes since the log had the length `mark`."""
        calls = self._calls
        while len(calls) > mark:
            function, *arguments = calls.pop()
            function(*arguments)
