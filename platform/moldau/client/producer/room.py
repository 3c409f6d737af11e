"""Sends that wait until memory is free for a record, and their turns. No IO.

Turns are given to as many at a time as will find room, by the sizes of what they bring; the next
ones get theirs when all of these have come for it. To wake all for each batch that leaves
would cost the square of their number; to wake one after the other would make a batch of each
record where there is room for one batch. So a send that has its turn takes along those that wait
for the same partition, as many as fit into the batch.

Invariants: among those of a partition turns come in the order in which they were first waited for,
and the send that has waited longest of all is among the next; a send that gives up its turn, or
finds that another was faster, hands it on; while there is room and a send waits, one has a turn.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

from moldau.link.metadata import TopicPartition


class _Need(NamedTuple):
    where: TopicPartition
    size_bytes: int


class Room:
    """Sends that wait for one producer's memory. Each is a number: lower ones came first."""

    def __init__(self, batch_bytes: int) -> None:
        """`batch_bytes`: what a batch takes of the memory when it is begun."""
        self._batch_bytes = batch_bytes
        self._needs: dict[int, _Need] = {}
        self._turns: set[int] = set()
        # Heaps; one that has left is dropped from each when no lower number stands before it.
        self._order: list[int] = []
        self._lines: dict[TopicPartition, list[int]] = {}

    def __len__(self) -> int:
        """How many have come and not left."""
        return len(self._needs) + len(self._turns)

    def come(self, number: int, where: TopicPartition, size_bytes: int | None) -> None:
        """Waits for room for so much in this partition; for a whole batch, if it is unknown how
        much. One that has left may come again, and then stands where it stood."""
        size_bytes = self._batch_bytes if size_bytes is None else size_bytes
        self._needs[number] = _Need(where, size_bytes)
        heappush(self._order, number)
        heappush(self._lines.setdefault(where, []), number)

    def leave(self, number: int) -> bool:
        """Waits no more, whatever the reason; whether others may have their turns now."""
        need = self._needs.pop(number, None)
        if need is not None:
            self._drop_those_who_left(need.where)
        had_turn = number in self._turns
        self._turns.discard(number)
        return had_turn and not self._turns and bool(self._needs)

    def turns(self, free_bytes: int) -> list[int]:
        """Those whose turn it is while so much is free, where a batch may be begun: at least one,
        unless none waits, or others have yet to come for theirs."""
        found: list[int] = []
        while self._order and not self._turns and (not found or free_bytes >= self._batch_bytes):
            numbers, size_bytes = self._next_batch(self._needs[self._order[0]].where)
            found += numbers
            free_bytes -= max(size_bytes, self._batch_bytes)
        self._turns.update(found)
        return found

    def _next_batch(self, where: TopicPartition) -> tuple[list[int], int]:
        """Takes out those that fit into one, the first in any case; and what they need."""
        line = self._lines[where]
        found: list[int] = []
        used = 0
        while line and (not found or used + self._needs[line[0]].size_bytes <= self._batch_bytes):
            found.append(line[0])
            used += self._needs.pop(line[0]).size_bytes
            self._drop_those_who_left(where)
        return found, used

    def _drop_those_who_left(self, where: TopicPartition) -> None:
        line = self._lines[where]
        for numbers in (self._order, line):
            while numbers and numbers[0] not in self._needs:
                heappop(numbers)
        if not line:
            del self._lines[where]
