"""A worker on an embedded broker: counts are right, and state survives what it should."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from itertools import count
from pathlib import Path
from typing import Any

from moldau.runtime import Runtime
from moldau.runtime.real import run
from moldau.streams.worker.tasks import TaskId
from moldau.testing import SyncEmbeddedBroker
from tests.streams.worker.counting import word_count
from tests.streams.worker.running import Cluster

LINES = ["a b a", "c a", "b", "", "d d d d"]
COUNTS = {"a": "3", "b": "2", "c": "1", "d": "4"}
_apps = count()


def play(
    broker: SyncEmbeddedBroker, scenario: Callable[[Cluster], Coroutine[Any, Any, None]]
) -> None:
    async def whole(runtime: Runtime) -> None:
        await scenario(Cluster(broker.bootstrap_servers, runtime))

    run(whole)


def names() -> tuple[str, str, str]:
    """An app, its input and its output."""
    app = f"worker-{next(_apps)}"
    return app, f"{app}-lines", f"{app}-out"


def has(expected: dict[str, str]) -> Callable[[dict[str, str]], bool]:
    return lambda found: found == expected


def test_words_are_counted(moldau_broker: SyncEmbeddedBroker, tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        app, lines, out = names()
        await cluster.make(lines, out)
        async with cluster.worker(word_count(app, lines, out), str(tmp_path)) as worker:
            await cluster.write(lines, *LINES)
            await cluster.read(out, has(COUNTS))
            assert set(worker.tasks) == {TaskId(0, 0), TaskId(0, 1), TaskId(1, 0), TaskId(1, 1)}
            await cluster.write(lines, "a e")
            await cluster.read(out, has({**COUNTS, "a": "4", "e": "1"}))

    play(moldau_broker, scenario)


def test_a_clean_restart_restores_nothing(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    async def scenario(cluster: Cluster) -> None:
        app, lines, out = names()
        await cluster.make(lines, out)
        plan = word_count(app, lines, out)
        async with cluster.worker(plan, str(tmp_path)):
            await cluster.write(lines, *LINES)
            await cluster.read(out, has(COUNTS))
        async with cluster.worker(plan, str(tmp_path)) as worker:
            await cluster.write(lines, "a a")
            await cluster.read(out, has({**COUNTS, "a": "5"}))
            assert restored_by(worker) == Counter()

    play(moldau_broker, scenario)


def test_without_its_state_everything_is_restored_from_the_changelog(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    async def scenario(cluster: Cluster) -> None:
        app, lines, out = names()
        await cluster.make(lines, out)
        plan = word_count(app, lines, out)
        async with cluster.worker(plan, str(tmp_path / "old")):
            await cluster.write(lines, *LINES)
            await cluster.read(out, has(COUNTS))
        async with cluster.worker(plan, str(tmp_path / "new")) as worker:
            await cluster.write(lines, "a a")
            await cluster.read(out, has({**COUNTS, "a": "5"}))
            assert restored_by(worker).total() >= len(COUNTS)

    play(moldau_broker, scenario)


def restored_by(worker: Any) -> Counter[str]:
    """Records by task."""
    found = {str(task_id): each.task.restored for task_id, each in worker.tasks.items()}
    return +Counter(found)
