"""A restore writes to RocksDB only on the thread that has the stores."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from moldau.client import Producer
from moldau.streams import Streams, sliding, tumbling
from moldau.streams.engine.task import TaskSettings
from moldau.streams.query.questions import Range, StoreUnavailable
from moldau.streams.rocks import ChangelogPosition, TaskDatabase
from moldau.streams.running import make_task, task_settings
from moldau.streams.worker.settings import app_settings
from tests.streams.worker.running import Cluster, has, names


def is_on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def write_rows(cluster: Cluster, topic: str, **rows: str) -> None:
    async with Producer(bootstrap_servers=cluster.servers, runtime=cluster.runtime) as producer:
        for key, value in rows.items():
            await producer.send(topic, value.encode(), key=key.encode())


async def test_a_restore_that_reads_past_its_goal_commits_on_a_thread(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is restored from its input up to the committed offset, and the one fetch returns
    what follows as well."""
    were_on_loop: list[bool] = []
    commit = TaskDatabase.commit

    def observed_commit(database: TaskDatabase, positions: Mapping[str, ChangelogPosition]) -> None:
        were_on_loop.append(is_on_event_loop())
        commit(database, positions)

    name, lines, out = names()
    app = Streams(name)
    app.table(lines, str, key=str, name="rows").changes().to(out)
    plan = app.plan()
    make = partial(make_task, task_settings(plan, app_settings({"bootstrap.servers": ""})))
    await cluster.make(lines, out, partitions=1)
    await write_rows(cluster, lines, a="1", b="2")
    async with cluster.worker(plan, str(tmp_path / "old"), make_task=make):
        await cluster.read(out, lambda found: found == {"a": "1", "b": "2"})
    await write_rows(cluster, lines, c="3")
    monkeypatch.setattr(TaskDatabase, "commit", observed_commit)
    async with cluster.worker(plan, str(tmp_path / "new"), make_task=make):
        await cluster.read(out, lambda found: found == {"a": "1", "b": "2", "c": "3"})
    assert were_on_loop
    assert not any(were_on_loop)


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
@pytest.mark.parametrize("windows", [sliding(1_000), tumbling(1_000)], ids=["sliding", "tumbling"])
async def test_a_restored_worker_without_records_answers_without_windows_that_were_dropped(
    cluster: Cluster, tmp_path: Path, windows: Any, guarantee: str
) -> None:
    """The changelog has all of them, and no commit follows the restore."""
    name, lines, out = names()
    app = Streams(name)
    counts = app.stream(lines, str, key=str).group_by_key().window(windows).count(name="kept")
    counts.changes().map(lambda key, count: (str(key.start), str(count)), key=str, type=str).to(out)
    plan, make = app.plan(), partial(make_task, TaskSettings())
    await cluster.make(lines, out, partitions=1)
    cluster.settings["processing.guarantee"] = guarantee

    async def windows_of(life: str, wanted: Mapping[str, str]) -> list[int]:
        async with cluster.worker(plan, str(tmp_path / life), make_task=make) as worker:
            await cluster.read(out, lambda found: wanted.items() <= found.items())
            while True:
                with suppress(StoreUnavailable):
                    return [row.key.start for row in await worker.queries.ask("kept", Range())]
                await cluster.read(out, lambda found: wanted.items() <= found.items())

    async with Producer(bootstrap_servers=cluster.servers, runtime=cluster.runtime) as producer:
        for time in (1_000, 2_500, 90_000):
            await producer.send(lines, b"x", key=b"a", timestamp_ms=time)
    last = "89000" if windows == sliding(1_000) else "90000"
    before = await windows_of("first", {last: "1"})
    assert before == [int(last)]
    assert await windows_of("second", {last: "1"}) == before


async def test_a_table_is_restored_without_the_records_that_it_skipped(
    cluster: Cluster, tmp_path: Path
) -> None:
    name, rows, out = names()
    orders = f"{name}-orders"
    app = Streams(name)
    prices = app.table(rows, int, key=str, on_error="skip")
    app.stream(orders, str, key=str).join(prices, lambda a, b: f"{a} {b}").to(out)
    plan, make = app.plan(), partial(make_task, TaskSettings())
    await cluster.make(rows, orders, out, partitions=1)
    await write_rows(cluster, rows, a="1")
    await write_rows(cluster, rows, a="dear")
    for life in ("first", "second"):
        async with cluster.worker(plan, str(tmp_path / life), make_task=make):
            await write_rows(cluster, orders, a=life)
            await cluster.read(out, has({"a": f"{life} 1"}))
