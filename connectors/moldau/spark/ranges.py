"""Plan what one batch reads: offsets of the checkpoint, limits, and ranges for tasks. No IO.

In this module offsets are `{partition: next offset}`. In Spark's checkpoint they are
`{"topic": {"0": 23}, "$ids": {"topic": "its id"}}`. `$ids` is missing if the broker has no topic
ids, or if an older version wrote the checkpoint. The end of a query's first batch also has
`"$start": {...}`, the start of that batch in the same form: Spark does not store it. These keys
cannot be topics: no topic's name has `$`.

Invariants: A batch never ends before it starts. The same start and end always give the same ranges.
Partitions share a limit in proportion to their lag, and each partition with lag gets at least one
record if there is room.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from itertools import pairwise
from typing import Any, Final, NamedTuple

from moldau.client import TopicPartition
from moldau.deferred import dataclass

Offsets = Mapping[TopicPartition, int]
Checkpoint = dict[str, dict[str, Any]]
Ids = Mapping[str, str]
"""Topic ids by name. A topic without an id counts as the same topic as before."""

IDS: Final = "$ids"
"""The key of the topic ids in a checkpoint, beside the topics' names."""
START: Final = "$start"
"""The key of the first batch's start in the offsets where that batch ends."""
TOPIC_RECREATED: Final = "the topic was deleted and made again"
PARTITION_DELETED: Final = "the partition no longer exists"


class OffsetRange(NamedTuple):
    """A range of offsets of one partition. The end is excluded."""

    where: TopicPartition
    start: int
    end: int
    topic_id: str = ""
    """The id of the topic that these offsets belong to, or empty if the brokers have no ids."""

    @property
    def length(self) -> int:
        """The number of offsets. Compaction and transactions may leave fewer records."""
        return self.end - self.start


@dataclass(frozen=True)
class Loss:
    """Records of a partition that were lost before the query read them."""

    where: TopicPartition
    reason: str


@dataclass(frozen=True)
class BatchIds:
    """The topic ids at the start of a batch, at its end, and in the cluster at present."""

    start: Ids = field(default_factory=dict)
    end: Ids = field(default_factory=dict)
    present: Ids = field(default_factory=dict)

    def is_recreated(self, topic: str) -> bool:
        """Whether the topic was deleted and made again between the start and the end of the
        batch."""
        return _has_other_id(self.start, self.end, topic)

    def is_replaced(self, topic: str) -> bool:
        """Whether the topic was deleted and made again after the end of the batch was chosen."""
        return _has_other_id(self.end, self.present, topic)

    def is_same(self, topic: str) -> bool:
        """Whether it is known that the batch starts and ends in one and the same topic."""
        return topic in self.start and self.start[topic] == self.end.get(topic)

    def topic_id(self, topic: str) -> str:
        """Return the id of the topic that the batch reads, or an empty text if it is unknown."""
        return self.end.get(topic) or self.present.get(topic, "")


def _has_other_id(left: Ids, right: Ids, topic: str) -> bool:
    return topic in left and topic in right and left[topic] != right[topic]


def recreated_topics(before: Ids, now: Ids) -> set[str]:
    """Return the topics that were deleted and made again between two looks at the cluster."""
    return {topic for topic in before if _has_other_id(before, now, topic)}


def to_checkpoint(offsets: Offsets, ids: Ids | None = None) -> Checkpoint:
    """Return offsets in the form that Spark writes to its offset log.

    They are sorted, so that equal offsets give equal text."""
    found: Checkpoint = {}
    for where in sorted(offsets):
        found.setdefault(where.topic, {})[str(where.partition)] = offsets[where]
    if ids:
        found[IDS] = {topic: ids[topic] for topic in sorted(ids)}
    return found


def is_topic(key: str) -> bool:
    """Whether a key of a checkpoint is the name of a topic."""
    return not key.startswith("$")


def from_checkpoint(given: Mapping[str, Mapping[str, Any]]) -> dict[TopicPartition, int]:
    """Return the offsets in a checkpoint of `to_checkpoint` or of Spark's own Kafka source."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, numbers in given.items()
        if is_topic(topic)
        for partition, offset in numbers.items()
    }


def ids_from_checkpoint(given: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the topic ids in a checkpoint, or an empty dict if it has none."""
    return dict(given.get(IDS, {}))


def with_start(end: Checkpoint, start: Checkpoint) -> Checkpoint:
    """Return the end of a query's first batch together with its start."""
    return {**end, START: {key: each for key, each in start.items() if key != START}}


def is_first_start(start: Checkpoint) -> bool:
    """Whether no record of the query lies before `start`, so that its first batch may start here.

    Such offsets are their own `$start`."""
    return START in start and with_start(start, start) == start


def starts_of_batch(start: Checkpoint, end: Checkpoint) -> Checkpoint:
    """Return where the batch with this end starts; `start` is what Spark says.

    Until the first batch is committed Spark asks for the initial offsets again, and by then the
    log may have grown. So the start in `end` counts. An earlier version wrote no start: then all
    that is known of it is that it was not after `end`."""
    if START in end:
        return dict(end[START])
    if not is_first_start(start):
        return start
    ends = from_checkpoint(end)
    starts = {
        where: min(each, ends.get(where, each)) for where, each in from_checkpoint(start).items()
    }
    return to_checkpoint(starts, ids_from_checkpoint(start))


def limited_end(start: Offsets, latest: Offsets, limit: int | None) -> dict[TopicPartition, int]:
    """Return the end of a batch of at most `limit` offsets.

    Each partition gets a share in proportion to its lag. A partition that no longer exists keeps
    its start as its end, so that a later check reports the loss."""
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


def available_count(start: Offsets, latest: Offsets) -> int:
    """Return how many offsets there are to read."""
    return sum(max(0, end - start.get(where, end)) for where, end in latest.items())


def ranges_and_losses(
    start: Offsets, end: Offsets, earliest: Offsets, ids: BatchIds | None = None
) -> tuple[list[OffsetRange], list[Loss]]:
    """Return the ranges that can be read, and the losses before or in them.

    A partition whose topic was made again during the batch is read from its beginning. Nothing is
    read of a topic that replaced the batch's topic later, or of a log that lost its end."""
    ids = ids or BatchIds()
    ranges: list[OffsetRange] = []
    lost: list[Loss] = []
    for where in sorted(end):
        begin, stop = start[where], end[where]
        first = earliest.get(where)
        if first is None:
            lost.append(Loss(where, PARTITION_DELETED))
            continue
        if ids.is_replaced(where.topic):
            lost.append(Loss(where, TOPIC_RECREATED))
            continue
        if ids.is_recreated(where.topic):
            lost.append(Loss(where, TOPIC_RECREATED))
            begin = first
        elif stop < begin:
            is_same = ids.is_same(where.topic)
            cause = "the log lost its end" if is_same else "was the topic made again?"
            lost.append(Loss(where, f"the log ends at {stop}, before {begin}: {cause}"))
            begin = stop if is_same else first
        elif begin < first and begin < stop:
            lost.append(Loss(where, f"offsets {begin} to {min(first, stop)} were deleted"))
        begin = max(begin, first)
        if begin < stop:
            ranges.append(OffsetRange(where, begin, stop, ids.topic_id(where.topic)))
    return ranges, lost


def split_ranges(
    ranges: Iterable[OffsetRange], min_partitions: int | None, max_records: int | None = None
) -> list[OffsetRange]:
    """Split ranges into the ranges of tasks.

    No result is longer than `max_records`. If there are fewer than `min_partitions` ranges, split
    them into about that number; a longer range gives more pieces."""
    found = list(ranges)
    if max_records is not None:
        found = [piece for each in found for piece in _cut(each, -(-each.length // max_records))]
    if min_partitions is None or len(found) >= min_partitions:
        return found
    total = sum(each.length for each in found)
    return [
        piece
        for each in found
        for piece in _cut(each, max(1, round(each.length * min_partitions / total)))
    ]


def _cut(whole: OffsetRange, count: int) -> Iterable[OffsetRange]:
    count = max(1, min(count, whole.length))
    cuts = [whole.start + whole.length * index // count for index in range(count + 1)]
    for begin, end in pairwise(cuts):
        yield whole._replace(start=begin, end=end)
