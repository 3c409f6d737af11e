"""Listeners that are set at run time: clients are told of them after the next start."""

from __future__ import annotations

import pytest

from moldau.broker.server.standalone import CLIENTS
from moldau.runtime import Runtime
from tests.broker.main.broker_change import OF_X, change
from tests.broker.server.houses import House, house
from tests.broker.server.wire import wired
from tests.runtime.arena import play

X_PORT = 39_999


async def told(at: House, port: int) -> set[tuple[str, int]]:
    """What Metadata says to who comes in by that port."""
    async with wired(at.runtime, at.host, port) as wire:
        return {(each.host, each.port) for each in (await wire.metadata()).brokers}


@pytest.mark.parametrize("advertised", [None, "elsewhere"])
def test_clients_are_told_of_a_new_listener_once_the_broker_has_started_again(
    advertised: str | None,
) -> None:
    """And only if the file does not say what they are told: that is the file's alone."""

    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            file = (
                {}
                if advertised is None
                else {
                    "advertised_listeners": f"{CLIENTS}://{advertised}:1,CONTROLLER://{at.host}:9093"
                }
            )
            broker = await at.start(**file)
            old = broker.listeners[CLIENTS].port
            before = dict(broker.endpoints)
            places = f"X://{at.host}:{X_PORT},{CLIENTS}://{at.host}:{old},CONTROLLER://:9093"
            async with wired(runtime, at.host, old) as wire:
                await change(wire, "1", listeners=places, listener_security_protocol_map=OF_X)
            assert broker.endpoints == before
            assert await told(at, X_PORT) == set()
            await broker.aclose()
            assert "new ones open at once" in at.complaints()[0]

            broker = await at.start(**file)
            try:
                if advertised is None:
                    assert await told(at, X_PORT) == {(at.host, X_PORT)}
                    assert await told(at, old) == {(at.host, old)}
                else:
                    assert await told(at, X_PORT) == set()
                    assert await told(at, old) == {("elsewhere", 1)}
            finally:
                await broker.aclose()

    play("simulated", scenario)
