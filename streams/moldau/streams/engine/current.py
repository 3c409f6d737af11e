"""What a task shares with users' operators: the record that runs, and a request to commit."""

from __future__ import annotations

from collections.abc import Callable


def _nowhere() -> None:
    """Return None: no record runs."""


class Current:
    """The record that runs. The task sets `place`; it is called only when an operator needs it."""

    def __init__(self) -> None:
        self.partition = -1
        self.place: Callable[[], tuple[str, int] | None] = _nowhere
        """Returns the topic and the offset of the record that runs."""
        self.is_commit_wanted = False

    def end(self) -> None:
        """Clear the record: the next call comes from the clock or a commit, not from a record."""
        self.place = _nowhere
