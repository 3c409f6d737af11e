"""Static members of a streams group: workers that are away for a while, and find their tasks."""

from __future__ import annotations

from moldau.runtime.simulated import Simulation
from moldau.streams.worker.settings import AppSettings, app_settings
from moldau.streams.worker.tasks import TaskId
from tests.streams.simulation.failover import SESSION_S
from tests.streams.simulation.scenario import SERVERS, STREAMS_GROUP
from tests.streams.simulation.upgrade import ReplacedRun

_AWAY_S = 3.0
"""For less than its session."""


class StaticRun(ReplacedRun):
    """Two static members that are stopped and started again, one after the other. `is_short`: they
    come back before their sessions end."""

    def __init__(self, world: Simulation, *, is_short: bool) -> None:
        super().__init__(world)
        self.is_short = is_short
        self.moved: list[set[TaskId]] = []
        """Of each member that was away, the tasks that the other one had more meanwhile."""
        self.stop_s: list[float] = []
        self.before: list[set[TaskId]] = []
        self.after: list[set[TaskId]] = []

    def _settings_of(self, index: int) -> AppSettings:
        return app_settings(
            {
                "bootstrap.servers": SERVERS,
                **STREAMS_GROUP,
                "commit.interval.ms": 100,
                "group.instance.id": f"static-{index}",
            }
        )

    def play(self) -> None:
        self._begin()
        self.before = self._tasks()
        for index in range(2):
            self._be_away(index, 1 - index)
        self.world.run_until(self._is_spread, within=60)
        self.after = self._tasks()
        self._finish()

    def _tasks(self) -> list[set[TaskId]]:
        return [set(self.workers[index].tasks) for index in range(2)]

    def _be_away(self, index: int, other: int) -> None:
        world, known = self.world, set(self.workers[other].tasks)
        begun = world.now
        self._stop(index)
        self.stop_s.append(world.now - begun)
        if self.is_short:
            world.run_for(_AWAY_S)
        else:
            count = self._count_tasks()
            world.run_until(lambda: len(self.workers[other].tasks) == count, within=2 * SESSION_S)
        self.moved.append(set(self.workers[other].tasks) - known)
        self.members[index].start()
        world.run_until(self._is_spread, within=60)


def be_away(seed: int, *, is_short: bool) -> StaticRun:
    """Run one world. Raise if a record is lost or counted twice."""
    with Simulation(seed) as world:
        run = StaticRun(world, is_short=is_short)
        run.play()
        return run
