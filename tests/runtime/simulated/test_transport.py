"""Corners of the simulated transport that real sockets reach only by luck."""

from __future__ import annotations

import asyncio

import pytest

from moldau.runtime import Runtime
from moldau.runtime.simulated import RealWorldRefused, Simulation, SimulationFailed
from tests.runtime.arena import HOST, simulate
from tests.runtime.transport_ends import BIG, Frames, Recorder, pair


def test_writing_to_a_connection_that_was_reset_unnoticed_ends_it() -> None:
    async def scenario(runtime: Runtime) -> Exception | None:
        near, far = await pair(runtime)
        near.transport.pause_reading()
        far.transport.pause_reading()
        near.transport.write(b"unread")
        await asyncio.sleep(1)
        far.transport.abort()
        await asyncio.sleep(1)
        assert not near.lost.is_set(), "it does not read, so it does not know"
        near.transport.write(b"now it does")
        await near.lost.wait()
        return near.error

    assert isinstance(simulate(scenario), ConnectionResetError)


@pytest.mark.parametrize("how", ["abort", "close"])
def test_closing_with_unread_bytes_resets_the_peer(how: str) -> None:
    async def scenario(runtime: Runtime) -> list[str]:
        near, far = await pair(runtime)
        far.transport.pause_reading()
        near.transport.write(b"unread")
        await asyncio.sleep(1)
        getattr(far.transport, how)()
        await near.lost.wait()
        assert isinstance(near.error, ConnectionResetError)
        return near.calls

    assert simulate(scenario) == ["made", "lost"]


def test_an_empty_buffer_is_an_error_of_the_protocol() -> None:
    async def scenario(runtime: Runtime) -> list[str]:
        reported: list[str] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: reported.append(str(context["exception"]))
        )
        frames = Frames(0)
        near, _ = await pair(runtime, Recorder, lambda: frames)
        near.transport.write(b"x")
        await frames.lost.wait()
        return reported

    assert simulate(scenario) == ["get_buffer() returned an empty buffer"]


def test_pause_writing_that_fails_ends_the_connection() -> None:
    class Sulking(Recorder):
        def pause_writing(self) -> None:
            raise LookupError("never")

    async def scenario(runtime: Runtime) -> tuple[list[str], list[str]]:
        reported: list[str] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: reported.append(context["message"])
        )
        near, far = await pair(runtime, Sulking)
        near.transport.write(BIG)
        await near.lost.wait()
        await far.lost.wait()
        return reported, near.calls

    reported, calls = simulate(scenario)

    assert reported == ["protocol.pause_writing() failed"]
    assert calls == ["made", "lost"]


def test_a_half_closed_writer_flushes_first() -> None:
    async def scenario(runtime: Runtime) -> int:
        near, far = await pair(runtime)
        near.transport.write(BIG)
        assert near.transport.get_write_buffer_size() > 0
        near.transport.write_eof()
        near.transport.write_eof()
        await far.ended.wait()
        return len(far.data)

    assert simulate(scenario) == len(BIG)


def test_a_failing_protocol_without_a_handler_fails_the_run() -> None:
    class Failing(Recorder):
        def data_received(self, data: bytes) -> None:
            raise LookupError("unforeseen")

    async def scenario(runtime: Runtime) -> None:
        near, _ = await pair(runtime, Recorder, Failing)
        near.transport.write(b"x")
        await near.lost.wait()

    with pytest.raises(SimulationFailed, match=r"data_received\(\) failed(.|\n)*unforeseen"):
        simulate(scenario)


def test_names_and_addresses_of_nodes() -> None:
    async def main(runtime: Runtime) -> None:
        loop = asyncio.get_running_loop()
        assert await loop.getnameinfo(("10.0.0.1", 9092)) == ("a", "9092")
        assert await loop.getnameinfo(("10.9.9.9", 1)) == ("10.9.9.9", "1")
        assert (await loop.getaddrinfo(None, None))[0][4] == (HOST, 0)
        with pytest.raises(ValueError, match="host and port"):
            await loop.create_connection(asyncio.Protocol)
        with pytest.raises(OSError, match="no route"):
            await asyncio.open_connection("10.9.9.9", 1)

    with Simulation(1) as world:
        world.add_node("a", main)
        world.run_for(1)


def test_the_driver_of_a_test_can_connect_to_nodes() -> None:
    async def server(runtime: Runtime) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.read())
            writer.close()

        await runtime.network.serve_streams(serve, "", 9092)
        await asyncio.Event().wait()

    async def driver() -> bytes:
        await asyncio.sleep(1)
        reader, writer = await asyncio.open_connection("server", 9092)
        writer.write(b"hello")
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        return answer

    with Simulation(1) as world:
        world.add_node("server", server)
        assert world.run(driver) == b"hello"


def test_ephemeral_ports_do_not_collide_with_servers() -> None:
    async def scenario(runtime: Runtime) -> None:
        listeners = [await runtime.network.listen(Recorder, HOST, 0) for _ in range(20)]
        assert len({listener.port for listener in listeners}) == 20
        taken = await runtime.network.listen(Recorder, HOST, listeners[-1].port + 1)
        other = await runtime.network.listen(Recorder, HOST, 0)
        assert other.port != taken.port

    simulate(scenario)


def test_a_listener_that_closes_resets_what_it_never_accepted() -> None:
    ends: list[Recorder] = []

    async def server(runtime: Runtime) -> None:
        listener = await runtime.network.listen(Recorder, "", 1)
        await asyncio.sleep(5)
        listener.close()
        await asyncio.Event().wait()

    async def client(runtime: Runtime) -> None:
        await asyncio.sleep(2)
        _, end = await runtime.network.connect(Recorder, "server", 1)
        ends.append(end)
        await end.lost.wait()

    with Simulation(1) as world:
        node = world.add_node("server", server)
        world.add_node("client", client)
        world.run_for(1)
        node.pause()
        world.run_for(2)
        assert ends[0].calls == ["made"]
        node.crash()
        world.run_for(1)

    assert isinstance(ends[0].error, ConnectionResetError)


def test_a_connection_that_was_reset_before_it_was_accepted_is_lost_after_it_was_made() -> None:
    ends: list[Recorder] = []

    def accepted() -> Recorder:
        ends.append(Recorder())
        return ends[-1]

    async def server(runtime: Runtime) -> None:
        await runtime.network.listen(accepted, "", 1)
        await asyncio.Event().wait()

    async def client(runtime: Runtime) -> None:
        await asyncio.sleep(2)
        _, end = await runtime.network.connect(Recorder, "server", 1)
        end.transport.abort()

    with Simulation(1) as world:
        node = world.add_node("server", server)
        world.add_node("client", client)
        world.run_for(1)
        node.pause()
        world.run_for(2)
        world.network.reset("client", "server")
        node.resume()
        world.run_for(1)

    assert [each.calls for each in ends] == [["made", "lost"]]
    assert isinstance(ends[0].error, ConnectionResetError)


def test_a_socket_has_no_descriptor() -> None:
    async def scenario(runtime: Runtime) -> None:
        near, _ = await pair(runtime)
        with pytest.raises(RealWorldRefused, match="descriptor"):
            near.transport.get_extra_info("socket").fileno()
        server = await asyncio.start_server(lambda *_: None, HOST, 0)
        with pytest.raises(OSError, match="not connected"):
            server.sockets[0].getpeername()
        assert server.sockets[0].getsockopt(1, 2) == 0

    simulate(scenario)


def test_a_factory_that_fails_on_connect_ends_the_connection() -> None:
    async def scenario(runtime: Runtime) -> Exception | None:
        ends: list[Recorder] = []

        def accept() -> Recorder:
            ends.append(Recorder())
            return ends[-1]

        def fail() -> asyncio.Protocol:
            raise LookupError("no protocol for you")

        async with await runtime.network.listen(accept, HOST, 0) as listener:
            with pytest.raises(LookupError):
                await runtime.network.connect(fail, HOST, listener.port)
            await asyncio.sleep(1)
        await asyncio.wait_for(ends[0].lost.wait(), timeout=1)
        return ends[0].error

    assert isinstance(simulate(scenario), ConnectionResetError)


def test_a_protocol_that_fails_with_an_error_of_sockets_still_ends_its_peer() -> None:
    class Failing(Recorder):
        def data_received(self, data: bytes) -> None:
            raise TimeoutError("its own, and not the network's")

    async def scenario(runtime: Runtime) -> list[str]:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        near, _ = await pair(runtime, Recorder, Failing)
        near.transport.write(b"x")
        await asyncio.wait_for(near.lost.wait(), timeout=10)
        return near.calls

    assert simulate(scenario) == ["made", "eof", "lost"]
