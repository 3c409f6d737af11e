"""Decides which nodes of `moldau cluster up` are restarted, and when. Pure.

A node that ends with code 0 was stopped on purpose and stays stopped. Any other end is a failure:
the node is restarted after a pause, which doubles with each failure in a row. After several
failures in a row it is not restarted, because the next start would fail for the same reason.
"""

from __future__ import annotations

from typing import Final

FIRST_PAUSE_S: Final = 1.0
FAILURES_MAX: Final = 6
"""The failures in a row after which a node is not restarted any more."""
STEADY_S: Final = 10.0
"""A node that was up for this long has recovered, and its failures count from one again."""


class Restarts:
    """Failures and due restarts of the nodes of a cluster."""

    def __init__(self) -> None:
        self._failures: dict[int, int] = {}
        self._up_at_s: dict[int, float] = {}
        self._due_at_s: dict[int, float] = {}

    @property
    def are_pending(self) -> bool:
        """Whether a node waits to be restarted."""
        return bool(self._due_at_s)

    def on_up(self, node_id: int, now_s: float) -> None:
        """Record that a node accepts clients."""
        self._up_at_s[node_id] = now_s

    def on_end(self, node_id: int, code: int, now_s: float) -> float | None:
        """Record the end of a node. Return the pause before its restart; None for no restart."""
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
