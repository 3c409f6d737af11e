"""A short story in virtual time: a cluster loses nodes, connections and power, but no record.

The seed decides everything: latencies, timeouts, what a power loss leaves of unsynced sectors, and
the order of the failures. With the same seed it is the same story, to the byte.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from examples.replicated_log.cluster import Cluster
from examples.replicated_log.messages import Record
from examples.replicated_log.replica import Role
from moldau.runtime import Runtime
from moldau.runtime.simulated.simulation import Simulation

WRITERS = ("ann", "bob")
PAUSE_S = 0.05
CALM_S = 2.0
WITHIN_S = 30.0

Tell = Callable[[str], None]
Act = Callable[[], None]


class Story:
    """One run of the story. Call `perform()`; `world` is the simulation that it runs in."""

    def __init__(self, world: Simulation, tell: Tell) -> None:
        self.cluster = Cluster(world)
        self.confirmed: dict[bytes, int] = {}
        self.attempts = 0
        self._world = world
        self._tell_line = tell
        self._random = world.random("story")
        self._is_over = False
        self._writing = len(WRITERS)
        self._logs: dict[int, list[Record]] = {}

    def perform(self) -> None:
        """Start the cluster, cause the failures in the order of the seed, then check all logs."""
        self._tell("three nodes start, each alone, with an empty disk")
        self._next_leader(0)
        for writer in WRITERS:
            self._world.add_node(writer, self._write)
        self._tell(f"{' and '.join(WRITERS)} begin to write")
        self._calm()
        acts: list[Act] = [
            self._crash_the_leader,
            self._cut_the_leader_off,
            self._freeze_the_leader,
            self._take_power_from_a_follower,
            self._take_power_from_all,
        ]
        self._random.shuffle(acts)
        for act in acts:
            act()
            self._calm()
        self._end()

    # Calamities.

    def _crash_the_leader(self) -> None:
        number, epoch = self._leader()
        self.cluster.nodes[number].crash()
        self._tell(f"node {number} crashes in the middle of its work (kill -9)")
        self._next_leader(epoch)
        self._start(number)

    def _cut_the_leader_off(self) -> None:
        number, epoch = self._leader()
        replica = self.cluster.replicas()[number]
        names = {number: name for number, (name, _) in self.cluster.addresses.items()}
        self._world.network.partition([names.pop(number)], names.values())
        self._tell(f"node {number} is cut off from the others, and still believes that it leads")
        self._next_leader(epoch)
        self._until(lambda: replica.log.end > replica.high_watermark)
        stranded = replica.log.end - replica.high_watermark
        self._tell(f"node {number} has {stranded} record(s) that it cannot confirm to anyone")
        self._world.network.heal()
        self._tell("the cable is mended")
        self._until(lambda: replica.role is Role.FOLLOWER and replica.epoch > epoch)
        self._tell(f"node {number} learns of epoch {replica.epoch} and steps down")

    def _freeze_the_leader(self) -> None:
        number, epoch = self._leader()
        self.cluster.nodes[number].pause()
        self._tell(f"node {number} freezes: a long pause, all connections stay open")
        self._next_leader(epoch)
        self.cluster.nodes[number].resume()
        self._tell(f"node {number} goes on as if nothing had happened, until it hears otherwise")

    def _take_power_from_a_follower(self) -> None:
        leader, _ = self._leader()
        number = self._random.choice([other for other in self.cluster.nodes if other != leader])
        self.cluster.nodes[number].power_loss()
        self._tell(f"node {number} loses power; what it had not synced is lost, kept or torn")
        self._calm()
        self._tell("the other two go on confirming: they are a majority")
        self._start(number)

    def _take_power_from_all(self) -> None:
        _, epoch = self._leader()
        for node in self.cluster.nodes.values():
            node.power_loss()
        self._tell("the power fails everywhere at once")
        self._world.run_for(1.0)
        for number in self.cluster.nodes:
            self._start(number)
        self._next_leader(epoch)

    # The end.

    def _end(self) -> None:
        self._is_over = True
        self._until(lambda: self._writing == 0)
        self._until(self._all_know_all)
        self._tell(f"{' and '.join(WRITERS)} stop; a reader asks each node for everything")
        self._world.add_node("reader", self._read)
        self._until(lambda: len(self._logs) == len(self.cluster.nodes))
        logs = list(self._logs.values())
        if any(log != logs[0] for log in logs):
            raise AssertionError("the logs differ")
        for value, offset in self.confirmed.items():
            if offset >= len(logs[0]) or logs[0][offset].value != value:
                raise AssertionError(f"{value!r}, confirmed at offset {offset}, is lost")
        self._tell(
            f"the logs of all nodes agree: {len(logs[0])} records;"
            f" confirmed {len(self.confirmed)}, lost 0"
        )

    def _all_know_all(self) -> bool:
        replicas = list(self.cluster.replicas().values())
        ends = {replica.log.end for replica in replicas}
        return len(ends) == 1 and ends == {replica.high_watermark for replica in replicas}

    # People.

    async def _write(self, runtime: Runtime) -> None:
        with self.cluster.client(runtime) as client:
            number = 0
            while not self._is_over:
                value = f"{runtime.node} {number}".encode()
                self.confirmed[value] = await client.produce(value)
                number += 1
                await asyncio.sleep(runtime.random.expovariate(1 / PAUSE_S))
        self._writing -= 1

    async def _read(self, runtime: Runtime) -> None:
        with self.cluster.client(runtime) as client:
            for number in self.cluster.nodes:
                self._logs[number] = await client.read(number)

    # Telling.

    def _tell(self, line: str) -> None:
        self._tell_line(f"{self._world.now:8.3f} s  {line}")

    def _leader(self) -> tuple[int, int]:
        """Return the leader's number and epoch."""
        number = self.cluster.leader()
        assert number is not None
        return number, self.cluster.replicas()[number].epoch

    def _start(self, number: int) -> None:
        self.cluster.nodes[number].start()
        self._tell(f"node {number} starts again with what is on its disk")

    def _next_leader(self, epoch: int) -> None:
        """Wait until a later epoch has a leader."""
        begun = self._world.now
        self._until(lambda: self.cluster.leader() is not None and self._leader()[1] > epoch)
        number, epoch = self._leader()
        end = self.cluster.replicas()[number].log.end
        self._tell(
            f"node {number} is elected: epoch {epoch}, log of {end},"
            f" after {self._world.now - begun:.3f} s"
        )

    def _calm(self) -> None:
        """Let time pass in which the writers write."""
        before = len(self.confirmed)
        self._world.run_for(CALM_S)
        self._until(lambda: len(self.confirmed) > before)
        self._tell(f"{len(self.confirmed)} records confirmed so far")

    def _until(self, reached: Callable[[], bool]) -> None:
        self._world.run_until(reached, within=WITHIN_S)
