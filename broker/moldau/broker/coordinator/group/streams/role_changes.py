"""A member's next step, where tasks change their roles at the member that has them.

A role that changes in one step lets the client turn a task into the other role with its state open.
If it had to close the task first, a store in memory would be restored from the beginning.

- *Between standby and warm-up*: at once.
- *From active to a copy*: the copy at once. The active task is revoked all the same, because its
  next owner waits until this member reports that it has stopped it.
- *From a copy to active*: the member keeps its copy until the active task is free and it gets that
  instead. It need not report that it has given up the copy.

All else is `consumer.reconciliation`, for which these tasks are prepared here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from moldau.broker.coordinator.group.consumer.reconciliation import Target, next_step
from moldau.broker.coordinator.group.streams.member import TaskProgress
from moldau.broker.coordinator.group.streams.tasks import Role, SubtopologyRole, Tasks

_COPIES: Final = (Role.STANDBY, Role.WARMUP)


def next_step_of_tasks(
    now: TaskProgress, target: Target[SubtopologyRole], reported: Tasks | None
) -> TaskProgress:
    """Return the progress of the member after this heartbeat; the same object if it stays."""
    begun, promoted = _with_copies(now, target), _promoted(now, target.partitions)
    wanted = dict(target.partitions)
    for key, partitions in promoted.items():
        wanted[key] = wanted.get(key, frozenset()) | partitions
    after = next_step(begun, replace(target, partitions=wanted), reported)
    if after is begun:
        return now
    return _without_copies_of_active(after, promoted)


def _with_copies(now: TaskProgress, target: Target[SubtopologyRole]) -> TaskProgress:
    """Return the progress with all copies that the member can have at once, because it has the task
    in another role; the same object if there are none."""
    assigned = {key: dict(owned) for key, owned in now.assigned.items()}
    has_changed = False
    for key, owned in now.assigned.items():
        for role in _COPIES:
            copy = SubtopologyRole(role, key.subtopology_id)
            for partition in target.partitions.get(copy, frozenset()) & owned.keys():
                if role is key.role or not target.is_free(copy, partition):
                    continue
                has_changed = True
                assigned.setdefault(copy, {})[partition] = target.epoch
                if key.role is not Role.ACTIVE:
                    del assigned[key][partition]
    return replace(now, assigned=_not_empty(assigned)) if has_changed else now


def _promoted(now: TaskProgress, target: Tasks) -> Tasks:
    """Return the copies of the member that are to be active."""
    found = {}
    for key, owned in now.assigned.items():
        active = target.get(SubtopologyRole(Role.ACTIVE, key.subtopology_id), frozenset())
        if key.role is not Role.ACTIVE and not active.isdisjoint(owned):
            found[key] = active & owned.keys()
    return found


def _without_copies_of_active(after: TaskProgress, promoted: Tasks) -> TaskProgress:
    """Return the progress without the copies that have become active."""
    assigned = {key: dict(owned) for key, owned in after.assigned.items()}
    for key, partitions in promoted.items():
        active = assigned.get(SubtopologyRole(Role.ACTIVE, key.subtopology_id), {})
        for partition in partitions & active.keys():
            assigned[key].pop(partition, None)
    return replace(after, assigned=_not_empty(assigned)) if promoted else after


def _not_empty(
    assigned: dict[SubtopologyRole, dict[int, int]],
) -> dict[SubtopologyRole, dict[int, int]]:
    return {key: owned for key, owned in assigned.items() if owned}
