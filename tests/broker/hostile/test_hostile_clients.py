"""Clients that send what no client should, hold what they should not, or never listen."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, suppress
from random import Random

import pytest

from moldau.errors.codes import ErrorCode
from moldau.protocol.connection import ClientConnection
from moldau.protocol.messages.api_versions import ApiVersionsResponse
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.runtime import Runtime
from moldau.runtime.process import raise_open_files
from moldau.runtime.real import run
from tests.broker.hostile.neighbour import neighbour, until
from tests.broker.hostile.resident_memory import resident_bytes
from tests.broker.main.processes import BrokerProcess, broker_process
from tests.broker.server.wire import FETCH_VERSION, Wire, wired

pytestmark = pytest.mark.real

CLOSE_SECONDS = 20.0
OPENERS = 5000
DESCRIPTORS_SPARED = 1000
"""Of what this process may open: for everything else."""
HEADER = struct.Struct(">hhih")
API_VERSIONS = 18
SLOW_READERS = 20
FETCHES = 200
VALUE = b"x" * 500_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker_process(tmp_path_factory.mktemp("hostile"), "--log-level", "error") as process:
        yield process


def beside(broker: BrokerProcess, scenario: Callable[[Runtime], Awaitable[None]]) -> None:
    """Play a scenario while a neighbour works, and look at the process afterwards."""

    async def whole(runtime: Runtime) -> None:
        async with neighbour(runtime, broker.host, broker.port):
            await scenario(runtime)

    run(whole)
    assert broker.process.poll() is None, "the broker lives"


async def closed(reader: asyncio.StreamReader) -> bytes:
    """What came until the broker hung up, which it does."""
    async with asyncio.timeout(CLOSE_SECONDS):
        try:
            return await reader.read()
        except ConnectionError:
            return b""


def open_files(process: BrokerProcess) -> int:
    return len(os.listdir(f"/proc/{process.process.pid}/fd"))


def frame(key: int, version: int, body: bytes = b"", correlation: int = 7) -> bytes:
    content = HEADER.pack(key, version, correlation, -1) + body
    return len(content).to_bytes(4, "big") + content


GARBAGE = {
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "tls": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "negative size": b"\xff\xff\xff\xff" + bytes(10),
    "oversize": b"\x7f\xff\xff\xff" + bytes(10),
    "no header": b"\0\0\0\x02\0\x12",
    "empty": b"\0\0\0\0",
    "unknown api": frame(9999, 0),
    "negative api": frame(-1, 0),
    "unknown version": frame(3, 99),
    "broken body": frame(3, 12, b"\xff" * 40),
    "huge count": frame(3, 9, b"\0\xff\xff\xff\xff\x07"),
    "more than there is": frame(18, 3, b"\x7f" + b"abc"),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_what_is_no_request_ends_its_connection_and_no_other(
    broker: BrokerProcess, kind: str
) -> None:
    async def scenario(runtime: Runtime) -> None:
        for _ in range(20):
            reader, writer = await runtime.network.open_streams(broker.host, broker.port)
            writer.write(GARBAGE[kind])
            assert await closed(reader) == b""
            writer.close()

    beside(broker, scenario)


def test_random_bytes(broker: BrokerProcess) -> None:
    async def scenario(runtime: Runtime) -> None:
        random = Random(1)
        for _ in range(300):
            reader, writer = await runtime.network.open_streams(broker.host, broker.port)
            writer.write(random.randbytes(random.choice((1, 4, 60, 5000))))
            with suppress(OSError):
                writer.write_eof()
            await closed(reader)
            writer.close()

    beside(broker, scenario)


@pytest.mark.parametrize("version", [6, 99, 32767, -1])
def test_api_versions_of_any_version_is_answered_with_our_range(
    broker: BrokerProcess, version: int
) -> None:
    async def scenario(runtime: Runtime) -> None:
        reader, writer = await runtime.network.open_streams(broker.host, broker.port)
        for correlation in (1, 2):
            writer.write(frame(API_VERSIONS, version, b"\0\1\2\3", correlation))
            size = int.from_bytes(await reader.readexactly(4), "big")
            data = await reader.readexactly(size)
            assert int.from_bytes(data[:4], "big") == correlation
            answer = ApiVersionsResponse.decode(data[4:], 0)
            assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
            own = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
            assert own[API_VERSIONS] == (0, 5)
        writer.close()

    beside(broker, scenario)


def test_half_requests_hold_nobody_up_and_little_memory(broker: BrokerProcess) -> None:
    """Each promises 50 MB and sends a little of it."""

    async def scenario(runtime: Runtime) -> None:
        before = resident_bytes(broker)
        writers = []
        for number in range(200):
            _, writer = await runtime.network.open_streams(broker.host, broker.port)
            whole = (50_000_000).to_bytes(4, "big") + HEADER.pack(0, 9, 1, -1) + bytes(1000)
            writer.write(whole[: 1 + number * 5])
            writers.append(writer)
        async with wired(runtime, broker.host, broker.port) as wire:
            assert (await wire.metadata()).brokers
        assert resident_bytes(broker) - before < 64 << 20
        for writer in writers:
            writer.close()

    beside(broker, scenario)


def test_a_request_byte_by_byte_is_a_request(broker: BrokerProcess) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with wired(runtime, broker.host, broker.port) as wire:
            request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
            whole = b"".join(map(bytes, wire.protocol.send(request, 12)))
            for at in range(len(whole)):
                wire.writer.write(whole[at : at + 1])
                await wire.writer.drain()
                await asyncio.sleep(0)
            size = int.from_bytes(await wire.reader.readexactly(4), "big")
            answer = wire.protocol.receive(await wire.reader.readexactly(size))
            assert answer.response.brokers  # type: ignore[attr-defined]

    beside(broker, scenario)


def test_who_never_reads_costs_little_memory(broker: BrokerProcess) -> None:
    """Each asks for 100 MB in many requests, and takes nothing."""

    async def scenario(runtime: Runtime) -> None:
        await fill(runtime, broker)
        before = resident_bytes(broker)
        protocol = ClientConnection("never")
        asked = b"".join(map(bytes, fetches(protocol)))
        with ExitStack() as stack:
            for _ in range(SLOW_READERS):
                taker = stack.enter_context(socket.create_connection((broker.host, broker.port)))
                taker.setblocking(False)
                with suppress(BlockingIOError):
                    taker.send(asked)
            for _ in range(50):
                await asyncio.sleep(0.01)
                assert resident_bytes(broker) - before < 128 << 20

    beside(broker, scenario)


async def fill(runtime: Runtime, broker: BrokerProcess) -> None:
    async with wired(runtime, broker.host, broker.port) as wire:
        await wire.create("large")
        assert (await wire.produce("large", [VALUE])).error_code == ErrorCode.NONE


def fetches(protocol: ClientConnection) -> list[bytes]:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        topics=[FetchTopic(topic="large", partitions=[partition])],
    )
    return [bytes(part) for _ in range(FETCHES) for part in protocol.send(request, FETCH_VERSION)]


def test_thousands_who_open_and_say_almost_nothing(broker: BrokerProcess) -> None:
    most = raise_open_files()
    count = min(OPENERS, most - DESCRIPTORS_SPARED)
    if count < 1_000:
        pytest.skip(f"this process may open only {most} files")

    async def scenario(runtime: Runtime) -> None:
        before = resident_bytes(broker)
        loop = asyncio.get_running_loop()
        opened = []
        for _ in range(count):
            opener = socket.socket()
            opener.setblocking(False)
            await loop.sock_connect(opener, (broker.host, broker.port))
            opener.send(b"\0")
            opened.append(opener)
        for opener in opened:
            opener.send(b"\0")
        wire = await Wire.open(runtime, broker.host, broker.port)
        assert (await wire.metadata()).brokers, "one more is served"
        wire.close()
        grown = resident_bytes(broker) - before
        assert grown / count < 16 << 10, f"{grown / count:.0f} bytes for each"
        for opener in opened:
            opener.close()

    beside(broker, scenario)


def test_a_request_that_no_one_finishes_is_given_up_with_its_connection(
    broker: BrokerProcess,
) -> None:
    """Who hangs up in the midst of a request, or of its answers, leaves nothing behind."""

    async def scenario(runtime: Runtime) -> None:
        await fill(runtime, broker)
        before = open_files(broker)
        protocol = ClientConnection("gone")
        whole = b"".join(fetches(protocol))
        random = Random(2)
        for _ in range(200):
            _, writer = await runtime.network.open_streams(broker.host, broker.port)
            writer.write(whole[: random.randrange(len(whole))])
            await writer.drain()
            writer.transport.abort()
        async with asyncio.timeout(CLOSE_SECONDS):
            await until(lambda: open_files(broker) < before + 20)

    beside(broker, scenario)
