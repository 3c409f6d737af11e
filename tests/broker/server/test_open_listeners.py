"""Listeners that are set while the broker runs open and close at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from moldau.broker.server import Broker
from moldau.client import Admin, Resource, ResourceType
from moldau.runtime import Runtime
from moldau.runtime.node_processes import free_ports
from tests.broker.server.houses import House, house
from tests.broker.server.wire import wired
from tests.runtime.arena import HOST, REAL_ARENAS, play

pytestmark = pytest.mark.real

WITHIN_S = 60.0
MAP = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,EXTRA:PLAINTEXT,SECURE:SSL"


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not reached():  # noqa: ASYNC110 - what is watched has no event
            await asyncio.sleep(0.01)


async def set_listeners(admin: Admin, *more: str) -> None:
    """Set the listeners of the broker: its own, and these."""
    own = f"PLAINTEXT://{HOST}:0,CONTROLLER://localhost:9093"
    await admin.alter_configs(
        Resource(ResourceType.BROKER, "1"), set_to={"listeners": ",".join((own, *more))}
    )


@pytest.mark.parametrize("arena", REAL_ARENAS)
def test_a_listener_opens_serves_and_closes(arena: str) -> None:
    async def main(runtime: Runtime) -> None:
        extra, taken = free_ports(2)
        async with house(runtime) as at:
            broker = await at.start(listener_security_protocol_map=MAP)
            try:
                await scenario(at, broker, extra, taken)
            finally:
                await broker.aclose()

    async def scenario(at: House, broker: Broker, extra: int, taken: int) -> None:
        servers = f"{HOST}:{broker.endpoints['PLAINTEXT'].port}"
        async with Admin(bootstrap_servers=servers, runtime=at.runtime) as admin:
            await set_listeners(admin, f"EXTRA://{HOST}:{extra}")
            await until(lambda: "EXTRA" in broker.listeners)
            async with wired(at.runtime, HOST, extra) as wire:
                assert await wire.create("orders") == 0
                await set_listeners(admin)
                await until(lambda: any("closed a listener" in line for line in at.lines))
            with pytest.raises(OSError):  # noqa: PT011 - the port is free
                await at.runtime.network.open_streams(HOST, extra)
            # One that cannot be opened leaves the others as they are, and the next one opens.
            await set_listeners(admin, f"SECURE://{HOST}:{taken}")
            await until(lambda: any("cannot be opened" in line for line in at.lines))
            await set_listeners(admin, f"EXTRA://{HOST}:{extra}")
            await until(lambda: sum("listens" in line for line in at.lines) >= 3)
            async with wired(at.runtime, HOST, extra) as wire:
                assert await wire.create("more") == 0

    play(arena, main)
