"""Connections to brokers that the cluster has no more."""

from __future__ import annotations

import asyncio

from moldau.client.base.given import resolve
from moldau.client.settings.rows import ADMIN_SETTINGS
from moldau.link.cluster import Cluster
from moldau.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from moldau.runtime import Runtime
from tests.client.world import BOOTSTRAP, ClientWorld


def connected(runtime: Runtime) -> Cluster:
    return Cluster(runtime, resolve(ADMIN_SETTINGS, {"bootstrap.servers": BOOTSTRAP}, {}))


def test_an_idle_connection_to_a_broker_that_left_is_closed() -> None:
    async def main(runtime: Runtime) -> None:
        found = connected(runtime)
        await found.refresh()
        first, second = await found.connection(1), await found.connection(2)
        world.cluster.names = {1: "b1"}
        await found.refresh()
        await asyncio.sleep(1)
        assert second.is_closed
        assert not first.is_closed
        assert found.connections == 1
        await found.aclose()

    with ClientWorld() as world:
        world.run_client(main)


def test_one_on_which_an_answer_is_awaited_stays_until_it_is_there() -> None:
    async def main(runtime: Runtime) -> None:
        found = connected(runtime)
        await found.refresh()
        await found.connection(1)
        second = await found.connection(2)
        world.cluster.silence.add(ListOffsetsRequest)
        request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[])
        asks = asyncio.ensure_future(second.request(request, ListOffsetsResponse))
        await asyncio.sleep(1)
        world.cluster.names = {1: "b1"}
        await found.refresh()
        await asyncio.sleep(1)
        assert not second.is_closed
        await found.aclose()
        await asyncio.gather(asks, return_exceptions=True)

    with ClientWorld() as world:
        world.run_client(main)
