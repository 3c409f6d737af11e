"""Names of hosts: what is behind one, who asks, and what that leaves in a process."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import subprocess
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from moldau.runtime import Runtime
from moldau.runtime.names import ResolvedAddress, bound, is_address, look_up, plain_address
from tests.programs import FORKING
from tests.runtime.arena import HOST, REAL_ARENAS, play
from tests.runtime.localhost_certificate import certificate as certificate

NAME = "a-host"
OTHER_HOST, NO_HOST = "127.0.0.2", "255.255.255.255"


@pytest.fixture(params=REAL_ARENAS)
def arena(request: pytest.FixtureRequest) -> str:
    assert isinstance(request.param, str)
    return request.param


def name(monkeypatch: pytest.MonkeyPatch, hosts: Sequence[str]) -> None:
    """Puts these addresses behind the name."""
    asks = socket.getaddrinfo

    def answer(host: Any, port: Any, *more: Any, **named: Any) -> list[Any]:
        known = hosts if host == NAME else [host]
        return [found for each in known for found in asks(each, port, *more, **named)]

    monkeypatch.setattr(socket, "getaddrinfo", answer)


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"hello")
    writer.close()


def test_what_is_an_address_is_told_from_a_name() -> None:
    assert all(map(is_address, ["127.0.0.1", "::1", "fe80::1%eth0"]))
    assert not any(map(is_address, ["localhost", "a.b", "1.2.3", ""]))


def test_an_address_is_written_as_the_resolver_writes_it_without_being_looked_up(
    arena: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(runtime: Runtime) -> None:
        for host in ("127.0.0.1", "::1", "0:0::1", "FE80::A", "::ffff:1.2.3.4"):
            (found,) = await look_up(host, 7)
            with monkeypatch.context() as patch:
                patch.setattr(socket, "getaddrinfo", None)
                assert await runtime.network.resolve(host, 7) == [(found.host, 7)]

    play(arena, scenario)


def test_an_address_that_means_nothing_on_other_links_says_its_own() -> None:
    def found(address: object) -> ResolvedAddress:
        return ResolvedAddress(socket.AF_INET6, socket.SOCK_STREAM, 6, "", address)

    assert found(("fe80::1", 7, 0, 2)).host == "fe80::1%2"
    assert found(("::1", 7, 0, 0)).host == "::1"
    assert plain_address("fe80::1%2") is None


def test_the_addresses_behind_a_name_are_tried_in_their_order(
    arena: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name(monkeypatch, [OTHER_HOST, HOST])

    async def scenario(runtime: Runtime) -> None:
        network = runtime.network
        async with AsyncExitStack() as stack:
            listener = await stack.enter_async_context(await network.serve_streams(greet, HOST, 0))
            for peer in (HOST, OTHER_HOST):
                if peer == OTHER_HOST:
                    listening = network.serve_streams(greet, OTHER_HOST, listener.port)
                    await stack.enter_async_context(await listening)
                reader, writer = await network.open_streams(NAME, listener.port)
                assert writer.get_extra_info("peername")[0] == peer
                assert await reader.read() == b"hello"
                writer.close()
            found = await network.resolve(NAME, 7)
            assert found == [(OTHER_HOST, 7), (HOST, 7)]

    play(arena, scenario)


def test_the_error_is_that_of_all_addresses(arena: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(runtime: Runtime) -> OSError:
        (listener,) = await bound(HOST, 0)
        port = listener.getsockname()[1]
        listener.close()
        with pytest.raises(OSError) as caught:  # noqa: PT011 - it is looked at below
            await runtime.network.open_streams(NAME, port)
        return caught.value

    name(monkeypatch, [HOST])
    alone = play(arena, scenario)
    assert isinstance(alone, ConnectionRefusedError)
    name(monkeypatch, [HOST, NO_HOST])
    error = play(arena, scenario)
    assert str(error).startswith("Multiple exceptions: [Errno ")
    assert str(error).count("Errno") == 2
    if arena == "uvloop":  # asyncio's own tells of the address in each
        name(monkeypatch, [HOST, OTHER_HOST])
        both = play(arena, scenario)
        assert (type(both), str(both)) == (ConnectionRefusedError, str(alone))


def test_a_connect_to_a_name_that_is_cancelled_leaves_no_socket(
    arena: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be told of by a ResourceWarning, which fails the test."""
    name(monkeypatch, [HOST])

    async def scenario(runtime: Runtime) -> None:
        with socket.create_server((HOST, 0), backlog=0) as full:
            port = full.getsockname()[1]
            waiting = []
            for _ in range(4):  # more than the kernel takes for nobody
                waiting.append(socket.socket())
                waiting[-1].setblocking(False)
                waiting[-1].connect_ex((HOST, port))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await runtime.network.open_streams(NAME, port)
            for each in waiting:
                each.close()

    play(arena, scenario)


def test_a_certificate_is_for_the_name_that_was_looked_up(arena: str, certificate: Path) -> None:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate)
    asking = ssl.create_default_context(cafile=str(certificate))

    async def scenario(runtime: Runtime) -> bytes:
        network = runtime.network
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        async with await network.serve_streams(greet, HOST, 0, tls=serving) as listener:
            with pytest.raises(ssl.SSLCertVerificationError):
                await network.open_streams(
                    "localhost", listener.port, tls=asking, server_name="another"
                )
            reader, writer = await network.open_streams("localhost", listener.port, tls=asking)
            answer = await reader.read()
            writer.close()
            return answer

    assert play(arena, scenario) == b"hello"


def test_a_name_that_nobody_knows_is_the_resolvers_error(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        for ask in (runtime.network.open_streams, runtime.network.resolve):
            with pytest.raises(socket.gaierror):
                await ask("no-such-host.invalid", 9)
        with pytest.raises(socket.gaierror):
            await runtime.network.listen(asyncio.Protocol, "no-such-host.invalid", 0)

    play(arena, scenario)


def test_it_is_listened_at_all_addresses_behind_a_name_or_at_none(
    arena: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name(monkeypatch, [HOST, OTHER_HOST])

    async def scenario(runtime: Runtime) -> None:
        network = runtime.network
        async with await network.serve_streams(greet, NAME, 0) as listener:
            assert sorted(host for host, _ in listener.addresses) == [HOST, OTHER_HOST]
            for host, port in listener.addresses:
                reader, writer = await network.open_streams(host, port)
                assert await reader.read() == b"hello"
                writer.close()
        async with await network.listen(asyncio.Protocol, OTHER_HOST, 0) as one:
            listen = partial(network.listen, asyncio.Protocol, NAME, one.port)
            with pytest.raises(OSError, match="attempting to bind on address") as caught:
                await listen()
            assert caught.value.errno == errno.EADDRINUSE
        (await listen()).close()

    play(arena, scenario)


@pytest.mark.parametrize("missing", [(socket.AF_INET6,), (socket.AF_INET, socket.AF_INET6)])
def test_families_that_a_machine_does_not_have_are_left_out_unless_it_has_none(
    monkeypatch: pytest.MonkeyPatch, missing: Sequence[int]
) -> None:
    name(monkeypatch, [HOST, "::1"])
    makes = ResolvedAddress.socket

    def make(found: ResolvedAddress) -> socket.socket:
        if found.family in missing:
            raise OSError(errno.EAFNOSUPPORT, "not here")
        return makes(found)

    monkeypatch.setattr(ResolvedAddress, "socket", make)

    async def families() -> list[int]:
        sockets = await bound(NAME, 0)
        for each in sockets:
            each.close()
        return [each.family for each in sockets]

    if len(missing) == 2:
        with pytest.raises(OSError, match="not here"):
            asyncio.run(families())
    else:
        assert asyncio.run(families()) == [socket.AF_INET]


def test_when_executors_are_over_the_loop_itself_looks_up() -> None:
    async def main() -> Any:
        await asyncio.get_running_loop().shutdown_default_executor()
        return await look_up(HOST, 7)

    (found,) = asyncio.run(main())
    assert found.address == (HOST, 7)


FORKS = """
import os, sys, threading
from moldau.runtime.threaded import ThreadedRuntime

async def talk(runtime):
    async def serve(reader, writer):
        writer.close()

    async with await runtime.network.serve_streams(serve, "localhost", 0) as listener:
        reader, writer = await runtime.network.open_streams("localhost", listener.port)
        await reader.read()
        writer.close()

threaded = ThreadedRuntime(loop=sys.argv[1])
threaded.start()
threaded.run(talk)
child = os.fork()
if not child:
    sys.exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
threaded.close()
"""


def test_a_process_that_looks_names_up_and_listens_can_be_forked(arena: str) -> None:
    done = subprocess.run(  # noqa: S603 (fixed arguments)
        [*FORKING, "-c", FORKS, arena],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("0\n", "")
