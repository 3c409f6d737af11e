"""How the leader shares connectors and tasks among workers (KIP-415). No IO.

A move takes two rounds: in the first the leader revokes something from its owner; in the next,
after the owner has stopped it, another worker gets it. So nothing runs twice, and what does not
move never stops.

What a vanished worker ran waits for `delay_max_ms`: if the worker was only restarted, it gets this
work back. Nothing else is moved during the delay. The work is shared out as soon as there are as
many workers as before, or the delay is over. A new leader knows of no vanished worker, and shares
out at once all that runs nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from moldau.connect.herder.connect_protocol import EMPTY, union, without
from moldau.connect.herder.plan import Assignment
from moldau.connect.storage.keys import TaskId
from moldau.deferred import dataclass

T = TypeVar("T", str, TaskId)

Owned = dict[str, set[T]]


@dataclass(frozen=True, slots=True)
class Round:
    """The leader's decision: for each member what it newly gets and what it gives up."""

    assigned: dict[str, Assignment]
    revoked: dict[str, Assignment]
    delay_ms: int = 0


class Assignor:
    """The leader's assignment state, kept from round to round."""

    def __init__(self, delay_max_ms: int) -> None:
        self._delay_max_ms = delay_max_ms
        self._previous = EMPTY
        self._members = 0
        self._due_ms: int | None = None

    def forget(self) -> None:
        """Reset the state, because another worker has led meanwhile."""
        self._previous, self._members, self._due_ms = EMPTY, 0, None

    def share(self, configured: Assignment, owned: Mapping[str, Assignment], now_ms: int) -> Round:
        """Decide one round. `owned` is what each member runs."""
        active = union(owned.values())
        lost = without(without(self._previous, active), without(self._previous, configured))
        delay_ms = self._delay(lost, len(owned), now_ms)
        waiting = lost if delay_ms else EMPTY
        open_ones = without(configured, waiting)
        connectors = _shared(
            {member: set(each.connectors) for member, each in owned.items()},
            set(open_ones.connectors),
            may_move=not delay_ms,
        )
        tasks = _shared(
            {member: set(each.tasks) for member, each in owned.items()},
            set(open_ones.tasks),
            may_move=not delay_ms,
        )
        found = Round(
            {each: Assignment(connectors[0][each], tasks[0][each]) for each in owned},
            {each: Assignment(connectors[1][each], tasks[1][each]) for each in owned},
            delay_ms,
        )
        kept = [without(owned[each], found.revoked[each]) for each in owned]
        self._previous = union([*kept, *found.assigned.values(), waiting])
        if not delay_ms:
            self._members = len(owned)
        return found

    def _delay(self, lost: Assignment, members: int, now_ms: int) -> int:
        """Return how many milliseconds lost work waits for its worker; 0 for not at all."""
        if lost == EMPTY or self._delay_max_ms <= 0 or members >= self._members:
            self._due_ms = None
            return 0
        if self._due_ms is None:
            self._due_ms = now_ms + self._delay_max_ms
        left_ms = self._due_ms - now_ms
        if left_ms <= 0:
            self._due_ms = None
            return 0
        return left_ms


def _shared(
    owned: Owned[T], configured: set[T], *, may_move: bool
) -> tuple[dict[str, frozenset[T]], dict[str, frozenset[T]]]:
    """Return what each member newly gets, and what it gives up."""
    members = sorted(owned)
    revoked: Owned[T] = {member: owned[member] - configured for member in members}
    kept: Owned[T] = {}
    taken: set[T] = set()
    for member in members:
        mine = (owned[member] & configured) - taken
        revoked[member] |= (owned[member] & configured) - mine
        kept[member] = mine
        taken |= mine
    free = sorted(configured - union_of(owned))
    assigned: Owned[T] = {member: set() for member in members}
    for item in free:
        least = min(members, key=lambda each: (len(kept[each]) + len(assigned[each]), each))
        assigned[least].add(item)
    if may_move:
        for member, surplus in _surplus(kept, assigned).items():
            revoked[member] |= surplus
    return _frozen(assigned), _frozen(revoked)


def _surplus(kept: Owned[T], assigned: Owned[T]) -> Owned[T]:
    """Return what members have above an even share while others have less."""
    counts = {each: len(kept[each]) + len(assigned[each]) for each in kept}
    total, members = sum(counts.values()), len(counts)
    if not members:
        return {}
    even, extra = divmod(total, members)
    found: Owned[T] = {}
    for member in sorted(counts, key=lambda each: (-counts[each], each)):
        limit = even + (1 if extra > 0 else 0)
        extra -= 1 if counts[member] > even else 0
        above = counts[member] - limit
        if above > 0:
            found[member] = set(sorted(kept[member], reverse=True)[:above])
    return found


def union_of(owned: Owned[T]) -> set[T]:
    """Return the union over all members."""
    found: set[T] = set()
    for each in owned.values():
        found |= each
    return found


def _frozen(shares: Owned[T]) -> dict[str, frozenset[T]]:
    return {member: frozenset(each) for member, each in shares.items()}
