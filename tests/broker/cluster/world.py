"""Brokers of one cluster on simulated nodes, each with its own disk; and programs that use it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from moldau.broker.controller.storage import format_storage
from moldau.broker.log.names import TopicPartition
from moldau.broker.server import Broker
from moldau.broker.server.controller_node import ControllerNode
from moldau.broker.server.standalone import standalone_layer
from moldau.broker.server.storage import format_if_empty, plan_of
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
    """Nodes `b1`, `b2`, ..., each broker, controller and voter; or only brokers, where there are
    controllers `b101`, `b102`, ... beside them."""

    def __init__(
        self,
        world: Simulation,
        count: int = 3,
        *,
        controllers: int = 0,
        first_voter: int | None = None,
        **given: str,
    ) -> None:
        """With a first voter the log says who votes, and the other controllers are observers until
        they are added."""
        self.first_voter = first_voter
        self.world = world
        self.broker_ids = range(1, count + 1)
        self.controller_ids = range(101, 101 + controllers) if controllers else self.broker_ids
        self.keeping: dict[int, ControllerNode] = {}
        self.given = {name.replace("_", "."): value for name, value in given.items()}
        self.lines: dict[int, list[str]] = {
            number: [] for number in dict.fromkeys((*self.broker_ids, *self.controller_ids))
        }
        self.running: dict[int, Broker] = {}
        self.failures: list[BaseException] = []
        self.nodes: dict[int, Node] = {
            number: world.add_node(f"b{number}", self._main_of(number)) for number in self.lines
        }

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"b{number}:{PORT}" for number in self.broker_ids)

    def settings(self, number: int) -> Settings:
        voters = ",".join(f"{each}@b{each}:{CONTROLLER_PORT}" for each in self.controller_ids)
        bootstrap = ""
        if self.first_voter is not None:
            voters = ""
            bootstrap = ",".join(f"b{each}:{CONTROLLER_PORT}" for each in self.controller_ids)
        roles, listeners = [], []
        if number in self.broker_ids:
            roles.append("broker")
            listeners.append(f"PLAINTEXT://b{number}:{PORT}")
        if number in self.controller_ids:
            roles.append("controller")
            listeners.append(f"CONTROLLER://b{number}:{CONTROLLER_PORT}")
        replicas = str(min(3, len(self.broker_ids)))
        own = {
            "node.id": str(number),
            "process.roles": ",".join(roles),
            "listeners": ",".join(listeners),
            "controller.quorum.voters": voters,
            "controller.quorum.bootstrap.servers": bootstrap,
            "default.replication.factor": replicas,
            "min.insync.replicas": "2",
            "offsets.topic.replication.factor": replicas,
            "offsets.topic.num.partitions": "3",
        }
        return broker_settings(standalone_layer("/data"), overrides({**own, **self.given}))

    def _main_of(self, number: int) -> Callable[[Runtime], Coroutine[Any, Any, None]]:
        async def main(runtime: Runtime) -> None:
            settings = self.settings(number)
            now_ms = runtime.clock.wall_ms()
            name = f"b{number}"
            if self.first_voter is not None:
                is_first = number == self.first_voter
                plan = plan_of(settings, CLUSTER_ID, is_standalone=is_first, host_name=name)
                format_storage(runtime.files, plan, runtime.random, now_ms, ignore_formatted=True)
            format_if_empty(runtime.files, settings, runtime.random, now_ms, name, CLUSTER_ID)
            loggers = Loggers(runtime.clock, self.lines[number].append, level=Level.INFO)
            if number not in self.broker_ids:
                await self._keep(runtime, number, settings, loggers)
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

    async def _keep(
        self, runtime: Runtime, number: int, settings: Settings, loggers: Loggers
    ) -> None:
        self.keeping.pop(number, None)
        node = await ControllerNode.start(
            runtime, settings, loggers=loggers, host_name=f"b{number}"
        )
        self.keeping[number] = node
        try:
            await node.wait()
        except Exception as error:
            self.failures.append(error)
            raise
        finally:
            self.keeping.pop(number, None)
            await node.aclose()

    def await_up(self, *numbers: int, within: float = 60) -> None:
        wanted = numbers or tuple(self.broker_ids)
        self.world.run_until(lambda: all(each in self.running for each in wanted), within=within)

    def kill(self, number: int) -> None:
        """As `kill -9`: what the kernel has stays."""
        self.running.pop(number, None)
        self.keeping.pop(number, None)
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
        for number, node in self.keeping.items():
            if node.controller.active is not None:
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
