"""How much of the audit log each client may fill. A pure core.

Clients choose the names that they ask about, so without a limit one client could fill the log until
nothing else is left in it. Each source has two budgets in bytes, one for denied and one for allowed
requests: what a client may do never costs it the lines about what it may not do. A budget is a
burst, which comes back slowly.

Invariants: a source is the principal, or the network of a client without one. Of each kind at most
SOURCES_MAX have budgets of their own, and the others share one. A network has no login, and one
attacker may have very many: so all networks together have a budget too, and take no place of a
principal. Each decision is either written or counted, by its source or among those of all others;
both counts are returned later.
"""

from __future__ import annotations

from collections.abc import Mapping
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
NETWORKS_DENIED: Final = Budget(4 << 20, 1024)
"""Of all clients without a principal together."""
NETWORKS_ALLOWED: Final = Budget(2 << 20, 512)


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

    def has(self, size: int, now_s: float) -> bool:
        """Whether so many bytes are there."""
        self._grow(now_s)
        return size <= self._bytes

    def spend(self, size: int) -> int:
        """Use bytes that are there. Return how many decisions were left out before."""
        self._bytes -= size
        left_out, self.left_out, self.was_told = self.left_out, 0, False
        return left_out

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
        self._principals = _Purses()
        self._networks = _Purses()
        self._of_networks = {
            False: _Purse(NETWORKS_DENIED, 0.0),
            True: _Purse(NETWORKS_ALLOWED, 0.0),
        }

    def on_line(
        self,
        source: str,
        size: int,
        now_s: float,
        *,
        is_allowed: bool,
        is_network: bool = False,
    ) -> Share:
        """Decide on a line of `size` bytes. The first decision that is left out is told of at once,
        the others when there is room again. `is_network`: the client has no principal."""
        among = self._networks if is_network else self._principals
        own = among.find(source, now_s, is_allowed=is_allowed)
        of_all = self._of_networks[is_allowed]
        purses = (own, of_all) if is_network else (own,)
        short = next((each for each in purses if not each.has(size, now_s)), None)
        if short is None:
            if is_network:
                self._networks.left_out[is_allowed] += of_all.spend(size)
            return Share(is_written=True, left_out=own.spend(size))
        if short.was_told:
            short.left_out += 1
            return Share(is_written=False, left_out=0)
        short.was_told = True
        return Share(is_written=False, left_out=1)

    def take_left_out(self) -> Mapping[bool, int]:
        """Return how many decisions of several sources were left out and are not told of yet, of
        those that allow (True) and of those that deny."""
        found = {False: 0, True: 0}
        for each in (self._principals, self._networks):
            for is_allowed in found:
                found[is_allowed] += each.left_out[is_allowed]
                each.left_out[is_allowed] = 0
        return found


class _Purses:
    """The budgets of one kind of source."""

    def __init__(self) -> None:
        self._purses: dict[tuple[str, bool], _Purse] = {}
        self._swept_at = 0.0
        self.left_out = {False: 0, True: 0}
        """The decisions that were left out, by whether they allow, and belong to no source."""

    def find(self, source: str, now_s: float, *, is_allowed: bool) -> _Purse:
        """Return the budget of a source, or the one that it shares with others."""
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
        """Forget the sources that have their whole budget back, but not what they have to tell. If
        that kept their places, as many clients as there are places could keep them for good."""
        if now_s - self._swept_at < _SWEEP_SECONDS:
            return
        self._swept_at = now_s
        for key, each in list(self._purses.items()):
            if each.is_full(now_s):
                self.left_out[key[1]] += each.left_out
                del self._purses[key]
