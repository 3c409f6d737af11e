"""Brokers of one cluster on simulated nodes, each with its own disk; and programs that use it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from moldau.broker.log.names import TopicPartition
from moldau.broker.server import Broker
from moldau.broker.server.standalone import standalone_layer
from moldau.broker.server.storage import format_if_empty
from moldau.broker.settings import broker_settings
from moldau.config import Settings, overrides
from moldau.logging import Level, Loggers
from moldau.runtime import Runtime
from moldau.runtime.simulated import Options, Simulation
from moldau.runtime.simulated.node import Node

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAw"
PORT = 9092
CONTROLLER_PORT = 9093


class SimulatedBrokers:
    """Nodes `b1`, `b2`, ..., each broker, controller and voter."""

    def __init__(self, world: Simulation, count: int = 3, **given: str) -> None:
        self.world = world
        self.given = {name.replace("_", "."): value for name, value in given.items()}
        self.lines: dict[int, list[str]] = {number: [] for number in range(1, count + 1)}
        self.running: dict[int, Broker] = {}
        self.failures: list[BaseException] = []
        self.nodes: dict[int, Node] = {
            number: world.add_node(f"b{number}", self._main_of(number)) for number in self.lines
        }

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"b{number}:{PORT}" for number in self.nodes)

    def settings(self, number: int) -> Settings:
        voters = ",".join(f"{each}@b{each}:{CONTROLLER_PORT}" for each in self.lines)
        own = {
            "node.id": str(number),
            "listeners": f"PLAINTEXT://b{number}:{PORT},CONTROLLER://b{number}:{CONTROLLER_PORT}",
            "controller.quorum.voters": voters,
            "controller.quorum.bootstrap.servers": "",
            "default.replication.factor": str(len(self.lines)),
            "min.insync.replicas": "2",
            "offsets.topic.replication.factor": str(len(self.lines)),
            "offsets.topic.num.partitions": "3",
        }
        return broker_settings(standalone_layer("/data"), overrides({**own, **self.given}))

    def _main_of(self, number: int) -> Callable[[Runtime], Coroutine[Any, Any, None]]:
        async def main(runtime: Runtime) -> None:
            settings = self.settings(number)
            now_ms = runtime.clock.wall_ms()
            name = f"b{number}"
            format_if_empty(runtime.files, settings, runtime.random, now_ms, name, CLUSTER_ID)
            loggers = Loggers(runtime.clock, self.lines[number].append, level=Level.INFO)
            self.running.pop(number, None)
            broker = await Broker.start(runtime, settings, loggers=loggers, host_name=name)
            self.running[number] = broker
            try:
                await broker.wait()
            except Exception as error:
                self.failures.append(error)
                raise
            finally:
                self.running.pop(number, None)
                await broker.aclose()

        return main

    def await_up(self, *numbers: int, within: float = 60) -> None:
        wanted = numbers or tuple(self.nodes)
        self.world.run_until(lambda: all(each in self.running for each in wanted), within=within)

    def kill(self, number: int) -> None:
        """As `kill -9`: what the kernel has stays."""
        self.running.pop(number, None)
        self.nodes[number].crash()

    def start(self, number: int) -> None:
        self.nodes[number].start()

    def leader_of(self, topic: str, index: int = 0) -> int:
        """As a broker that runs knows it; -1 when none leads."""
        broker = next(iter(self.running.values()))
        known = broker.node.image.topics.by_name(topic)
        return -1 if known is None else known.partitions[index].leader

    def isr_of(self, topic: str, index: int = 0) -> set[int]:
        broker = next(iter(self.running.values()))
        known = broker.node.image.topics.by_name(topic)
        assert known is not None
        return set(known.partitions[index].isr)

    def controller(self) -> int:
        """The node that leads the metadata quorum; -1 when none does."""
        for number, broker in self.running.items():
            assert broker._controller is not None
            if broker._controller.active is not None:
                return number
        return -1

    def logs_of(self, topic: str, index: int = 0) -> dict[int, bytes]:
        """The bytes of each replica's log."""
        found: dict[int, bytes] = {}
        for number, broker in self.running.items():
            for directory in broker.node.directories.directories:
                for place, log in directory.logs.items():
                    if place == TopicPartition(topic, index):
                        parts = [bytes(batch.data) for batch in log.batches(log.log_start_offset)]
                        found[number] = b"".join(parts)
        return found


def program(
    world: Simulation, name: str, main: Callable[[Runtime], Coroutine[Any, Any, None]]
) -> list[str]:
    """Runs `main` on a node of its own; the list gets "done" when it has returned."""
    said: list[str] = []

    async def body(runtime: Runtime) -> None:
        await main(runtime)
        said.append("done")
        await asyncio.Event().wait()

    world.add_node(name, body)
    return said


def new_world(seed: int) -> Simulation:
    return Simulation(seed, Options())
