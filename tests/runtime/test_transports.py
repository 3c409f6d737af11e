"""Connections behave the same on asyncio, uvloop and the simulator: one suite for all."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket

import pytest

from moldau.runtime import Runtime
from tests.runtime.arena import ARENAS, HOST, play
from tests.runtime.transport_ends import BIG, Frames, Recorder, pair

pytestmark = pytest.mark.parametrize("arena", ARENAS)


def test_callbacks_come_in_order(arena: str) -> None:
    async def scenario(runtime: Runtime) -> tuple[list[str], list[str]]:
        near, far = await pair(runtime)
        near.transport.write(b"question")
        await far.received(8)
        far.transport.write(b"answer")
        await near.received(6)
        near.transport.close()
        await far.lost.wait()
        await near.lost.wait()
        assert bytes(far.data) == b"question"
        assert bytes(near.data) == b"answer"
        assert near.error is None
        assert far.error is None
        return near.calls, far.calls

    near, far = play(arena, scenario)

    assert near == ["made", "data", "lost"]
    assert far == ["made", "data", "eof", "lost"]


def test_connection_made_comes_before_connect_returns(arena: str) -> None:
    async def scenario(runtime: Runtime) -> list[str]:
        near, _ = await pair(runtime)
        calls = list(near.calls)
        near.transport.abort()
        await near.lost.wait()
        return calls

    assert play(arena, scenario) == ["made"]


def test_both_ends_know_their_names(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        near, far = await pair(runtime)
        assert (
            near.transport.get_extra_info("sockname")[:2]
            == far.transport.get_extra_info("peername")[:2]
        )
        assert (
            near.transport.get_extra_info("peername")[:2]
            == far.transport.get_extra_info("sockname")[:2]
        )
        assert near.transport.get_extra_info("nonsense", 7) == 7
        near.transport.close()
        await far.lost.wait()
        await near.lost.wait()

    play(arena, scenario)


def test_half_close_leaves_the_other_direction_open(arena: str) -> None:
    async def scenario(runtime: Runtime) -> tuple[list[str], list[str]]:
        near, far = await pair(runtime, Recorder, lambda: Recorder(stay_open=True))
        near.transport.write(b"last words")
        assert near.transport.can_write_eof()
        near.transport.write_eof()
        await far.ended.wait()
        assert bytes(far.data) == b"last words"
        far.transport.write(b"still here")
        await near.received(10)
        far.transport.close()
        await near.lost.wait()
        await far.lost.wait()
        return near.calls, far.calls

    near, far = play(arena, scenario)

    assert near == ["made", "data", "eof", "lost"]
    assert far == ["made", "data", "eof", "lost"]


def test_write_after_write_eof_is_an_error(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        near, far = await pair(runtime, Recorder, lambda: Recorder(stay_open=True))
        near.transport.write_eof()
        with pytest.raises(RuntimeError):
            near.transport.write(b"more")
        near.transport.abort()
        far.transport.abort()
        await near.lost.wait()
        await far.lost.wait()

    play(arena, scenario)


def test_big_writes_pause_and_resume_the_writer(arena: str) -> None:
    async def scenario(runtime: Runtime) -> tuple[list[str], bytes]:
        near, far = await pair(runtime)
        far.transport.pause_reading()
        for _ in range(8):
            near.transport.write(BIG)
        assert near.calls[-1] == "pause"
        assert near.transport.get_write_buffer_size() > 0
        far.transport.resume_reading()
        await far.received(8 * len(BIG))
        near.transport.close()
        await far.lost.wait()
        return near.calls, bytes(far.data)

    calls, data = play(arena, scenario)

    assert calls == ["made", "pause", "resume", "lost"]
    assert data == BIG * 8


def test_close_flushes_what_is_buffered(arena: str) -> None:
    async def scenario(runtime: Runtime) -> int:
        near, far = await pair(runtime)
        near.transport.write(BIG * 4)
        near.transport.close()
        assert near.transport.is_closing()
        await far.lost.wait()
        await near.lost.wait()
        assert far.error is None
        return len(far.data)

    assert play(arena, scenario) == 4 * len(BIG)


def test_abort_drops_what_is_buffered(arena: str) -> None:
    async def scenario(runtime: Runtime) -> tuple[int, list[str]]:
        near, far = await pair(runtime)
        far.transport.pause_reading()
        near.transport.write(BIG * 8)
        near.transport.abort()
        await near.lost.wait()
        far.transport.resume_reading()
        await far.lost.wait()
        return len(far.data), near.calls

    received, calls = play(arena, scenario)

    assert received < 8 * len(BIG)
    assert [call for call in calls if call != "pause"] == ["made", "lost"]


def test_nothing_is_called_after_connection_lost(arena: str) -> None:
    async def scenario(runtime: Runtime) -> list[str]:
        near, far = await pair(runtime)
        far.transport.write(b"x" * 100_000)
        near.transport.abort()
        await near.lost.wait()
        far.transport.write(b"too late")
        await far.lost.wait()
        return near.calls

    calls = play(arena, scenario)

    assert calls[-1] == "lost"
    assert calls.count("lost") == 1


def test_write_after_close_is_dropped(arena: str) -> None:
    async def scenario(runtime: Runtime) -> bytes:
        near, far = await pair(runtime)
        near.transport.write(b"counted")
        near.transport.close()
        near.transport.write(b"dropped")
        near.transport.writelines([b"dropped", b"too"])
        await near.lost.wait()
        near.transport.write(b"dropped as well")
        near.transport.writelines([b"and", b"this"])
        near.transport.close()
        near.transport.abort()
        await far.lost.wait()
        far.transport.write(b"nobody is there")
        return bytes(far.data)

    assert play(arena, scenario) == b"counted"


def test_a_peer_that_died_with_unread_bytes_resets_the_connection(arena: str) -> None:
    async def scenario(runtime: Runtime) -> Exception | None:
        near, far = await pair(runtime)
        far.transport.pause_reading()
        near.transport.write(BIG * 8)
        far.transport.abort()
        await near.lost.wait()
        return near.error

    assert isinstance(play(arena, scenario), ConnectionError)


def test_connecting_to_a_closed_port_is_refused(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        listener = await runtime.network.listen(Recorder, HOST, 0)
        listener.close()
        listener.close()
        with pytest.raises(ConnectionRefusedError):
            await runtime.network.connect(Recorder, HOST, listener.port)

    play(arena, scenario)


def test_a_bound_port_cannot_be_bound_again(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with await runtime.network.listen(Recorder, HOST, 0) as listener:
            with pytest.raises(OSError, match="address"):
                await runtime.network.listen(Recorder, HOST, listener.port)
        async with await runtime.network.listen(Recorder, HOST, listener.port):
            pass

    play(arena, scenario)


def test_accepted_connections_outlive_their_listener(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        near, far = await pair(runtime)  # closes the listener
        near.transport.write(b"ping")
        await far.received(4)
        near.transport.close()
        await far.lost.wait()

    play(arena, scenario)


def test_an_unknown_name_is_a_resolver_error(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        with pytest.raises(OSError, match=r"[Nn]ame"):
            await runtime.network.connect(Recorder, "no-such-node.invalid", 9)

    play(arena, scenario)


def test_an_address_resolves_to_itself(arena: str) -> None:
    async def scenario(runtime: Runtime) -> list[tuple[str, int]]:
        return await runtime.network.resolve(HOST, 9092)

    assert play(arena, scenario) == [(HOST, 9092)]


def test_many_connections_at_once(arena: str) -> None:
    async def scenario(runtime: Runtime) -> list[bytes]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write((await reader.readline()).upper())
            writer.close()
            await writer.wait_closed()

        async def ask(port: int, number: int) -> bytes:
            reader, writer = await runtime.network.open_streams(HOST, port)
            writer.write(b"client %d\n" % number)
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            return answer

        listener = await runtime.network.serve_streams(serve, HOST, 0)
        async with listener, asyncio.TaskGroup() as group:
            asked = [group.create_task(ask(listener.port, n)) for n in range(100)]
        return [task.result() for task in asked]

    assert play(arena, scenario) == [b"CLIENT %d\n" % n for n in range(100)]


def test_stdlib_streams_need_no_runtime(arena: str) -> None:
    async def scenario(runtime: Runtime) -> list[bytes]:
        lines: list[bytes] = []
        done = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            async for line in reader:
                lines.append(line)
            writer.close()
            done.set()

        server = await asyncio.start_server(serve, HOST, 0)
        port = server.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection(HOST, port)
        for number in range(500):
            writer.write(b"%d\n" % number)
            await writer.drain()
        writer.write_eof()
        await done.wait()
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
        return lines

    assert play(arena, scenario) == [b"%d\n" % number for number in range(500)]


def test_drain_waits_for_a_slow_reader(arena: str) -> None:
    async def scenario(runtime: Runtime) -> int:
        go_on = asyncio.Event()
        total = asyncio.get_running_loop().create_future()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await go_on.wait()
            total.set_result(len(await reader.read()))
            writer.close()

        async with await runtime.network.serve_streams(serve, HOST, 0) as listener:
            _, writer = await runtime.network.open_streams(HOST, listener.port)
            writer.write(BIG * 8)
            draining = runtime.spawn(writer.drain(), name="drain")
            done, _ = await asyncio.wait([draining], timeout=0.05)
            assert not done, "the reader has not read yet"
            go_on.set()
            await draining
            writer.write_eof()
            size = await total
            writer.close()
        return int(size)

    assert play(arena, scenario) == 8 * len(BIG)


@pytest.mark.parametrize("size", [1, 100, 65536])
def test_buffered_protocols_get_all_bytes_whatever_their_buffer(arena: str, size: int) -> None:
    sent = BIG[: 300 * size]

    async def scenario(runtime: Runtime) -> bytes:
        frames = Frames(size)
        near, _ = await pair(runtime, Recorder, lambda: frames)
        near.transport.write(sent)
        near.transport.close()
        await frames.lost.wait()
        return bytes(frames.data)

    assert play(arena, scenario) == sent


class Sipping(Frames):
    """Pauses after each bufferful, and goes on in the next turn."""

    sips = 0

    def buffer_updated(self, nbytes: int) -> None:
        super().buffer_updated(nbytes)
        self.transport.pause_reading()
        assert not self.transport.is_reading()
        asyncio.get_running_loop().call_soon(self.go_on)

    def go_on(self) -> None:
        self.sips += 1
        self.transport.resume_reading()


def test_a_buffered_protocol_can_pause_in_the_middle(arena: str) -> None:
    async def scenario(runtime: Runtime) -> tuple[int, bytes]:
        frames = Sipping(10)
        near, _ = await pair(runtime, Recorder, lambda: frames)
        near.transport.write(b"0123456789" * 10)
        near.transport.close()
        await frames.lost.wait()
        return frames.sips, bytes(frames.data)

    sips, data = play(arena, scenario)

    assert sips >= 10
    assert data == b"0123456789" * 10


def test_the_protocol_can_be_exchanged(arena: str) -> None:
    async def scenario(runtime: Runtime) -> bytes:
        near, far = await pair(runtime)
        second = Recorder()
        second.calls.append("made")
        far.transport.set_protocol(second)
        assert far.transport.get_protocol() is second
        near.transport.write(b"for the second")
        await second.received(14)
        near.transport.close()
        await second.lost.wait()
        assert not far.data
        return bytes(second.data)

    assert play(arena, scenario) == b"for the second"


def test_water_marks_can_be_set(arena: str) -> None:
    async def scenario(runtime: Runtime) -> list[str]:
        near, far = await pair(runtime)
        near.transport.set_write_buffer_limits(high=0)
        far.transport.pause_reading()
        near.transport.write(BIG * 8)
        far.transport.resume_reading()
        await far.received(8 * len(BIG))
        with pytest.raises(ValueError, match="must be"):
            near.transport.set_write_buffer_limits(high=1, low=2)
        near.transport.set_write_buffer_limits(low=1000)
        assert near.transport.get_write_buffer_limits() == (1000, 4000)
        near.transport.close()
        await near.lost.wait()
        return near.calls

    assert play(arena, scenario) == ["made", "pause", "resume", "lost"]


def test_any_buffer_can_be_written(arena: str) -> None:
    async def scenario(runtime: Runtime) -> bytes:
        near, far = await pair(runtime)
        mutable = bytearray(b"bytearray,")
        near.transport.write(mutable)
        mutable[:] = b"changed!!!"
        near.transport.write(memoryview(b"--view,--")[2:-2])
        near.transport.writelines([b"a", bytearray(b"b"), memoryview(b"c")])
        with pytest.raises(TypeError):
            near.transport.write("text")  # type: ignore[arg-type]
        near.transport.close()
        await far.lost.wait()
        return bytes(far.data)

    assert play(arena, scenario) == b"bytearray,view,abc"


def test_a_connect_that_is_cancelled_leaves_no_connection(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        accepted: list[Recorder] = []

        def accept() -> Recorder:
            accepted.append(Recorder())
            return accepted[-1]

        async with await runtime.network.listen(accept, HOST, 0) as listener:
            task = runtime.spawn(
                runtime.network.connect(Recorder, HOST, listener.port), name="connect"
            )
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            near, _ = await pair(runtime)
            near.transport.close()
            await near.lost.wait()
        for end in accepted:
            await end.lost.wait()

    play(arena, scenario)


def test_a_server_that_aborts_in_connection_made_ends_the_client(arena: str) -> None:
    class Unfriendly(Recorder):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self.transport.abort()

    async def scenario(runtime: Runtime) -> tuple[list[str], list[str]]:
        near, far = await pair(runtime, Recorder, Unfriendly)
        await near.lost.wait()
        await far.lost.wait()
        return near.calls, far.calls

    near, far = play(arena, scenario)

    assert near == ["made", "eof", "lost"]
    assert far == ["made", "lost"]


class Failing(Recorder):
    """Raises in the callback that is named."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.where == "data_received":
            raise LookupError("cannot read this")

    def eof_received(self) -> bool:
        if self.where == "eof_received":
            raise LookupError("cannot end like this")
        return super().eof_received()


@pytest.mark.parametrize("where", ["data_received", "eof_received"])
def test_a_protocol_that_fails_is_reported_and_ends_its_connection(arena: str, where: str) -> None:
    async def scenario(runtime: Runtime) -> tuple[list[str], list[str]]:
        reported: list[str] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(
            lambda _, context: reported.append(type(context["exception"]).__name__)
        )
        near, far = await pair(runtime, Recorder, lambda: Failing(where))
        near.transport.write(b"x")
        if where == "eof_received":
            near.transport.write_eof()
        await far.lost.wait()
        await near.lost.wait()
        return reported, far.calls

    reported, calls = play(arena, scenario)

    assert reported == ["LookupError"]
    assert calls == ["made", "data", "lost"]


def test_a_server_is_what_asyncio_says_it_is(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, HOST, 0, start_serving=False)
        assert not server.is_serving()
        forever = asyncio.create_task(server.serve_forever())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert server.is_serving()
        assert server.get_loop() is loop
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        forever.cancel()
        with pytest.raises(asyncio.CancelledError):
            await forever
        assert not server.is_serving()
        assert list(server.sockets) == []
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(asyncio.Protocol, HOST, port)
        with pytest.raises(RuntimeError, match="closed"):
            await server.serve_forever()

    play(arena, scenario)


def test_a_server_can_be_a_context(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with await asyncio.start_server(print, HOST, 0) as server:
            await server.start_serving()
            assert server.is_serving()
        assert not server.is_serving()

    play(arena, scenario)


def test_every_address_can_be_listened_on(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with await runtime.network.listen(Recorder, None, 0) as listener:
            assert all(port == listener.port for _, port in listener.addresses)
            _, near = await runtime.network.connect(Recorder, HOST, listener.port)
            near.transport.close()
            await near.lost.wait()

    play(arena, scenario)


def test_a_half_closed_end_that_writes_learns_that_its_peer_is_gone(arena: str) -> None:
    async def scenario(runtime: Runtime) -> tuple[list[str], Exception | None]:
        near, far = await pair(runtime, Recorder, lambda: Recorder(stay_open=True))
        near.transport.close()
        await far.ended.wait()
        lost = runtime.spawn(far.lost.wait(), name="lost")
        for _ in range(1000):
            far.transport.write(b"is anybody there?")
            if (await asyncio.wait([lost], timeout=0.01))[0]:
                break
        else:
            lost.cancel()
        return far.calls, far.error

    calls, error = play(arena, scenario)

    assert calls == ["made", "eof", "lost"]
    assert isinstance(error, BrokenPipeError | ConnectionResetError)


def test_a_stream_that_only_writes_learns_that_its_reader_is_gone(arena: str) -> None:
    async def scenario(runtime: Runtime) -> bool:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.close()

        pause = asyncio.Event()
        async with await runtime.network.serve_streams(serve, HOST, 0) as listener:
            _, writer = await runtime.network.open_streams(HOST, listener.port)
            try:
                for _ in range(1000):
                    writer.write(b"y" * 1000)
                    await writer.drain()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(pause.wait(), timeout=0.01)
            except OSError:
                return True
            return False

    assert play(arena, scenario)


def test_options_can_be_set_on_the_socket_of_a_transport(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        near, far = await pair(runtime)
        end = near.transport.get_extra_info("socket")
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        assert end.family == socket.AF_INET
        assert end.getsockname() == near.transport.get_extra_info("sockname")
        assert end.getpeername() == near.transport.get_extra_info("peername")
        near.transport.close()
        await far.lost.wait()
        await near.lost.wait()

    play(arena, scenario)


def test_waiting_for_ever_is_a_timeout_like_any_other(arena: str) -> None:
    async def scenario(runtime: Runtime) -> str:
        never = asyncio.wait_for(asyncio.Event().wait(), timeout=math.inf)
        sleeper = runtime.spawn(never, name="sleeper")
        async with asyncio.timeout(math.inf):
            await asyncio.wait([sleeper], timeout=0.001)
        async with asyncio.timeout(1e17):
            await asyncio.wait([sleeper], timeout=0.001)
        return "waits" if sleeper.cancel() else f"ended: {sleeper.exception()!r}"

    assert play(arena, scenario) == "waits"


def test_bare_coroutines_are_waited_for_as_asyncio_does(arena: str) -> None:
    async def scenario(runtime: Runtime) -> list[int]:
        async def answer(number: int) -> int:
            return number

        bare = answer(1)
        with pytest.raises(TypeError, match="forbidden"):
            await asyncio.wait([bare])  # type: ignore[type-var]
        bare.close()
        known = asyncio.create_task(answer(2))
        ended = asyncio.as_completed([answer(3), known, known, answer(4)])
        return sorted([await each for each in ended])

    assert play(arena, scenario) == [2, 3, 4]
