"""The progress of a worker's tasks as plain data, for pages that draw an app with live numbers.

Counts only grow while a task runs, so a reader makes rates of two answers; a task that was made
again counts from zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moldau.streams.query.gate import Gate
from moldau.streams.rocks import StoreSize
from moldau.streams.worker.door import TopicPartition
from moldau.streams.worker.tasks import TaskId, TaskState, WorkerTask


class TaskFigures:
    """Reads the progress of the tasks of one worker."""

    def __init__(
        self,
        tasks: Mapping[TaskId, WorkerTask],
        gate: Gate,
        lag: Callable[[TopicPartition], int | None],
    ) -> None:
        self._tasks = tasks
        self._gate = gate
        self._lag = lag

    async def read(self) -> list[dict[str, Any]]:
        """Return the figures of each task, as JSON values."""
        return await self._gate.ask(self._read)

    def _read(self) -> list[dict[str, Any]]:
        """Collect the figures; runs on the thread that has the stores."""
        found = []
        for task_id, task in sorted(self._tasks.items()):
            if task.state is not TaskState.CLOSED:
                inputs = [self._input(task, where) for where in task.inputs]
                found.append(_figures(task_id, task, inputs))
        return found

    def _input(self, task: WorkerTask, where: TopicPartition) -> dict[str, Any]:
        waiting, behind = task.task.buffered(where.topic), self._lag(where)
        begin, end = task.origins.get(where), task.fetched.get(where)
        return {
            "topic": where.topic,
            "done": 0 if begin is None or end is None else max(0, end - begin - waiting),
            "lag": None if behind is None else behind + waiting,
        }


def _figures(task_id: TaskId, task: WorkerTask, inputs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    sizes = [] if task.database is None else task.database.sizes()
    dropped = sum(task.task.counters().values())
    return {
        "program": task_id.program,
        "partition": task_id.partition,
        "state": task.state.value,
        "processed": task.processed,
        "seconds": task.seconds,
        "buffered": sum(task.task.buffered(where.topic) for where in task.inputs),
        "dropped": dropped,
        "inputs": list(inputs),
        "stores": [_store(each) for each in sizes],
        "restored": sum(each.position - each.begin for each in task.restoring.values()),
        "to_restore": sum(each.end - each.begin for each in task.restoring.values()),
    }


def _store(size: StoreSize) -> dict[str, Any]:
    return {"name": size.name, "rows": size.rows, "bytes": size.size_bytes}
