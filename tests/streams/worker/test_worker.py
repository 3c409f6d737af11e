"""A worker on an embedded broker: counts are right, and state survives what it should."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from moldau.streams.worker.tasks import TaskId
from tests.streams.worker.counting import word_count
from tests.streams.worker.running import COUNTS, LINES, Cluster, has, names, restored_by


async def test_words_are_counted(cluster: Cluster, tmp_path: Path) -> None:
    app, lines, out = names()
    await cluster.make(lines, out)
    async with cluster.worker(word_count(app, lines, out), str(tmp_path)) as worker:
        await cluster.write(lines, *LINES)
        await cluster.read(out, has(COUNTS))
        assert set(worker.tasks) == {TaskId(0, 0), TaskId(0, 1), TaskId(1, 0), TaskId(1, 1)}
        await cluster.write(lines, "a e")
        await cluster.read(out, has({**COUNTS, "a": "4", "e": "1"}))


async def test_a_clean_restart_restores_nothing(cluster: Cluster, tmp_path: Path) -> None:
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


async def test_without_its_state_everything_is_restored_from_the_changelog(
    cluster: Cluster, tmp_path: Path
) -> None:
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
