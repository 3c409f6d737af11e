"""The stream time of one operator: the highest time of its records."""

from __future__ import annotations

NEVER = 2**63 - 1


class Clock:
    """`next_close` is the stream time at which the next open window is over."""

    __slots__ = ("next_close", "time")

    def __init__(self) -> None:
        self.time = -1
        self.next_close = NEVER
