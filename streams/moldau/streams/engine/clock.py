"""The stream time of one operator: the highest time of its records."""

from __future__ import annotations

NEVER = 2**63 - 1


class Clock:
    """The stream time of one operator. `next_close` is when the next open window closes."""

    __slots__ = ("next_close", "time")

    def __init__(self) -> None:
        self.time = -1
        self.next_close = NEVER
