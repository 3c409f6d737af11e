"""One run of the replicated log under faults, from one seed.

Safety: clients write while anything breaks; the checker looks at every step. Liveness: all is
healed, and every client must get one more value kept, and all nodes must agree, in bounded time.

A disk that is lost or rots is never healed. The log promises to live through that as long as a
majority keeps its disks, and the node to refuse its part from then on, at its next start: so a run
condemns one node at most, and goes on without it. What rots is what more than one write has gone
over; of the very last append `Store` promises less.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from examples.replicated_log.client import Client
from examples.replicated_log.cluster import Cluster
from examples.replicated_log.messages import Record
from examples.replicated_log.replica import Ready, Timing, Vote
from examples.replicated_log.server import DIRECTORY, Server
from examples.replicated_log.store import MARK_MAGIC
from moldau.errors import CorruptLog
from moldau.runtime import Runtime
from moldau.runtime.simulated.faults import RATES_PER_MINUTE, FaultPlan, FaultScheduler, Undo
from moldau.runtime.simulated.link import LinkOptions
from moldau.runtime.simulated.node import Node
from moldau.runtime.simulated.simulation import Options, Simulation
from moldau.runtime.simulated.trace import Fingerprint
from tests.simulation.checker import Checker, demand, watched

SIZE = 3
CLIENTS = 3
SAFETY_S = 6.0
LIVENESS_S = 30.0
EVENTS_MAX = 2_000_000

KINDS = {
    **RATES_PER_MINUTE,
    "crash": 45.0,
    "power_loss": 45.0,
    "pause": 30.0,
    "isolate": 30.0,
    "one_way": 30.0,
    "blackout": 15.0,
    "write_back": 45.0,
    "disk_error": 30.0,
    "no_space": 15.0,
    "slow_sync": 15.0,
}
"""Faults a minute: many more than usual, since runs are short."""

FOR_GOOD = {"lose_disk": 8.0, "bit_rot": 30.0}
"""What never heals. Not in most runs: two nodes that are left disagree less than three."""

FOR_GOOD_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out of a run that kept all promises."""

    fingerprint: Fingerprint
    kept: int
    acknowledged: int
    epochs: int
    cuts: int
    steps: int
    refused: int
    faults: Counter[str]


def draw_plan(random: Random) -> FaultPlan:
    """Half of the kinds, each more or less often; and sometimes one that lasts."""
    chosen = {
        kind: rate * 10 ** random.uniform(-0.5, 0.5)
        for kind, rate in KINDS.items()
        if random.random() < 0.5
    }
    if random.random() < FOR_GOOD_SHARE:
        kind = random.choice(list(FOR_GOOD))
        chosen[kind] = FOR_GOOD[kind]
    return FaultPlan(chosen, seconds_mean=random.uniform(0.3, 3.0), seconds_max=10.0)


def draw_options(random: Random) -> Options:
    """A network that is quick or slow, whole or leaky."""
    link = LinkOptions(
        latency_mean_ns=round(10 ** random.uniform(5, 7.5)),
        loss=random.choice([0.0, 0.0, 0.02]),
        split=random.choice([0.0, 0.0, 0.1]),
    )
    return Options(link=link, shuffle=True, events_max=EVENTS_MAX)


def draw_timing(random: Random, world: Simulation, sync_ns: int) -> Timing:
    """As short as network and disks allow: that makes many elections, also such that meet."""
    slowest_ms = (world.network.options.latency_mean_ns + sync_ns) // 1_000_000
    heartbeat_ms = max(random.choice([15, 50, 150]), 2 * slowest_ms)
    return Timing(heartbeat_ms, heartbeat_ms * random.choice([2, 4]))


class Witness(Checker):
    """Tells who has started, for faults that come just then."""

    def __init__(self, size: int, tell: Callable[[int], None]) -> None:
        super().__init__(size)
        self._tell = tell

    def on_start(self, number: int, vote: Vote, records: Sequence[Record]) -> None:
        super().on_start(number, vote, records)
        self._tell(number)


class Run:
    """A cluster, its clients, its tormentor and its judge."""

    def __init__(self, world: Simulation, server_class: type[Server]) -> None:
        random = world.random("scenario")
        self.world = world
        self.checker = Witness(SIZE, self._strike_after_the_start)
        sync_ns = round(10 ** random.uniform(5, 7.5))
        timing = draw_timing(random, world, sync_ns)
        server = self._excused(watched(self.checker, server_class, random.choice([1, 3, 64])))
        self.cluster = Cluster(world, SIZE, server, timing)
        for node in self.cluster.nodes.values():
            node.disk.sector_bytes = random.choice([32, 512])
            node.disk.costs.sync_ns = sync_ns
        self.faults = FaultScheduler(
            world,
            draw_plan(random),
            [node.name for node in self.cluster.nodes.values()],
            down_max=random.choice([1, 1, 2, SIZE]),
            own={
                "blackout": self._blackout,
                "write_back": self._write_back,
                "lose_disk": self._lose_disk,
                "bit_rot": self._bit_rot,
            },
        )
        self.sync_s = sync_ns / 1e9
        self.random = random
        if random.random() < 0.5:
            self.checker.on_write = self._strike_in_the_middle
        self.is_ending = False
        self.doomed: set[int] = set()
        self.condemned: set[int] = set()
        self.refused = 0
        self.ended = 0
        self.agreed = 0
        self.read: list[int] = []
        self.pause_s = 10 ** random.uniform(-2, -0.2)
        for number in range(CLIENTS):
            world.add_node(f"client-{number}", self._write)

    def _excused(self, server_class: type[Server]) -> type[Server]:
        """The same server; a condemned one may refuse to start, and ends."""
        run = self

        class ExcusedServer(server_class):  # type: ignore[misc, valid-type]
            async def run(self) -> None:
                try:
                    await super().run()
                except CorruptLog:
                    if self.number not in run.condemned:
                        raise
                    run.refused += 1

        return ExcusedServer

    async def _write(self, runtime: Runtime) -> None:
        """One client: value after value until the end, and then one more."""
        number = 0
        is_last = False
        with self.cluster.client(runtime) as client:
            while not is_last:
                is_last = self.is_ending
                value = f"{runtime.node}/{number}".encode()
                self.checker.on_acknowledged(value, await client.produce(value))
                number += 1
                await asyncio.sleep(runtime.random.expovariate(1 / self.pause_s))
        self.ended += 1

    async def _read(self, runtime: Runtime) -> None:
        """What every node says to an outsider, once all know all."""
        with self.cluster.client(runtime) as client:
            for number in self.cluster.replicas():
                records = await self._read_from(client, number)
                kept = self.checker.kept
                demand(
                    len(records) >= self.agreed and records == kept[: len(records)],
                    "all nodes answer the same",
                    node=number,
                )
                self.read.append(len(records))

    async def _read_from(self, client: Client, number: int) -> list[Record]:
        while True:
            with suppress(OSError, EOFError):
                return await client.read(number)

    def _blackout(self) -> Undo:
        """Every node loses power at once, and all but luck is tested."""
        nodes = list(self.cluster.nodes.values())
        for node in nodes:
            node.power_loss()

        def start() -> None:
            for node in nodes:
                self._start(node)

        return start

    def _write_back(self) -> Undo:
        for node in self.cluster.nodes.values():
            node.disk.write_back()
        return lambda: None

    def _condemn(self) -> Node:
        """The one node whose disk may fail for good."""
        if not self.condemned:
            self.condemned.add(self.random.choice(list(self.cluster.nodes)))
        return self.cluster.nodes[min(self.condemned)]

    def _lose_disk(self) -> Undo:
        node = self._condemn()
        node.lose_disk()
        return lambda: self._start(node)

    def _bit_rot(self) -> Undo | None:
        """A bit flips for good; the node finds out when it starts the next time, now or later."""
        node = self._condemn()
        disk = node.disk
        log, vote = f"{DIRECTORY}/log", f"{DIRECTORY}/vote"
        if log not in disk.paths() or self.random.random() < 0.2:
            if vote not in disk.paths():
                return None
            disk.rot(vote)
        else:
            last_append = disk.contents(log).rfind(MARK_MAGIC)
            settled = disk.contents(log).rfind(MARK_MAGIC, 0, max(0, last_append))
            if settled <= 0:
                return None
            disk.rot(log, self.random.randrange(settled * 8))
        if self.random.random() < 0.5:
            self._restart(node)
        return lambda: self._restart(node)

    def _strike_in_the_middle(self, number: int, ready: Ready) -> None:
        """A node is about to write and to sync; things happen just then, and again soon."""
        is_common = ready.truncate_to is None and ready.vote is None
        if self.is_ending or self.random.random() >= (0.15 if is_common else 0.5):
            return
        node = self.cluster.nodes[number]
        at_s = self.random.uniform(0, self.sync_s)
        if self.random.random() < 0.5:
            self.world.after(at_s, self._restart, node)
            self.doomed.add(number)
        else:
            self._lose_power_in(at_s, node)

    def _strike_after_the_start(self, number: int) -> None:
        """What the last life wrote and did not sync was just read: now it goes."""
        if number in self.doomed and not self.is_ending:
            self.doomed.discard(number)
            self._lose_power_in(self.random.uniform(0, 5 * self.sync_s), self.cluster.nodes[number])

    def _lose_power_in(self, seconds: float, node: Node) -> None:
        self.world.after(seconds, node.power_loss)
        self.world.after(seconds + self.random.uniform(0, 1), self._start, node)

    def _restart(self, node: Node) -> None:
        if node.is_alive:
            node.crash()
        self._start(node)

    def _start(self, node: Node) -> None:
        """As an operator does: a disk that failed is mounted anew before anything trusts it."""
        if not node.is_alive:
            if node.disk.needs_remount:
                node.disk.remount()
            node.start()

    def all_agree(self) -> bool:
        """Whether each node knows all that is kept, and nothing else is in its log."""
        replicas = self.cluster.replicas()
        kept = len(self.checker.kept)
        return len(replicas.keys() | self.condemned) == SIZE and all(
            replica.high_watermark == replica.log.end == kept for replica in replicas.values()
        )

    def _felt(self) -> Counter[str]:
        """What the disks really did, beside what was asked of them."""
        return Counter(
            f"felt {fault}"
            for node in self.cluster.nodes.values()
            for fault in node.disk.fault_counts
        )

    def outcome(self) -> Outcome:
        world, checker = self.world, self.checker
        return Outcome(
            fingerprint=world.fingerprint,
            kept=len(checker.kept),
            acknowledged=len(checker.acknowledged),
            epochs=checker.epochs,
            cuts=checker.cuts,
            steps=checker.steps,
            refused=self.refused,
            faults=self.faults.counts + world.buggify.activations + self._felt(),
        )


def run_log(seed: int, server_class: type[Server] = Server) -> Outcome:
    """Run one seed; SimulationFailed when a promise is broken."""
    with Simulation(seed, draw_options(Random(seed))) as world:
        run = Run(world, server_class)
        run.faults.start()
        world.run_for(SAFETY_S)
        run.faults.heal()
        run.is_ending = True
        world.run_until(lambda: run.ended == CLIENTS, within=LIVENESS_S)
        world.run_until(run.all_agree, within=LIVENESS_S)
        run.agreed = len(run.checker.kept)
        world.add_node("reader", run._read)
        world.run_until(lambda: len(run.read) == len(run.cluster.replicas()), within=LIVENESS_S)
        return run.outcome()
