"""A broker's connections to others: one each, made again after a loss, gone with their broker."""

from __future__ import annotations

import asyncio

import pytest

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link import Address, ConnectionOptions, Peers
from moldau.link.lifetime import ClientClosed
from moldau.protocol.messages.metadata import MetadataRequest, MetadataResponse
from moldau.runtime import Runtime
from moldau.runtime.backoff import Backoff
from tests.client.scripted import PORT
from tests.client.world import ClientWorld

OPTIONS = ConnectionOptions(client_id="broker-9", request_timeout_s=2.0, setup_timeout_s=3.0)
B1, B2 = Address("b1", PORT), Address("b2", PORT)
REQUEST = MetadataRequest(topics=[])


async def failure_of(peers: Peers, node_id: int) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        await peers.request(node_id, REQUEST, MetadataResponse)
    return caught.value


def test_each_peer_has_one_connection_and_one_for_each_further_lane() -> None:
    async def main(runtime: Runtime) -> None:
        peers = Peers(runtime, OPTIONS, {1: B1, 2: B2})
        assert peers.ready(1) is None
        first, again, other = await asyncio.gather(
            peers.connection(1), peers.connection(1), peers.connection(2)
        )
        assert first is again is peers.ready(1)
        assert other.address == B2
        assert await peers.connection(1, "fetch") is not first
        answer = await peers.request(2, REQUEST, MetadataResponse, version=7, timeout_s=1.0)
        assert [each.node_id for each in answer.brokers] == [1, 2]
        await peers.aclose()
        assert first.is_closed
        assert other.is_closed

    with ClientWorld() as world:
        world.run_client(main)
        assert (3, 7) in world.cluster.versions


def test_a_lost_connection_is_made_again_after_the_backoff() -> None:
    async def main(runtime: Runtime) -> None:
        peers = Peers(runtime, OPTIONS, {1: B1}, reconnect=Backoff(1_000, 1_000))
        first = await peers.connection(1)
        first.close()
        lost_at = runtime.clock.monotonic()
        answer = await peers.request(1, REQUEST, MetadataResponse)
        assert answer.cluster_id == "scripted"
        assert 0.8 <= runtime.clock.monotonic() - lost_at <= 1.3
        await peers.aclose()

    with ClientWorld() as world:
        world.run_client(main)


def test_a_peer_is_lost_if_its_connection_ends_while_it_owes_an_answer() -> None:
    lost: list[int] = []
    opened: list[int] = []

    async def main(runtime: Runtime) -> None:
        peers = Peers(
            runtime,
            OPTIONS,
            {1: B1, 2: B2},
            reconnect=Backoff(100, 100),
            on_lost=lost.append,
            on_opened=opened.append,
        )
        (await peers.connection(1)).close()
        assert not lost, "nothing was owed"
        connection = await peers.connection(1)
        answers: list[object] = []
        connection.ask(REQUEST, answers.append)
        connection.close()
        assert len(answers) == 1
        await peers.aclose()

    with ClientWorld() as world:
        world.run_client(main)
    assert opened == [1, 1]
    assert lost == [1]


def test_an_unknown_peer_and_one_that_is_not_there_are_told_apart() -> None:
    async def main(runtime: Runtime) -> tuple[KafkaError, KafkaError]:
        peers = Peers(runtime, OPTIONS, {3: Address("b1", PORT + 1)})
        errors = await failure_of(peers, 4), await failure_of(peers, 3)
        await peers.aclose()
        return errors

    with ClientWorld() as world:
        unknown, away = world.run_client(main)
    assert unknown.code is ErrorCode.BROKER_NOT_AVAILABLE
    assert unknown.context == {"broker": 4, "brokers": [3]}
    assert away.code is ErrorCode.NETWORK_EXCEPTION
    assert away.context["address"] == f"b1:{PORT + 1}"


def test_an_update_ends_the_connections_to_peers_that_are_gone_or_have_moved() -> None:
    async def main(runtime: Runtime) -> None:
        peers = Peers(runtime, OPTIONS)
        peers.update({1: B1, 2: B2})
        first, second = await peers.connection(1), await peers.connection(2)
        peers.update({2: B2, 3: B1})
        assert await peers.connection(2) is second
        assert await peers.connection(3) is first  # the address is what counts
        peers.update({2: B1})
        assert second.is_closed
        assert await peers.connection(2) is first
        peers.hang_up(2)
        assert first.is_closed
        await peers.aclose()

    with ClientWorld() as world:
        world.run_client(main)


def test_closing_ends_an_attempt_under_way_and_refuses_more() -> None:
    async def main(runtime: Runtime) -> None:
        peers = Peers(runtime, OPTIONS, {1: B1})
        attempt = runtime.spawn(peers.connection(1), name="attempt", reported=False)
        await asyncio.sleep(0)
        await peers.aclose()
        with pytest.raises(ClientClosed, match="the link to other brokers is closed"):
            await attempt
        with pytest.raises(ClientClosed):
            await peers.connection(1)

    with ClientWorld() as world:
        world.run_client(main)
