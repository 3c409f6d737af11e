"""The same servers and the same client on real sockets, files and threads."""

from __future__ import annotations

import asyncio
from pathlib import Path

from examples.replicated_log.client import Client
from examples.replicated_log.peer import Address
from examples.replicated_log.replica import Timing
from examples.replicated_log.server import Server
from moldau.runtime import Runtime
from moldau.runtime.real import RealRuntime, run

HOST = "127.0.0.1"
TIMING = Timing(heartbeat_ms=50, election_ms=300)
RECORDS = 30


async def free_addresses(runtime: Runtime, count: int) -> dict[int, Address]:
    listeners = [await runtime.network.listen(asyncio.Protocol, HOST, 0) for _ in range(count)]
    addresses = {number: (HOST, each.port) for number, each in enumerate(listeners, 1)}
    for each in listeners:
        each.close()
    return addresses


async def serve(number: int, addresses: dict[int, Address], directory: Path) -> None:
    async with RealRuntime(f"node-{number}") as runtime:
        server = Server(runtime, number, addresses, TIMING, str(directory / str(number)))
        if not (directory / str(number)).exists():
            await runtime.run_blocking(server.format)
        await server.run()


async def write_and_restart_and_read(runtime: Runtime, directory: Path) -> list[list[bytes]]:
    addresses = await free_addresses(runtime, 3)
    logs = []
    for life in range(2):
        servers = [asyncio.create_task(serve(number, addresses, directory)) for number in addresses]
        with Client(runtime, addresses) as client:
            async with asyncio.timeout(30):
                for number in range(RECORDS):
                    await client.produce(b"%d/%d" % (life, number))
                records = await client.read(client.target)
        # A busy machine may hold an election in between: then a value can be kept twice.
        logs.append(list(dict.fromkeys(record.value for record in records if record.value)))
        for server in servers:
            server.cancel()
        await asyncio.gather(*servers, return_exceptions=True)
    return logs


def test_what_was_written_is_there_after_a_restart(tmp_path: Path) -> None:
    first, second = run(lambda runtime: write_and_restart_and_read(runtime, tmp_path))
    assert first == [b"0/%d" % number for number in range(RECORDS)]
    assert second == first + [b"1/%d" % number for number in range(RECORDS)]
