"""How far a source may read, so that no row is skipped whose transaction commits late. Pure.

A transaction takes an id or a time first and commits later. A source that has read a higher one by
then never returns for the lower one. So each reading has a limit:

1. the source reads the bound: the highest committed id, or the database's clock;
2. it looks at the transactions that are open;
3. it reads rows up to the limit that is computed here.

A transaction that was not open at the last look began after it, so its ids and times are above the
bound of that look. Therefore the limit is the lowest of these bounds over all open transactions.
If none is open, the limit is the present bound. This needs one number a transaction, and rows wait
only for transactions that were open when they were written.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.deferred import dataclass


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that may still commit rows. `key` is its session or its own id.

    `number` tells transactions of one session apart; None if it has none yet. A detached one is
    prepared (two-phase commit): it goes on under a key that it did not have before.
    """

    key: str
    description: str
    number: int | None = None
    is_detached: bool = False


@dataclass(frozen=True, slots=True)
class ReadLimit:
    """Rows up to `value` may be read; None: no rows.

    `expired`: transactions that are not waited for from now on, with the seconds since they were
    first seen. `oldest`: the one that has held rows back longest, for `oldest_s`.
    """

    value: int | None
    expired: tuple[tuple[OpenTransaction, float], ...] = ()
    oldest: OpenTransaction | None = None
    oldest_s: float = 0.0


@dataclass(slots=True)
class _Watched:
    transaction: OpenTransaction
    floor: int | None
    since: float
    is_expired: bool = False


class LateCommits:
    """The open transactions of one table or query, over all looks.

    Invariant: each row of an open transaction is above its floor. None as a floor: it was open at
    the first look, so its rows may be anywhere.
    """

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._watched: dict[str, _Watched] = {}
        self._bound: int | None = None

    def look(self, bound: int, open_now: Sequence[OpenTransaction], now_s: float) -> ReadLimit:
        """Return the limit of a reading. `bound` was read before `open_now` was."""
        before = self._watched
        kept = {each.key: before[each.key] for each in open_now if _is_known(each, before)}
        ended = [watched.floor for key, watched in before.items() if key not in kept]
        self._watched = {}
        for each in open_now:
            watched = kept.get(each.key)
            if watched is None:
                # A prepared transaction may be any of those that have ended.
                floor = _lowest([self._bound, *ended]) if each.is_detached else self._bound
                watched = _Watched(each, floor, now_s)
            watched.transaction = each
            self._watched[each.key] = watched
        self._bound = bound if self._bound is None else max(bound, self._bound)
        return self._limit(now_s)

    def _limit(self, now_s: float) -> ReadLimit:
        expired = []
        waiting = []
        for watched in self._watched.values():
            if watched.is_expired:
                continue
            if now_s - watched.since >= self._wait_s:
                watched.is_expired = True
                expired.append((watched.transaction, now_s - watched.since))
            else:
                waiting.append(watched)
        if not waiting:
            return ReadLimit(self._bound, tuple(expired))
        oldest = min(waiting, key=lambda each: each.since)
        limit = _lowest([each.floor for each in waiting])
        return ReadLimit(limit, tuple(expired), oldest.transaction, now_s - oldest.since)


def _is_known(found: OpenTransaction, watched: dict[str, _Watched]) -> bool:
    """Whether this is the transaction that was seen before under its key."""
    known = watched.get(found.key)
    return known is not None and known.transaction.number in (None, found.number)


def _lowest(floors: Sequence[int | None]) -> int | None:
    numbers = [floor for floor in floors if floor is not None]
    return min(numbers) if len(numbers) == len(floors) else None
