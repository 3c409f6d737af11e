"""One world from one seed: a broker, two workers, connectors, and what torments them.

A source writes numbered rows to a topic, two sinks read it. Safety: rows are made while workers and
the broker are killed, stopped, paused and cut off, connectors fail, the internal topics refuse, and
a user changes, pauses, restarts and recreates connectors. Liveness: all is healed, and every row
arrives. Then no row is missing; with exactly-once sources each is in the topic once; and the sink
that stores offsets has written each record once.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any, Final

import httpx2

from moldau.client import Admin, Consumer, KafkaError, NewTopic, TopicPartition
from moldau.client.sync import Consumer as SyncConsumer
from moldau.client.sync import Producer as SyncProducer
from moldau.connect.server import ConnectWorker, WorkerLocation
from moldau.connect.storage.log import Entry
from moldau.connect.storage.topic_log import TopicLog
from moldau.errors.codes import ErrorCode
from moldau.folds.topic import FoldTopic
from moldau.logging import Loggers
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from moldau.runtime.simulated.incarnation import CURRENT
from moldau.runtime.simulated.node import Node
from moldau.runtime.simulated.trace import Fingerprint
from moldau.testing import EmbeddedBroker
from tests.connect.simulation.connectors import GROUPS, Outside, installed

PORT: Final = 9092
REST: Final = 8083
SERVERS: Final = f"broker:{PORT}"
WORKERS: Final = 2
TOPIC: Final = "rows"
PARTITIONS: Final = 3
ROWS_S: Final = 0.1
"""A row is made so often."""
SAFETY_S: Final = 25.0
LIVENESS_S: Final = 400.0
"""A transaction that a killed task left open for its minute is among what is waited for."""
ONE_SHOT: Final = {"Connection": "close"}
NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Without trusted certificates: to read them takes longer than a request."""
LOOK_S: Final = 100.0
"""How long the status may take to say what runs, when all rows are there."""
STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
BROKER: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.min.session.timeout.ms": "100",
    "log.index.size.max.bytes": "4096",
}
STEPS: Final = (
    "source start", "poll", "transaction", "transacted",
    "sink start", "open", "put", "written", "pre_commit", "flush", "flushed", "committed",
    "config", "config written", "offset", "offset written", "status", "status written",
)  # fmt: skip
"""Where a worker is killed: steps of tasks, and of what it writes to internal topics."""
FAULTS: Final = (
    "kill", "kill at a step", "kill at a step", "stop", "pause", "isolate", "broker", "store",
    "user", "user",
)  # fmt: skip


class FailingLog(TopicLog):
    """An internal topic that sometimes refuses, before or after the records are in it."""

    kind = ""
    run: Run

    async def append(self, entries: Sequence[Entry]) -> None:
        await self._around(partial(super().append, entries))

    async def append_as_leader(self, entries: Sequence[Entry]) -> None:
        await self._around(partial(super().append_as_leader, entries))

    async def _around(self, append: Callable[[], Any]) -> None:
        await self._reach(self.kind)
        await append()
        await self._reach(f"{self.kind} written")

    async def _reach(self, step: str) -> None:
        if self.run.on_step(step):
            await asyncio.Event().wait()
        if self.run.refuses(step):
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, f"the topic refuses at {step}")


class Worker(ConnectWorker):
    """A worker whose internal topics may refuse."""

    run: Run

    def _topic(self, topic: FoldTopic, leader_id: str | None = None) -> TopicLog:
        log = FailingLog(self._runtime, {"bootstrap.servers": SERVERS}, topic,
                         self._loggers.get("store"), leader_id)  # fmt: skip
        log.kind, log.run = (topic.setting or "").removesuffix(".storage"), self.run
        return log


class Run:
    """See the module."""

    safety_s = SAFETY_S
    faults: tuple[str, ...] = FAULTS

    def __init__(self, world: Simulation) -> None:
        self.world = world
        self.random = random = world.random("scenario")
        self.happened: Counter[str] = Counter()
        self.outside = Outside(world.random("connectors"), self.on_step)
        self.is_exact = random.random() < 0.5
        self.settings = self._draw_settings(random)
        self.configs = self._draw_configs(random)
        self.dying: dict[str, str] = {}
        """At which step each worker is killed next."""
        self.refusals: dict[str, int] = {}
        """How many writes are refused at each step of an internal topic."""
        self.is_ready = asyncio.Event()
        self.is_making = True
        self.is_over = False
        self.log: list[str] = []
        self.states: dict[str, str] = {}
        self.read: Counter[str] = Counter()
        self.places: set[tuple[str, int, int]] = set()
        self.workers: dict[str, Worker] = {}

    def _draw_settings(self, random: Random) -> dict[str, str]:
        return {
            "bootstrap.servers": SERVERS,
            "group.id": "workers",
            "key.converter": STRING,
            "value.converter": STRING,
            "task.isolation": "thread",
            "exactly.once.source.support": "enabled" if self.is_exact else "disabled",
            "connect.protocol": random.choice(("eager", "compatible", "sessioned", "sessioned")),
            "session.timeout.ms": "3000",
            "heartbeat.interval.ms": "500",
            "rebalance.timeout.ms": "10000",
            "scheduled.rebalance.max.delay.ms": random.choice(("0", "1000", "5000")),
            "task.shutdown.graceful.timeout.ms": "5000",
            "offset.flush.interval.ms": random.choice(("100", "1000", "5000")),
            "offset.storage.partitions": "2",
            "status.storage.partitions": "1",
            "errors.restart.backoff.ms": "200",
            "errors.restart.backoff.max.ms": "2000",
        }

    def _draw_configs(self, random: Random) -> dict[str, dict[str, str]]:
        consumer = {
            "consumer.override.max.poll.records": random.choice(("1", "10", "500")),
            "consumer.override.session.timeout.ms": "6000",
            "consumer.override.heartbeat.interval.ms": "500",
        }
        tasks = {"tasks.max": str(random.randint(1, 3))}
        return {
            "rows": {"connector.class": "simulated.Rows", "topic": TOPIC, **tasks},
            "kept": {"connector.class": "simulated.Kept", "topics": TOPIC, **tasks, **consumer},
            "exact": {"connector.class": "simulated.Exact", "topics": TOPIC, **tasks, **consumer},
        }

    # The story

    def play(self) -> None:
        world, random = self.world, self.random
        self.broker = world.add_node("broker", self._serve)
        world.run_until(self.is_ready.is_set, within=60)
        self.nodes = {
            name: world.add_node(name, self._work)
            for name in (f"worker-{number}" for number in range(WORKERS))
        }
        self.user = world.add_node("user", self._begin)
        world.run_until(self._is_user_done, within=120)
        self.world.after(0, self._make_rows)
        end = world.now + self.safety_s
        while world.now < end:
            world.run_for(random.uniform(0.1, 5.0))
            self._torment(random.choice(self.faults))
        self._heal()
        self.reader = world.add_node("reader", self._read_all)
        world.run_until(self._is_read, within=LIVENESS_S)
        world.run_until(self._has_arrived, within=LIVENESS_S)
        world.run_until(self._is_user_done, within=LIVENESS_S)
        self.user.start(self._look)
        world.run_until(self._is_user_done, within=LOOK_S)
        self._end()
        self._judge()

    def _make_rows(self) -> None:
        if self.is_making:
            self.outside.made[self.random.randrange(GROUPS)] += 1
            self.world.after(ROWS_S, self._make_rows)

    def _torment(self, fault: str) -> None:
        name = self.random.choice(list(self.nodes))
        node, seconds = self.nodes[name], self.random.choice((0.01, 0.5, 4.0, 12.0))
        self.note(fault, name, seconds)
        if fault == "kill" and node.is_alive:
            self._kill(node, seconds)
        elif fault == "kill at a step":
            self.dying[name] = self.random.choice(STEPS)
        elif fault == "stop" and node.is_alive:
            node.stop()
            self.world.run_until(lambda: not node.is_alive, within=120)
            self.world.after(seconds, self._start, node)
        elif fault == "pause":
            node.pause()
            self.world.after(seconds, node.resume)
        elif fault == "isolate":
            self.world.network.isolate(name)
            self.world.after(seconds, self.world.network.heal)
        elif fault == "broker" and self.broker.is_alive:
            self.broker.crash()
            self.world.after(min(seconds, 4.0), self._start, self.broker)
        elif fault == "store":
            self.refusals[self.random.choice(STEPS[-6:])] = self.random.randint(1, 3)
        elif fault == "user" and not self.user.is_alive:
            self.user.start(self._change)

    def note(self, *what: object) -> None:
        self.happened[str(what[0])] += 1
        self.log.append(f"{self.world.now:9.3f} {' '.join(map(str, what))}")

    def _kill(self, node: Node, seconds: float) -> None:
        if node.is_alive:
            node.crash()
            self.world.after(seconds, self._start, node)

    def _start(self, node: Node) -> None:
        if not node.is_alive and not self.is_over:
            node.start()

    def _heal(self) -> None:
        self.note("healed")
        self.is_making = False
        self.outside.is_calm = True
        self.dying.clear()
        self.refusals.clear()
        self.world.network.heal()
        for node in (self.broker, *self.nodes.values()):
            node.resume()
            self._start(node)

    def on_step(self, step: str) -> bool:
        """Whether the node that is at this step dies there."""
        life = CURRENT.get()
        name = "" if life is None else life.name
        if self.dying.get(name) != step:
            return False
        del self.dying[name]
        self.note("killed at", name, step)
        self.happened[f"killed at {step}"] += 1
        self.world.after(0, self._kill, self.nodes[name], 0.5)
        return True

    def refuses(self, step: str) -> bool:
        """Whether an internal topic refuses a write at this step."""
        left = self.refusals.get(step, 0)
        if not left:
            return False
        self.refusals[step] = left - 1
        self.note("refused at", step)
        self.happened[f"refused at {step}"] += 1
        return True

    # Nodes

    async def _serve(self, runtime: Runtime) -> None:
        async with EmbeddedBroker(BROKER, directory="/data", runtime=runtime, port=PORT):
            if not self.is_ready.is_set():
                async with Admin(bootstrap_servers=SERVERS, runtime=runtime) as admin:
                    await admin.create_topic(NewTopic(TOPIC, PARTITIONS, 1))
                self.is_ready.set()
            await asyncio.Event().wait()

    async def _work(self, runtime: Runtime) -> None:
        node = self.nodes[runtime.node]
        loggers = Loggers(runtime.clock, lambda line: self.log.append(
            f"{self.world.now:9.3f} {node.name} {line.rstrip()}"))  # fmt: skip
        location = WorkerLocation((node.name, REST))
        while True:
            worker = Worker(runtime, self.settings, location, loggers)
            worker.run = self
            self.workers[node.name] = worker
            try:
                await worker.start()
                await asyncio.Event().wait()
            except (KafkaError, TimeoutError, OSError) as error:  # a user starts it again
                self.note("start failed", node.name, repr(error))
                await asyncio.sleep(1.0)
            finally:
                if node.is_alive:  # else it was killed, and closes nothing
                    await worker.aclose()

    async def _begin(self, runtime: Runtime) -> None:
        for name in self.configs:
            await self._ask("PUT", f"connectors/{name}/config", self.configs[name])

    async def _change(self, runtime: Runtime) -> None:
        name = runtime.random.choice(list(self.configs))
        what = runtime.random.choice(("tasks", "pause", "stop", "restart", "restart task"))
        self.note(f"user: {what}", name)
        path = f"connectors/{name}"
        if what == "tasks":
            self.configs[name]["tasks.max"] = str(runtime.random.randint(1, 3))
            await self._ask("PUT", f"{path}/config", self.configs[name])
        elif what in ("pause", "stop"):
            await self._ask("PUT", f"{path}/{what}")
            await asyncio.sleep(runtime.random.choice((0.0, 0.3, 3.0)))
            await self._ask("PUT", f"{path}/resume")
        elif what == "restart":
            await self._ask("POST", f"{path}/restart?includeTasks=true", gives_up=True)
        else:
            await self._ask("POST", f"{path}/tasks/0/restart", gives_up=True)

    async def _ask(
        self, method: str, path: str, body: object = None, *, gives_up: bool = False
    ) -> Any:
        """Ask any worker, until one has done it; with `gives_up` only once."""
        while True:
            for name in list(self.nodes):
                try:
                    async with httpx2.AsyncClient(
                        trust_env=False, timeout=30, verify=NO_TLS
                    ) as http:
                        url = f"http://{name}:{REST}/{path}"
                        found = await http.request(method, url, json=body, headers=ONE_SHOT)
                except httpx2.HTTPError:
                    continue
                if found.status_code < httpx2.codes.BAD_REQUEST or gives_up:
                    return found.json() if found.content else None
                retried = (httpx2.codes.CONFLICT, httpx2.codes.NOT_FOUND)
                assert found.status_code in retried or found.is_server_error, found.text
            await asyncio.sleep(1.0)

    async def _look(self, runtime: Runtime) -> None:
        """Wait until the status says that all runs."""
        while True:
            found = await self._ask("GET", "connectors?expand=status")
            states = {
                f"{name}-{each.get('id', '')}": each["state"]
                for name, about in found.items()
                for each in (about["status"]["connector"], *about["status"]["tasks"])
            }
            counts = [len(found[name]["status"]["tasks"]) for name in self.configs]
            if counts == [int(each["tasks.max"]) for each in self.configs.values()] and set(
                states.values()
            ) == {"RUNNING"}:
                return
            self.states = states
            await asyncio.sleep(1.0)

    async def _read_all(self, runtime: Runtime) -> None:
        """Read the committed records until each row is there."""
        while self.read.keys() != self.outside.rows():
            self.read.clear()
            self.places.clear()
            await self._read(runtime)
            await asyncio.sleep(1.0)

    async def _read(self, runtime: Runtime) -> None:
        consumer = Consumer(
            bootstrap_servers=SERVERS, runtime=runtime, auto_offset_reset="earliest",
            isolation_level="read_committed",
        )  # fmt: skip
        async with consumer:
            partitions = await consumer.partitions(TOPIC)
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            while any((consumer.position(where) or 0) < end for where, end in ends.items()):
                for part in await consumer.poll(1.0):
                    for record in part.records:
                        self.read[bytes(record.value or b"").decode()] += 1
                        self.places.add((part.topic, part.partition, record.offset))

    # The judgement

    def _is_user_done(self) -> bool:
        return not self.user.is_alive

    def _is_read(self) -> bool:
        return not self.reader.is_alive

    def _has_arrived(self) -> bool:
        rows = self.outside.rows()
        return self.outside.kept.rows.keys() >= rows and self.outside.exact.rows.keys() >= rows

    def missing(self) -> str:
        """What has not arrived yet, for a report."""
        rows = self.outside.rows()
        return (
            f"of {len(rows)} rows are missing in the topic {sorted(rows - self.read.keys())[:9]}, "
            f"in kept {sorted(rows - self.outside.kept.rows.keys())[:9]}, "
            f"in exact {sorted(rows - self.outside.exact.rows.keys())[:9]}; {self.states}"
        )

    def _end(self) -> None:
        """The workers stop in order, within the time that they promise."""
        self.is_over = True
        for node in self.nodes.values():
            node.stop()
        self.world.run_until(
            lambda: not any(each.is_alive for each in self.nodes.values()), within=60
        )

    def _judge(self) -> None:
        rows = self.outside.rows()
        assert self.read.keys() == rows == self.outside.kept.rows.keys()
        assert self.outside.exact.rows.keys() == rows
        if self.is_exact:
            assert set(self.read.values()) == {1}, self.read.most_common(3)
        twice = [place for place, count in self.outside.exact.places.items() if count > 1]
        assert not twice, twice
        stored = self.outside.exact.offsets
        for topic, partition, offset in self.places:
            assert stored[TopicPartition(topic, partition)] > offset


@contextmanager
def steps_of_clients(run: Run) -> Iterator[None]:
    """Let the clients of tasks stand at their steps, too."""
    commit_transaction, commit = SyncProducer.commit_transaction, SyncConsumer.commit

    def transaction(producer: SyncProducer[Any, Any]) -> None:
        run.outside.reach("transaction")
        commit_transaction(producer)
        run.outside.reach("transacted")

    def committing(consumer: SyncConsumer[Any, Any], *given: Any, **more: Any) -> None:
        commit(consumer, *given, **more)
        run.outside.reach("committed")

    SyncProducer.commit_transaction = transaction  # type: ignore[assignment]
    SyncConsumer.commit = committing  # type: ignore[assignment]
    try:
        yield
    finally:
        SyncProducer.commit_transaction = commit_transaction  # type: ignore[method-assign]
        SyncConsumer.commit = commit  # type: ignore[method-assign]


def run_workers(
    seed: int, happened: Counter[str] | None = None, kind: type[Run] = Run
) -> Fingerprint:
    """Run one world. Raise what was not kept, with the seed and the latest lines of the log."""
    with Simulation(seed) as world:
        run = kind(world)
        with installed(run.outside), steps_of_clients(run):
            try:
                run.play()
            except BaseException as error:
                error.add_note("\n".join([f"seed {seed}", *run.log[-200:], run.missing()]))
                raise
        if happened is not None:
            happened.update(run.happened)
            happened.update(run.outside.failures)
        return world.fingerprint
