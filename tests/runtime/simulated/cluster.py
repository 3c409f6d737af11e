"""A small cluster that does a bit of everything, for tests of the simulator itself.

Every node gossips a counter to every other over streams, keeps it in a file, uses threads, sets of
strings and tasks, and random numbers: whatever could let chance into a run.
"""

from __future__ import annotations

import asyncio

from moldau.runtime import Runtime
from moldau.runtime.simulated import (
    FaultPlan,
    FaultScheduler,
    Fingerprint,
    LinkOptions,
    Options,
    Simulation,
)

PORT = 9092
NODES = ("alpha", "beta", "gamma")


class Gossip:
    """One node of the cluster."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.known: dict[str, int] = {}
        self.peers = {name for name in NODES if name != runtime.node}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async for line in reader:
                name, _, count = line.decode().strip().partition(" ")
                self.known[name] = max(int(count), self.known.get(name, 0))
                if self.runtime.buggify("slow-answer", 0.1):
                    await asyncio.sleep(0.5)
                writer.write(b"ok\n")
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def tell(self, peer: str, count: int) -> bool:
        try:
            async with asyncio.timeout(2):
                reader, writer = await self.runtime.network.open_streams(peer, PORT)
                try:
                    writer.write(f"{self.runtime.node} {count}\n".encode())
                    return await reader.readline() == b"ok\n"
                finally:
                    writer.close()
        except OSError:
            return False

    def load(self) -> int:
        files = self.runtime.files
        return int(files.read_text("/count") or 0) if files.exists("/count") else 0

    def store(self, count: int) -> None:
        self.runtime.files.write_text_atomic("/count", str(count))

    async def run(self) -> None:
        count = self.load()
        await self.runtime.network.serve_streams(self.serve, "", PORT)
        while True:
            count += 1
            await self.runtime.run_blocking(self.store, count)
            # The order of a set of strings depends on PYTHONHASHSEED; sorted() is the way out.
            tasks = {
                self.runtime.spawn(self.tell(peer, count), name=f"tell-{peer}")
                for peer in sorted(self.peers)
            }
            await asyncio.wait(tasks)
            await asyncio.sleep(self.runtime.random.uniform(0.1, 1.0))


async def gossip(runtime: Runtime) -> None:
    await Gossip(runtime).run()


def play(seed: int, *, seconds: float = 60, shuffle: bool = True) -> Fingerprint:
    """One run with faults; what it was."""
    link = LinkOptions(split=0.2, loss=0.01)
    with Simulation(seed, Options(link=link, shuffle=shuffle)) as world:
        for name in NODES:
            world.add_node(name, gossip)
        faults = FaultScheduler(world, FaultPlan.draw(world.random("plan")))
        faults.start()
        world.run_for(seconds)
        faults.heal()
        world.run_for(10)
        return world.fingerprint
