"""A worker goes, and the other one takes its tasks over: how long that takes in virtual time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from moldau.runtime.simulated import Simulation
from moldau.streams.worker.settings import app_settings
from moldau.streams.worker.tasks import TaskState
from tests.streams.simulation.scenario import PARTITIONS, SERVERS, STREAMS_GROUP, StreamsGroupRun

SESSION_S: Final = 6.0
"""`group.streams.session.timeout.ms` of the scenario's broker."""
WORK_S: Final = 10.0
"""How long the app works before a worker goes: its changelogs have hundreds of records then."""


@dataclass(slots=True)
class Takeover:
    """What has been seen. `seconds` is from the end to the moment when all tasks run."""

    seconds: float = 0.0
    restored: int = 0
    """Changelog offsets that the tasks which came had to read."""
    processed_meanwhile: int = 0
    """Records of other tasks, from the first task that is restored to the last one."""


class FailoverRun(StreamsGroupRun):
    """Two workers, one of which goes."""

    def __init__(
        self, world: Simulation, standbys: int, end: Literal["kill", "stop"], records_at_once: int
    ) -> None:
        super().__init__(world)
        self.end = end
        self.seen = Takeover()
        self.standbys = standbys
        self.settings = app_settings(
            {
                "bootstrap.servers": SERVERS,
                **STREAMS_GROUP,
                "num.standby.replicas": standbys,
                "commit.interval.ms": 100,
                "restore.consumer.max.poll.records": records_at_once,
            }
        )

    def play(self) -> None:
        world = self.world
        self.broker = world.add_node("broker", self._serve)
        writer = world.add_node("writer", self._write)
        world.run_until(self.is_ready.is_set, within=60)
        self.members = [
            world.add_node(f"member-{index}", partial(self._work, index)) for index in range(2)
        ]
        world.run_until(self._is_spread, within=60)
        world.run_for(WORK_S)
        gone, left = self.members
        before = dict(self.workers[1].tasks)
        begun = world.now
        if self.end == "kill":
            gone.crash()
            self.disks[0].die()
        else:
            gone.stop()
        world.run_until(lambda: len(self.workers[1].tasks) > len(before), within=60)
        running = [task for task_id, task in self.workers[1].tasks.items() if task_id in before]
        processed = sum(each.processed for each in running)
        world.run_until(self._has_all, within=60)
        self.seen.seconds = world.now - begun
        self.seen.processed_meanwhile = sum(each.processed for each in running) - processed
        self.seen.restored = sum(
            each.position - each.begin
            for task_id, task in self.workers[1].tasks.items()
            if task_id not in before
            for each in task.restoring.values()
        )
        self.is_ending = True
        world.run_until(lambda: not writer.is_alive, within=60)
        reader = world.add_node("reader", self._read_all)
        world.run_until(lambda: not reader.is_alive, within=120)
        self.is_over = True
        left.stop()
        world.run_until(lambda: not left.is_alive, within=60)

    def _is_spread(self) -> bool:
        """Whether both have half of the tasks, and the standbys that there are to be."""
        workers = list(self.workers.values())
        if len(workers) < 2 or not all(
            len(each.tasks) == PARTITIONS
            and all(task.state is TaskState.RUNNING for task in each.tasks.values())
            for each in workers
        ):
            return False
        return sum(len(each.standbys.tasks) for each in workers) == self.standbys * PARTITIONS

    def _has_all(self) -> bool:
        tasks = self.workers[1].tasks.values()
        return len(tasks) == 2 * PARTITIONS and all(
            each.state is TaskState.RUNNING for each in tasks
        )


def take_over(
    seed: int, *, standbys: int, end: Literal["kill", "stop"], records_at_once: int = 10_000
) -> Takeover:
    """Run one world. Raise if a record is lost or counted twice."""
    with Simulation(seed) as world:
        run = FailoverRun(world, standbys, end, records_at_once)
        run.play()
        return run.seen
