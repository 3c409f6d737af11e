"""What each task of a batch reads: ranges of offsets. Pure.

Invariants: a task's ranges begin where its version ends, so a batch that runs again, also with
other ends, repeats only what did not count. A range that was cut has more behind it: at its end the
task waits for the next batch as it would wait for a fetch, so records of several inputs run in the
order of their times whatever the batches are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moldau.client import TopicPartition
from moldau.deferred import dataclass
from moldau.streams.changelog.ranges import TopicRange
from moldau.streams.spark.versions import Version


@dataclass(frozen=True, slots=True)
class TaskRanges:
    """A task's part of a batch, and the version of its stores that it begins with."""

    partition: int
    before: Version
    ranges: tuple[TopicRange, ...]


def task_ranges(
    versions: Mapping[int, Version],
    ends: Mapping[TopicPartition, int],
    ids: Mapping[str, str],
    most: int,
) -> list[TaskRanges]:
    """Return the tasks that have something to read. Each reads at most `most` offsets of an
    input."""
    found = []
    for partition, version in sorted(versions.items()):
        ranges = []
        for topic, start in version.offsets.items():
            last = max(start, ends.get(TopicPartition(topic, partition), start))
            end = min(last, start + most)
            ranges.append(TopicRange(topic, start, end, end < last, ids.get(topic, "")))
        if any(each.start < each.end for each in ranges):
            found.append(TaskRanges(partition, version, tuple(ranges)))
    return found


def with_starts(
    versions: Mapping[int, Version], starts: Mapping[TopicPartition, int]
) -> dict[int, Version]:
    """Return the versions with an offset for each of these inputs: what a version lacks, or has as
    a negative number, is taken from `starts`."""
    inputs: dict[int, dict[str, int]] = {}
    for where, start in starts.items():
        inputs.setdefault(where.partition, {})[where.topic] = start
    found = dict(versions)
    for partition, given in inputs.items():
        version = versions.get(partition, Version())
        known = {topic: each for topic, each in version.offsets.items() if each >= 0}
        found[partition] = version.at({**given, **known})
    return found


def missing_starts(
    versions: Mapping[int, Version], inputs: Sequence[TopicPartition]
) -> list[TopicPartition]:
    """Return the inputs that are read from their beginnings: those of which a version has no
    offset, or a negative one."""
    return [
        where
        for where in inputs
        if versions.get(where.partition, Version()).offsets.get(where.topic, -1) < 0
    ]
