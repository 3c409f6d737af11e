"""Generations of tasks and leaders, interleaved at each step from a seed: every record is committed
once, with its offset. The decisions are those of the worker (`ConfigImage`, `fence_due`); the
cluster is a model of transactions.

A task of a generation reads the partitions that it gets for the number of tasks, so a task of an
older generation reads another one's. Nothing stops old tasks and leaders except being fenced.
"""

from __future__ import annotations

import json
import random
from collections.abc import Generator
from dataclasses import dataclass, field

import pytest

from moldau.connect.herder.plan import fence_due
from moldau.connect.storage.configs import ConfigImage

PARTITIONS = 4
STEPS = 400
SEEDS = 150
Steps = Generator[None, None, None]

MUTANTS = ("fence", "verify", "lock", "leader", "order")
"""What each leaves out: the fencing of older tasks, the check after it, the wait of new configs for
a fencing, the transactions of the leader, the fencing before the offsets are read."""


class Fenced(Exception):
    """The producer has an old epoch."""


@dataclass
class Cluster:
    """Transactional ids with their epochs and open transactions, the records and the configs."""

    epochs: dict[str, int] = field(default_factory=dict)
    open: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    records: list[tuple[int, int]] = field(default_factory=list)
    configs: list[tuple[bytes, bytes]] = field(default_factory=list)

    def init(self, name: str) -> int:
        self.open.pop(name, None)
        self.epochs[name] = self.epochs.get(name, 0) + 1
        return self.epochs[name]

    def check(self, name: str, epoch: int) -> None:
        if self.epochs[name] != epoch:
            raise Fenced(name)

    def send(self, name: str, epoch: int, record: tuple[int, int]) -> None:
        self.check(name, epoch)
        self.open.setdefault(name, []).append(record)

    def commit(self, name: str, epoch: int) -> None:
        self.check(name, epoch)
        self.records += self.open.pop(name, [])
        for partition in range(PARTITIONS):
            numbers = [number for at, number in self.records if at == partition]
            assert numbers == list(range(len(numbers))), f"partition {partition}: {numbers}"

    def offset(self, partition: int) -> int:
        """The offset behind the last committed record: both are in one transaction."""
        return sum(at == partition for at, _ in self.records)


class Leader:
    """A worker that takes itself for the leader."""

    def __init__(self, cluster: Cluster, mutant: str) -> None:
        self.cluster = cluster
        self.mutant = mutant
        self.image, self.position = ConfigImage(), 0
        self.epoch = cluster.init("leader")
        self.is_busy = False

    def read_to_end(self) -> None:
        for key, value in self.cluster.configs[self.position :]:
            self.image.apply(key, value)
        self.position = len(self.cluster.configs)

    def write(self, *entries: tuple[bytes, object]) -> None:
        if self.mutant != "leader":
            self.cluster.check("leader", self.epoch)
        self.cluster.configs += [(key, json.dumps(value).encode()) for key, value in entries]
        self.read_to_end()

    def fence(self) -> Steps:
        while self.is_busy:
            yield
        self.is_busy = True
        try:
            self.read_to_end()
            entry = self.image.get("a")
            assert entry is not None
            fence = fence_due(entry)
            if fence is None:
                return
            for number in range(0 if self.mutant == "fence" else fence.producers):
                yield
                self.cluster.init(f"task-{number}")
            yield
            self.write((b"tasks-fencing-a", {"task-count": fence.tasks}))
        finally:
            self.is_busy = False

    def put_tasks(self, count: int) -> Steps:
        while self.is_busy and self.mutant != "lock":
            yield
        configs: list[tuple[bytes, object]] = [
            (f"task-a-{at}".encode(), {"properties": {}}) for at in range(count)
        ]
        self.write(*configs, (b"commit-a", {"tasks": count}))


class World:
    """Leaders and tasks, of which the older ones do not know that they are."""

    def __init__(self, seed: int, mutant: str) -> None:
        self.random = random.Random(seed)
        self.mutant = mutant
        self.cluster = Cluster()
        self.cluster.configs.append((b"connector-a", b'{"properties":{"name":"a"}}'))
        self.leaders = [Leader(self.cluster, mutant)]
        self.running: list[Steps] = [self.leaders[0].put_tasks(2)]

    def worker(self) -> Leader:
        """A worker that has read all configs now."""
        found = Leader.__new__(Leader)
        found.cluster, found.image, found.position = self.cluster, ConfigImage(), 0
        found.read_to_end()
        return found

    def commits(self) -> tuple[int, int]:
        """The newest generation and its number of tasks."""
        entry = self.worker().image.get("a")
        assert entry is not None
        return entry.commits, entry.task_count

    def task(self, number: int, generation: int, count: int) -> Steps:
        name, cluster = f"task-{number}", self.cluster
        mine = [at for at in range(PARTITIONS) if at % count == number]
        offsets = {at: cluster.offset(at) for at in mine}
        leader = self.random.choice(self.leaders)
        yield from leader.fence()
        yield
        epoch = cluster.init(name)
        yield
        if self.mutant != "verify" and self.commits()[0] != generation:
            return
        yield
        if self.mutant != "order":
            offsets = {at: cluster.offset(at) for at in mine}
        while mine:
            yield
            at = self.random.choice(mine)
            cluster.send(name, epoch, (at, offsets[at]))
            offsets[at] += 1
            yield
            cluster.commit(name, epoch)

    def act(self) -> None:
        """Something happens to the workers."""
        match self.random.randrange(12):
            case 0:
                self.leaders.append(Leader(self.cluster, self.mutant))
            case 1 | 2:
                leader = self.random.choice(self.leaders)
                self.running.append(leader.put_tasks(self.random.randint(1, 4)))
            case 3 if self.running:
                killed = self.running.pop(self.random.randrange(len(self.running)))
                killed.close()
            case 4 | 5 | 6:
                generation, count = self.commits()
                if count:
                    number = self.random.randrange(count)
                    self.running.append(self.task(number, generation, count))

    def run(self) -> None:
        for _ in range(STEPS):
            if self.random.random() < 0.15:
                self.act()
            if not self.running:
                continue
            at = self.random.randrange(len(self.running))
            try:
                next(self.running[at])
            except (StopIteration, Fenced):
                del self.running[at]


def run_seeds(count: int, mutant: str) -> None:
    for seed in range(count):
        World(seed, mutant).run()


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_each_record_is_committed_once_whatever_is_replaced(first: int) -> None:
    written = 0
    for seed in range(first, first + 50):
        world = World(seed, "")
        world.run()
        written += len(world.cluster.records)
    assert written > 1_000, "the model does something"


@pytest.mark.parametrize("mutant", MUTANTS)
def test_what_is_left_out_is_found(mutant: str) -> None:
    with pytest.raises(AssertionError, match="partition"):
        run_seeds(3_000, mutant)
