"""The input and output of a task: records in columns.

Of the first waiting record of each input of a task, the one with the lowest time runs first, and of
equal times the one of the input named first. Times of one input may go back. A record behind a
later one of its input waits for that one and then runs at once, since it is no later than any other
waiting record. So records are ordered by the highest time of their input up to each of them, and
one stable sort orders many records: a comparison for each would cost more than what most operators
do with it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from itertools import accumulate, chain, compress
from typing import Any, NamedTuple

from moldau.deferred import dataclass
from moldau.streams.plan.partitioners import Partitioning

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(slots=True)
class Chunk:
    """Fetched records of one partition: lists of equal length, in the order of their offsets.

    `headers` is None if no record has any. `next_offset` is the offset to read after the last
    record; it can be more than one above the last offset if the log has gaps.
    """

    offsets: Sequence[int]
    timestamps: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    next_offset: int
    headers: Sequence[Headers] | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def since(self, offset: int) -> Chunk:
        """Return the records from an offset on."""
        at = bisect_left(self.offsets, offset)
        if not at:
            return self
        return Chunk(
            self.offsets[at:],
            self.timestamps[at:],
            self.keys[at:],
            self.values[at:],
            self.next_offset,
            None if self.headers is None else self.headers[at:],
        )


@dataclass(slots=True)
class Outputs:
    """Records for one topic, in the order they were made: lists of equal length.

    `headers` and `partitions` stay empty until a record has some; then they are as long as the
    others. A partition of None leaves the choice to `partitioning`, and without one to the producer
    (by key, as Kafka does).
    """

    topic: str
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    headers: list[Headers] = field(default_factory=list)
    partitions: list[int | None] = field(default_factory=list)
    partitioning: Partitioning | None = None
    is_reply: bool = False
    """Whether they are replies: they are left out if there is no such topic or partition."""

    def chosen(self, count: int) -> list[int | None]:
        """Return the partition of each record in a topic with so many; None leaves the choice to
        the producer. Empty if all are left to it."""
        way = self.partitioning
        if way is None:
            return self.partitions
        chosen = self.partitions or [None] * len(self)
        return [
            at if at is not None or key is None else way.partition(key, count)
            for at, key in zip(chosen, self.keys, strict=True)
        ]

    def where(self, kept: Sequence[bool]) -> Outputs:
        """Return those records for which this is true."""
        return Outputs(
            self.topic,
            list(compress(self.keys, kept)),
            list(compress(self.values, kept)),
            list(compress(self.timestamps, kept)),
            list(compress(self.headers, kept)),
            list(compress(self.partitions, kept)),
            self.partitioning,
            self.is_reply,
        )

    def __len__(self) -> int:
        return len(self.timestamps)


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


def checked_headers(headers: Any, what: str) -> tuple[tuple[str, bytes | None], ...]:
    """Return the headers that a user gives. Raise TypeError if a record cannot have them."""
    is_listed = isinstance(headers, list | tuple)
    for each in headers if is_listed else (headers,):
        if not (is_listed and isinstance(each, tuple | list) and len(each) == 2):
            raise TypeError(f'{what}: headers={headers!r} are no pairs, as [("trace", b"1")]')
        name, content = each
        if not isinstance(name, str) or not isinstance(content, bytes | None):
            raise TypeError(f"{what}: header {each!r} is no pair of a str and bytes, or None")
    return tuple((name, content) for name, content in headers)
