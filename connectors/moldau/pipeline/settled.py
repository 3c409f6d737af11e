"""`moldau pipeline run --once`: when has a pipeline processed all there is? No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from moldau.deferred import dataclass
from moldau.pipeline.data_directory import FINISHED, WAITING, PartState
from moldau.pipeline.pipeline import App, Connector, Job, Pipeline
from moldau.pipeline.status import HEALTHY, GroupStatus, StatusRow


@dataclass(frozen=True, slots=True)
class Offsets:
    """The offsets of a pipeline's topics, and what its groups have committed, by partition."""

    begins: Mapping[tuple[str, int], int]
    ends: Mapping[tuple[str, int], int]
    committed: Mapping[str, Mapping[tuple[str, int], int]]


class IdleWatch:
    """Decides when a pipeline has settled: for a while no topic has grown, and nothing is left."""

    def __init__(self, idle_s: float) -> None:
        self._idle_s = idle_s
        self._since_s: float | None = None
        self._ends: Mapping[tuple[str, int], int] = {}

    def on_look(self, left: Sequence[str], offsets: Offsets, now_s: float) -> bool:
        """Take in a look at the pipeline. Return whether it has settled."""
        if left or offsets.ends != self._ends:
            self._since_s = None
            self._ends = offsets.ends
            return False
        if self._since_s is None:
            self._since_s = now_s
        return now_s - self._since_s >= self._idle_s


def left_over(
    pipeline: Pipeline, offsets: Offsets, rows: Sequence[StatusRow], parts: Mapping[str, PartState]
) -> list[str]:
    """Return the names of the parts that have records left, or do not run."""
    found = [each.part for each in rows if each.state not in HEALTHY]
    for app in pipeline.apps:
        if _is_behind(offsets, app.group, list(app.reads)):
            found.append(app.name)
    for job in pipeline.jobs:
        part = parts.get(f"job {job.name}")
        state = None if part is None else part.state
        if state == FINISHED or (state == WAITING and job.group is None):
            continue
        if job.group is None or _is_behind(offsets, job.group, list(job.reads)):
            found.append(job.name)
    for sink in pipeline.sinks:
        names = [each.name for each in pipeline.topics]
        topics = [each for each in names if sink.name in pipeline.readers_of(each)]
        if _is_behind(offsets, sink.group, topics):
            found.append(sink.name)
    return found


def _is_behind(offsets: Offsets, group: str, topics: Sequence[str]) -> bool:
    """Whether a group has records left in these topics, or in others that it has read before."""
    committed = offsets.committed.get(group, {})
    return any(
        committed.get(where, offsets.begins[where]) < end
        for where, end in _relevant(offsets, topics, committed)
    )


def _relevant(
    offsets: Offsets, topics: Sequence[str], committed: Mapping[tuple[str, int], int]
) -> Iterator[tuple[tuple[str, int], int]]:
    for where, end in offsets.ends.items():
        if where[0] in topics or where in committed:
            yield where, end


def unread_by_group(
    pipeline: Pipeline, groups: Mapping[str, GroupStatus], offsets: Offsets
) -> dict[str, int]:
    """Return for each group how many records are in partitions of which it knows nothing: all of a
    topic if it has never committed. Groups whose topics do not exist are left out."""
    found: dict[str, int] = {}
    names = {where[0] for where in offsets.ends}
    parts: list[App | Job | Connector] = [*pipeline.apps, *pipeline.jobs, *pipeline.sinks]
    for part in parts:
        topics = {name for name in names if part.name in pipeline.readers_of(name)}
        if part.group is None or not topics:
            continue
        progress = groups.get(part.group)
        known = () if progress is None else progress.known
        found[part.group] = sum(
            max(0, end - offsets.begins.get(where, 0))
            for where, end in offsets.ends.items()
            if where[0] in topics and where not in known
        )
    return found
