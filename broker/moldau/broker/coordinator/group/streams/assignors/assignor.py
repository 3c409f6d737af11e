"""The input of an assignor: the members with the tasks that they had, and the tasks to assign."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Final

from moldau.broker.coordinator.group.streams.tasks import TaskId
from moldau.deferred import dataclass

NO_TAGS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """One member, with its tasks in the target before."""

    process_id: str
    active: frozenset[TaskId] = frozenset()
    copies: frozenset[TaskId] = frozenset()
    """Its standby and warm-up tasks: it has their state, or is on the way to it."""
    lags: Mapping[TaskId, int] | None = None
    """How far its copies of tasks are behind, where that is known. None: it does not report it, so
    no warm-up would ever end."""
    subtopologies: frozenset[str] | None = None
    """The subtopologies that it can run: of another topology those that are the same. None: all."""
    tags: Mapping[str, str] = field(default_factory=lambda: NO_TAGS)
    """Where its process is: the values of its client tags."""
    own_lags: Mapping[TaskId, int] = field(default_factory=dict)
    """How far it was behind the end that it knew itself, when it last reported."""
    is_leaving: bool = False
    """Whether it is about to leave, and runs its tasks only until others can take them over."""

    def runs(self, subtopology_id: str) -> bool:
        """Whether the member can run tasks of a subtopology."""
        return self.subtopologies is None or subtopology_id in self.subtopologies


@dataclass(frozen=True, slots=True)
class Work:
    """The tasks of a group."""

    task_counts: Mapping[str, int]
    """How many tasks each subtopology has."""
    stateful: frozenset[str] = field(default_factory=frozenset)
    """The subtopologies with state, of which copies make sense."""
    standby_count: int = 0
    """How many standbys each stateful task has, if there are processes for them."""
    warmup_count: int = 0
    """How many copies of all tasks may be warming up at a time."""
    acceptable_lag: int = 0
    """A copy that is not further behind is as good as the state itself."""
    spread_tags: tuple[str, ...] = ()
    """The client tags by which the copies of a task are spread."""
    ends: Mapping[TaskId, int] = field(default_factory=dict)
    """How long the logs of tasks are, where that is known: a member without a copy is so far
    behind."""

    def tasks(self) -> list[TaskId]:
        """Return all tasks, in order."""
        return [
            TaskId(subtopology_id, partition)
            for subtopology_id in sorted(self.task_counts)
            for partition in range(self.task_counts[subtopology_id])
        ]
