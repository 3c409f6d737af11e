"""A broker that serves records: real logs on a simulated disk, in virtual time; no sockets.

    @serving()
    async def test_something(at: Serving) -> None:
        at.create("orders")
        assert (await at.ask(produce("orders", batch()), ProduceResponse)).responses ...

Requests and answers go through bytes, as in `administered`; the controller is its `Cluster`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from moldau.broker.api.assembly import assemble
from moldau.broker.api.node import Node
from moldau.broker.api.service import BrokerService
from moldau.broker.controller.levels import SUPPORTED
from moldau.broker.log.directories import LogDirectories
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.meta_properties import MetaProperties, write_meta_properties
from moldau.broker.log.names import TopicPartition
from moldau.broker.log.slice import LogSlice
from moldau.broker.replication.partition import Leadership, Partition
from moldau.broker.replication.purgatory import Purgatory
from moldau.broker.replication.replicas import Replicas
from moldau.broker.replication.topic_config import topic_config
from moldau.broker.server.coordinators import coordinators_of
from moldau.logging import Loggers
from moldau.metrics import Registry
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages import request_class, response_class
from moldau.protocol.messages.fetch import FetchResponse
from moldau.protocol.schemas.metadata_log import (
    ClientQuotaRecord,
    EntityData,
    PartitionChangeRecord,
)
from moldau.protocol.versions import Versions
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from moldau.runtime.simulated.disk import SimulatedDisk
from tests.broker.api.administered import ENDPOINTS, Asked, Channel, settings
from tests.broker.controller.cluster import CLUSTER_ID, Cluster, topic

R = TypeVar("R", bound=Response)
Test = Callable[["Serving"], Coroutine[Any, Any, None]]


class Sent(Asked):
    """A request that was sent; `answered` is set when it ended, with an answer or without."""

    def __init__(self, request: Request, version: int, runtime: Runtime, listener: str) -> None:
        super().__init__(request, version, listener)
        self.answered = asyncio.Event()
        self.answered_ms = -1
        self.is_silent = False
        self.is_closed = False
        self.has_slices = False
        self.connection.close = self._close
        self._runtime = runtime
        self.bytes = memoryview(bytearray(self._body))

    @property
    def body(self) -> Any:
        return self.bytes

    def decode(self) -> Request:
        return request_class(self.arrival.key).decode(self.bytes, self.arrival.version)

    def answer(self, response: Response) -> None:
        """Slices stay slices until here, where somebody would send them."""
        assert not self.answers
        version = self.arrival.version
        parts = response.encode_parts(version)
        self.has_slices = any(isinstance(part, LogSlice) for part in parts)
        body = b"".join(
            part.read() if isinstance(part, LogSlice) else bytes(part) for part in parts
        )
        self.answers.append(response_class(self.arrival.key).decode(body, version))
        self._end()

    def answer_nothing(self) -> None:
        self.is_silent = True
        self._end()

    def overwrite(self) -> None:
        """What the next read of the connection does to the request's bytes."""
        self.bytes[:] = b"\xee" * len(self.bytes)

    def _close(self) -> None:
        self.is_closed = True
        self._end()

    def _end(self) -> None:
        self.answered_ms = self._runtime.clock.monotonic_ns() // 1_000_000
        self.answered.set()


class Serving:
    """Node 1 with two log directories."""

    def __init__(
        self,
        runtime: Runtime,
        disk: SimulatedDisk,
        *,
        paths: Sequence[str] = ("/d1", "/d2"),
        **given: str,
    ) -> None:
        self.runtime = runtime
        self.disk = disk
        self.cluster = Cluster(1)
        self.lines: list[str] = []
        self.channel = Channel(self.cluster)
        self.directories = _directories(runtime, paths)
        log = Loggers(runtime.clock, self.lines.append).get("broker")
        purgatory = Purgatory(runtime.clock, asyncio.get_running_loop())
        self.replicas = Replicas(runtime, self.directories, 1, purgatory, log)
        self.node = Node(
            runtime=runtime,
            node_id=1,
            cluster_id=CLUSTER_ID,
            settings=settings(**given),
            image=self.cluster.image,
            metadata_offset=len(self.cluster.log),
            replicas=self.replicas,
            directories=self.directories,
            controller=self.channel,
            endpoints=ENDPOINTS,
            features={name: Versions(*levels) for name, levels in SUPPORTED.items()},
            log=log,
            metrics=Registry(),
            broker_epoch=self.cluster.image.brokers.by_id[1].broker_epoch,
        )
        assemble(self.node, coordinators_of)
        self.service = BrokerService(self.node)

    @property
    def now_ms(self) -> int:
        return self.runtime.clock.monotonic_ns() // 1_000_000

    @property
    def wall_ms(self) -> int:
        return self.runtime.clock.wall_ms()

    def create(self, name: str, partitions: int = 1, **configs: str) -> bytes:
        """A topic that this node leads; `__` in a setting's name is a point. Its id."""
        values: dict[str, str | None] = {
            key.replace("__", "."): value for key, value in configs.items()
        }
        (result,) = self.cluster.create(topic(name, partitions, configs=values))
        assert result.error_code == 0, result
        made = self.node.image.topics.by_name(name)
        assert made is not None
        for index in sorted(made.partitions):
            self.lead(name, index, is_new=True)
        return made.topic_id

    def lead(self, name: str, index: int = 0, *, is_new: bool = False) -> None:
        """Tell the replicas what the metadata says of a partition."""
        made = self.node.image.topics.by_name(name)
        assert made is not None
        known = made.partitions[index]
        leadership = Leadership(
            name, index, made.topic_id, known.leader_epoch, known.isr, known.replicas, None, is_new
        )
        self.replicas.lead(leadership, topic_config(self.node.topic_settings(name)))

    def begin_epoch(self, name: str, isr: Sequence[int] = (1, 2)) -> None:
        """Let this node lead a partition in another epoch, with these replicas in sync. A replica
        of them that fetches is played by the test."""
        made = self.node.image.topics.by_name(name)
        assert made is not None
        change = PartitionChangeRecord(
            partition_id=0, topic_id=made.topic_id, leader=1, isr=[*isr], replicas=[*isr]
        )
        self.cluster.append([change])
        self.lead(name)

    def follow(self, name: str, leader: int = 2) -> None:
        """Let another node lead a partition in another epoch, and this one follow."""
        made = self.node.image.topics.by_name(name)
        assert made is not None
        known = made.partitions[0]
        replicas = (self.node.node_id, leader)
        leadership = Leadership(
            name, 0, made.topic_id, known.leader_epoch + 1, replicas, replicas, leader=leader
        )
        self.replicas.follow(leadership, topic_config(self.node.topic_settings(name)))

    def partition(self, name: str, index: int = 0) -> Partition:
        return self.replicas.partition(name, index)

    def log_config(self, name: str) -> LogConfig:
        return self.partition(name).log.config

    def directory_of(self, name: str, index: int = 0) -> str:
        directory = self.directories.directory_of(TopicPartition(name, index))
        assert directory is not None
        return directory.path

    def send(self, request: Request, version: int | None = None, via: str = "PLAINTEXT") -> Sent:
        """The request, served; perhaps not answered yet, and its bytes are gone."""
        last = type(request).spec.stable_versions.last if version is None else version
        sent = Sent(request, last, self.runtime, via)
        self.service.serve(sent)
        sent.overwrite()
        return sent

    async def ask(self, request: Request, answer: type[R], version: int | None = None) -> R:
        """The answer, whenever it comes."""
        sent = self.send(request, version)
        await sent.answered.wait()
        (response,) = sent.answers
        assert isinstance(response, answer)
        return response

    async def pass_ms(self, count: int) -> None:
        """Virtual time."""
        passed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(count / 1000, passed.set_result, None)
        await passed


def _directories(runtime: Runtime, paths: Sequence[str]) -> LogDirectories:
    for path in paths:
        runtime.files.make_dirs(path)
        meta = MetaProperties(CLUSTER_ID, 1, runtime.random.randbytes(16))
        write_meta_properties(runtime.files, path, meta)
    directories = LogDirectories.open(runtime.files, paths, CLUSTER_ID, 1)
    directories.load(lambda partition, topic_id: LogConfig(), runtime.clock.wall_ms())
    return directories


def serving(**given: str) -> Callable[[Test], Callable[[], None]]:
    """Runs the test in a world of its own; `given` are settings of the broker."""

    def decorate(test: Test) -> Callable[[], None]:
        def run() -> None:
            with Simulation(seed=1) as world:
                done: list[bool] = []

                async def main(runtime: Runtime) -> None:
                    await test(Serving(runtime, world.nodes["a"].disk, **given))
                    done.append(True)

                world.add_node("a", main)
                world.run_until(lambda: done, within=600)

        run.__name__ = run.__qualname__ = test.__name__
        run.__doc__ = test.__doc__
        run.__module__ = test.__module__
        return run

    return decorate


def fetched(response: FetchResponse) -> dict[tuple[str | bytes, int], Any]:
    """Partitions of an answer by topic and number, in their order."""
    return {
        (of.topic or of.topic_id, each.partition_index): each
        for of in response.responses
        for each in of.partitions
    }


def limit(at: Serving, key: str, value: float) -> None:
    """Set a quota of every client."""
    parts = [EntityData(entity_type="client-id", entity_name=None)]
    at.cluster.append([ClientQuotaRecord(entity=parts, key=key, value=value, remove=False)])
