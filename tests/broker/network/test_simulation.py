"""Honest clients beside bad ones, on a bad network, from many seeds: the honest notice nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any

from moldau.broker.network import Connection, ListenerOptions, NetworkOptions, Request
from moldau.runtime import Runtime
from moldau.runtime.simulated import LinkOptions, Options, Simulation
from tests.broker.network.arena import Arena, Client, ScriptedService, answer, answer_to
from tests.broker.network.virtual_pause import after

PORT = 9092
HONEST = 3
ASKED = 40

Main = Callable[[Runtime], Coroutine[Any, Any, object]]


class Scenery:
    """One world: a server with tight bounds, and what the test sees of it."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.random = random
        self.options = NetworkOptions(
            idle_ms_max=30_000,
            in_flight_max=random.choice((1, 2, 256)),
            queued_request_bytes_max=random.choice((-1, 40_000, 400_000)),
            unsent_bytes_pause=random.choice((1, 10_000, 1 << 20)),
            connections_max=random.choice((-1, 6)),
            connections_per_second=random.choice((-1, 20)),
        )
        self.arena: Arena
        self.done = 0

    async def serve(self, runtime: Runtime) -> None:
        loop = asyncio.get_running_loop()
        holding: set[Connection] = set()

        def answer_later(request: Request) -> None:
            loop.call_later(runtime.random.random() / 50, lambda: request.answer(late(request)))

        def take_effect(request: Request) -> None:
            holding.discard(request.connection)
            if runtime.random.random() < 0.5:
                request.release_order()
                answer_later(request)
            else:
                request.answer(late(request))

        def run(request: Request) -> None:
            assert request.connection not in holding, "a request overtakes another"
            drawn = runtime.random.random()
            if drawn < 0.6:
                request.answer(answer_to(request))
                return
            request.keep()
            if drawn < 0.8:
                answer_later(request)
                return
            holding.add(request.connection)
            request.hold_order()
            loop.call_later(runtime.random.random() / 50, lambda: take_effect(request))

        self.arena = Arena(runtime, self.options, None)
        self.service = ScriptedService(run)
        await self.arena.listen(self.service, ListenerOptions("OUT", None, PORT))
        await asyncio.Event().wait()

    async def connect(self, runtime: Runtime) -> Client:
        return Client(*await runtime.network.open_streams("server", PORT))

    async def honest(self, runtime: Runtime) -> None:
        """Asks in bursts, and is answered, all of it, in order. Comes again when turned away."""
        random = runtime.random
        client = await self.connect(runtime)
        left = [f"{n}".zfill(random.choice((3, 200, 30_000))) for n in range(ASKED)]
        while left:
            burst, left = left[: (size := random.randint(1, 8))], left[size:]
            client.writer.write(client.frames(*burst))
            assert [await client.text() for _ in burst] == burst
        client.close()
        self.done += 1

    async def slow(self, runtime: Runtime) -> None:
        """A byte at a time, and never a whole request."""
        client = await self.connect(runtime)
        with suppress(ConnectionError):
            for byte in client.frames("x" * 1000)[:20]:
                client.writer.write(bytes([byte]))
                await after(1)
            assert await client.is_closed()
        client.close()

    async def garbage(self, runtime: Runtime) -> None:
        """No Kafka client at all."""
        for _ in range(5):
            client = await self.connect(runtime)
            size = runtime.random.randint(1, 3000)
            sent = runtime.random.randbytes(size)
            if runtime.random.random() < 0.5:
                sent = size.to_bytes(4, "big") + sent
            client.writer.write(sent)
            with suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(1):
                    await client.reader.read()
            client.close()

    async def deaf(self, runtime: Runtime) -> None:
        """Asks a lot and reads nothing."""
        client = await self.connect(runtime)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.writer.write(client.frames(*["z" * 20_000] * 50))
        await after(100)
        client.writer.transport.abort()

    async def stuck(self, runtime: Runtime) -> None:
        """Most of a large request, and then nothing."""
        client = await self.connect(runtime)
        client.writer.write(client.frames("x" * 30_000)[:25_000])
        with suppress(ConnectionError):
            assert await client.is_closed()
        client.close()

    async def fickle(self, runtime: Runtime) -> None:
        """Goes away in the midst of requests."""
        for _ in range(5):
            client = await self.connect(runtime)
            data = client.frames("a" * 300, "b" * 30_000)
            client.writer.write(data[: runtime.random.randint(1, len(data))])
            await after(runtime.random.random() / 100)
            client.writer.transport.abort()


def late(request: Request) -> Any:
    """The answer that was kept back; nobody decodes for who is gone."""
    return answer("") if request.is_gone else answer_to(request)


def play_seed(seed: int) -> Arena:
    """Runs it, and gives what was seen."""
    scenery = Scenery(seed)
    link = LinkOptions(split=0.3, piece_bytes_max=50, loss=0.01, retransmit_ns=20_000_000)
    with Simulation(seed, Options(link=link, shuffle=True)) as world:
        world.add_node("server", scenery.serve)
        world.run_for(0.01)
        mains: list[Main] = [scenery.honest] * HONEST
        mains += [
            scenery.stuck,
            scenery.stuck,
            scenery.slow,
            scenery.garbage,
            scenery.deaf,
            scenery.fickle,
        ]
        clients = [world.add_node(f"client-{n}", main) for n, main in enumerate(mains)]
        world.run_until(lambda: scenery.done == HONEST, within=120)
        world.run_until(lambda: not any(client.is_alive for client in clients), within=300)
        world.run_until(lambda: scenery.arena.server.connections == 0, within=120)
        assert scenery.arena.server.queued_request_bytes == 0
        assert len(scenery.service.connections) == len(scenery.service.lost)
    return scenery.arena


# What must have happened somewhere in the seeds; otherwise they prove little.
SOMETIMES = [
    *(("pauses", each) for each in ("busy", "memory", "in_line", "order")),
    *(
        ("connections.closed", "OUT", each)
        for each in ("idle", "malformed", "peer", "unknown_api", "slow_reader", "stalled_request")
    ),
]


def test_honest_clients_are_served_whatever_the_others_do() -> None:
    seen: Counter[tuple[str, ...]] = Counter()
    for seed in range(60):
        arena = play_seed(seed)
        seen.update({each: arena.count(*each) for each in SOMETIMES})

    assert [each for each in SOMETIMES if not seen[each]] == []


def test_the_same_seed_gives_the_same_run() -> None:
    def counts() -> list[object]:
        arena = play_seed(7)
        return [(metric.name, metric.points) for metric in arena.registry.snapshot()]

    assert counts() == counts()
