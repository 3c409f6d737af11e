"""Sends that wait for memory, and their turns. No IO.

As many sends get a turn at a time as will find room, by the sizes of their records; the next ones
get theirs when all of these have used it. Waking all of them for each batch that leaves would cost
the square of their number; waking one after another would make a batch of each record. So a send
that has its turn takes along those that wait for the same partition, as many as fit into the batch.

Invariants: within a partition, turns are in the order in which the sends first waited, and the
longest waiting send of all is among the next. A send that gives up its turn, or finds the room
taken, passes it on. While there is room and a send waits, one has a turn.
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
        """`batch_bytes` is the memory that a new batch takes."""
        self._batch_bytes = batch_bytes
        self._needs: dict[int, _Need] = {}
        self._turns: set[int] = set()
        # Heaps; a send that has left is removed from each when it comes first there.
        self._order: list[int] = []
        self._lines: dict[TopicPartition, list[int]] = {}

    def __len__(self) -> int:
        """Return how many have come and not left."""
        return len(self._needs) + len(self._turns)

    def come(self, number: int, where: TopicPartition, size_bytes: int | None) -> None:
        """Wait for `size_bytes` in this partition; None means a whole batch. A send that has left
        may come again, to its old place."""
        size_bytes = self._batch_bytes if size_bytes is None else size_bytes
        self._needs[number] = _Need(where, size_bytes)
        heappush(self._order, number)
        heappush(self._lines.setdefault(where, []), number)

    def leave(self, number: int) -> bool:
        """Stop waiting, for any reason. Return whether others may get their turns now."""
        need = self._needs.pop(number, None)
        if need is not None:
            self._drop_those_who_left(need.where)
        had_turn = number in self._turns
        self._turns.discard(number)
        return had_turn and not self._turns and bool(self._needs)

    def turns(self, free_bytes: int) -> list[int]:
        """Return the sends whose turn it is, with `free_bytes` free, when a batch may be begun: at
        least one, unless none waits or others have not used their turns yet."""
        found: list[int] = []
        while self._order and not self._turns and (not found or free_bytes >= self._batch_bytes):
            numbers, size_bytes = self._next_batch(self._needs[self._order[0]].where)
            found += numbers
            free_bytes -= max(size_bytes, self._batch_bytes)
        self._turns.update(found)
        return found

    def _next_batch(self, where: TopicPartition) -> tuple[list[int], int]:
        """Take out those that fit into one batch, at least the first. Return their bytes too."""
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
