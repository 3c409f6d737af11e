"""A rate over a sliding window, as Kafka measures it: the sum of samples over their age.

Invariant: the window is never shorter than all full samples but one, so that a single large value
is not taken for a high rate.
"""

from __future__ import annotations

from collections import deque
from typing import Final


class Rate:
    """Values a second, over `samples` samples of `sample_ms` each."""

    __slots__ = ("_last_ms", "_sample_ms", "_samples", "_starts", "_sum", "_values")

    def __init__(self, samples: int = 11, sample_ms: int = 1000) -> None:
        self._samples: Final = samples
        self._sample_ms: Final = sample_ms
        self._starts: deque[int] = deque()
        self._values: deque[float] = deque()
        self._sum = 0.0
        self._last_ms = 0

    def record(self, value: float, now_ms: int) -> None:
        """Add a value now."""
        self._drop_old(now_ms)
        if not self._starts or now_ms - self._starts[-1] >= self._sample_ms:
            self._starts.append(now_ms)
            self._values.append(0.0)
        self._values[-1] += value
        self._sum += value
        self._last_ms = now_ms

    def measure(self, now_ms: int, more: float = 0.0) -> float:
        """Return the values a second; with `more`, as if that were added now."""
        self._drop_old(now_ms)
        return (self._sum + more) * 1000 / self.window_ms(now_ms)

    def window_ms(self, now_ms: int) -> int:
        """Return the length of the window that is measured now."""
        elapsed_ms = now_ms - self._starts[0] if self._starts else 0
        lacking = self._samples - 1 - elapsed_ms // self._sample_ms
        if lacking > 0:
            elapsed_ms += lacking * self._sample_ms
        return max(elapsed_ms, self._sample_ms)

    def is_idle(self, now_ms: int) -> bool:
        """Whether nothing was added within the window, so that the rate knows nothing."""
        return now_ms - self._last_ms >= self._samples * self._sample_ms

    def _drop_old(self, now_ms: int) -> None:
        oldest_ms = now_ms - self._samples * self._sample_ms
        while self._starts and self._starts[0] <= oldest_ms:
            self._starts.popleft()
            self._sum -= self._values.popleft()
        if not self._starts:
            self._sum = 0.0
