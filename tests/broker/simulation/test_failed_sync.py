"""A sync of the metadata log that fails, once: what was acknowledged before and after is kept.

1. The kernel takes for clean what it could not write. 2. Read again, the log looks whole, and the
next sync succeeds. 3. The machine is started anew, and the log ends before what was promised since.
So a node whose metadata could not be made durable has to end at once.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from tests.broker.server.houses import House
from tests.broker.server.wire import wired

HOST, PORT = "broker", 9092
TOPICS = 6


@pytest.mark.parametrize("seed", range(5))
def test_a_metadata_log_that_could_not_be_synced_is_not_trusted_again(seed: int) -> None:
    created: set[str] = set()
    ends: list[str] = []

    async def serve(runtime: Runtime) -> None:
        house = House(runtime, "/data", host="")
        house.port = PORT
        broker = await house.start()
        try:
            await broker.wait()
        except MoldauError as error:
            ends.append(str(error))
        finally:
            await broker.aclose()

    async def create(runtime: Runtime) -> None:
        async with wired(runtime, HOST, PORT) as wire:
            for number in range(TOPICS):
                if number == 2:
                    node.disk.fail_next("sync", path_part="__cluster_metadata-0/0")
                async with asyncio.timeout(5):
                    if await wire.create(f"topic-{number}") == ErrorCode.NONE:
                        created.add(f"topic-{number}")

    async def tolerant(runtime: Runtime) -> None:
        with suppress(OSError, EOFError, TimeoutError):
            await create(runtime)

    async def look(runtime: Runtime) -> None:
        async with wired(runtime, HOST, PORT) as wire:
            assert created <= {each.name for each in (await wire.metadata()).topics}

    with Simulation(seed) as world:
        node = world.add_node(HOST, serve)
        world.run_for(1.0)
        client = world.add_node("client", tolerant)
        world.run_until(lambda: not client.is_alive, within=60)
        world.run_until(lambda: not node.is_alive, within=60)
        assert created >= {"topic-0", "topic-1"}
        assert len(ends) == 1
        assert "the metadata log cannot be used" in ends[0]
        assert "Input/output error" in ends[0]
        node.disk.remount()
        node.start()
        world.run_for(1.0)
        looker = world.add_node("looker", look)
        world.run_until(lambda: not looker.is_alive, within=60)
        assert not looker.has_failed
