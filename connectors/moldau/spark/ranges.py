"""What one batch reads: offsets in a checkpoint, limits, and ranges for tasks. No IO.

Offsets are `{partition: next offset}` here and `{"topic": {"0": 23}}` in Spark's checkpoint.
Invariants: a batch never ends before it starts; the same start and end always give the same ranges;
a limit is shared by lag, and every partition with lag gets at least one record if there is room.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from moldau.client import TopicPartition

Offsets = Mapping[TopicPartition, int]
Checkpoint = dict[str, dict[str, int]]


class Range(NamedTuple):
    """Offsets of one partition, the end excluded."""

    where: TopicPartition
    start: int
    end: int

    @property
    def length(self) -> int:
        """How many offsets; compaction and transactions may leave fewer records."""
        return self.end - self.start


@dataclass(frozen=True)
class Loss:
    """Records that should be read and are gone."""

    where: TopicPartition
    reason: str


def to_checkpoint(offsets: Offsets) -> Checkpoint:
    """As Spark writes it into its offset log; sorted, so that equal offsets are equal text."""
    found: Checkpoint = {}
    for where in sorted(offsets):
        found.setdefault(where.topic, {})[str(where.partition)] = offsets[where]
    return found


def from_checkpoint(given: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    """As it was written by `to_checkpoint`, or by Spark's own Kafka source."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, numbers in given.items()
        for partition, offset in numbers.items()
    }


def limited(start: Offsets, latest: Offsets, limit: int | None) -> dict[TopicPartition, int]:
    """Where a batch of at most `limit` offsets ends, in proportion to what each partition has.
    Partitions that have gone stay where they were, so that their loss is noticed."""
    found = dict(start)
    sizes = {where: end - start.get(where, end) for where, end in latest.items()}
    total = sum(size for size in sizes.values() if size > 0)
    for where, end in latest.items():
        begin = start.get(where, end)
        size = sizes[where]
        if limit is None or total <= limit or size <= 0:
            found[where] = end
            continue
        share = limit * size / total
        found[where] = min(end, begin + (int(share) or 1))
    return found


def available(start: Offsets, latest: Offsets) -> int:
    """How many offsets are there to read."""
    return sum(max(0, end - start.get(where, end)) for where, end in latest.items())


def losses(start: Offsets, end: Offsets, earliest: Offsets) -> tuple[list[Range], list[Loss]]:
    """The ranges that can be read, and what is missing before or in them."""
    ranges: list[Range] = []
    lost: list[Loss] = []
    for where in sorted(end):
        begin, stop = start[where], end[where]
        first = earliest.get(where)
        if first is None:
            lost.append(Loss(where, "the partition is gone"))
            continue
        if stop < begin:
            lost.append(
                Loss(where, f"the log ends at {stop}, before {begin}: was the topic made again?")
            )
            begin = first
        elif begin < first and begin < stop:
            lost.append(Loss(where, f"offsets {begin} to {min(first, stop)} were deleted"))
        begin = max(begin, first)
        if begin < stop:
            ranges.append(Range(where, begin, stop))
    return ranges, lost


def split(
    ranges: Iterable[Range], min_partitions: int | None, max_records: int | None = None
) -> list[Range]:
    """Ranges for tasks: about `min_partitions` of them if there are fewer, larger ranges cut into
    more pieces; none longer than `max_records`."""
    found = list(ranges)
    if max_records is not None:
        found = [piece for each in found for piece in _pieces(each, -(-each.length // max_records))]
    if min_partitions is None or len(found) >= min_partitions:
        return found
    total = sum(each.length for each in found)
    return [
        piece
        for each in found
        for piece in _pieces(each, max(1, round(each.length * min_partitions / total)))
    ]


def _pieces(whole: Range, count: int) -> Iterable[Range]:
    count = max(1, min(count, whole.length))
    cuts = [whole.start + whole.length * index // count for index in range(count + 1)]
    for begin, end in pairwise(cuts):
        yield Range(whole.where, begin, end)
