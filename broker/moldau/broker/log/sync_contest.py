"""Which of two ways to sync files is the better one on this disk, in this hour. A pure core.

Threads cost the process more: waking them, and the interpreter that all want at once. But how long
the kernel's workers take is the scheduler's to say: on a quiet machine about as long as threads, on
a crowded one anything from half to several times. So each round is timed; the ways take turns at
first, then the faster one has the next rounds, until they are compared again.
"""

from __future__ import annotations

from statistics import median
from typing import Final

TRIES: Final = 8
"""Rounds of each way in a contest."""
ROUNDS: Final = 300
"""Rounds of the winner before the next contest."""


class SyncContest:
    """Of one directory. Ask `is_kernel_next`, and tell what the round `took`."""

    __slots__ = ("_is_kernel", "_left", "_seconds")

    def __init__(self) -> None:
        self._is_kernel = False
        self._left = 0
        self._seconds: tuple[list[float], list[float]] = ([], [])
        """What the rounds of this contest took: of threads, and of the kernel."""

    @property
    def is_kernel_next(self) -> bool:
        """Whether the kernel is to have the round that begins now."""
        if self._left:
            return self._is_kernel
        of_threads, of_kernel = self._seconds
        return len(of_kernel) <= len(of_threads)

    def took(self, seconds: float, *, by_kernel: bool) -> None:
        """A round has ended that was of the kind that either way can do. One that the kernel was to
        have and did not take is its defeat."""
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
