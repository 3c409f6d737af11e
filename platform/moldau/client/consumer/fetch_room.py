"""How many bytes the fetches that are under way may still bring. No IO.

Invariants: what lies here, and what was asked for and has not come, is `memory_bytes` at most,
whatever the number of brokers; but a broker gives at least one batch however little it is asked
for, so a batch a broker may come beyond. Brokers share the room evenly: one that has nothing new,
and holds its fetch back, does not keep the others from being asked. Where there is not enough for
all, a broker that got nothing comes first the next time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_LEAST: Final = 1


class FetchRoom:
    """The room of one consumer, by broker."""

    def __init__(self, memory_bytes: int, fetch_bytes: int, partition_bytes: int) -> None:
        """At most so many bytes of a fetch, and so many of each of its partitions."""
        self._memory_bytes = memory_bytes
        self._fetch_bytes = fetch_bytes
        self._partition_bytes = max(_LEAST, partition_bytes)
        self._asked: dict[int, int] = {}
        self._passed_over: dict[int, None] = {}
        """Brokers that got nothing, in the order in which they came first for that."""

    @property
    def asked_bytes(self) -> int:
        """What may come at any moment."""
        return sum(self._asked.values())

    def in_turn(self, nodes: Iterable[int]) -> list[int]:
        """These brokers, in the order in which they are to be asked."""
        places = {each: place for place, each in enumerate(self._passed_over)}
        return sorted(nodes, key=lambda each: places.get(each, len(places)))

    def ask(self, node_id: int, partitions: int, buffered: int, brokers: int) -> int:
        """How much to ask a broker for, one of so many that there is something to fetch from,
        while so much lies here; it is kept free until `answered`. 0: there is no room at present.
        Not to be asked while what lies here fills the room by itself (`Positions.to_fetch`)."""
        left = self._memory_bytes - buffered - self.asked_bytes
        if left <= 0 and self._asked:
            self._passed_over.setdefault(node_id)
            return 0
        self._passed_over.pop(node_id, None)
        share = self._memory_bytes // max(1, brokers)
        of_what_is_left = left // max(1, brokers - len(self._asked))
        room = min(share, max(_LEAST, of_what_is_left))
        wanted = min(self._fetch_bytes, partitions * self._partition_bytes, room)
        self._asked[node_id] = max(_LEAST, wanted)
        return self._asked[node_id]

    def answered(self, node_id: int) -> None:
        """What it brought counts as buffered now."""
        self._asked.pop(node_id, None)
