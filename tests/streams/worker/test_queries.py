"""The stores of a worker, asked from its event loop and from other threads while it works."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from moldau.client import TopicPartition
from moldau.runtime import Runtime
from moldau.streams import Streams
from moldau.streams.query.gate import Gate
from moldau.streams.query.questions import BadQuery, Count, PositionQuestion, StoreUnavailable
from moldau.streams.running import run_here
from moldau.streams.state.backing import MemoryBacking
from moldau.streams.worker.queries import Queries
from moldau.streams.worker.tasks import SLICE, RestoreProgress, TaskId, TaskState, WorkerTask
from moldau.testing import SyncEmbeddedBroker
from tests.streams.worker.counting import CountingTask, word_count
from tests.streams.worker.running import Cluster
from tests.streams.worker.working import beside


def words(name: str) -> Streams:
    app = Streams(name)
    lines = app.stream(f"{name}-lines", str).flat_map(str.split)
    lines.group_by(lambda word: word).count(name="counts")
    app.global_table(f"{name}-names", str, key=str, name="names")
    return app


async def prepare(name: str, broker: SyncEmbeddedBroker, runtime: Runtime) -> Cluster:
    cluster = Cluster(broker.bootstrap_servers, runtime)
    await cluster.make(f"{name}-lines", f"{name}-names")
    return cluster


async def test_every_key_is_found_from_a_thread_and_from_a_coroutine(
    runtime: Runtime, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    app = words(moldau_topic)

    async def ask(cluster: Cluster) -> None:
        counts = app.query_async("counts", wait="30s")
        assert await counts.approximate_count() == 0
        await cluster.write(f"{moldau_topic}-lines", "a b a", "c a")
        expected = [("a", 3), ("b", 1), ("c", 1)]
        while [tuple(row) for row in await counts.all()] != expected:
            pass
        assert await counts.get("nobody") is None

        in_thread = app.query("counts", wait="5s")
        assert await asyncio.to_thread(in_thread.get, "a") == 3
        assert await asyncio.to_thread(in_thread.range, "b") == await counts.range("b")
        with pytest.raises(Exception, match="this is the worker's own event loop"):
            in_thread.get("a")
        with pytest.raises(BadQuery, match="there is no store sums; there are: counts, names"):
            await app.query_async("sums").get("a")
        with pytest.raises(BadQuery, match="5 is no key of it, which are str"):
            await counts.get(5)
        assert await app.query_async("names").get("a") is None

    cluster = await prepare(moldau_topic, moldau_broker, runtime)
    with pytest.raises(StoreUnavailable, match="no worker of it runs"):
        await app.query_async("counts").get("a")
    given = {
        "bootstrap.servers": cluster.servers,
        "state.dir": str(tmp_path),
        "commit.interval.ms": 500,
    }
    await beside(run_here(app.plan(), given, app.running), ask(cluster))
    with pytest.raises(StoreUnavailable):
        app.query("counts").get("a")


async def test_a_question_is_answered_in_a_break_of_the_work(runtime: Runtime) -> None:
    seen: list[int] = []
    gate = Gate(runtime)
    begun = threading.Event()

    def work() -> str:
        begun.set()
        while not seen:
            gate.answer()
        return "done"

    working = asyncio.ensure_future(gate.run(work))
    await asyncio.to_thread(begun.wait)
    await gate.ask(lambda: seen.append(1))
    assert await working == "done"
    with pytest.raises(ZeroDivisionError):
        await gate.ask(lambda: 1 // 0)


@pytest.mark.parametrize("state", [each for each in TaskState if each is not TaskState.CLOSED])
def test_rows_of_another_version_give_no_answer(runtime: Runtime, state: TaskState) -> None:
    plan = word_count("app")
    program, where = plan.programs[1], TopicPartition("app-counts-changelog", 0)
    backing = {"counts": MemoryBacking()}
    task = WorkerTask(TaskId(1, 0), program, (), CountingTask(program, 0, backing, ()), None, state)
    task.restoring[where] = RestoreProgress("counts", where, 0, 1, 1)
    own: dict[TaskId, WorkerTask] = {}
    copies: dict[TaskId, WorkerTask] = {}
    (copies if state is TaskState.STANDBY else own)[task.task_id] = task
    unused: Any = None
    queries = Queries(plan, Gate(runtime), (own, copies), unused, unused)
    queries.widths = {program.inputs[0]: 1}
    spec, asked = program.stores[0], PositionQuestion(Count(), is_stale=True)

    task.versions_fit = True
    assert queries._sources(spec, program, asked, ()) == [task]
    task.versions_fit = False
    if state is TaskState.RUNNING:
        assert queries._sources(spec, program, asked, ()) == [task]
        return
    with pytest.raises(StoreUnavailable):
        queries._sources(spec, program, asked, ())
    if state is not TaskState.STANDBY:
        with pytest.raises(StoreUnavailable):
            queries._check_readable(spec, [task])


def test_slices_get_smaller_where_a_function_is_slow() -> None:
    program = word_count("app").programs[0]
    task = WorkerTask(TaskId(0, 0), program, (), CountingTask(program, 0, {}, ()), None)
    for _ in range(10):
        task.fit_slice(0.2)
    assert task.slice == 1
    for _ in range(10):
        task.fit_slice(0.001)
    assert task.slice == SLICE
