"""The runtime: simulated events a second, round trips against real sockets, the price of a task.

An event is one callback that the simulated loop ran: a delivery from the network, a timer, or a
step of a task. All programs here are unmodified asyncio code that also runs on real sockets.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal

from bench.harness import Case, Goal, Table
from moldau.runtime import Runtime
from moldau.runtime.real import run
from moldau.runtime.simulated import Simulation

CONNECTIONS = 10
ROUND_TRIPS = 1_000
MESSAGE = b"x" * 100
TASKS = 20_000
PORT = 9092
EVENTS_GOAL = 200_000
LEARNED = (
    "What made an event cheap: attributes of futures in slots, for C classes have no quick way to a"
    " dict; `call(f)` where there are no arguments, as `call(f, *args)` takes three times as long;"
    " `get_debug` answered by a built-in, as it is asked for each future; one function from a write"
    " to the heap of deliveries.",
    "`asyncio._set_running_loop` costs 170 ns, a system call (getpid); blocking work needs two.",
)

Clock = Callable[[], float]
Main = Callable[[Runtime], Coroutine[Any, Any, object]]


async def serve_streams(runtime: Runtime, host: str) -> int:
    """Start an echo server on asyncio streams and return its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(await reader.readexactly(len(MESSAGE)))
                await writer.drain()
        except asyncio.IncompleteReadError:
            writer.close()

    return (await runtime.network.serve_streams(serve, host, 0)).port


async def ask_streams(runtime: Runtime, host: str, port: int) -> None:
    """Run a fixed number of round trips on each of ten connections."""

    async def ask() -> None:
        reader, writer = await runtime.network.open_streams(host, port)
        for _ in range(ROUND_TRIPS):
            writer.write(MESSAGE)
            await writer.drain()
            await reader.readexactly(len(MESSAGE))
        writer.close()
        await writer.wait_closed()

    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(ask())


class Echo(asyncio.Protocol):
    """Sends back what it receives."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Asking(Echo):
    """Sends the next request when the answer to the last one has come."""

    def __init__(self) -> None:
        self.left = ROUND_TRIPS
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.write(MESSAGE)

    def data_received(self, data: bytes) -> None:
        self.left -= 1
        if self.left:
            self.transport.write(data)
        else:
            self.transport.close()
            self.done.set_result(None)


async def serve_protocols(runtime: Runtime, host: str) -> int:
    """Do the same as `serve_streams` on a bare protocol."""
    return (await runtime.network.listen(Echo, host, 0)).port


async def ask_protocols(runtime: Runtime, host: str, port: int) -> None:
    """Do the same as `ask_streams` on a bare protocol."""
    for end in [await runtime.network.connect(Asking, host, port) for _ in range(CONNECTIONS)]:
        await end[1].done


Serve = Callable[[Runtime, str], Coroutine[Any, Any, int]]
Ask = Callable[[Runtime, str, int], Coroutine[Any, Any, None]]


def simulated(serve: Serve, ask: Ask, clock: Clock) -> tuple[int, float]:
    """Return (events, seconds of `clock`) of the round trips between two simulated nodes."""
    ports: list[int] = []

    async def server(runtime: Runtime) -> None:
        ports.append(await serve(runtime, ""))
        await asyncio.Event().wait()

    async def client(runtime: Runtime) -> None:
        await ask(runtime, "server", ports[0])

    return timed({"server": server, "client": client}, "client", clock)


def timed(mains: dict[str, Main], last: str, clock: Clock) -> tuple[int, float]:
    """Run the nodes until `last` has finished. Return (events, seconds of `clock`)."""
    with Simulation(1) as world:
        for name, main in mains.items():
            world.add_node(name, main, start=name != last)
        world.run_for(0.01)
        events = world.loop.events
        world.nodes[last].start()
        began = clock()
        while world.nodes[last].is_alive:
            world.run_for(0.1)
        return world.loop.events - events, clock() - began


def events_per_second(serve: Serve, ask: Ask) -> Callable[[], float]:
    """Return a round that measures events a second of simulated round trips."""

    def measure() -> float:
        events, seconds = simulated(serve, ask, time.process_time)
        return events / seconds

    return measure


def node_events_per_second(main: Main) -> Callable[[], float]:
    """Return a round that measures events a second of one node."""

    def measure() -> float:
        events, seconds = timed({"node": main}, "node", time.process_time)
        return events / seconds

    return measure


async def timers(runtime: Runtime) -> None:
    """Run a hundred chains of timers."""
    loop = asyncio.get_running_loop()
    left = 50_000
    done = loop.create_future()

    def again() -> None:
        nonlocal left
        left -= 1
        if left > 0:
            loop.call_later(0.001, again)
        elif left == 0:
            done.set_result(None)

    for _ in range(100):
        loop.call_later(0.001, again)
    await done


async def sleepers(runtime: Runtime) -> None:
    """Run a hundred tasks that sleep again and again."""

    async def sleep() -> None:
        for _ in range(300):
            await asyncio.sleep(0.001)

    await asyncio.gather(*(sleep() for _ in range(100)))


def simulated_round_trips(serve: Serve, ask: Ask) -> Callable[[], float]:
    """Return a round that measures round trips a second between simulated nodes."""

    def measure() -> float:
        _, seconds = simulated(serve, ask, time.perf_counter)
        return CONNECTIONS * ROUND_TRIPS / seconds

    return measure


def real_round_trips(
    kind: Literal["asyncio", "uvloop"], serve: Serve, ask: Ask
) -> Callable[[], float]:
    """Return a round that measures round trips a second over loopback, both ends on one loop."""

    async def main(runtime: Runtime) -> float:
        port = await serve(runtime, "127.0.0.1")
        began = time.perf_counter()
        await ask(runtime, "127.0.0.1", port)
        return CONNECTIONS * ROUND_TRIPS / (time.perf_counter() - began)

    return lambda: run(main, loop=kind)


async def spawn_tasks(runtime: Runtime) -> float:
    """Return the tasks a second that are spawned through the runtime and awaited."""

    async def nothing() -> None:
        return

    began = time.perf_counter()
    for _ in range(TASKS):
        await runtime.spawn(nothing(), name="nothing")
    return TASKS / (time.perf_counter() - began)


async def create_tasks(runtime: Runtime) -> float:
    """Return the tasks a second through asyncio alone."""

    async def nothing() -> None:
        return

    began = time.perf_counter()
    for _ in range(TASKS):
        await asyncio.create_task(nothing())
    return TASKS / (time.perf_counter() - began)


def in_simulation(main: Callable[[Runtime], Coroutine[Any, Any, float]]) -> Callable[[], float]:
    """Return a round of a real-time measurement that runs on a simulated node."""

    def measure() -> float:
        results: list[float] = []

        async def node(runtime: Runtime) -> None:
            results.append(await main(runtime))

        timed({"node": node}, "node", time.perf_counter)
        return results[0]

    return measure


def tables() -> Sequence[Table]:
    """Return all tables of this area."""
    streams, protocols = (serve_streams, ask_streams), (serve_protocols, ask_protocols)
    return [
        Table(
            "Simulation: events on one core",
            "events/s of CPU time",
            [
                Case("asyncio streams", events_per_second(*streams)),
                Case("asyncio protocols", events_per_second(*protocols)),
                Case("timer callbacks", node_events_per_second(timers)),
                Case("sleeping tasks", node_events_per_second(sleepers)),
            ],
            [Goal("asyncio streams", at_least=EVENTS_GOAL)],
            notes=[
                *LEARNED,
                "a simulation waits for nothing: CPU time is what it takes on a free core",
            ],
        ),
        Table(
            "Round trips of 100 bytes, 10 connections",
            "round trips/s",
            [
                Case("streams, asyncio sockets", real_round_trips("asyncio", *streams)),
                Case("streams, uvloop sockets", real_round_trips("uvloop", *streams)),
                Case("streams, simulated", simulated_round_trips(*streams)),
                Case("protocols, uvloop sockets", real_round_trips("uvloop", *protocols)),
                Case("protocols, simulated", simulated_round_trips(*protocols)),
            ],
            [Goal("streams, simulated", versus="streams, asyncio sockets", ratio_at_least=1.0)],
        ),
        Table(
            "Tasks, started and awaited one after the other",
            "tasks/s",
            [
                Case("create_task, asyncio", lambda: run(create_tasks, loop="asyncio")),
                Case("spawn, asyncio", lambda: run(spawn_tasks, loop="asyncio")),
                Case("create_task, uvloop", lambda: run(create_tasks, loop="uvloop")),
                Case("spawn, uvloop", lambda: run(spawn_tasks, loop="uvloop")),
                Case("spawn, simulated", in_simulation(spawn_tasks)),
            ],
        ),
    ]
