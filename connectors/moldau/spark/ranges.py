"""What one batch reads: offsets in a checkpoint, limits, and ranges for tasks. No IO.

Offsets are `{partition: next offset}` here. In Spark's checkpoint they are
`{"topic": {"0": 23}, "$ids": {"topic": "its id"}}`, without ids if the broker or the version that
wrote it has none; a name of a topic has no `$`.
Invariants: a batch never ends before it starts; the same start and end always give the same ranges;
a limit is shared by lag, and every partition with lag gets at least one record if there is room.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple

from moldau.client import TopicPartition

Offsets = Mapping[TopicPartition, int]
Checkpoint = dict[str, dict[str, Any]]
Ids = Mapping[str, str]
"""By topic. A topic without one is taken for the same topic."""

IDS: Final = "$ids"
"""Beside the topics in a checkpoint."""
REMADE: Final = "the topic was deleted and made again"


class Range(NamedTuple):
    """Offsets of one partition, the end excluded."""

    where: TopicPartition
    start: int
    end: int
    topic_id: str = ""
    """Of the topic that the offsets are of; empty if the brokers name none."""

    @property
    def length(self) -> int:
        """How many offsets; compaction and transactions may leave fewer records."""
        return self.end - self.start


@dataclass(frozen=True)
class Loss:
    """Records that should be read and are gone."""

    where: TopicPartition
    reason: str


@dataclass(frozen=True)
class BatchIds:
    """The ids of the topics where a batch begins, where it ends, and in the cluster at present."""

    start: Ids = field(default_factory=dict)
    end: Ids = field(default_factory=dict)
    present: Ids = field(default_factory=dict)

    def is_made_again(self, topic: str) -> bool:
        """Whether the batch ends in another topic than it begins in."""
        return _differs(self.start, self.end, topic)

    def is_replaced(self, topic: str) -> bool:
        """Whether the topic that the batch ends in is gone, and another one has its name."""
        return _differs(self.end, self.present, topic)

    def read(self, topic: str) -> str:
        """The id of the topic that the batch reads; empty where none is known."""
        return self.end.get(topic) or self.present.get(topic, "")


def _differs(left: Ids, right: Ids, topic: str) -> bool:
    return topic in left and topic in right and left[topic] != right[topic]


def made_again(before: Ids, now: Ids) -> set[str]:
    """The topics that were deleted and made again between the two."""
    return {topic for topic in before if _differs(before, now, topic)}


def to_checkpoint(offsets: Offsets, ids: Ids | None = None) -> Checkpoint:
    """As Spark writes it into its offset log; sorted, so that equal offsets are equal text."""
    found: Checkpoint = {}
    for where in sorted(offsets):
        found.setdefault(where.topic, {})[str(where.partition)] = offsets[where]
    if ids:
        found[IDS] = {topic: ids[topic] for topic in sorted(ids)}
    return found


def from_checkpoint(given: Mapping[str, Mapping[str, Any]]) -> dict[TopicPartition, int]:
    """As it was written by `to_checkpoint`, or by Spark's own Kafka source."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, numbers in given.items()
        if topic != IDS
        for partition, offset in numbers.items()
    }


def ids_in(given: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The ids that `to_checkpoint` wrote."""
    return dict(given.get(IDS, {}))


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


def losses(
    start: Offsets, end: Offsets, earliest: Offsets, ids: BatchIds | None = None
) -> tuple[list[Range], list[Loss]]:
    """The ranges that can be read, and what is missing before or in them."""
    ids = ids or BatchIds()
    ranges: list[Range] = []
    lost: list[Loss] = []
    for where in sorted(end):
        begin, stop = start[where], end[where]
        first = earliest.get(where)
        if first is None:
            lost.append(Loss(where, "the partition is gone"))
            continue
        if ids.is_replaced(where.topic):
            lost.append(Loss(where, REMADE))
            continue
        if ids.is_made_again(where.topic):
            lost.append(Loss(where, REMADE))
            begin = first
        elif stop < begin:
            lost.append(
                Loss(where, f"the log ends at {stop}, before {begin}: was the topic made again?")
            )
            begin = first
        elif begin < first and begin < stop:
            lost.append(Loss(where, f"offsets {begin} to {min(first, stop)} were deleted"))
        begin = max(begin, first)
        if begin < stop:
            ranges.append(Range(where, begin, stop, ids.read(where.topic)))
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
        yield whole._replace(start=begin, end=end)
