"""How many bytes pending fetches may still bring. No IO.

Invariants: buffered bytes plus the bytes of pending fetches are at most `memory_bytes`, whatever
the number of brokers. But a broker returns at least one batch however small the limit, so one batch
a broker may come on top. Brokers share the room evenly: one with nothing new, which delays its
response, does not block fetches from the others. If there is not room for all, a broker that was
passed over comes first the next time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_LEAST: Final = 1


class FetchRoom:
    """The fetch memory of one consumer, divided among brokers."""

    def __init__(self, memory_bytes: int, fetch_bytes: int, partition_bytes: int) -> None:
        """Limit memory, each fetch, and each partition of a fetch to these numbers of bytes."""
        self._memory_bytes = memory_bytes
        self._fetch_bytes = fetch_bytes
        self._partition_bytes = max(_LEAST, partition_bytes)
        self._asked: dict[int, int] = {}
        self._passed_over: dict[int, None] = {}
        """Brokers that were passed over for lack of room, the longest waiting first."""

    @property
    def asked_bytes(self) -> int:
        """The bytes that pending fetches may bring."""
        return sum(self._asked.values())

    def in_turn(self, nodes: Iterable[int]) -> list[int]:
        """Return these brokers in the order in which to fetch from them."""
        places = {each: place for place, each in enumerate(self._passed_over)}
        return sorted(nodes, key=lambda each: places.get(each, len(places)))

    def ask(self, node_id: int, partitions: int, buffered: int, brokers: int) -> int:
        """Return how many bytes to request from a broker, and reserve them until `answered`; 0 if
        there is no room now. `brokers` is the number of brokers to fetch from, `buffered` the bytes
        held. Do not call while the buffers alone fill the memory (`Positions.to_fetch`)."""
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
        """Release the broker's reservation: its response is counted as buffered now."""
        self._asked.pop(node_id, None)
