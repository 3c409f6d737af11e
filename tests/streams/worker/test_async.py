"""Async functions of an app are awaited by its worker, in the order of the records."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from moldau.runtime import Runtime
from moldau.runtime.real import run
from moldau.streams import Streams
from moldau.streams.engine.task import TaskSettings
from moldau.streams.running import make_task
from moldau.testing import SyncEmbeddedBroker
from tests.streams.worker.running import Cluster


def test_async_functions_are_awaited_together(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
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

    async def scenario(runtime: Runtime) -> None:
        cluster = Cluster(moldau_broker.bootstrap_servers, runtime)
        await cluster.make(lines, out)
        await cluster.write(lines, "a", "b", "c")
        make = partial(make_task, TaskSettings())
        async with cluster.worker(app.plan(), str(tmp_path), make_task=make):
            found = await cluster.read(out, lambda seen: len(seen) == 3)
        assert found == {"A": "A", "B": "B", "C": "C"}

    run(scenario)
