"""How much of the audit log each client may fill. A pure core.

Clients choose the names that they ask about, so without a limit one client could fill the log until
nothing else is left in it. Each source has two budgets in bytes, one for denied and one for allowed
requests: what a client may do never costs it the lines about what it may not do. A budget is a
burst, which comes back slowly.

Invariants: a source is the principal, or the address of a client without one. At most SOURCES_MAX
have budgets of their own, and the others share one. Each decision is either written or counted in
`left_out`, which a later share returns.
"""

from __future__ import annotations

from typing import Final, NamedTuple

SOURCES_MAX: Final = 256
_SWEEP_SECONDS: Final = 1.0
_OTHERS: Final = ""


class Budget(NamedTuple):
    """The bytes of one source that may be written at once, and how fast they come back."""

    burst_bytes: int
    bytes_per_second: int


DENIED: Final = Budget(1 << 20, 256)
ALLOWED: Final = Budget(1 << 19, 128)


class Share(NamedTuple):
    """What to do with a decision."""

    is_written: bool
    left_out: int
    """How many decisions were left out and are to be told of now; 0 if there is nothing to tell."""


class _Purse:
    """The budget of one source."""

    __slots__ = ("_at", "_budget", "_bytes", "left_out", "was_told")

    def __init__(self, budget: Budget, now_s: float) -> None:
        self._budget = budget
        self._bytes = float(budget.burst_bytes)
        self._at = now_s
        self.left_out = 0
        self.was_told = False

    def take(self, size: int, now_s: float) -> bool:
        """Use so many bytes, if they are there."""
        self._grow(now_s)
        if size > self._bytes:
            return False
        self._bytes -= size
        return True

    def is_full(self, now_s: float) -> bool:
        self._grow(now_s)
        return self._bytes >= self._budget.burst_bytes

    def _grow(self, now_s: float) -> None:
        grown = self._bytes + (now_s - self._at) * self._budget.bytes_per_second
        self._bytes = min(grown, self._budget.burst_bytes)
        self._at = now_s


class AuditShares:
    """The budgets of all sources."""

    def __init__(self) -> None:
        self._purses: dict[tuple[str, bool], _Purse] = {}
        self._swept_at = 0.0

    def on_line(self, source: str, size: int, now_s: float, *, is_allowed: bool) -> Share:
        """Decide on a line of `size` bytes. The first decision that is left out is told of at once,
        the others when there is room again."""
        purse = self._purse(source, now_s, is_allowed=is_allowed)
        if purse.take(size, now_s):
            left_out, purse.left_out, purse.was_told = purse.left_out, 0, False
            return Share(is_written=True, left_out=left_out)
        if purse.was_told:
            purse.left_out += 1
            return Share(is_written=False, left_out=0)
        purse.was_told = True
        return Share(is_written=False, left_out=1)

    def _purse(self, source: str, now_s: float, *, is_allowed: bool) -> _Purse:
        key = (source, is_allowed)
        known = self._purses.get(key)
        if known is not None:
            return known
        if len(self._purses) >= 2 * SOURCES_MAX:
            self._sweep(now_s)
        if len(self._purses) >= 2 * SOURCES_MAX:
            key = (_OTHERS, is_allowed)
        budget = ALLOWED if is_allowed else DENIED
        return self._purses.setdefault(key, _Purse(budget, now_s))

    def _sweep(self, now_s: float) -> None:
        """Forget the sources that have their whole budget back, and nothing to tell."""
        if now_s - self._swept_at < _SWEEP_SECONDS:
            return
        self._swept_at = now_s
        self._purses = {
            key: each
            for key, each in self._purses.items()
            if each.left_out or not each.is_full(now_s)
        }
