"""Share groups beside Apache Kafka's: Java's perf tool on both brokers, and our consumer beside it.

One partition, because that is what a share group adds: many consumers read it at the same time. The
perf tool's rate includes the time until the group has assigned the partition, on both brokers; ours
is counted in the same way, from the start of the consumers on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from itertools import count as numbers
from typing import Final

from bench.broker import OURS, THEIRS, Twofold, bench
from bench.broker_load import p50_and_p99
from bench.harness import Case, Goal, Table
from bench.peer_brokers import HOST, BrokerProcess, resident_bytes
from moldau.client import Admin, Producer, Resource, ResourceType, ShareConsumer
from moldau.runtime import Runtime
from moldau.runtime.real import run
from tests.peers.apache_kafka import fetch
from tests.peers.kafka_broker import SERVER_JVM, run_tool

TOPIC: Final = "queue"
COUNT: Final = 3_000_000
SIZE_BYTES: Final = 100
TEN: Final = 10
CLIENT: Final = "our client on moldau"
JAVA: Final = "Java on moldau"
SINGLE_ACKS: Final = 2000
WARM_ACKS: Final = 500
"""Not counted: a JVM compiles its code meanwhile."""
LOCKED: Final = "locked"
LOCKED_PARTITIONS: Final = 100
LOCKS: Final = 2000
MOST_BYTES: Final = 100e6
_RATE: Final = "nMsg.sec"
_POLL_S: Final = 1.0
_groups: Final = numbers()


def _prepare(name: str) -> tuple[BrokerProcess, str]:
    """Fill the topic once. Return the broker, and a new group that begins at the topic's start."""
    at = bench()
    broker = at.brokers[name]
    topic = at.topic(name, TOPIC, 1)
    if name not in _filled:
        run(partial(_fill, server=f"{HOST}:{broker.port}", topic=topic, count=COUNT, spread=1))
        _filled.add(name)
    group = f"queue-{next(_groups)}"
    run(partial(_begin_at_start, server=f"{HOST}:{broker.port}", group=group))
    return broker, group


_filled: Final[set[str]] = set()


async def _fill(runtime: Runtime, server: str, topic: str, count: int, spread: int) -> None:
    value = os.urandom(SIZE_BYTES)
    async with Producer(runtime=runtime, bootstrap_servers=server, linger_ms=20) as producer:
        for number in range(count):
            await producer.send(topic, value, partition=number % spread)


async def _begin_at_start(runtime: Runtime, server: str, group: str) -> None:
    async with Admin(runtime=runtime, bootstrap_servers=server) as admin:
        earliest = {"share.auto.offset.reset": "earliest"}
        await admin.alter_configs(Resource(ResourceType.GROUP, group), set_to=earliest)


def java(name: str, consumers: int) -> float:
    """Return the messages a second of Java's perf tool with so many consumers."""
    broker, group = _prepare(name)
    printed = run_tool(
        fetch(),
        "org.apache.kafka.tools.ShareConsumerPerformance",
        *("--bootstrap-server", f"{HOST}:{broker.port}", "--topic", TOPIC, "--group", group),
        *("--num-records", str(COUNT), "--threads", str(consumers), "--timeout", "60000"),
        timeout_s=300,
        jvm=("-Xmx512m", *SERVER_JVM),
    )
    lines = [line.split(", ") for line in printed.splitlines() if ", " in line]
    header = next(line for line in lines if _RATE in line)
    return float(lines[-1][header.index(_RATE)])


def ours() -> float:
    """Return the messages a second of one of our consumers."""
    broker, group = _prepare(OURS)
    return run(partial(_read, server=f"{HOST}:{broker.port}", group=group))


async def _read(runtime: Runtime, server: str, group: str) -> float:
    """Read and acknowledge everything. Return the messages a second from the start on."""
    start = time.perf_counter()
    left = COUNT
    async with ShareConsumer(
        TOPIC,
        group=group,
        runtime=runtime,
        bootstrap_servers=server,
        share_acquire_mode="batch_optimized",
    ) as queue:
        while left > 0:
            left -= len(await queue.poll(_POLL_S))
        await queue.commit()
    return COUNT / (time.perf_counter() - start)


def acknowledged(name: str) -> tuple[float, float]:
    """Return p50 and p99 of the seconds until one record's acknowledgement is stored."""
    broker, group = _prepare(name)
    return run(partial(_acknowledge, server=f"{HOST}:{broker.port}", group=group))


async def _acknowledge(runtime: Runtime, server: str, group: str) -> tuple[float, float]:
    latencies: list[float] = []
    async with ShareConsumer(
        TOPIC,
        group=group,
        runtime=runtime,
        bootstrap_servers=server,
        share_acknowledgement_mode="explicit",
        max_poll_records=SINGLE_ACKS,
    ) as queue:
        while len(latencies) < SINGLE_ACKS:
            for message in await queue.poll(_POLL_S, max_records=1):
                start = time.perf_counter()
                message.ack()
                assert await queue.commit() == {}
                latencies.append(time.perf_counter() - start)
    return p50_and_p99(sorted(latencies[WARM_ACKS:]))


def locked(name: str) -> float:
    """Return by how much the broker has grown when a group holds all locks that it may."""
    at = bench()
    broker = at.brokers[name]
    server = f"{HOST}:{broker.port}"
    if name not in _resident:
        at.topic(name, LOCKED, LOCKED_PARTITIONS)
        records = LOCKED_PARTITIONS * LOCKS
        run(partial(_fill, server=server, topic=LOCKED, count=records, spread=LOCKED_PARTITIONS))
        _resident[name] = resident_bytes(broker.pid)
    group = f"locks-{next(_groups)}"
    run(partial(_begin_at_start, server=server, group=group))
    return run(partial(_lock, server=server, group=group, pid=broker.pid)) - _resident[name]


_resident: Final[dict[str, int]] = {}


async def _lock(runtime: Runtime, server: str, group: str, pid: int) -> float:
    """Hold everything. Return the broker's resident bytes then."""
    wanted = LOCKED_PARTITIONS * LOCKS
    async with ShareConsumer(
        LOCKED,
        group=group,
        runtime=runtime,
        bootstrap_servers=server,
        share_acknowledgement_mode="explicit",
        max_poll_records=2 * wanted,
    ) as queue:
        held = 0
        while held < wanted:
            held += len(await queue.poll(_POLL_S))
        return float(resident_bytes(pid))


def tables() -> Iterator[Table]:
    """Return tables of both brokers, for one consumer and for ten, and one of both clients."""
    for consumers, ratio in ((1, 1.0), (TEN, 1.5)):
        yield Table(
            f"Java's share consumers, {consumers} on one partition",
            "messages a second",
            [Case(name, partial(java, name, consumers)) for name in (THEIRS, OURS)],
            [Goal(OURS, THEIRS, ratio_at_least=ratio)],
        )
    yield Table(
        "share consumers on moldau, one on one partition",
        "messages a second",
        [Case(JAVA, partial(java, OURS, 1)), Case(CLIENT, ours)],
        [Goal(CLIENT, JAVA, ratio_at_least=1.0)],
    )
    found = {name: Twofold(partial(acknowledged, name)) for name in (THEIRS, OURS)}
    for share, take, goals in (
        ("p50", Twofold.first, []),
        ("p99", Twofold.second, [Goal(OURS, THEIRS, ratio_at_most=0.7)]),
    ):
        yield Table(
            f"acknowledgement of single records, our client: {share}",
            "seconds",
            [Case(name, partial(take, each)) for name, each in found.items()],
            goals,
            higher_is_better=False,
        )
    yield Table(
        f"{LOCKS:,} locks in each of {LOCKED_PARTITIONS} partitions: growth of the broker",
        "resident bytes",
        [Case(name, partial(locked, name)) for name in (THEIRS, OURS)],
        [Goal(OURS, at_most=MOST_BYTES)],
        higher_is_better=False,
        notes=("what reading the records itself takes is in it",),
    )
