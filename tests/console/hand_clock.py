"""A clock that tests move by hand."""

from __future__ import annotations


class HandClock:
    """Both clocks of a node, from 0 on."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def monotonic_ns(self) -> int:
        return int(self.now_s * 1e9)

    def wall_ms(self) -> int:
        return int(self.now_s * 1e3)
