"""The two brokers that scenarios are played to: Apache Kafka, and ours.

Each scenario has a broker of its own that begins empty, so it can be played alone and in any order.
Ours runs in the simulator (`simulated`: its waits cost no time and nothing disturbs them) or as it
is, with real sockets and files.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from moldau.broker.server import Broker
from moldau.broker.server.standalone import CLIENTS
from moldau.runtime import Runtime
from moldau.runtime.real import run
from moldau.runtime.simulated import Simulation
from tests.broker.server.houses import House, house
from tests.differential.talk import Peer, Talk
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.kafka_broker import HOST, BrokerOptions, KafkaBroker
from tests.runtime.arena import play

SIMULATED: Final = "simulated"
_VIRTUAL_S: Final = 3600

Scenario = Callable[[Talk], Coroutine[Any, Any, None]]

# Records of the scenarios are old; an internal topic needs no fifty partitions here.
SETTINGS: Final[Mapping[str, str]] = {
    "log.retention.ms": "-1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}

# Kafka answers when its controller has decided; what its broker makes of it comes a little later.
SETTLING_S: Final = 0.3


def talk_to_ours(
    scenario: Scenario,
    settings: Mapping[str, str],
    arena: str = SIMULATED,
    began_ms: int | None = None,
) -> Talk:
    """The scenario with our broker, in one of `tests.runtime.arena`'s real places or in the
    simulator, where the clock may begin at another time."""

    async def main(runtime: Runtime) -> Talk:
        async with house(runtime) as at, _ours(at, {**SETTINGS, **settings}) as peer:
            return await _play(scenario, peer)

    return _simulate(main, began_ms) if arena == SIMULATED else play(arena, main)


def _simulate(main: Callable[[Runtime], Coroutine[Any, Any, Talk]], began_ms: int | None) -> Talk:
    """On a node of a world in which nothing goes wrong."""
    done: list[Talk] = []
    failed: list[BaseException] = []

    async def on_node(runtime: Runtime) -> None:
        try:
            done.append(await main(runtime))
        except BaseException as error:
            failed.append(error)

    with Simulation(1) as world:
        node = world.add_node("node", on_node)
        if began_ms is not None:
            node.clock.jump_wall(began_ms - node.clock.wall_ms())
        world.run_until(lambda: not node.is_alive, within=_VIRTUAL_S)
    if failed:
        raise failed[0]
    return done[0]


@asynccontextmanager
async def _ours(at: House, settings: Mapping[str, str]) -> AsyncIterator[Peer]:
    given = {name.replace(".", "_"): value for name, value in settings.items()}
    running: list[Broker] = []

    async def start() -> None:
        running.append(await at.start(**given))

    async def stop() -> None:
        if running:
            await running.pop().aclose()

    async def restart() -> None:
        await stop()
        await start()

    await start()
    host, port = running[0].endpoints[CLIENTS]
    cluster_id = running[0].node.cluster_id
    try:
        yield Peer(at.runtime, host, port, at.directory, cluster_id, stop, restart)
    finally:
        await stop()


def talk_to_kafka(scenario: Scenario, settings: Mapping[str, str], kafka: ApacheKafka) -> Talk:
    """The scenario with Apache Kafka."""
    options = BrokerOptions(properties={**SETTINGS, **settings})

    async def main(runtime: Runtime) -> Talk:
        with tempfile.TemporaryDirectory(prefix="kafka-differential-") as folder:
            broker = KafkaBroker(kafka, Path(folder), options)
            broker.start()
            try:
                return await _play(scenario, kafka_peer(runtime, broker))
            finally:
                broker.stop()

    return run(main)


def kafka_peer(runtime: Runtime, broker: KafkaBroker) -> Peer:
    """A Kafka that runs."""

    async def stop() -> None:
        await asyncio.to_thread(broker.stop)

    async def restart() -> None:
        await stop()
        await asyncio.to_thread(broker.start)

    data = str(broker.data)
    return Peer(runtime, HOST, broker.port, data, broker.cluster_id, stop, restart, SETTLING_S)


async def _play(scenario: Scenario, peer: Peer) -> Talk:
    talk = Talk(peer)
    try:
        await scenario(talk)
    finally:
        talk.close()
    return talk
