"""The broker beside Apache Kafka: the same clients, the same work, the same machine, in turns.

Both brokers run all the time, each on its own data directory; the one that is not measured is idle.
The clients share the two cores with the broker, so throughput is bound by client and broker
together, and a broker that needs less CPU leaves more to its client.

A third broker in the produce tables shows how far that goes: one that `stores nothing`
(`bench.storing_nothing`). With that client on that machine, no broker can be faster than one that
has nothing to do, apart from noise. Read each ratio together with that of this broker in its row.

Latency is measured over plain sockets (`bench.wire`). librdkafka's own measurement of it is printed
beside it, without a goal: at 5,000 records a second it is 0.2 ms against any broker, also against
one that stores nothing, so it is the client's time and says nothing about the broker.

A broker's CPU is read from the system's clock of its process, in nanoseconds, and consumers read
their topic several times, so that there is enough to measure.

`BENCH_SCALE=0.1` makes every load a tenth as long, for a quick run.
"""

from __future__ import annotations

import atexit
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from typing import Final, TypeAlias

from bench.broker_load import (
    Spent,
    create_topic,
    end_to_end,
    loopback_copy,
    p50_and_p99,
    paced_latencies,
    perf_consume,
    perf_produce,
    raw_append,
    rdkafka_consume,
    rdkafka_produce,
    write_payload,
)
from bench.harness import Case, Goal, Missing, Table
from bench.peer_brokers import (
    PARTITIONS,
    BrokerProcess,
    EmptyBroker,
    KafkaPeer,
    MoldauBroker,
    resident_bytes,
)
from bench.wire import (
    first_record,
    idle_connections,
    paced_end_to_end,
    paced_produces,
    round_trips_at_once,
    until_acknowledged,
)
from tests.peers.apache_kafka import fetch

OURS: Final = "moldau"
THEIRS: Final = "Kafka"
CEILING: Final = EmptyBroker.name
SCALE: Final = float(os.environ.get("BENCH_SCALE", "1"))
# Records that take a few seconds, by their size in bytes.
COUNTS: Final = {100: 1_500_000, 1024: 400_000, 10_240: 50_000}
# How often a consumer reads as many, so that a round takes seconds.
TIMES: Final = {100: 4, 1024: 5, 10_240: 6}
NAMES: Final = {100: "100 B", 1024: "1 KB", 10_240: "10 KB"}
BUSY_CONNECTIONS: Final = 50
IDLE_CONNECTIONS: Final = 10_000
CODECS: Final = ("none", "lz4", "zstd")


Latencies: TypeAlias = Callable[[BrokerProcess, str, int, int], list[float]]


def scaled(count: int) -> int:
    return max(100, int(count * SCALE))


MAKERS: Final[dict[str, Callable[[Path], BrokerProcess]]] = {
    OURS: MoldauBroker,
    THEIRS: lambda folder: KafkaPeer(fetch(), folder),
}


class Bench:
    """The brokers and their topics, made when the first case runs."""

    def __init__(self) -> None:
        with ExitStack() as stack:
            self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            self.brokers: dict[str, BrokerProcess] = {
                OURS: stack.enter_context(MoldauBroker.started()),
                THEIRS: stack.enter_context(KafkaPeer.started()),
                CEILING: stack.enter_context(EmptyBroker.started()),
            }
            self._topics: set[tuple[str, str]] = set()
            # After the folders, so that it runs before they are removed.
            self._stack = stack.pop_all()
            atexit.register(self._stack.close)

    def close(self) -> None:
        self._stack.close()

    def at_end(self, act: Callable[[], None]) -> None:
        self._stack.callback(act)

    def payload(self, size_bytes: int) -> Path:
        path = self.folder / f"payload-{size_bytes}"
        if not path.exists():
            write_payload(path, size_bytes)
        return path

    def topic(self, name: str, topic: str, partitions: int = PARTITIONS, **config: str) -> str:
        """Create the topic on that broker, if this has not done so before. Return its name."""
        if (name, topic) not in self._topics:
            create_topic(self.brokers[name], topic, partitions, **config)
            self._topics.add((name, topic))
        return topic

    def led(self, name: str, topic: str, partitions: int = PARTITIONS, **config: str) -> str:
        """Do the same and write a record to each partition: sockets do not retry as clients do."""
        if (name, topic) not in self._topics:
            self.topic(name, topic, partitions, **config)
            for partition in range(partitions):
                first_record(self.brokers[name].port, topic, partition)
        return topic

    def filled(self, name: str, size_bytes: int) -> str:
        """Return a topic with as many records as one round of a consumer reads."""
        topic = f"filled-{size_bytes}"
        if (name, topic) not in self._topics:
            self.topic(name, topic)
            rdkafka_produce(
                self.brokers[name],
                topic,
                scaled(COUNTS[size_bytes]) // PARTITIONS * PARTITIONS,
                os.urandom(size_bytes),
                {"linger.ms": 20, "batch.size": 1 << 20, "queue.buffering.max.kbytes": 200_000},
            )
        return topic


@cache
def bench() -> Bench:
    return Bench()


def stop() -> None:
    """Stop the brokers if they run, so that others have the machine to themselves."""
    if bench.cache_info().currsize:
        bench().close()
        bench.cache_clear()


class Twofold:
    """One run that gives two values for two tables, for example throughput and the broker's CPU.

    The second table is measured right after the first, in as many rounds, and takes the second
    values of the first table's rounds, in their order.
    """

    def __init__(self, work: Callable[[], tuple[float, float]]) -> None:
        self._work = work
        self._left: list[float] = []

    def first(self) -> float:
        value, other = self._work()
        self._left.append(other)
        return value

    def second(self) -> float:
        if not self._left:
            raise Missing("its run in the table above failed")
        return self._left.pop(0)


def tables() -> Iterator[Table]:
    yield from _produce()
    yield from _single_records()
    yield from _consume()
    yield from _latency()
    yield from _after_fsync()
    yield _memory()
    yield from _idle()
    yield from _start()
    yield _limits()


def _each(
    work: Callable[[str], tuple[float, float]], names: Sequence[str] = (THEIRS, OURS)
) -> dict[str, Twofold]:
    return {name: Twofold(partial(work, name)) for name in names}


def _two(title: str, found: dict[str, Twofold], speed: float, cost: float) -> tuple[Table, Table]:
    """Return the tables of throughput and of the broker's CPU for the same runs."""
    return (
        Table(
            f"{title}: throughput",
            "bytes of values a second",
            [Case(name, each.first) for name, each in found.items()],
            [Goal(OURS, THEIRS, ratio_at_least=speed)],
        ),
        Table(
            f"{title}: broker CPU",
            "seconds a GB of values",
            [Case(name, each.second) for name, each in found.items()],
            [Goal(OURS, THEIRS, ratio_at_most=cost)],
            higher_is_better=False,
        ),
    )


def _produce() -> Iterator[Table]:
    """Measure Java's perf tool with a payload file."""
    for size_bytes, count in COUNTS.items():
        for codec in CODECS:

            def work(
                name: str, size: int = size_bytes, codec: str = codec, n: int = count
            ) -> Spent:
                at = bench()
                properties = ("acks=1", f"compression.type={codec}")
                return perf_produce(at.brokers[name], at.payload(size), scaled(n), size, properties)

            found = _each(work, (THEIRS, OURS, CEILING))
            yield from _two(f"produce {NAMES[size_bytes]} {codec}, Java", found, 1.2, 0.5)


def _single_records() -> Iterator[Table]:
    """Measure one record a request. Java's tool needs five seconds until all its code is compiled,
    so its run is long."""

    def java(name: str) -> float:
        at = bench()
        properties = ("acks=1", "batch.size=1", "linger.ms=0")
        spent = perf_produce(at.brokers[name], at.payload(100), scaled(500_000), 100, properties)
        return spent.bytes_per_second / 100

    def rdkafka(name: str) -> float:
        at = bench()
        topic = at.topic(name, "single")
        settings = {"batch.num.messages": 1, "linger.ms": 0}
        return rdkafka_produce(at.brokers[name], topic, scaled(60_000), bytes(100), settings)

    for client, work in (("Java", java), ("librdkafka", rdkafka)):
        yield Table(
            f"one record a request, {client}",
            "acknowledged records a second",
            [Case(name, partial(work, name)) for name in (THEIRS, OURS, CEILING)],
            [Goal(OURS, THEIRS, ratio_at_least=1.5)],
        )


def _consume() -> Iterator[Table]:
    """Measure reads from the page cache: librdkafka with assigned partitions, Java in a group."""
    for size_bytes, count in COUNTS.items():

        def work(name: str, size: int = size_bytes, n: int = count) -> Spent:
            at = bench()
            topic = at.filled(name, size)
            count = scaled(n) // PARTITIONS * PARTITIONS
            return rdkafka_consume(at.brokers[name], topic, count, size, TIMES[size])

        yield from _two(f"consume {NAMES[size_bytes]}, librdkafka", _each(work), 1.0, 0.8)
        yield java_in_a_group(size_bytes)


def java_in_a_group(size_bytes: int) -> Table:
    """Return the table of Java's perf tool that reads records of that size from the page cache."""

    def work(name: str) -> float:
        at = bench()
        count = scaled(COUNTS[size_bytes]) // PARTITIONS * PARTITIONS
        return perf_consume(at.brokers[name], at.filled(name, size_bytes), count, size_bytes)

    return Table(
        f"consume {NAMES[size_bytes]}, Java in a group: throughput",
        "bytes of values a second",
        [Case(name, partial(work, name)) for name in (THEIRS, OURS)],
        [Goal(OURS, THEIRS, ratio_at_least=1.0)],
    )


def _latency() -> Iterator[Table]:
    """Measure p50 and p99 of the same runs: over plain sockets, and as librdkafka reports it."""

    def produce(name: str, load: Latencies) -> tuple[float, float]:
        at = bench()
        topic = at.led(name, "paced")
        return p50_and_p99(load(at.brokers[name], topic, 5_000, scaled(15_000)))

    def through(name: str) -> tuple[float, float]:
        at = bench()
        topic = at.topic(name, f"through-{time.monotonic_ns()}", 1)
        return p50_and_p99(paced_end_to_end(at.brokers[name], topic, 1_000, scaled(3_000)))

    def through_rdkafka(name: str) -> tuple[float, float]:
        at = bench()
        topic = at.topic(name, f"e2e-{time.monotonic_ns()}")
        return p50_and_p99(end_to_end(at.brokers[name], topic, scaled(3_000)))

    for title, work, goal in (
        ("produce at 5,000 a second", partial(produce, load=paced_produces), 0.7),
        ("end to end", through, 0.7),
        ("produce at 5,000 a second, librdkafka", partial(produce, load=paced_latencies), None),
        ("end to end, librdkafka", through_rdkafka, None),
    ):
        found = _each(work)
        for share, take in (("p50", Twofold.first), ("p99", Twofold.second)):
            yield Table(
                f"{title}: {share}",
                "seconds",
                [Case(name, partial(take, each)) for name, each in found.items()],
                [] if goal is None else [Goal(OURS, THEIRS, ratio_at_most=goal)],
                higher_is_better=False,
                notes=() if goal else ("no goal: most of it is the client's own time",),
            )


def _after_fsync() -> Iterator[Table]:
    """Measure records that are durable when acknowledged: 64 connections, several logs or one."""

    def work(name: str, partitions: int) -> float:
        at = bench()
        topic = at.led(name, f"synced-{partitions}", partitions, flush_messages="1")
        return round_trips_at_once(at.brokers[name], topic, 64, scaled(20_000), partitions)

    for partitions in (PARTITIONS, 1):
        yield Table(
            f"acknowledged after fsync, 64 connections, {partitions} partition"
            + "s" * (partitions > 1),
            "requests a second",
            [Case(name, partial(work, name, partitions)) for name in (THEIRS, OURS, CEILING)],
            [Goal(OURS, THEIRS, ratio_at_least=5)],
        )


def _memory() -> Table:
    """Return the table of the resident memory after everything before it was measured."""

    def resident(name: str) -> float:
        return float(resident_bytes(bench().brokers[name].pid))

    return Table(
        "resident after all of the above",
        "bytes",
        [Case(name, partial(resident, name)) for name in (THEIRS, OURS)],
        [Goal(OURS, THEIRS, ratio_at_most=0.1)],
        higher_is_better=False,
    )


def _idle() -> Iterator[Table]:
    """Measure idle connections, and busy connections beside them, on a separate broker."""

    @cache
    def broker() -> MoldauBroker:
        folder = bench().folder / "idle"
        folder.mkdir()
        found = MoldauBroker(folder)
        bench().at_end(found.stop)
        found.start()
        create_topic(found, "busy")
        for partition in range(PARTITIONS):
            first_record(found.port, "busy", partition)
        return found

    def busy() -> float:
        return round_trips_at_once(broker(), "busy", BUSY_CONNECTIONS, scaled(40_000))

    costs: list[float] = []

    def busy_beside() -> float:
        before = resident_bytes(broker().pid)
        with idle_connections(broker().port, IDLE_CONNECTIONS):
            costs.append((resident_bytes(broker().pid) - before) / IDLE_CONNECTIONS)
            return busy()

    alone, beside = "alone", f"beside {IDLE_CONNECTIONS:,} idle ones"
    yield Table(
        f"{BUSY_CONNECTIONS} busy connections",
        "acknowledged records a second",
        [Case(alone, busy), Case(beside, busy_beside)],
        [Goal(beside, alone, ratio_at_least=0.9)],
    )
    yield Table(
        "an idle connection",
        "resident bytes",
        # Memory of those that have gone is used again, so only the first round shows the price.
        [Case("each", lambda: max(costs))],
        [Goal("each", at_most=8192)],
        higher_is_better=False,
    )


def _limits() -> Table:
    """Return the table of the machine's own limits, with the same pieces of 16 KB."""
    raw, loop, produced, consumed = (
        "append to a file",
        "copy over loopback",
        f"{OURS}: produce 10 KB, Java",
        f"{OURS}: consume 10 KB, librdkafka",
    )
    size, count = 10_240, scaled(COUNTS[10_240])

    def produce() -> float:
        at = bench()
        properties = ("acks=1", "compression.type=none")
        return perf_produce(
            at.brokers[OURS], at.payload(size), count, size, properties
        ).bytes_per_second

    def consume() -> float:
        at = bench()
        whole = count // PARTITIONS * PARTITIONS
        return rdkafka_consume(
            at.brokers[OURS], at.filled(OURS, size), whole, size, TIMES[size]
        ).bytes_per_second

    return Table(
        "beside what the machine can do",
        "bytes a second",
        [
            Case(raw, lambda: raw_append(bench().folder, scaled(1 << 30))),
            Case(loop, lambda: loopback_copy(scaled(1 << 30))),
            Case(produced, produce),
            Case(consumed, consume),
        ],
    )


class Restarted:
    """A separate broker that is stopped, with a topic that has a record in each partition."""

    def __init__(
        self, make: Callable[[Path], BrokerProcess], folder: Path, partitions: int
    ) -> None:
        self._broker = make(folder)
        bench().at_end(self._broker.stop)
        self._broker.start()
        create_topic(self._broker, "first", partitions)
        for partition in range(partitions):
            first_record(self._broker.port, "first", partition)
        self._broker.stop()

    def restart(self) -> tuple[float, float]:
        """Return the seconds from exec to the first acknowledged record, and the resident bytes."""
        elapsed = until_acknowledged(self._broker.spawn, lambda: self._broker.port, "first")
        resident = float(resident_bytes(self._broker.pid))
        self._broker.stop()
        return elapsed, resident


def _start() -> Iterator[Table]:
    for partitions, start, memory in ((1, 0.2, None), (1_000, 0.5, 0.15)):

        @cache
        def restarted(name: str, partitions: int = partitions) -> Restarted:
            folder = bench().folder / f"restarted-{name}-{partitions}"
            folder.mkdir()
            return Restarted(MAKERS[name], folder, partitions)

        def work(name: str, at: Callable[[str], Restarted] = restarted) -> tuple[float, float]:
            return at(name).restart()

        found = _each(work)
        title = f"restart with {partitions:,} partition" + "s" * (partitions > 1)
        yield Table(
            f"{title}: from exec to the first acknowledged record",
            "seconds",
            [Case(name, each.first) for name, each in found.items()],
            [Goal(OURS, THEIRS, ratio_at_most=start)],
            higher_is_better=False,
        )
        yield Table(
            f"{title}: resident then",
            "bytes",
            [Case(name, each.second) for name, each in found.items()],
            [] if memory is None else [Goal(OURS, THEIRS, ratio_at_most=memory)],
            higher_is_better=False,
        )
