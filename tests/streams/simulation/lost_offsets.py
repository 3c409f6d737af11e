"""An app that is stopped, loses the offsets of one partition of one input, and starts again."""

from __future__ import annotations

from moldau.client import Admin, TopicPartition
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from moldau.streams.problems import StateError
from tests.streams.simulation.scenario import APP, SERVERS
from tests.streams.simulation.upgrade import ReplacedRun

LOST = TopicPartition(f"{APP}-counts-repartition", 1)


class LostOffsetsRun(ReplacedRun):
    """Two workers that stop and start again without these offsets."""

    def __init__(self, world: Simulation, *lost: TopicPartition) -> None:
        super().__init__(world)
        self._lost = lost
        self.refusals: list[str] = []

    def play(self) -> None:
        self._begin()
        for index in range(2):
            self._stop(index)
        forgetful = self.world.add_node("forgetful", self._forget)
        self.world.run_until(lambda: not forgetful.is_alive, within=60)
        for member in self.members:
            self._start(member)
        if self._lost:
            self.world.run_until(lambda: len(self.refusals) == 2, within=60)
        else:
            self._finish()

    async def _forget(self, runtime: Runtime) -> None:
        async with Admin(bootstrap_servers=SERVERS, runtime=runtime) as admin:
            done = await admin.delete_group_offsets(APP, self._lost)
            assert set(done.values()) <= {None}

    async def _work(self, index: int, runtime: Runtime) -> None:
        try:
            await super()._work(index, runtime)
        except StateError as error:
            self.refusals.append(str(error))


def refusals(seed: int, *lost: TopicPartition) -> list[str]:
    """Run one world; return why workers did not start again. Raise if a record counts twice."""
    with Simulation(seed) as world:
        run = LostOffsetsRun(world, *lost)
        run.play()
        return run.refusals
