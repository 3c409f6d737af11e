"""Whether a worker is ready: it is in its group, and all its tasks run."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.streams.worker.door import Door
from moldau.streams.worker.tasks import TaskId, TaskState, WorkerTask


class Readiness:
    """What a worker waits for, for `/readyz`."""

    def __init__(self, tasks: Mapping[TaskId, WorkerTask], door: Door) -> None:
        self._tasks = tasks
        self._door = door

    @property
    def waits_for(self) -> str | None:
        """What is missing; None if it is ready."""
        if not self._door.is_member:
            return "the worker joins its group"
        waiting = sorted(
            f"task {task_id} is {task.state.value}"
            for task_id, task in self._tasks.items()
            if task.state is not TaskState.RUNNING
        )
        return ", ".join(waiting) or None
