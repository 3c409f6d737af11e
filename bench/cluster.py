"""Three moldau nodes beside three nodes of Apache Kafka: the same clients, the same work, in turns.

All nodes are broker, controller and voter, with their data on the same disk. Topics have three
replicas, and a write with acks=all needs two of them in sync. Kafka has the heap and the flags of
its own start script. librdkafka does the work, so that both clusters have the same client.

After a kill or a restart, every partition is in sync again before the next round begins. A record
that is sent while its leader is down waits in the client; the last tables show for how long. The
table of the killed leader has our own client too, since much of that wait is the client's.

A round that fails is shown in the table with its reason, and its cluster is stopped: the next table
begins with a new one. So a run always finishes, whatever a cluster does.

`BENCH_SCALE=0.1` makes every load a tenth as long, for a quick run.
"""

from __future__ import annotations

import atexit
import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Container, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import moldau.client.sync
from bench.harness import Case, Goal, Missing, Table
from bench.peer_brokers import HEAP, HOST, cpu_seconds
from moldau.errors import MoldauError
from moldau.runtime.node_processes import free_ports
from moldau.testing import Cluster
from tests.peers.apache_kafka import fetch
from tests.peers.kafka_broker import (
    SERVER_JVM,
    BrokerFailed,
    BrokerOptions,
    KafkaBroker,
    ask_metadata,
)

R = TypeVar("R")

OURS: Final = "moldau"
THEIRS: Final = "Kafka"
OUR_CLIENT: Final = "moldau, by its own client"
SCALE: Final = float(os.environ.get("BENCH_SCALE", "1"))
NODES: Final = 3
VICTIM: Final = 2
PARTITIONS: Final = 6
MANY: Final = 300
SIZE_BYTES: Final = 1024
RECORDS: Final = max(5_000, int(300_000 * SCALE))
PER_SECOND: Final = 2_000
PACED_SECONDS: Final = max(2.0, 20 * SCALE)
STEADY_SECONDS: Final = 2.0
EVERY_SECONDS: Final = 1.0
"""The time between two records of one of the many partitions, before the kill. Kafka's three nodes
handle 300 such records a second on two cores, and not 1,200."""
PROBE_SECONDS: Final = 0.25
"""The same after the kill, for partitions that do not work again yet."""
BACKLOG_SECONDS: Final = 1.0
"""Before a measurement, at most the records of this time may be unacknowledged."""
WRITES: Final = max(100, int(1_000 * SCALE))
RESTART_PER_SECOND: Final = 200
WITHIN_SECONDS: Final = 90.0
SETTINGS: Final[Mapping[str, str]] = {
    "default.replication.factor": str(NODES),
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": str(NODES),
    "transaction.state.log.replication.factor": str(NODES),
    "transaction.state.log.min.isr": "2",
    "log.segment.delete.delay.ms": "1000",
    "auto.leader.rebalance.enable": "false",
}


class ThreeNodes(Protocol):
    """A cluster under measurement; nodes are numbered from 1."""

    @property
    def bootstrap(self) -> str: ...
    @property
    def ports(self) -> list[int]: ...
    @property
    def pids(self) -> list[int]: ...
    def kill(self, number: int) -> None: ...
    def stop(self, number: int) -> None: ...
    def start(self, number: int) -> None: ...


class MoldauNodes:
    """Three nodes as `moldau cluster up` starts them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        cluster = Cluster(brokers=NODES, directory=str(folder), settings=SETTINGS)
        self._cluster = stack.enter_context(cluster)
        self.kill, self.stop, self.start = cluster.kill, cluster.stop, cluster.start

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap_servers

    @property
    def ports(self) -> list[int]:
        return self._cluster.ports[:NODES]

    @property
    def pids(self) -> list[int]:
        return [self._cluster.process_id(each) for each in self._cluster.node_ids]


class KafkaNodes:
    """Three nodes of Apache Kafka with both roles and static voters."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        kafka = fetch()
        numbers = range(1, NODES + 1)
        ports = free_ports(2 * NODES)
        voters = ",".join(f"{each}@{HOST}:{ports[NODES + each - 1]}" for each in numbers)
        properties = {**SETTINGS, "controller.quorum.voters": voters}
        self._nodes: dict[int, KafkaBroker] = {}
        for number in numbers:
            options = BrokerOptions(HEAP, SERVER_JVM, properties, node_id=number)
            node = KafkaBroker(kafka, folder / str(number), options)
            node.port, node.controller_port = ports[number - 1], ports[NODES + number - 1]
            node.cluster_id = self._nodes[1].cluster_id if self._nodes else node.cluster_id
            self._nodes[number] = node
        for node in self._nodes.values():
            stack.callback(node.kill)  # the last one waits long for a quorum when it is stopped
            node.spawn()
        for node in self._nodes.values():
            node.wait_until_ready()

    @property
    def bootstrap(self) -> str:
        return ",".join(each.bootstrap_servers for each in self._nodes.values())

    @property
    def ports(self) -> list[int]:
        return [each.port for each in self._nodes.values()]

    @property
    def pids(self) -> list[int]:
        return [each.pid for each in self._nodes.values()]

    def kill(self, number: int) -> None:
        self._nodes[number].kill()

    def stop(self, number: int) -> None:
        self._nodes[number].stop()

    def start(self, number: int) -> None:
        self._nodes[number].start()


MAKERS: Final[dict[str, Callable[[Path, ExitStack], ThreeNodes]]] = {
    OURS: MoldauNodes,
    THEIRS: KafkaNodes,
}
_stack: Final = ExitStack()


def _folder(prefix: str) -> str:
    """Return a temporary directory. It is removed after everything that runs in it has ended,
    because exit handlers run in reverse order."""
    folder = _stack.enter_context(tempfile.TemporaryDirectory(prefix=prefix))
    atexit.unregister(_stack.close)
    atexit.register(_stack.close)
    return folder


_running: Final[dict[str, tuple[ThreeNodes, ExitStack]]] = {}


def nodes(name: str) -> ThreeNodes:
    """Return the cluster of that name. Start it if it does not run."""
    known = _running.get(name)
    if known is not None:
        return known[0]
    stack = ExitStack()
    folder = _folder("bench-cluster-")
    _stack.callback(stack.close)
    made = MAKERS[name](Path(folder), stack)
    _running[name] = made, stack
    until(lambda: all(len(ask_metadata(port).brokers) == NODES for port in made.ports))
    return made


def give_up(name: str) -> None:
    """Stop the cluster of that name, if it runs."""
    known = _running.pop(name, None)
    if known is not None:
        known[1].close()


FAILURES: Final = (OSError, RuntimeError, KafkaException, MoldauError, BrokerFailed, AssertionError)
"""What a round may raise when a cluster does not do its work; TimeoutError is an OSError."""


def attempt(run: Callable[[str], R], name: str) -> R:
    """Run one round. A failure stops the cluster and becomes the reason in the table."""
    try:
        return run(name)
    except FAILURES as error:
        give_up(name)
        words = str(error).partition("\n")[0][:200]
        raise Missing(f"{type(error).__name__}: {words}") from error


def until(reached: Callable[[], bool]) -> None:
    """Wait until `reached` returns True. Raise TimeoutError after `WITHIN_SECONDS`."""
    end = time.monotonic() + WITHIN_SECONDS
    while not reached():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {WITHIN_SECONDS} s")
        time.sleep(0.1)


def create(cluster: ThreeNodes, topic: str, partitions: int, first: int | None = None) -> str:
    """Create a topic and wait until it is in sync. `first` is the leader of every partition."""
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    if first is None:
        wanted = NewTopic(topic, partitions, NODES)
    else:
        others = [each for each in range(1, NODES + 1) if each != first]
        placed = [[first, *(others if index % 2 else others[::-1])] for index in range(partitions)]
        wanted = NewTopic(topic, partitions, replica_assignment=placed)
    for future in client.create_topics([wanted]).values():
        future.result(60)
    until(lambda: is_whole(cluster, topic, partitions))
    return topic


def is_whole(cluster: ThreeNodes, topic: str, partitions: int) -> bool:
    """Whether every partition has a leader and all replicas in sync."""
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    found = client.list_topics(topic, timeout=30).topics[topic].partitions
    return len(found) == partitions and all(
        each.leader > 0 and len(each.isrs) == NODES for each in found.values()
    )


def producer(bootstrap: str, **more: Any) -> Any:
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "queue.buffering.max.messages": 1_000_000,
            **{name.replace("_", "."): value for name, value in more.items()},
        }
    )


def throughput(bootstrap: str, topic: str, count: int) -> float:
    """Return MB a second until all records are acknowledged by all replicas in sync."""
    client, value = producer(bootstrap, linger_ms=5, batch_size=262_144), os.urandom(SIZE_BYTES)
    errors: list[Any] = []

    def on_delivery(error: Any, message: Any) -> None:
        if error is not None:
            errors.append(error)

    begun = time.perf_counter()
    for number in range(count):
        while True:
            try:
                client.produce(topic, value, partition=number % PARTITIONS, on_delivery=on_delivery)
                break
            except BufferError:
                client.poll(0.01)
        if not number % 1000:
            client.poll(0)
    left = client.flush(WITHIN_SECONDS)
    if left or errors:
        raise RuntimeError(f"{left} records were not acknowledged, first error: {errors[:1]}")
    return count * SIZE_BYTES / 1e6 / (time.perf_counter() - begun)


def produce_round(name: str) -> float:
    cluster = nodes(name)
    topic = create(cluster, f"t-{time.monotonic_ns()}", PARTITIONS)
    found = throughput(cluster.bootstrap, topic, RECORDS)
    delete(cluster, topic)
    return found


def delete(cluster: ThreeNodes, topic: str) -> None:
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in client.delete_topics([topic]).values():
        future.result(60)


class OurProducer:
    """moldau's own producer with the methods of librdkafka's that `Paced` uses."""

    def __init__(self, bootstrap: str) -> None:
        self._outcomes: deque[Callable[[], None]] = deque()
        self._pending = 0
        self._producer = moldau.client.sync.Producer(
            bootstrap_servers=bootstrap, acks="all", linger_ms=0, delivery_timeout_ms=120_000
        )
        self._producer.start()
        _stack.callback(self._producer.close, 0.0)

    def __len__(self) -> int:
        return self._pending

    def produce(self, topic: str, value: bytes, *, partition: int, on_delivery: Any) -> None:
        def decided(sent: Any, error: Any) -> None:
            self._outcomes.append(partial(on_delivery, error, sent))

        self._pending += 1
        self._producer.send(topic, value, partition=partition, on_delivery=decided)

    def poll(self, seconds: float) -> None:
        """Report outcomes in this thread; wait for some if there are none."""
        if seconds and not self._outcomes:
            time.sleep(seconds)
        while self._outcomes:
            self._pending -= 1
            self._outcomes.popleft()()

    def flush(self, seconds: float) -> int:
        """Return the number of records that are not decided after that time."""
        end = time.monotonic() + seconds
        while self._pending and time.monotonic() < end:
            self.poll(0.01)
        return self._pending


class Paced:
    """Sends records when they are due, to the partitions in turn, and notes acknowledgements."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, client: Any = None) -> None:
        """`client` is librdkafka's producer, unless another one is given."""
        self.acknowledged: list[tuple[int, float, float]] = []
        """Partition, time of sending, time of the acknowledgement."""
        self.errors: list[str] = []
        self._topic = topic
        self._partitions = partitions
        self._producer = client or producer(bootstrap, linger_ms=0, message_timeout_ms=120_000)
        self._value = os.urandom(SIZE_BYTES)
        self._number = 0

    def warm_up(self, per_second: float) -> None:
        """Send until each partition has acknowledged one and no backlog is left, then for a while.

        librdkafka sends one request a partition and has five in flight. With a backlog, the
        measurement would show how fast that is worked off. Raise TimeoutError if a backlog stays.
        """
        seen: set[int] = set()
        end = time.perf_counter() + WITHIN_SECONDS

        def all_work() -> bool:
            seen.update(partition for partition, _, _ in self.acknowledged)
            self.acknowledged.clear()
            if time.perf_counter() > end:
                raise TimeoutError(
                    f"the cluster does not keep up with {per_second:.0f} records a second here: "
                    f"{len(self._producer)} wait, so there is nothing to measure"
                )
            is_even = len(self._producer) <= per_second * BACKLOG_SECONDS
            return is_even and len(seen) == self._partitions

        self.run(per_second, all_work)
        self.run(per_second, for_seconds(STEADY_SECONDS))
        self.acknowledged.clear()

    def run(
        self, per_second: float, is_over: Callable[[], bool], omitted: Container[int] = ()
    ) -> None:
        """Send until `is_over` returns True. Send nothing to an omitted partition on its turn."""
        begun, first = time.perf_counter(), self._number
        while not is_over():
            due = begun + (self._number - first) / per_second
            early = due - time.perf_counter()
            if early > 0:
                self._producer.poll(min(early, 0.001))
                continue
            partition = self._number % self._partitions
            if partition not in omitted:
                self._send(partition)
            self._number += 1
            self._producer.poll(0)

    def _send(self, partition: int) -> None:
        sent = time.perf_counter()

        def on_delivery(error: Any, message: Any) -> None:
            if error is not None:
                self.errors.append(str(error))
            else:
                self.acknowledged.append((partition, sent, time.perf_counter()))

        self._producer.produce(
            self._topic, self._value, partition=partition, on_delivery=on_delivery
        )

    def end(self) -> None:
        """Wait for all acknowledgements. Raise RuntimeError if one is missing."""
        left = self._producer.flush(WITHIN_SECONDS)
        if left or self.errors:
            raise RuntimeError(f"{left} not acknowledged, errors: {self.errors[:1]}")


def for_seconds(seconds: float) -> Callable[[], bool]:
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() >= end


def p99(values: list[float]) -> float:
    return sorted(values)[len(values) * 99 // 100]


def latency_round(name: str) -> float:
    """Return the 99th percentile in milliseconds."""
    cluster = nodes(name)
    topic = create(cluster, f"p-{time.monotonic_ns()}", PARTITIONS)
    paced = Paced(cluster.bootstrap, topic, PARTITIONS)
    paced.warm_up(PER_SECOND)
    paced.run(PER_SECOND, for_seconds(PACED_SECONDS))
    paced.end()
    delete(cluster, topic)
    return p99([done - sent for _, sent, done in paced.acknowledged]) * 1e3


def failover_round(name: str, *, is_client_ours: bool = False) -> float:
    """Return the seconds from the kill until 99 % of the partitions acknowledge again."""
    cluster = nodes(name)
    topic = create(cluster, f"k-{time.monotonic_ns()}", MANY, first=VICTIM)
    client = OurProducer(cluster.bootstrap) if is_client_ours else None
    paced = Paced(cluster.bootstrap, topic, MANY, client)
    paced.warm_up(MANY / EVERY_SECONDS)
    killed = time.perf_counter()
    cluster.kill(VICTIM)
    again: dict[int, float] = {}

    def all_work() -> bool:
        for partition, sent, done in paced.acknowledged:
            if sent > killed:
                again.setdefault(partition, done - killed)
        paced.acknowledged.clear()
        return len(again) == MANY or time.perf_counter() - killed > WITHIN_SECONDS

    paced.run(MANY / PROBE_SECONDS, all_work, omitted=again)
    paced.end()
    if len(again) < MANY:
        raise TimeoutError(f"{MANY - len(again)} partitions do not work again")
    cluster.start(VICTIM)
    until(lambda: is_whole(cluster, topic, MANY))
    delete(cluster, topic)
    return p99(list(again.values()))


def restart_round(name: str) -> float:
    """Return the longest wait of a record in ms, from the stop until the node is up again."""
    cluster = nodes(name)
    topic = create(cluster, f"r-{time.monotonic_ns()}", PARTITIONS, first=VICTIM)
    paced = Paced(cluster.bootstrap, topic, PARTITIONS)
    paced.warm_up(RESTART_PER_SECOND)
    with ThreadPoolExecutor(1) as pool:
        stopped = pool.submit(cluster.stop, VICTIM)
        paced.run(RESTART_PER_SECOND, stopped.done)
        stopped.result()
        started = pool.submit(cluster.start, VICTIM)
        paced.run(RESTART_PER_SECOND, started.done)
        started.result()
    paced.run(RESTART_PER_SECOND, for_seconds(1))
    paced.end()
    until(lambda: is_whole(cluster, topic, PARTITIONS))
    delete(cluster, topic)
    return max(done - sent for _, sent, done in paced.acknowledged) * 1e3


def cold_start(name: str) -> tuple[float, float]:
    """Kill all nodes, start them together, and send a record to each of the many partitions. Return
    the seconds from the start until all are acknowledged, and the CPU seconds of the nodes."""
    cluster = nodes(name)
    topic = create(cluster, f"c-{time.monotonic_ns()}", MANY)
    client, value = producer(cluster.bootstrap, linger_ms=0), os.urandom(SIZE_BYTES)
    numbers = range(1, NODES + 1)
    _to_each(client, topic, value)
    for number in numbers:
        cluster.kill(number)
    begun = time.perf_counter()
    with ThreadPoolExecutor(NODES) as pool:
        started = [pool.submit(cluster.start, number) for number in numbers]
        _to_each(client, topic, value)
        elapsed, spent = time.perf_counter() - begun, _cpu(cluster)
        for each in started:
            each.result()
    until(lambda: is_whole(cluster, topic, MANY))
    delete(cluster, topic)
    return elapsed, spent


def _to_each(client: Any, topic: str, value: bytes) -> None:
    """Send a record to each of the many partitions. Raise TimeoutError if one is not taken."""
    for partition in range(MANY):
        client.produce(topic, value, partition=partition)
    if client.flush(WITHIN_SECONDS):
        raise TimeoutError(f"no acknowledgement of all within {WITHIN_SECONDS:.0f} s")


def write_round(partitions: int, name: str) -> float:
    """Return the CPU microseconds of all three nodes for one replicated write. Writes go one at a
    time, to the partitions in turn."""
    cluster = nodes(name)
    topic = create(cluster, f"w-{time.monotonic_ns()}", partitions, first=VICTIM)
    client, value = producer(cluster.bootstrap, linger_ms=0), os.urandom(SIZE_BYTES)
    spent = 0.0
    for number in range(-partitions, WRITES):
        if number == 0:
            spent = -_cpu(cluster)
        client.produce(topic, value, partition=number % partitions)
        if client.flush(WITHIN_SECONDS):
            raise TimeoutError(f"a write was not acknowledged within {WITHIN_SECONDS:.0f} s")
    spent += _cpu(cluster)
    delete(cluster, topic)
    return spent / WRITES * 1e6


def _cpu(cluster: ThreeNodes) -> float:
    return sum(map(cpu_seconds, cluster.pids))


def memory_round(name: str) -> float:
    """Return the MB of the three processes together; shared memory is counted once."""
    return sum(map(proportional_bytes, nodes(name).pids)) / 1e6


def proportional_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"the system does not tell the memory of process {pid}")


def _with_our_client(name: str) -> float:
    return failover_round(name, is_client_ours=True)


def both(run: Callable[[str], float]) -> list[Case]:
    return [Case(each, partial(attempt, run, each)) for each in (THEIRS, OURS)]


def tables() -> list[Table]:
    return [
        Table(
            "Produce, 1 KB, acks=all, three replicas",
            "MB/s",
            both(produce_round),
            goals=[Goal(OURS, versus=THEIRS, ratio_at_least=1.0)],
        ),
        Table(
            f"99th percentile of a produce at {PER_SECOND} records a second",
            "ms",
            both(latency_round),
            goals=[Goal(OURS, versus=THEIRS, ratio_at_most=0.7)],
            higher_is_better=False,
        ),
        Table(
            f"kill -9 of the leader of {MANY} partitions, until 99 % of them work again",
            "s",
            [
                *both(failover_round),
                Case(OUR_CLIENT, lambda: attempt(_with_our_client, OURS)),
            ],
            goals=[
                Goal(OURS, at_most=1.0),
                Goal(OURS, versus=THEIRS, ratio_at_most=0.5),
                Goal(OUR_CLIENT, at_most=0.8),
            ],
            higher_is_better=False,
        ),
        *_cold_start_tables(),
        Table(
            f"CPU of the three nodes for one write, a topic of {MANY} partitions",
            "us",
            both(partial(write_round, MANY)),
            higher_is_better=False,
        ),
        Table(
            "Clean restart of a leader: the longest wait of a record, none fails",
            "ms",
            both(restart_round),
            goals=[Goal(OURS, at_most=500.0)],
            higher_is_better=False,
        ),
        Table(
            "Memory of the three nodes after that",
            "MB",
            both(memory_round),
            goals=[Goal(OURS, versus=THEIRS, ratio_at_most=0.15)],
            higher_is_better=False,
        ),
    ]


def _cold_start_tables() -> list[Table]:
    return [
        Table(
            f"All three nodes killed and started, until {MANY} partitions take a record",
            "s",
            both(lambda name: cold_start(name)[0]),
            goals=[Goal(OURS, at_most=3.0)],
            higher_is_better=False,
        ),
        Table(
            "The same, CPU of the three nodes",
            "s",
            both(lambda name: cold_start(name)[1]),
            higher_is_better=False,
        ),
    ]
