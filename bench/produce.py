"""What a produce request costs the broker, by partitions, batch size and requests in flight.

One connection sends requests that were encoded beforehand, a fixed number of them ahead of the
answers. The broker's process time, user and system, is divided by the requests. Batches have one
record or 16 KB: costs that grow with the number of requests show here, costs that grow with bytes
show in `bench.broker`.
"""

from __future__ import annotations

import atexit
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache, partial
from typing import Final, NamedTuple

from bench.broker_load import create_topic
from bench.harness import Case, Goal, Table
from bench.peer_brokers import HOST, MoldauBroker, cpu_seconds
from bench.wire import one_record
from moldau.protocol.connection import ClientConnection
from moldau.protocol.framing import FrameReader, shared_buffer
from moldau.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

REQUESTS: Final = 10_000
DISTINCT: Final = 50
VERSION: Final = 9
TOPIC: Final = "requests"


class Load(NamedTuple):
    """A kind of request, and how many of them are in flight."""

    partitions: int
    size_bytes: int
    depth: int

    def __str__(self) -> str:
        return f"{self.partitions} x {self.size_bytes} B, depth {self.depth}"


ALONE: Final = Load(1, 100, 1)
PIPELINED: Final = Load(1, 100, 5)
LOADS: Final = (PIPELINED, ALONE, Load(3, 100, 5), Load(6, 100, 5), Load(1, 16_000, 5))


def frames_of(load: Load) -> list[bytes]:
    """Return requests that differ in their correlation ids."""
    client = ClientConnection("bench-produce")
    data = [
        PartitionProduceData(index=index, records=one_record(bytes(load.size_bytes)))
        for index in range(load.partitions)
    ]
    request = ProduceRequest(
        acks=1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=TOPIC, partition_data=data)],
    )
    return [b"".join(map(bytes, client.send(request, VERSION))) for _ in range(DISTINCT)]


def send_all(port: int, frames: Sequence[bytes], depth: int, count: int) -> None:
    """Send `count` requests, with at most `depth` in flight, and wait for all answers."""
    reader = FrameReader(shared_buffer())
    with socket.create_connection((HOST, port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sent = min(depth, count)
        connection.sendall(b"".join(frames[number % DISTINCT] for number in range(sent)))
        answered = 0
        while answered < count:
            size = connection.recv_into(reader.get_buffer())
            assert size, "the broker has closed the connection"
            came = sum(1 for _ in reader.received(size))
            answered += came
            more = min(came, count - sent)
            if more:
                numbers = range(sent, sent + more)
                connection.sendall(b"".join(frames[number % DISTINCT] for number in numbers))
                sent += more


@cache
def broker() -> MoldauBroker:
    """Return the broker that is measured; it ends with this process."""
    stack = ExitStack()
    atexit.register(stack.close)
    started = stack.enter_context(MoldauBroker.started())
    create_topic(started, TOPIC)
    return started


def microseconds(load: Load) -> float:
    """Return the microseconds of the broker's CPU for a request."""
    measured = broker()
    frames = frames_of(load)
    send_all(measured.port, frames, load.depth, REQUESTS // 10)
    before = cpu_seconds(measured.pid)
    send_all(measured.port, frames, load.depth, REQUESTS)
    return (cpu_seconds(measured.pid) - before) / REQUESTS * 1e6


def rate(load: Load) -> float:
    """Return the requests a second that this one client measures."""
    measured = broker()
    frames = frames_of(load)
    start = time.perf_counter()
    send_all(measured.port, frames, load.depth, REQUESTS)
    return REQUESTS / (time.perf_counter() - start)


def tables() -> Sequence[Table]:
    """Return the tables of the broker's CPU for a request, and of one connection's requests."""
    return (
        Table(
            "a produce request: broker CPU",
            "us a request",
            [Case(str(load), partial(microseconds, load)) for load in LOADS],
            [
                Goal(str(Load(3, 100, 5)), str(PIPELINED), ratio_at_most=2.2),
                Goal(str(Load(6, 100, 5)), str(PIPELINED), ratio_at_most=3.8),
                Goal(str(Load(1, 16_000, 5)), str(PIPELINED), ratio_at_most=2.2),
            ],
            higher_is_better=False,
            notes=("Depth: requests that are sent ahead of their answers.",),
        ),
        Table(
            "produce requests over one connection",
            "requests a second",
            [Case(str(load), partial(rate, load)) for load in (PIPELINED, ALONE)],
        ),
    )
