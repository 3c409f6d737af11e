"""Two workers of an app, replaced one after the other while lines are written: by a version with
another topology in a streams group, or by members of a streams group in place of a classic one."""

from __future__ import annotations

from functools import partial
from typing import Final, Literal

from moldau.client import TopicPartition
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from moldau.streams import Streams
from moldau.streams.plan.plan import Plan
from moldau.streams.worker.settings import AppSettings, app_settings
from moldau.streams.worker.tasks import TaskState
from tests.streams.simulation.scenario import (
    APP,
    CLASSIC_GROUP,
    PARTITIONS,
    SERVERS,
    STREAMS_GROUP,
    StreamsGroupRun,
)

Addition = Literal["source", "repartition"]
WORK_S: Final = 4.0
"""How long the app works between two steps."""


def new_topology(addition: Addition) -> Plan:
    """The app with one more sub-topology, which reads an input of its own or the lines."""
    app = Streams(APP)
    lines = app.stream("lines", str)
    lines.to("copied")
    keyed = lines.group_by(lambda line: line.split()[0])
    keyed.count(name="counts").changes().to("out")
    keyed.reduce(max, name="largest").changes().to("largest")
    if addition == "source":
        app.stream("copied", str).group_by(lambda line: line.split()[0]).count(
            name="again"
        ).changes().to("again")
    else:
        lines.group_by(lambda line: line[-1]).count(name="again").changes().to("again")
    return app.plan()


class ReplacedRun(StreamsGroupRun):
    """Two workers that are replaced."""

    def _begin(self) -> None:
        world = self.world
        self.broker = world.add_node("broker", self._serve)
        self.writer = world.add_node("writer", self._write)
        world.run_until(self.is_ready.is_set, within=60)
        self.members = [
            world.add_node(f"member-{index}", partial(self._work, index)) for index in range(2)
        ]
        world.run_until(self._is_spread, within=60)
        world.run_for(WORK_S)

    def _finish(self) -> None:
        world = self.world
        world.run_until(self._is_spread, within=60)
        world.run_for(WORK_S)
        self.is_ending = True
        world.run_until(lambda: not self.writer.is_alive, within=60)
        reader = world.add_node("reader", self._read_all)
        world.run_until(lambda: not reader.is_alive, within=120)
        self.is_over = True
        for member in self.members:
            member.stop()
        world.run_until(lambda: not any(each.is_alive for each in self.members), within=60)
        auditor = world.add_node("auditor", self._audit)
        world.run_until(lambda: not auditor.is_alive, within=60)

    def _stop(self, index: int) -> None:
        member = self.members[index]
        member.stop()
        self.world.run_until(lambda: not member.is_alive, within=60)

    def _count_tasks(self) -> int:
        return len(self._plan_of(0).programs) * PARTITIONS

    def _is_spread(self) -> bool:
        """Whether all tasks of the newest version run, each at one worker, and both have some."""
        if len(self.workers) < 2:
            return False
        found = [list(each.tasks.values()) for each in self.workers.values()]
        tasks = [task for each in found for task in each]
        return (
            all(found)
            and len(tasks) == len({each.task_id for each in tasks}) == self._count_tasks()
            and all(each.state is TaskState.RUNNING for each in tasks)
        )


class MigrationRun(ReplacedRun):
    """Two members of a classic group, restarted as members of a streams group."""

    def __init__(self, world: Simulation) -> None:
        super().__init__(world)
        both = {"bootstrap.servers": SERVERS, "commit.interval.ms": 100}
        self.streams = app_settings({**both, **STREAMS_GROUP})
        self.given = [app_settings({**both, **CLASSIC_GROUP})] * 2
        self.waited = 0
        """The tasks of the first one that was restarted, while the other one was a classic one."""
        self.pause_s = 0.0
        """How long no task ran."""

    def _settings_of(self, index: int) -> AppSettings:
        return self.given[index]

    def play(self) -> None:
        self._begin()
        world = self.world
        self._stop(0)
        self.given[0] = self.streams
        self.members[0].start()
        world.run_for(WORK_S)
        self.waited = len(self.workers[0].tasks)
        assert len(self.workers[1].tasks) == self._count_tasks()
        self._stop(1)
        begun = world.now
        world.run_until(lambda: len(self.workers[0].tasks) == self._count_tasks(), within=60)
        self.pause_s = world.now - begun
        self.given[1] = self.streams
        self.members[1].start()
        self._finish()


class UpgradeRun(ReplacedRun):
    """Two workers; `restarts` kills the one with the old version in the middle of the upgrade."""

    topics = (*StreamsGroupRun.topics, "again")

    def __init__(self, world: Simulation, addition: Addition, *, restarts: bool) -> None:
        super().__init__(world)
        self.new = new_topology(addition)
        self.plans = [self.plan, self.plan]
        self.restarts = restarts
        self.epochs: list[int] = []
        """The topology epochs of the members that were started, in this order."""
        self.settings = app_settings(
            {"bootstrap.servers": SERVERS, **STREAMS_GROUP, "commit.interval.ms": 100}
        )

    def _plan_of(self, index: int) -> Plan:
        return self.plans[index]

    def play(self) -> None:
        self._begin()
        self._note_epochs(0, 1)
        self._replace(0)
        if self.restarts:
            self.members[1].crash()
            self.disks[1].die()
            self.members[1].start()
            self.world.run_until(lambda: bool(self.workers[1].tasks), within=60)
            self._note_epochs(1)
        self.world.run_for(WORK_S)
        self._replace(1)
        self._finish()

    def _replace(self, index: int) -> None:
        """Stop a worker in order, and start the new version in its directory."""
        self._stop(index)
        self.plans[index] = self.new
        before = self.workers[index]
        self.members[index].start()
        self.world.run_until(
            lambda: self.workers[index] is not before and bool(self.workers[index].tasks),
            within=60,
        )
        self._note_epochs(index)

    def _note_epochs(self, *indexes: int) -> None:
        self.epochs += [
            self.workers[each]._door.membership._consumer.topology.epoch  # type: ignore[attr-defined]
            for each in indexes
        ]

    async def _read_all(self, runtime: Runtime) -> None:
        await super()._read_all(runtime)
        async with self._consumer(runtime) as consumer:
            where = TopicPartition("again", 0)
            consumer.assign(await consumer.partitions(where.topic))
            total: dict[str, int] = {}
            is_whole = self.new.programs[0].outputs == self.plan.programs[0].outputs
            while not total or (is_whole and total != self.counts):
                for part in await consumer.poll(1.0):
                    for record in part.records:
                        total[record.key.decode()] = int(record.value)
            assert sum(total.values()) <= self.counts.total()


def upgrade(seed: int, addition: Addition, *, restarts: bool = False) -> UpgradeRun:
    """Run one world. Raise if a record is lost or counted twice, or a task stays idle."""
    with Simulation(seed) as world:
        run = UpgradeRun(world, addition, restarts=restarts)
        run.play()
        return run


def migrate(seed: int) -> MigrationRun:
    """Run one world. Raise if a record is lost or counted twice."""
    with Simulation(seed) as world:
        run = MigrationRun(world)
        run.play()
        return run
