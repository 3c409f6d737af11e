"""Tasks: one for each partition of a subtopology, in one of three roles.

A subtopology in a role is a key, so that tasks have the form of partitions and take the same steps
(`consumer.partitions`, `consumer.reconciliation`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias


class Role(Enum):
    """What a member does with a task."""

    ACTIVE = "active"
    STANDBY = "standby"
    WARMUP = "warmup"


class SubtopologyRole(NamedTuple):
    """A subtopology in a role: the key of tasks."""

    role: Role
    subtopology_id: str


class TaskId(NamedTuple):
    """One task, in whatever role. Tasks are ordered by subtopology and partition."""

    subtopology_id: str
    partition: int


Tasks: TypeAlias = Mapping[SubtopologyRole, frozenset[int]]
"""Sets of tasks, by subtopology and role. No value is empty."""

OwnedTasks: TypeAlias = Mapping[SubtopologyRole, Mapping[int, int]]
"""Tasks with the member epoch in which each was assigned."""


class TaskIdsLike(Protocol):
    """The tasks of one subtopology in a request, a response or a record."""

    subtopology_id: str
    partitions: list[int]


def tasks_of(by_role: Mapping[Role, Iterable[TaskIdsLike]]) -> Tasks:
    """Return the tasks of a message. A subtopology that is named twice is merged."""
    found: dict[SubtopologyRole, frozenset[int]] = {}
    for role, named in by_role.items():
        for each in named:
            if each.partitions:
                key = SubtopologyRole(role, each.subtopology_id)
                found[key] = found.get(key, frozenset()).union(each.partitions)
    return found


def of_role(tasks: Tasks | OwnedTasks, role: Role) -> dict[str, list[int]]:
    """Return the sorted partitions of each subtopology in a role, in the order of their ids."""
    found = {key.subtopology_id: sorted(tasks[key]) for key in tasks if key.role is role}
    return dict(sorted(found.items()))


def ids_of(tasks: Tasks | OwnedTasks, role: Role) -> frozenset[TaskId]:
    """Return the ids of the tasks in a role."""
    return frozenset(
        TaskId(key.subtopology_id, partition)
        for key, partitions in tasks.items()
        if key.role is role
        for partition in partitions
    )


def by_key(ids: Mapping[Role, Iterable[TaskId]]) -> Tasks:
    """Return the tasks of these ids."""
    found: dict[SubtopologyRole, set[int]] = {}
    for role, of_this in ids.items():
        for task in of_this:
            key = SubtopologyRole(role, task.subtopology_id)
            found.setdefault(key, set()).add(task.partition)
    return {key: frozenset(found[key]) for key in found}
