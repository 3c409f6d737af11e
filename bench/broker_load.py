"""The loads that `bench.broker` puts on the brokers, and how each is timed.

They use real clients unchanged: Java's perf tool and librdkafka. Where these would mostly measure
themselves, plain sockets are used instead: see `bench.wire`.
"""

from __future__ import annotations

import os
import random
import re
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.free_memory import touch_free_memory
from bench.peer_brokers import HOST, PARTITIONS, BrokerProcess, cpu_seconds
from tests.peers.apache_kafka import fetch
from tests.peers.kafka_broker import SERVER_JVM, run_tool

_PIECE_BYTES: Final = 16_384
_PAYLOAD_LINES: Final = 200
_RATE: Final = re.compile(r"([\d.]+) records/sec \(([\d.]+) MB/sec\), ([\d.]+) ms avg latency")
_WORDS: Final = tuple(
    word.ljust(6, "x")[:6]
    for word in [
        "order",
        "item",
        "price",
        "total",
        "city",
        "street",
        "paid",
        "open",
        "sent",
        "state",
        "user",
        "time",
    ]
)


# What Java's consumer perf tool prints in the end: so many fields, the records that came, and how
# many a second since the group had its partitions.
_PERF_FIELDS: Final = 10
_PERF_RECORDS: Final = 4
_PERF_PER_SECOND: Final = 9


class Spent(NamedTuple):
    """The speed of a piece of work, and what it cost the broker."""

    bytes_per_second: float
    cpu_seconds_per_gb: float


def admin(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": f"{HOST}:{broker.port}"})


def create_topic(
    broker: BrokerProcess, topic: str, partitions: int = PARTITIONS, **config: str
) -> None:
    """Create a topic and wait until it has its leaders. Settings are given with `_` for `.`."""
    settings = {name.replace("_", "."): value for name, value in config.items()}
    wanted = NewTopic(topic, partitions, 1, config=settings)
    client = admin(broker)  # its futures end with it
    for future in client.create_topics([wanted]).values():
        future.result(30)


def delete_topic(broker: BrokerProcess, topic: str) -> None:
    client = admin(broker)
    for future in client.delete_topics([topic]).values():
        future.result(30)


def write_payload(path: Path, size_bytes: int) -> None:
    """Write lines that compress about as well as JSON does; they are the same for every broker."""
    chance = random.Random(size_bytes)
    lines = []
    for _ in range(_PAYLOAD_LINES):
        line = "{"
        while len(line) < size_bytes:
            line += f'"{chance.choice(_WORDS)}":{chance.randrange(10**6)},'
        lines.append(line[: size_bytes - 1] + "}")
    path.write_text("\n".join(lines), encoding="utf-8")


def perf_produce(
    broker: BrokerProcess, payload: Path, count: int, size_bytes: int, properties: Sequence[str]
) -> Spent:
    """Run Java's perf tool. Return its own records a second, and the broker's CPU."""
    topic = f"perf-{time.monotonic_ns()}"
    create_topic(broker, topic)
    touch_free_memory()
    before = cpu_seconds(broker.pid)
    printed = run_tool(
        fetch(),
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", str(count), "--throughput", "-1"),
        *("--payload-file", str(payload), "--bootstrap-server", f"{HOST}:{broker.port}"),
        *("--command-property", *properties),
        timeout_s=300,
        jvm=("-Xmx512m", *SERVER_JVM),
    )
    spent = cpu_seconds(broker.pid) - before
    delete_topic(broker, topic)
    found = _RATE.findall(printed)
    if not found:
        raise RuntimeError(f"the perf tool gave no rate: {printed[-500:]}")
    return Spent(float(found[-1][0]) * size_bytes, spent / (count * size_bytes / 1e9))


def perf_consume(broker: BrokerProcess, topic: str, count: int, size_bytes: int) -> float:
    """Run Java's perf tool in a new group. Return bytes a second while it has partitions."""
    printed = run_tool(
        fetch(),
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--topic", topic, "--num-records", str(count), "--timeout", "60000", "--hide-header"),
        *("--bootstrap-server", f"{HOST}:{broker.port}"),
        timeout_s=300,
        jvm=("-Xmx512m", *SERVER_JVM),
    )
    line = printed.strip().splitlines()[-1]
    fields = line.split(", ")
    if len(fields) != _PERF_FIELDS or int(fields[_PERF_RECORDS]) < count:
        raise RuntimeError(f"the perf tool did not read all: {printed[-500:]}")
    return float(fields[_PERF_PER_SECOND]) * size_bytes


def rdkafka_produce(
    broker: BrokerProcess, topic: str, count: int, value: bytes, settings: dict[str, Any]
) -> float:
    """Produce with librdkafka. Return records a second until all are acknowledged."""
    producer = Producer({"bootstrap.servers": f"{HOST}:{broker.port}", "acks": 1, **settings})
    failures: list[Any] = []

    def on_delivery(error: Any, message: Any) -> None:
        if error is not None:
            failures.append(error)

    start = time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce(
                    topic, value, partition=number % PARTITIONS, on_delivery=on_delivery
                )
                break
            except BufferError:
                producer.poll(0.01)
        if not number % 1000:
            producer.poll(0)
    left = producer.flush(120)
    elapsed = time.perf_counter() - start
    if left or failures:
        raise RuntimeError(f"{left} records were not acknowledged, first error: {failures[:1]}")
    return count / elapsed


def read_first(consumer: Consumer, topic: str) -> list[TopicPartition]:
    """Read one record, so that the consumer knows the topic and has its connection before a clock
    starts. Return the topic's partitions from their beginnings."""
    whole = [TopicPartition(topic, index, 0) for index in range(PARTITIONS)]
    consumer.assign(whole)
    if not consumer.consume(1, 30):
        raise RuntimeError("no record came")
    return whole


def read_all(consumer: Consumer, whole: list[TopicPartition], count: int, times: int) -> None:
    """Read the `count` records of these partitions that many times."""
    for _ in range(times):
        consumer.assign(whole)
        seen = 0
        while seen < count:
            messages = consumer.consume(min(10_000, count - seen), 30)
            if not messages:
                raise RuntimeError(f"only {seen} of {count} records came")
            seen += len(messages)


def rdkafka_consume(
    broker: BrokerProcess, topic: str, count: int, size_bytes: int, times: int
) -> Spent:
    """Read the topic's `count` records that many times with librdkafka, all partitions assigned."""
    consumer = Consumer(
        {
            "bootstrap.servers": f"{HOST}:{broker.port}",
            "group.id": "bench",
            "enable.auto.commit": False,
            "queued.max.messages.kbytes": 262_144,
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 1,
            "fetch.message.max.bytes": 8 << 20,
            # At the end the client asks for more, and cannot begin anew until that is answered.
            "fetch.wait.max.ms": 5,
        }
    )
    try:
        whole = read_first(consumer, topic)
        before = cpu_seconds(broker.pid)
        start = time.perf_counter()
        read_all(consumer, whole, count, times)
        elapsed = time.perf_counter() - start
        spent = cpu_seconds(broker.pid) - before
    finally:
        consumer.close()
    size = count * size_bytes * times
    return Spent(size / elapsed, spent / (size / 1e9))


def paced_latencies(broker: BrokerProcess, topic: str, per_second: int, count: int) -> list[float]:
    """Produce with librdkafka, each record alone when it is due. Return the sorted seconds to each
    answer, most of which is the client's own time."""
    producer = Producer(
        {"bootstrap.servers": f"{HOST}:{broker.port}", "acks": "all", "linger.ms": 0}
    )
    found: list[float] = []

    def on_delivery(error: Any, message: Any) -> None:
        if error is not None:
            raise RuntimeError(f"not delivered: {error}")
        found.append(message.latency())

    warm_up = per_second // 5
    start = time.perf_counter()
    for number in range(warm_up + count):
        early = start + number / per_second - time.perf_counter()
        if early > 0:
            time.sleep(early)
        producer.produce(topic, bytes(100), partition=number % PARTITIONS, on_delivery=on_delivery)
        producer.poll(0)
    if producer.flush(60):
        raise RuntimeError("records were not acknowledged in a minute")
    return sorted(found[warm_up:])


def end_to_end(broker: BrokerProcess, topic: str, count: int) -> list[float]:
    """Return the sorted seconds from `produce` to the consumer, with librdkafka on both sides."""
    servers = f"{HOST}:{broker.port}"
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 500,
        }
    )
    producer = Producer({"bootstrap.servers": servers, "acks": 1, "linger.ms": 0})
    found = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        for number in range(count + 20):
            start = time.perf_counter()
            producer.produce(topic, b"%d" % number, partition=0)
            producer.poll(0)
            message = consumer.poll(10)
            if message is None or message.error() is not None:
                raise RuntimeError(f"record {number} did not come: {message and message.error()}")
            if number >= 20:
                found.append(time.perf_counter() - start)
    finally:
        producer.flush(10)
        consumer.close()
    return sorted(found)


def p50_and_p99(ordered: Sequence[float]) -> tuple[float, float]:
    """Return both percentiles of values in ascending order."""
    return ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]


def raw_append(folder: Path, size_bytes: int) -> float:
    """Return the bytes a second that `write` puts into the page cache, 16 KB at a time."""
    piece = os.urandom(_PIECE_BYTES)
    path = folder / "raw"
    with path.open("wb", buffering=0) as file:
        start = time.perf_counter()
        for _ in range(size_bytes // _PIECE_BYTES):
            file.write(piece)
        elapsed = time.perf_counter() - start
    path.unlink()
    return size_bytes / elapsed


def loopback_copy(size_bytes: int) -> float:
    """Return the bytes a second from one process to another through a socket, 16 KB at a time."""
    listener = socket.create_server((HOST, 0))
    child = os.fork()
    if not child:
        sender, _ = listener.accept()
        piece = bytes(_PIECE_BYTES)
        with suppress(OSError):
            for _ in range(size_bytes // _PIECE_BYTES):
                sender.sendall(piece)
        os._exit(0)
    with listener, socket.create_connection(listener.getsockname()) as receiver:
        buffer = bytearray(1 << 18)
        received = 0
        start = time.perf_counter()
        while received < size_bytes // _PIECE_BYTES * _PIECE_BYTES:
            received += receiver.recv_into(buffer)
        elapsed = time.perf_counter() - start
    os.waitpid(child, 0)
    return received / elapsed
