"""Transactions beside Apache Kafka: librdkafka on both brokers, one after the other in each round.

A producer writes to six partitions as fast as it can, and commits when the interval has passed. The
time of a commit is that of the call, which also waits for the records that are still on their way.
Consumers read a topic of committed transactions, with and without `read_committed`. The last tables
have three nodes of each, as `bench.cluster` starts them, with three replicas of each partition.

`BENCH_SCALE=0.1` makes every load a tenth as long, for a quick run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count as numbers
from typing import Final

from confluent_kafka import Consumer, Producer

from bench.broker import OURS, SCALE, THEIRS, Twofold, bench, scaled, stop
from bench.broker_load import p50_and_p99, read_all, read_first
from bench.cluster import attempt, create, delete, nodes
from bench.harness import Case, Goal, Table
from bench.peer_brokers import HOST, PARTITIONS

SIZE_BYTES: Final = 100
SECONDS: Final = 6.0
INTERVALS_MS: Final = (10, 100)
READ: Final = 600_000
TIMES: Final = 3
COMMITTED: Final = "read_committed"
UNCOMMITTED: Final = "read_uncommitted"
_AT_ONCE: Final = 100
_ids: Final = numbers()


def _servers(name: str) -> str:
    return f"{HOST}:{bench().brokers[name].port}"


def _producer(servers: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "transactional.id": f"bench-{next(_ids)}",
            "linger.ms": 1,
        }
    )
    producer.init_transactions(60)
    return producer


def _send(producer: Producer, topic: str, value: bytes, count: int) -> None:
    for number in range(count):
        while True:
            with suppress(BufferError):
                producer.produce(topic, value, partition=number % PARTITIONS)
                break
            producer.poll(0.001)
    producer.poll(0)


def commits(servers: str, topic: str, interval_ms: int) -> tuple[float, float]:
    """Return committed records a second, and the seconds of the slowest hundredth of commits."""
    producer = _producer(servers)
    value = os.urandom(SIZE_BYTES)
    taken: list[float] = []
    sent = 0
    start = time.perf_counter()
    while (now := time.perf_counter()) - start < SECONDS * SCALE:
        producer.begin_transaction()
        while time.perf_counter() - now < interval_ms / 1000:
            _send(producer, topic, value, _AT_ONCE)
            sent += _AT_ONCE
        before = time.perf_counter()
        producer.commit_transaction(60)
        taken.append(time.perf_counter() - before)
    elapsed = time.perf_counter() - start
    return sent / elapsed, p50_and_p99(sorted(taken))[1]


def commits_on_one_node(interval_ms: int, name: str) -> tuple[float, float]:
    topic = bench().topic(name, f"transactions-{interval_ms}")
    return commits(_servers(name), topic, interval_ms)


def commits_on_three_nodes(interval_ms: int, name: str) -> tuple[float, float]:
    cluster = nodes(name)
    topic = create(cluster, f"transactions-{time.monotonic_ns()}", PARTITIONS)
    found = commits(cluster.bootstrap, topic, interval_ms)
    delete(cluster, topic)
    return found


def _filled(name: str) -> str:
    """Return a topic of committed transactions, of a sixtieth of the records each."""
    topic = "transactions-read"
    if name not in _full:
        bench().topic(name, topic)
        producer, value = _producer(_servers(name)), os.urandom(SIZE_BYTES)
        for _ in range(60):
            producer.begin_transaction()
            _send(producer, topic, value, scaled(READ) // 60)
            producer.commit_transaction(60)
        _full.add(name)
    return topic


_full: Final[set[str]] = set()


def read(name: str, isolation: str) -> float:
    """Read the topic a few times. Return records a second."""
    topic = _filled(name)
    count = scaled(READ) // 60 * 60
    consumer = Consumer(
        {
            "bootstrap.servers": _servers(name),
            "group.id": "bench",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 1,
            "fetch.wait.max.ms": 5,
        }
    )
    try:
        whole = read_first(consumer, topic)
        start = time.perf_counter()
        read_all(consumer, whole, count, TIMES)
        return count * TIMES / (time.perf_counter() - start)
    finally:
        consumer.close()


def _commit_tables(
    where: str, interval_ms: int, run: Callable[[int, str], tuple[float, float]]
) -> Iterator[Table]:
    """Return the tables of rates and of commits of the same runs. `where` begins their titles."""
    runs = {
        name: Twofold(partial(attempt, partial(run, interval_ms), name)) for name in (THEIRS, OURS)
    }
    yield Table(
        f"{where}a commit each {interval_ms} ms, {SIZE_BYTES} B",
        "records a second",
        [Case(name, each.first) for name, each in runs.items()],
        [Goal(OURS, THEIRS, ratio_at_least=1.0)],
    )
    yield Table(
        f"{where}the commits of these runs, each {interval_ms} ms: p99",
        "seconds",
        [Case(name, each.second) for name, each in runs.items()],
        [Goal(OURS, THEIRS, ratio_at_most=0.8)],
        higher_is_better=False,
    )


def tables() -> Iterator[Table]:
    """Return tables of rates and commits for each interval, and of readers."""
    for interval_ms in INTERVALS_MS:
        yield from _commit_tables("", interval_ms, commits_on_one_node)
    ours = f"{OURS}, {COMMITTED}"
    without, theirs = f"{OURS}, {UNCOMMITTED}", f"{THEIRS}, {COMMITTED}"
    yield Table(
        f"consumers of committed transactions, {SIZE_BYTES} B",
        "records a second",
        [
            Case(theirs, partial(read, THEIRS, COMMITTED)),
            Case(without, partial(read, OURS, UNCOMMITTED)),
            Case(ours, partial(read, OURS, COMMITTED)),
        ],
        [Goal(ours, other, ratio_at_least=1.0) for other in (theirs, without)],
    )
    stop()
    for interval_ms in INTERVALS_MS:
        yield from _commit_tables("three nodes: ", interval_ms, commits_on_three_nodes)
