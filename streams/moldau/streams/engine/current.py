"""What a task and its users' operators tell each other: the record that runs, a wish to commit."""

from __future__ import annotations

from collections.abc import Callable


def _nowhere() -> None:
    """No record runs."""


class Current:
    """The task sets `place` before it runs records; it is asked for only where a user asks."""

    def __init__(self) -> None:
        self.partition = -1
        self.place: Callable[[], tuple[str, int] | None] = _nowhere
        """The topic and the offset of the record that runs."""
        self.is_commit_wanted = False

    def end(self) -> None:
        """What runs next is set off by the clock or a commit, not by a record."""
        self.place = _nowhere
