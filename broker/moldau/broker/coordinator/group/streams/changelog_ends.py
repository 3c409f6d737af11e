"""The ends of changelogs, which the coordinator asks of their leaders.

1. A target has a warm-up, and nothing says how far that is behind: an effect asks the leaders for
   the ends of all changelogs of the group.
2. The answer is reported here. If a task may move now, because its log is short or its copy is near
   the end, the group moves to a new epoch. The next heartbeat of any member computes the target.

A client alone cannot say it: it knows no end of a log that it has read no record of, and such a log
may stay quiet forever.

Nothing of this is in the log: the next coordinator of the group asks anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from moldau.broker.coordinator.group.streams import records
from moldau.broker.coordinator.group.streams.mixed_topologies import as_settings
from moldau.broker.coordinator.group.streams.positions import ASKED_MS
from moldau.broker.coordinator.group.streams.target import has_warmed_up
from moldau.broker.coordinator.group.streams.tasks import Role, TaskId, Tasks, ids_of
from moldau.broker.coordinator.outcome import NOTHING, Effect, Outcome
from moldau.deferred import dataclass

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.groups import Groups
    from moldau.broker.coordinator.group.streams.configuration import ConfiguredTopology
    from moldau.broker.coordinator.group.streams.state import StreamsGroupState
    from moldau.broker.coordinator.group.streams.topology import Topology


@dataclass(frozen=True, slots=True)
class FindChangelogEnds(Effect):
    """Find the ends of these partitions. Report with `on_found`."""

    group_id: str
    partitions: Mapping[str, range]


def begin(
    state: StreamsGroupState,
    configured: ConfiguredTopology,
    member_id: str,
    target: Tasks,
    now_ms: int,
) -> tuple[Effect, ...]:
    """Return the effect that asks for ends, if the member is to warm up a task and does not know
    how far it is behind."""
    if not any(key.role is Role.WARMUP for key in target):
        return ()
    positions = state.volatile.positions
    warming = ids_of(target, Role.WARMUP)
    if all(positions.lag(member_id, task, now_ms) is not None for task in warming):
        return ()
    if state.topology is None or not positions.asks_log_ends(now_ms):
        return ()
    counts = configured.task_counts
    partitions = {
        topic.name: range(counts.get(each.subtopology_id, 0))
        for each in state.topology.subtopologies
        for topic in each.changelogs
    }
    return (FindChangelogEnds(state.group_id, partitions),)


def on_found(
    groups: Groups, group_id: str, ends: Mapping[tuple[str, int], int], now_ms: int
) -> Outcome:
    """Note the ends that were found. Those of other partitions are asked for again."""
    from moldau.broker.coordinator.group.streams.group import StreamsGroup

    group = groups.get(group_id)
    if not isinstance(group, StreamsGroup) or (topology := group.state.topology) is None:
        return NOTHING
    state = group.state
    found = _of_tasks(topology, ends)
    for_ms = state.terms.task_offset_interval_ms if found else ASKED_MS
    state.volatile.positions.on_log_ends(found, now_ms + for_ms)
    if not any(has_warmed_up(state, each, now_ms) for each in state.members):
        return NOTHING
    settings = {**state.configs, **as_settings(state.older)}
    record = records.group_epoch(
        group_id, state.epoch + 1, state.metadata_hash, state.validated_epoch, settings
    )
    return Outcome((record,))


def _of_tasks(topology: Topology, ends: Mapping[tuple[str, int], int]) -> dict[TaskId, int]:
    """Return the ends of tasks, summed over their changelogs, where all of them are known."""
    found: dict[TaskId, list[int]] = {}
    counts: dict[str, int] = {}
    by_log = {
        topic.name: each.subtopology_id
        for each in topology.subtopologies
        for topic in each.changelogs
    }
    for subtopology_id in by_log.values():
        counts[subtopology_id] = counts.get(subtopology_id, 0) + 1
    for (topic, partition), end in ends.items():
        if topic in by_log:
            found.setdefault(TaskId(by_log[topic], partition), []).append(end)
    return {
        task: sum(known)
        for task, known in found.items()
        if len(known) == counts[task.subtopology_id]
    }
