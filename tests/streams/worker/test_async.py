"""Async functions of an app are awaited by its worker, in the order of the records."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from moldau.runtime import Runtime
from moldau.streams import Streams, retry
from moldau.streams.engine.task import TaskSettings
from moldau.streams.running import make_task
from moldau.testing import SyncEmbeddedBroker
from tests.streams.worker.running import Cluster, has, names

MAKE = partial(make_task, TaskSettings())


async def test_async_functions_are_awaited_together(
    runtime: Runtime, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    lines, out = f"{moldau_topic}-lines", f"{moldau_topic}-out"
    meeting = asyncio.Event()
    waiting = 0

    async def looked_up(value: str) -> str:
        """Returns when all three are here: calls that were awaited one by one would never."""
        nonlocal waiting
        waiting += 1
        if waiting == 3:
            meeting.set()
        await meeting.wait()
        return value.upper()

    app = Streams(moldau_topic)
    app.stream(lines, str).map_values(looked_up).select_key(lambda value: value).to(out)
    cluster = Cluster(moldau_broker.bootstrap_servers, runtime)
    await cluster.make(lines, out)
    await cluster.write(lines, "a", "b", "c")
    make = partial(make_task, TaskSettings())
    async with cluster.worker(app.plan(), str(tmp_path), make_task=make):
        found = await cluster.read(out, lambda seen: len(seen) == 3)
    assert found == {"A": "A", "B": "B", "C": "C"}


async def test_a_call_that_is_cancelled_fails_its_record_alone(
    cluster: Cluster, tmp_path: Path
) -> None:
    async def looked_up(value: str) -> str:
        if value == "gone":
            shared: asyncio.Future[str] = asyncio.Future()
            shared.cancel()
            await shared
        return value

    app, lines, out = names()
    await cluster.make(lines, out)
    await cluster.write(lines, "a", "gone", "c")
    streams = Streams(app)
    found = streams.stream(lines, str).map_values(looked_up, on_error="skip")
    found.select_key(lambda value: value).to(out)

    async with cluster.worker(streams.plan(), str(tmp_path), make_task=MAKE):
        await cluster.read(out, has({"a": "a", "c": "c"}))


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
async def test_a_worker_that_stops_between_a_call_and_its_result_commits_no_half_of_a_batch(
    guarantee: str, cluster: Cluster, tmp_path: Path
) -> None:
    app, lines, out = names()
    await cluster.make(lines, out)
    calls = 0

    async def stopping(count: int) -> int:
        nonlocal calls
        calls += 1
        if calls == 1:
            cluster.ended.cancel()
        return count

    streams = Streams(app)
    counts = streams.stream(lines, str).group_by(lambda line: line).count(name="n")
    found = counts.changes().map_values(stopping)
    found.map(lambda line, count: (f"{line}{count}", str(count))).to(out)
    plan, settings = streams.plan(), {"processing.guarantee": guarantee}
    await cluster.write(lines, "a", "b", "a")

    async with cluster.worker(plan, str(tmp_path), make_task=MAKE, settings=settings):
        await asyncio.wait([cluster.ended])
    async with cluster.worker(plan, str(tmp_path), make_task=MAKE, settings=settings):
        await cluster.read(out, lambda found: len(found) >= 3)

    assert await cluster.values(out) == ["1", "1", "2"]


async def test_a_task_in_a_pause_of_retry_is_left_out_of_the_commits_of_others(
    cluster: Cluster, tmp_path: Path
) -> None:
    app, lines, out = names()
    front = f"{app}-front"
    await cluster.make(lines, out, front)
    failed = asyncio.Event()
    is_there = False

    async def looked_up(line: str) -> str:
        if line == "late" and not is_there:
            failed.set()
            raise ConnectionError("not yet")
        return line

    streams = Streams(app)
    stream = streams.stream(lines, str)
    stream.to(front)
    found = stream.map_values(looked_up, on_error=retry(1, backoff="1h"))
    found.select_key(lambda line: line).to(out)
    plan = streams.plan()

    async with cluster.worker(plan, str(tmp_path), make_task=MAKE):
        await cluster.write(lines, "late", "b", "after")
        await failed.wait()
        await cluster.write(lines, "later", "d")
        await cluster.read(out, has({"b": "b", "d": "d"}))
    assert await cluster.values(front) == ["b", "d"]

    is_there = True
    everything = ["after", "b", "d", "late", "later"]
    async with cluster.worker(plan, str(tmp_path), make_task=MAKE):
        await cluster.read(out, lambda found: len(found) == 5)
    assert await cluster.values(front) == await cluster.values(out) == everything
