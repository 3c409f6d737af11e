"""A worker is ready when the tasks that its group has assigned to it run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from moldau.client import TopicPartition
from moldau.streams.worker.committer import CommittedOffset
from moldau.streams.worker.reports import Readiness
from moldau.streams.worker.tasks import TaskId, TaskState
from moldau.streams.worker.worker import Worker
from tests.streams.worker.counting import word_count
from tests.streams.worker.running import Cluster, has, names


async def test_a_worker_that_awaits_committed_offsets_is_not_ready(
    cluster: Cluster, tmp_path: Path
) -> None:
    seen: list[tuple[int, str | None]] = []

    def watch(worker: Worker) -> None:
        """Note what the worker waits for whenever it asks for committed offsets."""
        door = worker._door
        ask = door.committed

        async def committed(
            partitions: Sequence[TopicPartition],
        ) -> dict[TopicPartition, CommittedOffset]:
            if partitions:
                seen.append((len(worker.tasks), worker.readiness.waits_for))
            return await ask(partitions)

        door.committed = committed  # type: ignore[method-assign]

    app, lines, out = names()
    await cluster.make(lines, out)
    async with cluster.worker(word_count(app, lines, out), str(tmp_path)) as worker:
        watch(worker)
        await cluster.write(lines, "a b")
        await cluster.read(out, has({"a": "1", "b": "1"}))
        await cluster.write(lines, "a b")
        await cluster.read(out, has({"a": "2", "b": "2"}))
        assert (len(worker.tasks), worker.readiness.waits_for) == (4, None)
    count, waits_for = seen[0]
    assert (count, waits_for is not None) == (0, True)


def test_a_task_that_is_assigned_and_not_made_yet_is_waited_for() -> None:
    mine = frozenset({TopicPartition("lines", 0), TopicPartition("lines", 1)})
    door: Any = SimpleNamespace(is_member=True, assigned=lambda: mine)
    plan = word_count("app", "lines", "out")
    made: Any = {TaskId(0, 1): SimpleNamespace(state=TaskState.RUNNING)}
    assert Readiness(plan, made, door).waits_for == "task 0_0 is being made"
    made[TaskId(0, 0)] = SimpleNamespace(state=TaskState.RESTORING)
    assert Readiness(plan, made, door).waits_for == "task 0_0 is restoring"
    made[TaskId(0, 0)].state = TaskState.RUNNING
    assert Readiness(plan, made, door).waits_for is None
    door.is_member = False
    assert Readiness(plan, made, door).waits_for == "the worker joins its group"
