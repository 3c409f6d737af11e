"""How much faster than real time a three-node replicated log runs in simulation.

Three nodes that sync before they confirm, and four clients that take turns, with a request and an
acknowledgement for each record: the whole cluster, its network and its disks in this one process.
The figure is the virtual seconds that pass in one second of CPU time, which is all that a
simulation takes. Nothing fails meanwhile. Another table shows how often a second a simulated disk
can lose power and be read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from random import Random

from bench.harness import Case, Goal, Table
from examples.replicated_log.cluster import Cluster
from examples.replicated_log.framing import Connection
from examples.replicated_log.messages import (
    NO_OFFSET,
    ProduceRequest,
    ProduceResponse,
    encode_frame,
)
from moldau.protocol.declare import Message
from moldau.runtime import Runtime
from moldau.runtime.simulated.disk import SimulatedDisk
from moldau.runtime.simulated.incarnation import Incarnation
from moldau.runtime.simulated.simulation import Simulation

CLIENTS = 4
VALUE = bytes(100)
CYCLES = 3_000
NOTES = (
    "A record is 6 messages and 3 syncs. It took 28.8 loop events over streams, 23.5 over"
    " protocols, 18 with blocking work in two events, 16 without a task on the way of a message, 13"
    " with the answers of the disk on callbacks; 10.5 now, with most blocking work in one event.",
    "Rare paths (`buggify`) are off, as in production. They were not when this said 90: seed 1"
    " delayed one sync in twenty, which made batches of 2.4 syncs a record and a fifth less work."
    " That tree, measured as this one is, gave 75.",
    "The profile is flat: the loop itself is a tenth of the whole, and no other function that much."
    " The same functions in a tight loop take less than half: here they wait for caches. What is"
    " left to save is calls and bytecodes: 262 functions of Python and 370 of C ran for a record,"
    " now 232 and 319. One checksum over many payloads, latencies drawn 64 at a time, one flag"
    " in place of six questions, and frames read where they lie gave a sixth.",
    "The interpreter counts: Python 3.11 built with profile-guided optimisation runs this 8 %"
    " faster than one built without.",
)


def times_real_time(records_a_second: int, virtual_seconds: float) -> Callable[[], float]:
    """Return a round that measures virtual seconds for each second of CPU time under this load."""

    def run() -> float:
        with Simulation(1) as world:
            world.buggify.enabled = False  # as in production: rare paths make larger batches
            cluster = Cluster(world)
            world.run_until(cluster.leader, within=30)
            load = Load(cluster, records_a_second)
            if records_a_second:
                world.add_node("load", load.run)
            world.run_for(1)
            load.confirmed = 0
            begun = time.process_time()
            world.run_for(virtual_seconds)
            took = time.process_time() - begun
        assert load.confirmed >= 0.99 * records_a_second * virtual_seconds, load.confirmed
        return virtual_seconds / took

    return run


class Load:
    """Clients on the leader's connections. They send at a fixed rate, without awaiting answers."""

    _loop: asyncio.AbstractEventLoop

    def __init__(self, cluster: Cluster, records_a_second: int) -> None:
        self.confirmed = 0
        self._cluster = cluster
        self._records_a_second = records_a_second
        self._connections: list[Connection] = []
        self._sent = 0
        self._begun_s = 0.0

    async def run(self, runtime: Runtime) -> None:
        leader = self._cluster.leader()
        assert leader is not None
        for _ in range(CLIENTS):
            _, connection = await runtime.network.connect(
                lambda: Connection(self._heard), *self._cluster.addresses[leader]
            )
            self._connections.append(connection)
        self._loop = asyncio.get_running_loop()
        self._begun_s = self._loop.time()
        self._send()
        await asyncio.Event().wait()

    def _send(self) -> None:
        request = encode_frame(ProduceRequest(value=VALUE))
        self._connections[self._sent % CLIENTS].send(request)
        self._sent += 1
        due_s = self._begun_s + self._sent / self._records_a_second
        self._loop.call_at(due_s, self._send)

    def _heard(self, message: Message, connection: Connection) -> None:
        assert isinstance(message, ProduceResponse)
        assert message.offset != NO_OFFSET
        self.confirmed += 1


def crashes_and_recoveries(sector_bytes: int) -> Callable[[], float]:
    """Return a round that measures cycles a second: write, sync, write, lose power, open, read."""

    def run() -> float:
        disk = SimulatedDisk(Random(1), sector_bytes=sector_bytes)
        synced, unsynced = bytes(300), b"x" * 700
        begun = time.process_time()
        for _ in range(CYCLES):
            incarnation = Incarnation("node")
            files = disk.files(incarnation)
            with files.open("/log", "write") as file:
                file.truncate(0)
                file.append(synced)
                file.sync()
                files.sync_dir("/")
                file.append(unsynced)
            incarnation.poison()
            disk.power_loss()
            with disk.files(Incarnation("node")).open("/log") as file:
                found = file.read_at(0, file.size)
            assert found.startswith(synced)
        return CYCLES / (time.process_time() - begun)

    return run


def tables() -> list[Table]:
    """Return all tables of this area."""
    return [
        Table(
            "replicated log in simulation",
            "times real time",
            [
                Case("idle", times_real_time(0, 200)),
                Case("10 records/s", times_real_time(10, 50)),
                Case("100 records/s", times_real_time(100, 10)),
                Case("1000 records/s", times_real_time(1000, 1)),
            ],
            goals=[Goal("100 records/s", at_least=100)],
            notes=[
                *NOTES,
                "three nodes, each syncs its disk before it confirms; four clients",
                "a simulation waits for nothing, so CPU time is what it takes on a free core",
            ],
        ),
        Table(
            "simulated disk",
            "crashes and recoveries/s",
            [
                Case("512-byte sectors", crashes_and_recoveries(512)),
                Case("4096-byte sectors", crashes_and_recoveries(4096)),
            ],
            goals=[Goal("512-byte sectors", at_least=10_000)],
        ),
    ]
