"""Plain sockets with requests encoded beforehand, where microseconds or many connections count.

The measuring process shares two cores with the broker, so a round trip costs this side two system
calls and a check of the error code: nothing is encoded, nothing is allocated for long. A real
client costs more than the difference to be measured: librdkafka's own latency is 200 us against any
broker, also against one that stores nothing.

Invariants: a connection has one request in flight, except when it is paced; every answer is
checked, and one with an error ends the measurement.
"""

from __future__ import annotations

import ctypes
import resource
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from struct import Struct
from typing import Final

from bench.peer_brokers import HOST, PARTITIONS, BrokerProcess
from moldau.protocol.connection import ClientConnection
from moldau.protocol.declare import Request
from moldau.protocol.messages.api_versions import ApiVersionsRequest
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from moldau.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from moldau.records import BatchBuilder
from moldau.records.codecs import Codec

_SIZE: Final = Struct(">i")
_ERROR_CODE: Final = Struct(">h")
_OFFSET: Final = Struct(">q")
RESPONSE_HEADER_BYTES: Final = 4 + 1  # correlation id, no tags
_FRAME_START_BYTES: Final = 4 + RESPONSE_HEADER_BYTES
PRODUCE_VERSION: Final = 9
_FETCH_VERSION: Final = 12
_FETCH_WAIT_MS: Final = 500
_OFFSET_MARK: Final = 0x0102030405060708
_ANSWER_BYTES: Final = 65_536
_WARM_UP_SECONDS: Final = 0.2
_LATE_SECONDS_MAX: Final = 0.002
_PARKED_SECONDS: Final = 0.0003
"""After this time, a request that was sent is waiting in the broker."""
_PR_SET_TIMERSLACK: Final = 29


class Wire:
    """One plain socket and a produce request, which is sent again and again.

    The bytes are the same each time, including the correlation id.
    """

    def __init__(
        self, port: int, topic: str, partition: int, records: bytes, acks: int = 1
    ) -> None:
        self.request = produce_request(topic, partition, records, acks)
        self._error_at = error_position(topic)
        self._received = b""
        self.socket = connect(port)

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self) -> None:
        self.socket.sendall(self.request)

    def receive(self) -> int | None:
        """Return the error code of the answer, or None if the answer is not complete yet."""
        data = self.socket.recv(_ANSWER_BYTES)
        if not data:
            raise ConnectionResetError("the broker closed the connection")
        frame = self._received + data
        if len(frame) < 4 or len(frame) < 4 + _SIZE.unpack_from(frame)[0]:
            self._received = frame
            return None
        self._received = b""
        return int(_ERROR_CODE.unpack_from(frame, self._error_at)[0])

    def round_trip(self) -> int:
        """Send the request, wait, and return the error code of the answer."""
        self.send()
        while (code := self.receive()) is None:
            pass
        return code

    def close(self) -> None:
        self.socket.close()


class FetchWire:
    """One plain socket that reads a partition with full Fetch requests, without a session."""

    def __init__(
        self, port: int, topic: str, partition: int, offset: int = 0, bytes_max: int = 1 << 20
    ) -> None:
        asked = FetchPartition(
            partition=partition, fetch_offset=_OFFSET_MARK, partition_max_bytes=bytes_max
        )
        request = FetchRequest(
            max_wait_ms=_FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=bytes_max,
            topics=[FetchTopic(topic=topic, partitions=[asked])],
        )
        self._request = bytearray(request_bytes(request, _FETCH_VERSION))
        self._offset_at = self._request.index(_OFFSET.pack(_OFFSET_MARK))
        self._buffer = bytearray(bytes_max + (1 << 20))
        self._view = memoryview(self._buffer)
        self.socket = connect(port)
        self.seek(offset)

    def seek(self, offset: int) -> None:
        """Set the offset of the next request."""
        _OFFSET.pack_into(self._request, self._offset_at, offset)

    def ask(self) -> None:
        """Send the request. The broker answers when it has a record, or after half a second."""
        self.socket.sendall(self._request)

    def take(self) -> memoryview:
        """Wait for the whole answer and return it; it is valid until the next call."""
        received = 0
        wanted = 4
        while received < wanted:
            count = self.socket.recv_into(self._view[received:])
            if not count:
                raise ConnectionResetError("the broker closed the connection")
            received += count
            if wanted == 4 and received >= 4:
                wanted = 4 + _SIZE.unpack_from(self._buffer)[0]
        return self._view[:received]

    def close(self) -> None:
        self.socket.close()


def connect(port: int) -> socket.socket:
    """Connect to the broker, without delay for small packets."""
    found = socket.create_connection((HOST, port))
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def request_bytes(request: Request, version: int) -> bytes:
    """Return the whole frame of a request, with its header."""
    return b"".join(map(bytes, ClientConnection("bench").send(request, version)))


def produce_request(topic: str, partition: int, records: bytes, acks: int = 1) -> bytes:
    """Return the frame of a request that produces one batch."""
    return produce_request_of(topic, [partition], records, acks)


def produce_request_of(
    topic: str, partitions: Sequence[int], records: bytes, acks: int = 1
) -> bytes:
    """Return the frame of a request that produces the same batch to each of the partitions."""
    data = [PartitionProduceData(index=each, records=records) for each in partitions]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    request = ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=topics)
    return request_bytes(request, PRODUCE_VERSION)


def error_position(topic: str) -> int:
    """Return the position of the error code in an answer for one partition of that topic."""
    answer = PartitionProduceResponse(index=0, error_code=0x1234, base_offset=0)
    topics = [TopicProduceResponse(name=topic, partition_responses=[answer])]
    body = ProduceResponse(responses=topics).encode(PRODUCE_VERSION)
    return _FRAME_START_BYTES + body.index(b"\x12\x34")


def one_record(value: bytes) -> bytes:
    """Return a batch of one record."""
    return batch_of([value])


def batch_of(values: Sequence[bytes], codec: Codec = Codec.NONE) -> bytes:
    """Return a batch of these values."""
    builder = BatchBuilder(codec=codec)
    for value in values:
        builder.append(int(time.time() * 1000), None, value)
    return bytes(builder.build())


def round_trips_at_once(
    broker: BrokerProcess, topic: str, connections: int, count: int, partitions: int = PARTITIONS
) -> float:
    """Return the acknowledged requests a second, of one record of 100 B, each connection with one
    in flight."""
    records = one_record(bytes(100))
    with ExitStack() as stack:
        wires = [
            stack.enter_context(closing(Wire(broker.port, topic, at % partitions, records)))
            for at in range(connections)
        ]
        return round_trips(wires, error_position(topic), count)


def round_trips(wires: Sequence[Wire], error_at: int, count: int) -> float:
    """Return the answers a second over all wires, each with one request in flight.

    Every answer must be as long as the first one: any other is an error, or came in two pieces, and
    ends the measurement. So a round trip needs only a few Python operations.
    """
    answer_bytes = _answer_bytes(wires[0])
    ready = select.epoll()
    buffer = bytearray(_ANSWER_BYTES)
    acts = {}
    for wire in wires:
        ready.register(wire.fileno(), select.EPOLLIN)
        acts[wire.fileno()] = wire.socket.recv_into, wire.socket.send, wire.request
    done = 0
    low_byte_at = error_at + 1
    with closing(ready):
        start = time.perf_counter()
        for wire in wires:
            wire.send()
        while done < count:
            for fileno, _ in ready.poll():
                receive, send, request = acts[fileno]
                if receive(buffer) != answer_bytes or buffer[error_at] or buffer[low_byte_at]:
                    raise RuntimeError(f"refused, or not in one piece: {bytes(buffer[:200])!r}")
                if send(request) != len(request):
                    raise RuntimeError("the socket took half a request: smaller ones are needed")
                done += 1
        elapsed = time.perf_counter() - start
        for wire in wires:  # Nothing is left on its way for whoever measures next.
            wire.receive()
    return done / elapsed


def _answer_bytes(wire: Wire) -> int:
    wire.send()
    data = wire.socket.recv(_ANSWER_BYTES)
    assert len(data) == 4 + _SIZE.unpack_from(data)[0], "an answer in pieces"
    return len(data)


def paced_produces(broker: BrokerProcess, topic: str, per_second: int, count: int) -> list[float]:
    """Return the sorted seconds to each answer: one record of 100 B a request, acks=all, each sent
    when it is due, whether or not earlier ones are answered. Only if this process did not run for a
    while, what it missed is not sent at once: that burst would be its own."""
    records = one_record(bytes(100))
    requests = [produce_request(topic, index, records, -1) for index in range(PARTITIONS)]
    error_at = error_position(topic)
    interval = 1 / per_second
    warm_up = int(per_second * _WARM_UP_SECONDS)
    found: list[float] = []
    with closing(Wire(broker.port, topic, 0, records, -1)) as wire, _exact_timers():
        answer_bytes = _answer_bytes(wire)
        send, receive = wire.socket.sendall, wire.socket.recv
        on_way: deque[float] = deque()
        started = time.perf_counter()
        sent = 0
        while len(found) < warm_up + count:
            left = started + sent * interval - time.perf_counter()
            if sent < warm_up + count and left <= 0:
                if left < -_LATE_SECONDS_MAX:
                    started -= left
                on_way.append(time.perf_counter())
                send(requests[sent % PARTITIONS])
                sent += 1
                continue
            timeout = left if sent < warm_up + count else 30.0
            if not on_way:
                time.sleep(timeout)
                continue
            if not select.select((wire,), (), (), timeout)[0]:
                continue
            data = receive(_ANSWER_BYTES)
            now = time.perf_counter()
            if not data or len(data) % answer_bytes:
                raise RuntimeError(f"refused, or not in one piece: {data[:200]!r}")
            for start in range(0, len(data), answer_bytes):
                found.append(now - on_way.popleft())
                code = _ERROR_CODE.unpack_from(data, start + error_at)[0]
                assert not code, f"error code {code}"
    return sorted(found[warm_up:])


def paced_end_to_end(broker: BrokerProcess, topic: str, per_second: int, count: int) -> list[float]:
    """Return the sorted seconds from sending a record to having it. A second connection fetches
    before it is sent, and the broker answers when it is there. The topic is new, with one
    partition."""
    first_record(broker.port, topic, 0)
    warm_up = int(per_second * _WARM_UP_SECONDS)
    found: list[float] = []
    with ExitStack() as stack:
        stack.enter_context(_exact_timers())
        records = one_record(bytes(100))
        producer = stack.enter_context(closing(Wire(broker.port, topic, 0, records)))
        consumer = stack.enter_context(closing(FetchWire(broker.port, topic, 0)))
        started = time.perf_counter()
        for number in range(warm_up + count):
            consumer.seek(1 + number)
            consumer.ask()
            early = started + number / per_second - time.perf_counter()
            time.sleep(max(early, _PARKED_SECONDS))
            sent = time.perf_counter()
            producer.send()
            frame = consumer.take()
            taken = time.perf_counter()
            while (offset := _fetched(frame)) is None:  # it was sent later than the broker waits
                consumer.ask()
                frame = consumer.take()
                taken = time.perf_counter()
            found.append(taken - sent)
            while (code := producer.receive()) is None:
                pass
            assert not code, f"error code {code}"
            if offset != 1 + number:
                raise RuntimeError(f"record {number} did not come")
    return sorted(found[warm_up:])


def _fetched(frame: memoryview) -> int | None:
    """Return the base offset of the first batch in the answer for one partition, or None."""
    answer = FetchResponse.decode(bytes(frame[_FRAME_START_BYTES:]), _FETCH_VERSION)
    partition = answer.responses[0].partitions[0]
    assert not partition.error_code, f"error code {partition.error_code}"
    return _OFFSET.unpack_from(partition.records)[0] if partition.records else None


@contextmanager
def _exact_timers() -> Iterator[None]:
    """Make sleeps of this thread end on time, and not up to 50 us later, as is usual."""
    prctl: Callable[[int, int], int] = ctypes.CDLL(None).prctl
    prctl(_PR_SET_TIMERSLACK, 1)
    try:
        yield
    finally:
        prctl(_PR_SET_TIMERSLACK, 0)  # back to what it was at the start


def until_acknowledged(spawn: Callable[[], None], port: Callable[[], int], topic: str) -> float:
    """Return the seconds from exec to the first acknowledged record."""
    start = time.perf_counter()
    spawn()
    first_record(port(), topic, 0)
    return time.perf_counter() - start


def first_record(port: int, topic: str, partition: int) -> None:
    """Wait until the partition has taken a record. Before, the broker may not run, or not know the
    partition yet."""
    for _ in _attempts():
        with suppress(OSError), closing(Wire(port, topic, partition, one_record(b"1"))) as wire:
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
    """Hold connections that have received one answer and then do nothing."""
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
