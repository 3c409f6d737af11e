"""Bytes that came before the process accepted their connection are its own to read.

Otherwise what it does with them belongs to nobody, and its timers outlive it.
"""

from __future__ import annotations

import asyncio

from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from moldau.runtime.simulated.incarnation import CURRENT
from moldau.runtime.simulated.link import LinkOptions
from moldau.runtime.simulated.simulation import Options


def test_early_bytes_are_read_as_the_node_that_reads_them() -> None:
    readers: list[object] = []

    class Reading(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            readers.append(CURRENT.get())

    async def serve(runtime: Runtime) -> None:
        async with await runtime.network.listen(Reading, None, 7000):
            await asyncio.Event().wait()

    async def send(runtime: Runtime) -> None:
        _, writer = await runtime.network.open_streams("server", 7000)
        for _ in range(3):
            writer.write(b"early")
            await writer.drain()
        await asyncio.Event().wait()

    link = LinkOptions(latency_min_ns=50_000_000, latency_mean_ns=1)
    with Simulation(1, Options(link=link)) as world:
        server = world.add_node("server", serve)
        world.run_for(0.1)
        server.pause()
        world.add_node("client", send)
        world.run_for(0.13)  # the kernel has the connection, and the bytes are on their way
        server.resume()
        world.run_for(1.0)
        assert readers
        assert all(each is server.incarnation for each in readers)
