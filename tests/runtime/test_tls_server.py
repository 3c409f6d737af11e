"""TLS under the protocols of a listener: bytes both ways, back pressure, and bad handshakes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from moldau.runtime import Runtime
from moldau.runtime.handshakes import TOO_MANY, Handshakes
from moldau.runtime.tls import PLAIN_TEXT, TIMED_OUT, TlsServer, TlsTransport
from tests.link.certificates import Authority, Issued, written
from tests.runtime.arena import HOST, REAL_ARENAS, play, until

MEBIBYTE = 1 << 20


class Echo(asyncio.BufferedProtocol):
    """Sends back what comes, and stops reading while that is not taken."""

    def __init__(self, paused: asyncio.Event) -> None:
        self.paused = paused
        self.buffer = memoryview(bytearray(70_000))
        self.transport: asyncio.Transport
        self.ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=100_000, low=0)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(self.buffer[:nbytes])
        self.transport.writelines([data[:3], data[3:]])

    def pause_writing(self) -> None:
        self.transport.pause_reading()
        self.paused.set()

    def resume_writing(self) -> None:
        self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(exc)


class Served:
    """A listener, its protocols and its failures."""

    def __init__(self, runtime: Runtime, folder: Path, **limits: float) -> None:
        self.runtime = runtime
        self.authority = Authority()
        self.folder = folder
        written(folder, "ca.pem", self.authority.certificate_pem)
        self.failures: list[str] = []
        self.protocols: list[Echo] = []
        self.failed = asyncio.Event()
        self.paused = asyncio.Event()
        self.use(self.authority.issue("localhost"))
        self.terms = TlsServer(lambda: self.context, self._note, **limits)  # type: ignore[arg-type]
        self.port = 0

    def use(self, issued: Issued) -> None:
        """Serve this certificate from now on."""
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(written(self.folder, "node.pem", issued.pem))

    def _note(self, peer: str, reason: str) -> None:
        assert peer.startswith(f"{HOST}:")
        self.failures.append(reason)
        self.failed.set()

    def make(self) -> Echo:
        self.protocols.append(Echo(self.paused))
        return self.protocols[-1]

    async def connect(
        self, trust: str = "ca.pem"
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = ssl.create_default_context(cafile=str(self.folder / trust))
        return await self.runtime.network.open_streams(
            HOST, self.port, tls=context, server_name="localhost"
        )

    async def until_failure(self, reason: str) -> None:
        async with asyncio.timeout(30):
            while reason not in self.failures:
                self.failed.clear()
                await self.failed.wait()


@asynccontextmanager
async def served(runtime: Runtime, folder: Path, **limits: float) -> AsyncIterator[Served]:
    at = Served(runtime, folder, **limits)
    async with await runtime.network.listen(at.make, HOST, 0, tls=at.terms) as listener:
        at.port = listener.port
        yield at
        for each in at.protocols:
            each.transport.abort()
            await each.ended


@pytest.mark.parametrize("arena", REAL_ARENAS)
@pytest.mark.parametrize("size", [1, 16_384, 16_385, 3 * MEBIBYTE])
def test_what_is_sent_comes_back(arena: str, size: int, tmp_path: Path) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with served(runtime, tmp_path) as at:
            reader, writer = await at.connect()
            data = bytes(range(256)) * (size // 256) + bytes(size % 256)
            sending = asyncio.ensure_future(send(writer, data))
            assert await reader.readexactly(size) == data
            await sending
            (protocol,) = at.protocols
            assert protocol.transport.get_extra_info("cipher") is not None
            assert protocol.transport.get_extra_info("sslcontext") is at.context
            protocol.transport.close()
            assert await reader.read() == b""
            protocol.transport.write(b"too late")
            writer.close()
            with suppress(ssl.SSLError, ConnectionError):
                await writer.wait_closed()

    play(arena, scenario)


async def send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


@pytest.mark.parametrize("arena", REAL_ARENAS)
def test_a_reader_that_does_not_read_stops_the_writer(arena: str, tmp_path: Path) -> None:
    """What it has not taken stays in its own hands, and all of it comes in the end."""

    async def scenario(runtime: Runtime) -> None:
        async with served(runtime, tmp_path) as at:
            reader, writer = await at.connect()
            data = bytes(20 * MEBIBYTE)
            sending = asyncio.ensure_future(send(writer, data))
            async with asyncio.timeout(30):
                await at.paused.wait()
            assert not at.protocols[0].transport.is_reading()
            assert at.protocols[0].transport.get_write_buffer_size() < 2 * MEBIBYTE
            assert await reader.readexactly(len(data)) == data
            await sending
            writer.close()

    play(arena, scenario)


@pytest.mark.parametrize("arena", REAL_ARENAS)
def test_the_newest_certificate_is_used_and_connections_stay(arena: str, tmp_path: Path) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with served(runtime, tmp_path) as at:
            old = await at.connect()
            another = Authority("another")
            written(tmp_path, "another.pem", another.certificate_pem)
            at.use(another.issue("localhost"))
            with pytest.raises(ssl.SSLCertVerificationError):
                await at.connect()
            new = await at.connect("another.pem")
            for reader, writer in (old, new):
                writer.write(b"hello")
                assert await reader.readexactly(5) == b"hello"
                writer.close()

    play(arena, scenario)


@pytest.mark.parametrize("arena", REAL_ARENAS)
def test_plain_text_is_told_and_closed(arena: str, tmp_path: Path) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with served(runtime, tmp_path) as at:
            reader, writer = await runtime.network.open_streams(HOST, at.port)
            writer.write(b"\0\0\0\x08" + bytes(8))
            assert await reader.read() == b""
            await at.until_failure(PLAIN_TEXT)
            writer.close()
            assert not at.protocols

    play(arena, scenario)


@pytest.mark.parametrize("arena", REAL_ARENAS)
def test_a_handshake_has_an_end_and_no_protocol_before(arena: str, tmp_path: Path) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with served(runtime, tmp_path, handshake_seconds=0.2) as at:
            reader, writer = await runtime.network.open_streams(HOST, at.port)
            writer.write(b"\x16\x03\x01\x02\x00")
            assert await reader.read() == b""
            await at.until_failure(TIMED_OUT)
            writer.close()
            assert not at.protocols

    play(arena, scenario)


@pytest.mark.parametrize("arena", REAL_ARENAS)
@pytest.mark.parametrize("bound", ["handshakes_max", "handshakes_per_source_max"])
def test_a_new_handshake_ends_the_one_that_waits_for_the_longest(
    bound: str, arena: str, tmp_path: Path
) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with served(runtime, tmp_path, silent_seconds=0.0, **{bound: 2}) as at:
            network = runtime.network
            talking, silent = [await network.open_streams(HOST, at.port) for _ in range(2)]
            talking[1].write(hello())
            await talking[0].readexactly(1)  # the server has answered
            reader, writer = await at.connect()
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
            writer.close()
            assert await silent[0].read() == b""
            assert at.failures == [TOO_MANY]
            for _, each in (talking, silent):
                each.close()

    play(arena, scenario)


def hello() -> bytes:
    """The first message of a client."""
    sent = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(
        ssl.MemoryBIO(), sent, server_hostname="localhost"
    )
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return sent.read()


def test_single_bytes_do_not_keep_a_handshake_from_making_room() -> None:
    async def scenario(runtime: Runtime) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        terms = TlsServer(
            lambda: context, lambda *_: None, handshakes_per_source_max=2, silent_seconds=0.0
        )
        handshakes = Handshakes(terms)
        dripping, silent = [accepted(handshakes, "192.0.2.1") for _ in range(2)]
        for number, byte in enumerate(b"\x16\x03\x01"):
            handshakes.buffer[0] = byte
            dripping.buffer_updated(1)
            assert dripping.is_queued, number
            await until(lambda: not dripping.is_queued)
        accepted(handshakes, "192.0.2.1")
        assert [dripping.is_closing(), silent.is_closing()] == [True, False]

    play("asyncio", scenario)


def test_the_source_with_the_most_handshakes_makes_room() -> None:
    async def scenario(runtime: Runtime) -> None:
        handshakes = Handshakes(TlsServer(no_context, lambda *_: None, handshakes_max=4))
        one = accepted(handshakes, "192.0.2.1")
        network = [accepted(handshakes, f"2001:db8::{last}") for last in range(3)]
        assert not accepted(handshakes, "192.0.2.2").is_closing()
        assert [each.is_closing() for each in (one, *network)] == [False, True, False, False]

    play("asyncio", scenario)


@pytest.mark.parametrize("bound", ["handshakes_max", "handshakes_per_source_max"])
def test_clients_that_come_at_once_do_not_end_each_other(bound: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        limits: dict[str, int] = {bound: 2}
        handshakes = Handshakes(TlsServer(no_context, lambda *_: None, **limits))  # type: ignore[arg-type]
        many = [accepted(handshakes, "192.0.2.1") for _ in range(4)]
        assert [each.is_closing() for each in many] == [False, False, True, True]

    play("asyncio", scenario)


def no_context() -> ssl.SSLContext:
    raise AssertionError("no handshake goes on")


def accepted(handshakes: Handshakes, address: str) -> TlsTransport:
    made = TlsTransport(handshakes, asyncio.BufferedProtocol)
    made.connection_made(Peer({"peername": (address, 1)}))
    return made


class Peer(asyncio.Transport):
    """A plain transport without a socket."""

    def close(self) -> None:
        """Nothing to close."""

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0


@pytest.mark.parametrize("data", [bytes(300), b"\x16" + bytes(300), b"\x16\x03\x01\xff\xff" * 100])
def test_bytes_that_are_no_handshake_are_closed(data: bytes, tmp_path: Path) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with served(runtime, tmp_path, handshake_seconds=0.5) as at:
            reader, writer = await runtime.network.open_streams(HOST, at.port)
            writer.write(data)
            with suppress(ConnectionError):
                await reader.read()
            writer.close()
            async with asyncio.timeout(30):
                await at.failed.wait()
            assert not at.protocols

    play("asyncio", scenario)
