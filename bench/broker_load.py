"""What is asked of the brokers in `bench.broker`, and how each answer is timed.

Where a real client is named it is that one: Java's perf tool, librdkafka. Where microseconds or
many connections at once count, requests are bytes made beforehand, sent over plain sockets, so that
the one who measures costs as little as can be.
"""

from __future__ import annotations

import os
import random
import re
import resource
import selectors
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from struct import Struct
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.peer_brokers import HOST, PARTITIONS, BrokerProcess, cpu_seconds
from moldau.protocol.connection import ClientConnection
from moldau.protocol.messages.api_versions import ApiVersionsRequest
from moldau.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from moldau.records import BatchBuilder
from tests.peers.apache_kafka import fetch
from tests.peers.kafka_broker import SERVER_JVM, run_tool

_PIECE_BYTES: Final = 16_384
_PAYLOAD_LINES: Final = 200
_SIZE: Final = Struct(">i")
_ERROR_CODE: Final = Struct(">h")
_FRAME_START_BYTES: Final = 4 + 4 + 1  # size, correlation id, no tags
_PRODUCE_VERSION: Final = 9
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


class Spent(NamedTuple):
    """A piece of work: how fast it went, and what it cost the broker."""

    bytes_per_second: float
    cpu_seconds_per_gb: float


def admin(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": f"{HOST}:{broker.port}"})


def create_topic(
    broker: BrokerProcess, topic: str, partitions: int = PARTITIONS, **config: str
) -> None:
    """A topic that has its leaders; settings with `_` for `.`."""
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
    """Lines that compress about as well as JSON does; the same ones for every broker."""
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
    """Java's perf tool, from its own count of records a second; the broker's CPU beside it."""
    topic = f"perf-{time.monotonic_ns()}"
    create_topic(broker, topic)
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


def rdkafka_produce(
    broker: BrokerProcess, topic: str, count: int, value: bytes, settings: dict[str, Any]
) -> float:
    """librdkafka: records a second until all are acknowledged."""
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


def rdkafka_consume(broker: BrokerProcess, topic: str, count: int, size_bytes: int) -> Spent:
    """librdkafka, all partitions assigned: from the first record to the last."""
    consumer = Consumer(
        {
            "bootstrap.servers": f"{HOST}:{broker.port}",
            "group.id": "bench",
            "enable.auto.commit": False,
            "queued.max.messages.kbytes": 262_144,
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 1,
            "fetch.message.max.bytes": 8 << 20,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
        before = cpu_seconds(broker.pid)
        first = consumer.consume(1, 30)
        start = time.perf_counter()
        seen = len(first)
        while seen < count:
            messages = consumer.consume(min(10_000, count - seen), 30)
            if not messages:
                raise RuntimeError(f"only {seen} of {count} records came")
            seen += len(messages)
        elapsed = time.perf_counter() - start
        spent = cpu_seconds(broker.pid) - before
    finally:
        consumer.close()
    return Spent(count * size_bytes / elapsed, spent / (count * size_bytes / 1e9))


class Wire:
    """One plain socket with a produce request of one record that is sent again and again.

    The bytes are the same each time, correlation id included, so that a round trip costs this side
    two system calls and a look at the error code.
    """

    def __init__(self, port: int, topic: str, partition: int, value: bytes, acks: int = 1) -> None:
        data = PartitionProduceData(index=partition, records=one_record(value))
        request = ProduceRequest(
            acks=acks,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        parts = ClientConnection("bench").send(request, _PRODUCE_VERSION)
        self._request = b"".join(map(bytes, parts))
        self._error_at = _error_position(topic)
        self._received = b""
        self.socket = socket.create_connection((HOST, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self) -> None:
        self.socket.sendall(self._request)

    def receive(self) -> int | None:
        """The error code of the answer, when that is here as a whole."""
        data = self.socket.recv(65_536)
        if not data:
            raise ConnectionResetError("the broker closed the connection")
        frame = self._received + data
        if len(frame) < 4 or len(frame) < 4 + _SIZE.unpack_from(frame)[0]:
            self._received = frame
            return None
        self._received = b""
        return int(_ERROR_CODE.unpack_from(frame, self._error_at)[0])

    def round_trip(self) -> int:
        """Sends and waits; the error code of the answer."""
        self.send()
        while (code := self.receive()) is None:
            pass
        return code

    def close(self) -> None:
        self.socket.close()


def _error_position(topic: str) -> int:
    """Where the error code stands in a frame with the answer for one partition of that topic."""
    answer = PartitionProduceResponse(index=0, error_code=0x1234, base_offset=0)
    topics = [TopicProduceResponse(name=topic, partition_responses=[answer])]
    body = ProduceResponse(responses=topics).encode(_PRODUCE_VERSION)
    return _FRAME_START_BYTES + body.index(b"\x12\x34")


def one_record(value: bytes) -> bytes:
    """A batch of one record."""
    builder = BatchBuilder()
    builder.append(int(time.time() * 1000), None, value)
    return bytes(builder.build())


def round_trips_at_once(broker: BrokerProcess, topic: str, connections: int, count: int) -> float:
    """Acknowledged requests a second, each connection with one on its way."""
    wires = [
        Wire(broker.port, topic, number % PARTITIONS, bytes(100)) for number in range(connections)
    ]
    selector = selectors.DefaultSelector()
    for wire in wires:
        selector.register(wire, selectors.EVENT_READ, wire)
    try:
        done = 0
        start = time.perf_counter()
        for wire in wires:
            wire.send()
        while done < count:
            for key, _ in selector.select():
                code = key.data.receive()
                if code is None:
                    continue
                assert not code, f"error code {code}"
                done += 1
                key.data.send()
        return done / (time.perf_counter() - start)
    finally:
        selector.close()
        for wire in wires:
            wire.close()


def paced_latencies(broker: BrokerProcess, topic: str, per_second: int, count: int) -> list[float]:
    """librdkafka, each record by itself as soon as it is due: seconds to its answer, sorted."""
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
    """Seconds from `produce` to the consumer that has the record, librdkafka both, sorted."""
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
    """Of values in ascending order."""
    return ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]


def until_acknowledged(spawn: Callable[[], None], port: Callable[[], int], topic: str) -> float:
    """Seconds from exec to the first acknowledged record."""
    start = time.perf_counter()
    spawn()
    first_record(port(), topic, 0)
    return time.perf_counter() - start


def first_record(port: int, topic: str, partition: int) -> None:
    """Returns when the partition has taken a record; until then there may be no broker, or one that
    does not know of it yet."""
    for _ in _attempts():
        with suppress(OSError), closing(Wire(port, topic, partition, b"first")) as wire:
            if wire.round_trip() == 0:
                return
    raise TimeoutError(f"{topic}-{partition} took no record in a minute")


def _attempts() -> Iterator[None]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        yield
        time.sleep(0.002)


@contextmanager
def idle_connections(port: int, count: int) -> Iterator[None]:
    """So many connections that were answered once and say nothing any more."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + 1_000,) * 2)
    request = ApiVersionsRequest(client_software_name="idle", client_software_version="1")
    greeting = b"".join(map(bytes, ClientConnection("idle").send(request, 3)))
    with ExitStack() as stack:
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection((HOST, port)))
            connection.sendall(greeting)
            left = _SIZE.unpack(connection.recv(4, socket.MSG_WAITALL))[0]
            connection.recv(left, socket.MSG_WAITALL)
        yield


def raw_append(folder: Path, size_bytes: int) -> float:
    """Bytes a second that `write` puts into the page cache, 16 KB at a time."""
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
    """Bytes a second from one process to another through a socket, 16 KB at a time."""
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
