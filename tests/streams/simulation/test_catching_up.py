"""A worker that is behind with its inputs puts its commits off."""

from __future__ import annotations

from functools import partial
from typing import Final

import pytest

from moldau.client import Producer
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from moldau.streams.worker.settings import app_settings
from tests.streams.simulation.scenario import PARTITIONS, SERVERS, ExactlyOnceRun

LINES: Final = 1_000


class CatchingUpRun(ExactlyOnceRun):
    """One worker that begins after all lines were written, and gets few of them at once."""

    def __init__(self, world: Simulation) -> None:
        super().__init__(world)
        few = {"consumer.max.partition.fetch.bytes": 1}  # a batch, that is a line
        self.settings = app_settings({"bootstrap.servers": SERVERS, **few})
        self.commits = 0
        self.seconds = 0.0

    def play(self) -> None:
        world = self.world
        self.broker = world.add_node("broker", self._serve)
        writer = world.add_node("writer", self._write)
        world.run_until(lambda: not writer.is_alive, within=60)
        self.members = [world.add_node("member-0", partial(self._work, 0))]
        world.run_until(lambda: self._processed() > 0, within=60)
        begun, self.commits = world.now, 0
        world.run_until(lambda: self._processed() == LINES, within=60)
        self.seconds = world.now - begun
        self.is_over = True
        self.members[0].stop()
        world.run_until(lambda: not self.members[0].is_alive, within=60)

    def _processed(self) -> int:
        if not self.workers:
            return 0
        tasks = self.workers[0].tasks.items()
        return sum(task.processed for task_id, task in tasks if task_id.program == 0)

    async def _write(self, runtime: Runtime) -> None:
        await self.is_ready.wait()
        async with Producer(bootstrap_servers=SERVERS, batch_size=1, runtime=runtime) as producer:
            for number in range(LINES):
                line = f"key-{number % 20:02} {number:06}"
                await producer.send("lines", line.encode(), partition=number % PARTITIONS)

    async def _reach(self, index: int, step: str) -> None:
        self.commits += step == "ended"


@pytest.mark.deep
def test_a_worker_that_begins_behind_commits_less_often_than_each_100_ms() -> None:
    with Simulation(1) as world:
        run = CatchingUpRun(world)
        run.play()
    assert run.seconds > 0.8
    assert run.commits <= 5
