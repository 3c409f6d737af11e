"""A worker that is paused, and one that fails: what the app hears, and what it decides."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from moldau.streams import AppState, Streams, StreamsError
from moldau.streams.problems import WorkerStopped
from moldau.streams.worker.tasks import TaskState
from tests.broker.main.command_line import command
from tests.peers.eventually import eventually
from tests.streams.worker.counting import word_count
from tests.streams.worker.running import COUNTS, LINES, Cluster, has, names

pytestmark = pytest.mark.real
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "streams"])


async def until(is_so: Callable[[], bool]) -> None:
    await asyncio.to_thread(eventually, is_so)


async def test_a_paused_worker_keeps_its_tasks_and_goes_on_where_it_was(
    cluster: Cluster, tmp_path: Path
) -> None:
    app, lines, out = names()
    await cluster.make(lines, out)
    async with cluster.worker(word_count(app, lines, out), str(tmp_path)) as worker:
        life = worker._reports.life
        await cluster.write(lines, *LINES)
        await cluster.read(out, has(COUNTS))
        life.is_paused = True
        await cluster.write(lines, *["a"] * 3000)
        inputs = [task for task in worker.tasks.values() if task.task_id.program == 0]
        await until(lambda: all(task.paused for task in inputs))  # it polls what it may buffer
        assert {task.state for task in worker.tasks.values()} == {TaskState.RUNNING}
        assert await cluster.read(out, has(COUNTS)) == COUNTS
        processed = [task.processed for task in inputs]
        await until(lambda: not any(task.is_touched for task in worker.tasks.values()))
        assert [task.processed for task in inputs] == processed
        life.is_paused = False
        await cluster.read(out, has({**COUNTS, "a": "3003"}))


def failing(app_name: str, lines: str, out: str) -> Streams:
    """Fails at "bad" until its `repaired` is set."""
    app = Streams(app_name)
    app.repaired = False  # type: ignore[attr-defined]

    def checked(value: str) -> str:
        if value == "bad" and not app.repaired:  # type: ignore[attr-defined]
            raise ValueError("no good")
        return value

    app.stream(lines, str).map(lambda key, value: (value, checked(value)), key=str, type=str).to(
        out
    )
    return app


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_a_worker_is_replaced_as_the_handler_says_and_nothing_is_doubled(
    cluster: Cluster, tmp_path: Path
) -> None:
    name, lines, out = names()
    await cluster.make(lines, out)
    app = failing(name, lines, out)
    states: list[AppState] = []
    app.on_state_change(lambda new, old: states.append(new))

    @app.on_exception
    def decide(error: Exception) -> str:
        assert isinstance(error, StreamsError), "the record is named"
        assert "offset=1" in str(error)
        app.repaired = True  # type: ignore[attr-defined]
        return "replace"

    async with beside(app.run_async(cluster.servers, state=str(tmp_path))) as running:
        await cluster.write(lines, "one", "-", "bad", "+", "two")
        await cluster.read(out, has({each: each for each in ("one", "-", "bad", "+", "two")}))
        running.cancel()
        await running
    assert await cluster.values(out) == ["+", "-", "bad", "one", "two"]
    assert states[0] is AppState.REBALANCING
    assert states[-3:] == [AppState.RUNNING, AppState.PENDING_SHUTDOWN, AppState.NOT_RUNNING]
    assert AppState.PENDING_ERROR not in states


@PROTOCOLS
async def test_the_command_pauses_each_worker_at_its_address(
    cluster: Cluster, tmp_path: Path, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, lines, out = names()
    await cluster.make(lines, out)
    module = ModuleType(name.replace("-", "_"))
    app = module.app = failing(name, lines, out)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    words = (f"{module.__name__}:app", "--bootstrap", cluster.servers)
    call = partial(command, "streams", home=tmp_path)
    settings = {"group.protocol": protocol, "queries.listen": "127.0.0.1:0"}
    work = app.run_async(cluster.servers, state=str(tmp_path), settings=settings)
    async with beside(work):
        await until(lambda: app.state is AppState.RUNNING)
        for action, said in (("pause", "paused"), ("resume", "resumed")):
            code, text, error = await asyncio.to_thread(call, action, *words)
            assert (code, error) == (0, "")
            assert text.endswith(f": {said}\n")
            assert app.is_paused is (action == "pause")
    code, _, error = await asyncio.to_thread(call, "pause", *words)
    assert code in (1, 2), "none of its workers runs"


@PROTOCOLS
async def test_one_worker_ends_the_app_on_all_machines(
    cluster: Cluster, tmp_path: Path, protocol: str
) -> None:
    name, lines, out = names()
    await cluster.make(lines, out)
    apps = [failing(name, lines, out) for _ in range(2)]
    for app in apps:
        app.on_exception(lambda error: "stop-app")
    settings = {"group.protocol": protocol}
    runs = [
        app.run_async(cluster.servers, state=str(tmp_path / str(at)), settings=settings)
        for at, app in enumerate(apps)
    ]
    async with beside(runs[0]) as one, beside(runs[1]) as other:
        await until(lambda: all(app.state is AppState.RUNNING for app in apps))
        await cluster.write(lines, "fine", "bad")
        async with asyncio.timeout(60):
            ends = await asyncio.gather(one, other, return_exceptions=True)
    assert [type(each) for each in ends] == [WorkerStopped, WorkerStopped]
    assert sorted("no good" in str(each) for each in ends) == [False, True]
    assert [app.state for app in apps] == [AppState.ERROR, AppState.ERROR]
    again = failing(name, lines, out)
    again.repaired = True  # type: ignore[attr-defined]
    async with beside(
        again.run_async(cluster.servers, state=str(tmp_path / "0"), settings=settings)
    ):
        await cluster.read(out, has({"fine": "fine", "bad": "bad"}))
