"""Whether a worker is ready: it is in its group, and all its tasks run.

A task that the group has assigned is waited for before it is made: its committed offsets are asked
for first, and until they are known there is no task that could be seen not to run.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.streams.plan.plan import Plan
from moldau.streams.worker.door import Door
from moldau.streams.worker.tasks import TaskId, TaskState, WorkerTask, tasks_of


class Readiness:
    """What a worker waits for, for `/readyz`."""

    def __init__(self, plan: Plan, tasks: Mapping[TaskId, WorkerTask], door: Door) -> None:
        self._plan = plan
        self._tasks = tasks
        self._door = door

    @property
    def waits_for(self) -> str | None:
        """What is missing; None if it is ready."""
        if not self._door.is_member:
            return "the worker joins its group"
        waiting = [
            f"task {task_id} is {task.state.value}"
            for task_id, task in self._tasks.items()
            if task.state is not TaskState.RUNNING
        ]
        assigned = tasks_of(self._plan, self._door.assigned())
        waiting += [f"task {each} is being made" for each in assigned if each not in self._tasks]
        return ", ".join(sorted(waiting)) or None
