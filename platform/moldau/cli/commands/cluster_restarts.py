"""Which nodes of `moldau cluster up` are started again, and when. Pure.

A node that ends with code 0 was stopped on purpose and stays stopped. Any other end is a failure:
the node is started again after a pause, which doubles with each failure in a row. After several in
a row it stays as it is, because the next start would fail for the same reason.
"""

from __future__ import annotations

from typing import Final

FIRST_PAUSE_S: Final = 1.0
FAILURES_MAX: Final = 6
"""In a row; the last one is not followed by a start."""
STEADY_S: Final = 10.0
"""A node that was up for so long has recovered, and its failures count from one again."""


class Restarts:
    """See the module."""

    def __init__(self) -> None:
        self._failures: dict[int, int] = {}
        self._up_at_s: dict[int, float] = {}
        self._due_at_s: dict[int, float] = {}

    @property
    def are_pending(self) -> bool:
        """Whether a node waits for its start."""
        return bool(self._due_at_s)

    def on_up(self, node_id: int, now_s: float) -> None:
        """A node takes clients."""
        self._up_at_s[node_id] = now_s

    def on_end(self, node_id: int, code: int, now_s: float) -> float | None:
        """A node has ended. Return the pause before its next start, None if it gets none."""
        up_at_s = self._up_at_s.pop(node_id, None)
        if code == 0:
            return None
        if up_at_s is not None and now_s - up_at_s >= STEADY_S:
            self._failures[node_id] = 0
        failures = self._failures[node_id] = self._failures.get(node_id, 0) + 1
        if failures >= FAILURES_MAX:
            return None
        pause_s: float = FIRST_PAUSE_S * 2 ** (failures - 1)
        self._due_at_s[node_id] = now_s + pause_s
        return pause_s

    def take_due(self, now_s: float) -> list[int]:
        """Return the nodes whose pause is over, each once."""
        found = sorted(each for each, due in self._due_at_s.items() if due <= now_s)
        for each in found:
            del self._due_at_s[each]
        return found
