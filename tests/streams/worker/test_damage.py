"""Stores that turn out to be damaged while a worker uses them: it restores them and goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from moldau.streams.rocks import ChangelogPosition, RocksBacking, StoreCorrupted, TaskDatabase
from moldau.streams.state.backing import Row
from tests.streams.worker.counting import CountingTask, word_count
from tests.streams.worker.running import COUNTS, LINES, Cluster, has, names


class Damage:
    """One use of a store raises StoreCorrupted: the next one after `strike`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, use: str) -> None:
        self.is_due = False
        self.path = ""
        write, commit = RocksBacking.write, TaskDatabase.commit

        def damaged_write(backing: RocksBacking, rows: Sequence[Row]) -> None:
            if rows and use == "write":
                self._happen(backing._path)
            write(backing, rows)

        def damaged_commit(
            database: TaskDatabase, positions: Mapping[str, ChangelogPosition]
        ) -> None:
            if database.staged_bytes and use == "commit":
                self._happen(database.path)
            commit(database, positions)

        monkeypatch.setattr(RocksBacking, "write", damaged_write)
        monkeypatch.setattr(TaskDatabase, "commit", damaged_commit)

    def strike(self) -> None:
        self.is_due = True

    def _happen(self, path: str) -> None:
        if self.is_due:
            self.is_due, self.path = False, path
            raise StoreCorrupted("the state is damaged: Corruption: checksum", path=path)

    def told(self, caplog: pytest.LogCaptureFixture) -> list[str]:
        """The errors that the worker has logged, and those that are expected."""
        return [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]

    @property
    def expected(self) -> str:
        task = Path(self.path).name
        return (
            f"streams: task {task}: the state is damaged: Corruption: checksum "
            f"(path='{self.path}'); the files are kept as {self.path}.damaged and the stores are "
            "restored from their changelogs"
        )


@pytest.mark.parametrize("use", ["write", "commit"])
async def test_damage_that_a_commit_finds_is_restored_and_nothing_is_counted_twice(
    use: str,
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    damage = Damage(monkeypatch, use)
    app, lines, out = names()
    await cluster.make(lines, out)
    async with cluster.worker(word_count(app, lines, out), str(tmp_path)):
        await cluster.write(lines, *LINES)
        await cluster.read(out, has(COUNTS))
        damage.strike()
        await cluster.write(lines, "a b c d", "e")
        twice = {"a": "4", "b": "3", "c": "2", "d": "5", "e": "1"}
        await cluster.read(out, has(twice))
        # With its rows from the changelog, and those of the other task from this commit.
        await cluster.write(lines, "a b c d e")
        await cluster.read(out, has({key: str(int(n) + 1) for key, n in twice.items()}))
    assert damage.told(caplog) == [damage.expected]


@pytest.mark.parametrize("use", ["write", "commit"])
async def test_damage_that_the_last_commit_finds_is_restored_at_the_next_start(
    use: str,
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    damage = Damage(monkeypatch, use)
    app, lines, out = names()
    await cluster.make(lines, out)
    plan = word_count(app, lines, out)
    rare = {"commit.interval.ms": 60_000, "processing.guarantee": "at_least_once"}
    all_counted, loop, left = asyncio.Event(), asyncio.get_running_loop(), [10]

    class Counting(CountingTask):
        def _count(self, word: bytes, time: int) -> None:
            super()._count(word, time)
            left[0] -= 1
            if not left[0]:
                loop.call_soon_threadsafe(all_counted.set)

    async with cluster.worker(plan, str(tmp_path), make_task=Counting, settings=rare):
        await cluster.write(lines, *LINES)
        async with asyncio.timeout(60):
            await all_counted.wait()
        damage.strike()
    async with cluster.worker(plan, str(tmp_path)):
        await cluster.read(out, has(COUNTS))
    assert damage.told(caplog) == [damage.expected]


async def test_damage_that_a_restore_finds_begins_it_again(
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    damage = Damage(monkeypatch, "write")
    app, lines, out = names()
    await cluster.make(lines, out)
    plan = word_count(app, lines, out)
    async with cluster.worker(plan, str(tmp_path / "old")):
        await cluster.write(lines, *LINES)
        await cluster.read(out, has(COUNTS))
    damage.strike()
    async with cluster.worker(plan, str(tmp_path / "new")):
        await cluster.write(lines, "a")
        await cluster.read(out, has({**COUNTS, "a": "4"}))
    assert damage.told(caplog) == [damage.expected]
