"""How long batches take, over the last minute: the longest and the mean, as Kafka tells them. Pure.

Two samples of 30 seconds are kept, as many as Kafka's `metrics.num.samples` has by default.
"""

from __future__ import annotations

from typing import Final

_SAMPLE_MS: Final = 30_000


class BatchTimes:
    """The times of one task's batches."""

    def __init__(self, name: str) -> None:
        """`name` is the beginning of Kafka's names: `put-batch` or `poll-batch`."""
        self._name = name
        self._samples: list[tuple[int, int, float, float]] = []

    def note(self, began_ms: int, now_ms: int) -> None:
        """Note a batch that took from then to now."""
        took = float(max(0, now_ms - began_ms))
        self._drop_old(now_ms)
        if self._samples and now_ms - self._samples[-1][0] < _SAMPLE_MS:
            begin, count, total, longest = self._samples.pop()
            self._samples.append((begin, count + 1, total + took, max(longest, took)))
        else:
            self._samples.append((now_ms, 1, took, took))

    def figures(self, now_ms: int) -> dict[str, float]:
        """Return the metrics by Kafka's names; both are 0 without a batch."""
        self._drop_old(now_ms)
        count = sum(each[1] for each in self._samples)
        total = sum(each[2] for each in self._samples)
        return {
            f"{self._name}-max-time-ms": max((each[3] for each in self._samples), default=0.0),
            f"{self._name}-avg-time-ms": total / count if count else 0.0,
        }

    def _drop_old(self, now_ms: int) -> None:
        while self._samples and now_ms - self._samples[0][0] >= 2 * _SAMPLE_MS:
            self._samples.pop(0)
