"""The order of records across the inputs of a task.

Of the first waiting record of each input, the one with the lowest time runs first, and of equal
times the one of the input named first.

Times of one input may go back. A record behind a later one of its input waits for that one and then
runs at once, since it is no later than any other waiting record. So records are ordered by the
highest time of their input up to each of them, and one stable sort orders many records: a
comparison for each would cost more than what most operators do with it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import NamedTuple


class Turn(NamedTuple):
    """The records that run next: how many of each input, and their order, as indexes into the
    records of the first input, then those of the second, and so on."""

    counts: list[int]
    order: list[int]

    def until(self, done: int) -> Turn:
        """Return the first `done` records of the turn."""
        order = self.order[:done]
        ends = list(accumulate(self.counts))
        places = Counter(bisect_right(ends, index) for index in order)
        return Turn([places[place] for place in range(len(ends))], order)

    def stretch(self) -> Turn:
        """Return the longest beginning of the turn with records of one input only."""
        place = self.place(0)
        length = 1
        while length < len(self.order) and self.place(length) == place:
            length += 1
        return self.until(length)

    def place(self, at: int) -> int:
        """Return the number of the input that the record `at` comes from."""
        return bisect_right(list(accumulate(self.counts)), self.order[at])


def merged(times: Sequence[Sequence[int]]) -> Turn:
    """Return the records that run until one of these lists is used up, its last record included. No
    list may be empty."""
    highest = [list(accumulate(each, max)) for each in times]
    bound, first = min((each[-1], place) for place, each in enumerate(highest))
    counts = [
        (bisect_right if place <= first else bisect_left)(each, bound)
        for place, each in enumerate(highest)
    ]
    parts = (each[:count] for each, count in zip(highest, counts, strict=True))
    keys = list(chain.from_iterable(parts))
    return Turn(counts, sorted(range(len(keys)), key=keys.__getitem__))
