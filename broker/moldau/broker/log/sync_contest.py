"""Choose the faster way to sync files, on this disk and at this time. A pure core.

Threads cost the process more: they must be woken, and all of them need the interpreter. But the
scheduler determines how long the kernel's workers take: on a quiet machine about as long as
threads, on a crowded one anything from half to several times as long. So each round is timed. The
two ways take turns at first. Then the faster one gets the next rounds, until they are compared
again.
"""

from __future__ import annotations

from statistics import median
from typing import Final

TRIES: Final = 8
"""The number of rounds of each way in a contest."""
ROUNDS: Final = 300
"""The number of rounds of the winner before the next contest."""


class SyncContest:
    """The contest of one directory. Ask `is_kernel_next` before a round, and report its time with
    `took`."""

    __slots__ = ("_is_kernel", "_left", "_seconds")

    def __init__(self) -> None:
        self._is_kernel = False
        self._left = 0
        self._seconds: tuple[list[float], list[float]] = ([], [])
        """The times of the rounds in this contest: of threads, and of the kernel."""

    @property
    def is_kernel_next(self) -> bool:
        """Whether the kernel syncs the next round."""
        if self._left:
            return self._is_kernel
        of_threads, of_kernel = self._seconds
        return len(of_kernel) <= len(of_threads)

    def took(self, seconds: float, *, by_kernel: bool) -> None:
        """Record the time of a round that either way can do. If the kernel was chosen for the round
        but did not take it, the threads win the contest."""
        if self._left:
            self._left -= 1
            return
        of_threads, of_kernel = self._seconds
        if self.is_kernel_next and not by_kernel:
            self._decide(is_kernel=False)
            return
        (of_kernel if by_kernel else of_threads).append(seconds)
        if min(len(of_threads), len(of_kernel)) >= TRIES:
            self._decide(is_kernel=median(of_kernel) <= median(of_threads))

    def _decide(self, *, is_kernel: bool) -> None:
        self._is_kernel = is_kernel
        self._left = ROUNDS
        self._seconds = ([], [])
