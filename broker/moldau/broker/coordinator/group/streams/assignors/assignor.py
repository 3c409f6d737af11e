"""The input of an assignor: the members with the tasks that they had, and the tasks to assign."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from moldau.broker.coordinator.group.streams.tasks import TaskId


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """One member, with its tasks in the target before."""

    process_id: str
    active: frozenset[TaskId] = frozenset()
    copies: frozenset[TaskId] = frozenset()
    """Its standby and warm-up tasks: it has their state, or is on the way to it."""


@dataclass(frozen=True, slots=True)
class Work:
    """The tasks of a group."""

    task_counts: Mapping[str, int]
    """How many tasks each subtopology has."""
    stateful: frozenset[str] = field(default_factory=frozenset)
    """The subtopologies with state, of which copies make sense."""
    standby_count: int = 0
    """How many standbys each stateful task has, if there are processes for them."""

    def tasks(self) -> list[TaskId]:
        """Return all tasks, in order."""
        return [
            TaskId(subtopology_id, partition)
            for subtopology_id in sorted(self.task_counts)
            for partition in range(self.task_counts[subtopology_id])
        ]
