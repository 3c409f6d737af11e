"""Each fault of the simulated network does what its name says, and can be taken back."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from moldau.runtime import Runtime
from moldau.runtime.simulated import LinkOptions, Node, Options, Simulation
from moldau.runtime.simulated.link import Link


@dataclass
class Talk:
    """What one connection from `client` to `server` carries, one byte a tick."""

    received: list[tuple[float, bytes]] = field(default_factory=list)
    client_end: list[tuple[float, str]] = field(default_factory=list)
    server_end: list[tuple[float, str]] = field(default_factory=list)
    sent: int = 0

    def bytes_received(self) -> bytes:
        return b"".join(data for _, data in self.received)


class Quiet(asyncio.Protocol):
    """An end that says what happened to it."""

    def __init__(self, world: Simulation, talk: Talk, ends: list[tuple[float, str]]) -> None:
        self.world = world
        self.talk = talk
        self.ends = ends

    def data_received(self, data: bytes) -> None:
        self.talk.received.append((self.world.now, data))

    def connection_lost(self, exc: Exception | None) -> None:
        self.ends.append((self.world.now, type(exc).__name__ if exc else "closed"))


@contextmanager
def talking(
    seed: int = 1,
    *,
    interval: float = 0.1,
    count: int = 100_000,
    message: bytes = b"x",
    options: Options | None = None,
) -> Iterator[tuple[Simulation, Talk]]:
    """A world where `client` sends to `server` all the time, on one connection."""
    talk = Talk()

    async def server(runtime: Runtime) -> None:
        await runtime.network.listen(lambda: Quiet(world, talk, talk.server_end), "", 9092)
        await asyncio.Event().wait()

    async def client(runtime: Runtime) -> None:
        await asyncio.sleep(0.01)
        transport, _ = await runtime.network.connect(
            lambda: Quiet(world, talk, talk.client_end), "server", 9092
        )
        for _ in range(count):
            transport.write(message)
            talk.sent += len(message)
            await asyncio.sleep(interval)
            if transport.is_closing():
                break
        await asyncio.Event().wait()

    with Simulation(seed, options) as world:
        world.add_node("server", server)
        world.add_node("client", client)
        yield world, talk


def test_latency_is_as_long_as_the_link_says() -> None:
    link = LinkOptions(latency_min_ns=50_000_000, latency_mean_ns=0)
    with talking(options=Options(link=link)) as (world, talk):
        world.run_for(1)

    assert talk.received[0][0] == pytest.approx(0.01 + 0.05 * 3)


def test_bandwidth_bounds_what_arrives() -> None:
    link = LinkOptions(bytes_per_second=1000)
    with talking(interval=0.001, message=b"x" * 10, options=Options(link=link)) as (world, talk):
        world.run_for(10)

    assert 9000 <= len(talk.bytes_received()) <= 10_000


def test_a_one_way_block_stops_one_direction_and_delivers_later() -> None:
    with talking() as (world, talk):
        world.run_for(1)
        world.network.block("client", "server")
        world.run_for(0.01)
        before = len(talk.received)
        world.run_for(5)
        assert len(talk.received) == before
        assert talk.client_end == []
        world.network.unblock("client", "server")
        world.run_for(5)
        assert abs(len(talk.bytes_received()) - talk.sent) <= 1

    assert max(len(data) for _, data in talk.received) > 10, "it comes in one piece at last"


def test_the_other_direction_of_a_one_way_block_still_works() -> None:
    with talking() as (world, talk):
        world.run_for(1)
        world.network.block("server", "client")
        before = len(talk.received)
        world.run_for(5)
        assert len(talk.received) > before + 40


def test_a_block_that_lasts_times_the_connection_out() -> None:
    with talking() as (world, talk):
        world.network.retransmit_timeout_ns = 30 * 10**9
        world.run_for(1)
        world.network.partition(["client"], ["server"])
        world.run_for(29)
        assert talk.client_end == []
        world.run_for(5)
        assert [what for _, what in talk.client_end] == ["TimeoutError"]
        assert talk.server_end == [], "nobody tells the other side"


def test_connecting_through_a_block_is_tried_again() -> None:
    with Simulation(1) as world:

        async def server(runtime: Runtime) -> None:
            await runtime.network.listen(asyncio.Protocol, "", 1)
            await asyncio.Event().wait()

        connected: list[float] = []

        async def client(runtime: Runtime) -> None:
            await runtime.network.connect(asyncio.Protocol, "server", 1)
            connected.append(world.now)

        world.add_node("server", server)
        node = world.add_node("client", client, start=False)
        world.network.block("client", "server")
        node.start()
        world.run_for(5)
        assert connected == []
        world.network.heal()
        world.run_for(10)

    assert 6.9 < connected[0] < 7.1, "the system's third retry"


def test_connecting_through_a_lasting_block_times_out() -> None:
    errors: list[tuple[float, str]] = []

    async def client(runtime: Runtime) -> None:
        try:
            await runtime.network.connect(asyncio.Protocol, "server", 1)
        except TimeoutError as error:
            errors.append((world.now, str(error)))

    async def idle(runtime: Runtime) -> None:
        await asyncio.Event().wait()

    with Simulation(1) as world:
        world.add_node("server", idle)
        node = world.add_node("client", client, start=False)
        world.network.isolate("client")
        node.start()
        world.run_for(300)

    assert len(errors) == 1
    assert 120 < errors[0][0] < 130


def test_clogged_bytes_wait_and_nothing_times_out() -> None:
    with talking() as (world, talk):
        world.network.retransmit_timeout_ns = 30 * 10**9
        world.run_for(1)
        world.network.clog("client", "server")
        world.run_for(100)
        before = len(talk.bytes_received())
        assert before < 12
        assert talk.client_end == []
        world.network.unclog("client", "server")
        world.run_for(2)
        assert abs(len(talk.bytes_received()) - talk.sent) <= 1


def test_a_reset_reaches_both_ends() -> None:
    with talking() as (world, talk):
        world.run_for(1)
        assert world.network.reset("server", "client") == 2
        world.run_for(1)

    assert [what for _, what in talk.client_end] == ["ConnectionResetError"]
    assert [what for _, what in talk.server_end] == ["ConnectionResetError"]


def test_a_severed_connection_is_half_open_on_both_sides() -> None:
    with talking() as (world, talk):
        world.run_for(1)
        before = len(talk.received)
        world.network.retransmit_timeout_ns = 20 * 10**9
        assert world.network.sever("client", "server") == 1
        world.run_for(15)
        assert len(talk.received) == before
        assert talk.client_end == talk.server_end == []

    with talking() as (world, talk):
        world.network.retransmit_timeout_ns = 20 * 10**9
        world.run_for(1)
        world.network.sever("client", "server")
        world.run_for(30)
        assert [what for _, what in talk.client_end] == ["TimeoutError"]
        assert talk.server_end == []


def test_an_end_can_be_lost_without_the_other_knowing() -> None:
    with talking() as (world, talk):
        world.run_for(1.05)
        world.network.drop_end("server", "client")
        world.run_for(0.05)
        assert [what for _, what in talk.server_end] == ["ConnectionResetError"]
        assert talk.client_end == []
        world.run_for(1)
        assert [what for _, what in talk.client_end] == ["ConnectionResetError"]


def test_a_crashed_peer_is_noticed_and_a_powerless_one_is_not() -> None:
    with talking() as (world, talk):
        world.run_for(1)
        world.nodes["server"].crash()
        world.run_for(1)
        assert [what for _, what in talk.client_end] == ["closed"]

    with talking() as (world, talk):
        world.run_for(1)
        world.nodes["server"].power_loss()
        world.run_for(10)
        assert talk.client_end == [], "nobody is there to say so"
        world.nodes["server"].start()
        world.run_for(30)
        assert [what for _, what in talk.client_end] == ["ConnectionResetError"]


def test_a_machine_that_stays_off_times_out() -> None:
    with talking() as (world, talk):
        world.network.retransmit_timeout_ns = 30 * 10**9
        world.run_for(1)
        world.nodes["server"].power_loss()
        world.run_for(100)

    assert [what for _, what in talk.client_end] == ["TimeoutError"]


@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_in_any_pieces_and_always_in_order(seed: int) -> None:
    link = LinkOptions(split=0.9, piece_bytes_max=1, loss=0.05)
    message = bytes(range(100))
    options = Options(link=link, shuffle=True)
    with talking(seed, interval=0.01, count=50, message=message, options=options) as (world, talk):
        world.run_for(60)

    assert talk.bytes_received() == message * 50
    sizes = {len(data) for _, data in talk.received}
    assert 1 in sizes
    assert max(sizes) > 50


def test_writes_made_together_may_arrive_together() -> None:
    with talking(interval=0, count=1000) as (world, talk):
        world.run_for(5)

    assert len(talk.bytes_received()) == 1000
    assert len(talk.received) < 1000


def test_bytes_of_an_old_connection_can_arrive_after_the_reconnect() -> None:
    """The trap of every request that is sent again: the first one is still on its way."""
    late = 0
    for seed in range(20):
        arrivals: list[bytes] = []

        async def server(runtime: Runtime, arrivals: list[bytes] = arrivals) -> None:
            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                async for line in reader:
                    arrivals.append(line)
                writer.close()

            await runtime.network.serve_streams(serve, "", 1)
            await asyncio.Event().wait()

        async def client(runtime: Runtime) -> None:
            await asyncio.sleep(0.1)
            _, old = await runtime.network.open_streams("server", 1)
            await asyncio.sleep(1)
            old.write(b"old\n")
            await asyncio.sleep(1)
            old.close()
            _, new = await runtime.network.open_streams("server", 1)
            new.write(b"new\n")
            await asyncio.Event().wait()

        with Simulation(seed) as world:
            world.add_node("server", server)
            world.add_node("client", client)
            world.run_for(1)
            world.network.block("client", "server")
            world.run_for(2)
            world.network.unblock("client", "server")
            world.run_for(60)
        assert sorted(arrivals) == [b"new\n", b"old\n"]
        late += arrivals == [b"new\n", b"old\n"]

    assert 0 < late <= 20


def test_a_full_accept_queue_keeps_clients_waiting() -> None:
    with talking() as (world, talk):
        world.network.set_accepting("server", False)
        world.run_for(20)
        assert talk.received == []
        world.network.heal()
        world.run_for(40)
        assert talk.received


def test_names_that_do_not_resolve() -> None:
    outcomes: list[object] = []

    async def client(runtime: Runtime) -> None:
        for host in ("nowhere", "client", "alias", "10.0.9.9", "localhost"):
            try:
                outcomes.append(await runtime.network.resolve(host, 1))
            except OSError as error:
                outcomes.append(error.errno)

    with Simulation(1) as world:
        node = world.add_node("client", client, start=False)
        world.network.add_name("alias", "client")
        node.start()
        world.run_for(1)
        world.network.set_resolver("client", False)
        node.restart()
        world.run_for(1)

    own = [("10.0.0.1", 1)]
    again = socket.EAI_AGAIN
    local = [("127.0.0.1", 1)]
    assert outcomes == [
        socket.EAI_NONAME, own, own, 113, local,
        again, again, again, 113, again,
    ]  # fmt: skip


def test_flow_control_reaches_through_the_network() -> None:
    read: list[int] = []

    async def server(runtime: Runtime) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(100)
            while data := await reader.read(10_000):
                read.append(len(data))
                await asyncio.sleep(0.001)
            writer.close()

        await runtime.network.serve_streams(serve, "", 1)
        await asyncio.Event().wait()

    drained: list[float] = []

    async def client(runtime: Runtime) -> None:
        await asyncio.sleep(0.1)
        _, writer = await runtime.network.open_streams("server", 1)
        for _ in range(20):
            writer.write(b"x" * 100_000)
            await writer.drain()
            drained.append(world.now)
        writer.close()
        await writer.wait_closed()

    with Simulation(1) as world:
        world.add_node("server", server)
        world.add_node("client", client)
        world.run_for(50)
        stuck = len(drained)
        world.run_for(1000)

    assert stuck < 6, "the window, the reader's buffer and the writer's buffer are full"
    assert len(drained) == 20
    assert sum(read) == 2_000_000


def test_a_hundred_clients_connect_at_once() -> None:
    served: list[str] = []

    async def server(runtime: Runtime) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            served.append(writer.get_extra_info("peername")[0])
            writer.write(await reader.readexactly(4))
            writer.close()

        await runtime.network.serve_streams(serve, "", 1)
        await asyncio.Event().wait()

    async def client(runtime: Runtime) -> None:
        await asyncio.sleep(1)
        reader, writer = await runtime.network.open_streams("server", 1)
        writer.write(b"ping")
        assert await reader.read() == b"ping"
        writer.close()

    with Simulation(1) as world:
        world.add_node("server", server)
        nodes: list[Node] = [world.add_node(f"client-{n}", client) for n in range(100)]
        world.run_until(lambda: not any(node.is_alive for node in nodes), within=30)

    assert len(set(served)) == 100


def test_one_link_can_differ_from_the_others() -> None:
    with talking() as (world, talk):
        slow = replace(LinkOptions(), latency_min_ns=2 * 10**9)
        world.network.set_options("client", "server", slow)
        world.run_for(10)
        assert talk.received[0][0] > 4


def test_a_node_cannot_listen_on_anothers_address() -> None:
    errors: list[int | None] = []

    async def main(runtime: Runtime) -> None:
        for host in ("other", "10.7.7.7"):
            try:
                await runtime.network.listen(asyncio.Protocol, host, 1)
            except OSError as error:
                errors.append(error.errno)

    async def idle(runtime: Runtime) -> None:
        await asyncio.Event().wait()

    with Simulation(1) as world:
        world.add_node("other", idle)
        world.add_node("main", main)
        world.run_for(1)

    assert errors == [99, 99]


def test_a_connect_of_a_killed_node_leaves_nothing_behind() -> None:
    ends: list[tuple[float, str]] = []

    async def server(runtime: Runtime) -> None:
        await runtime.network.listen(lambda: Quiet(world, Talk(), ends), "", 1)
        await asyncio.Event().wait()

    async def client(runtime: Runtime) -> None:
        await asyncio.sleep(1)
        await runtime.network.connect(asyncio.Protocol, "server", 1)
        await asyncio.Event().wait()

    for step in range(30):
        with Simulation(step) as world:
            node = world.add_node("server", server)
            other = world.add_node("client", client)
            world.run_for(1 + step * 0.00005)
            other.crash()
            world.run_for(10)
            assert not node.host.connections
            assert not other.host.connections

    assert ends, "some connections were accepted before the client died"


@pytest.mark.parametrize("event", range(1, 7))
def test_a_connect_can_be_cancelled_after_any_event(event: int) -> None:
    connecting: list[asyncio.Task[tuple[asyncio.Transport, asyncio.Protocol]]] = []

    async def server(runtime: Runtime) -> None:
        await runtime.network.listen(lambda: Quiet(world, Talk(), []), "", 1)
        await asyncio.Event().wait()

    async def client(runtime: Runtime) -> None:
        await asyncio.sleep(1)
        connect = runtime.network.connect(asyncio.Protocol, "server", 1)
        connecting.append(runtime.spawn(connect, name="connect"))
        await asyncio.Event().wait()

    def cancel_after_event() -> None:
        if world.loop.events - began == event and not connecting[0].cancel():
            connecting[0].result()[0].close()

    with Simulation(event) as world:
        nodes = [world.add_node("server", server), world.add_node("client", client)]
        world.run_until(lambda: connecting, within=5)
        began = world.loop.events
        world.add_invariant(cancel_after_event)
        world.run_for(5)
        assert connecting[0].done()
        assert not any(node.host.connections for node in nodes)


def test_a_factory_that_fails_ends_the_connection() -> None:
    def fail() -> asyncio.Protocol:
        raise LookupError("no protocol for you")

    ends: list[tuple[float, str]] = []
    handled: list[object] = []

    async def server(runtime: Runtime) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: handled.append(context["exception"]))
        await runtime.network.listen(fail, "", 1)
        await asyncio.Event().wait()

    async def client(runtime: Runtime) -> None:
        await asyncio.sleep(1)
        await runtime.network.connect(lambda: Quiet(world, Talk(), ends), "server", 1)
        await asyncio.Event().wait()

    with Simulation(1) as world:
        world.add_node("server", server)
        world.add_node("client", client)
        world.run_for(5)

    assert [what for _, what in ends] == ["ConnectionResetError"]
    assert [str(error) for error in handled] == ["no protocol for you"]


def test_connecting_while_only_the_way_back_is_blocked_times_out() -> None:
    outcomes: list[tuple[float, str]] = []
    ends: list[tuple[float, str]] = []

    async def server(runtime: Runtime) -> None:
        await runtime.network.listen(lambda: Quiet(world, Talk(), ends), "", 1)
        await asyncio.Event().wait()

    async def client(runtime: Runtime) -> None:
        try:
            await runtime.network.connect(asyncio.Protocol, "server", 1)
        except TimeoutError:
            outcomes.append((world.now, "timed out"))
        await asyncio.Event().wait()

    with Simulation(1) as world:
        nodes = [world.add_node("server", server), world.add_node("client", client, start=False)]
        world.network.block("server", "client")
        world.run_for(1)
        nodes[1].start()
        world.run_for(300)
        assert [what for _, what in outcomes] == ["timed out"]
        assert 120 < outcomes[0][0] < 130
        world.network.heal()
        world.run_for(10)
        assert [what for _, what in ends] == ["ConnectionResetError"]
        assert not any(node.host.connections for node in nodes)


def test_what_had_arrived_before_a_connection_was_severed_can_be_read() -> None:
    received: list[bytes] = []

    async def server(runtime: Runtime) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            received.append(await reader.readexactly(5))
            writer.close()

        await runtime.network.serve_streams(serve, "", 1)
        await asyncio.Event().wait()

    async def client(runtime: Runtime) -> None:
        await asyncio.sleep(0.1)
        _, writer = await runtime.network.open_streams("server", 1)
        await asyncio.sleep(1)
        writer.write(b"early")
        await asyncio.Event().wait()

    with Simulation(1) as world:
        node = world.add_node("server", server)
        world.add_node("client", client)
        world.run_for(1)
        node.pause()
        world.run_for(1)
        world.network.sever("client", "server")
        node.resume()
        world.run_for(1)

    assert received == [b"early"]


def test_a_byte_that_was_under_way_when_its_connection_was_severed_times_out() -> None:
    link = LinkOptions(latency_min_ns=500_000_000)
    with talking(count=1, options=Options(link=link)) as (world, talk):
        world.network.retransmit_timeout_ns = 20 * 10**9
        world.run_until(lambda: talk.sent, within=10)
        world.network.sever("client", "server")
        world.run_for(19)
        assert talk.client_end == []
        world.run_for(2)

    assert [what for _, what in talk.client_end] == ["TimeoutError"]
    assert talk.received == []


def test_one_object_sent_twice_is_two_segments_with_a_deadline_each() -> None:
    with talking(interval=8) as (world, talk):
        world.network.retransmit_timeout_ns = 20 * 10**9
        world.run_for(0.1)
        world.network.block("client", "server")
        world.run_for(8.1)
        world.network.unblock("client", "server")
        world.run_for(2)
        world.network.block("client", "server")
        world.run_for(19)
        assert talk.client_end == [], "the second has waited for less than its time"


@pytest.mark.parametrize(("loses_power", "arrives"), [(True, False), (False, True)])
def test_a_machine_without_power_sends_nothing_again(loses_power: bool, arrives: bool) -> None:
    async def silent(runtime: Runtime) -> None:
        await asyncio.Event().wait()

    with talking(interval=5) as (world, talk):
        world.run_for(1)
        world.network.block("client", "server")
        world.run_for(5)
        assert (talk.sent, len(talk.bytes_received())) == (2, 1)
        client = world.nodes["client"]
        if loses_power:
            client.power_loss()
            client.start(silent)
        else:
            client.crash()
        world.run_for(10)
        world.network.heal()
        world.run_for(10)
        assert len(talk.bytes_received()) == 1 + arrives


def test_a_crash_with_unread_bytes_resets_the_peer_and_one_without_ends_it() -> None:
    outcomes: list[str] = []
    for interval, expected in ((0.1, "ConnectionResetError"), (1000, "closed")):
        with talking(interval=interval) as (world, talk):
            world.run_for(1)
            world.nodes["server"].pause()
            world.run_for(1)
            world.nodes["server"].crash()
            world.run_for(1)
            outcomes += [what for _, what in talk.client_end]
            assert outcomes[-1] == expected

    assert outcomes == ["ConnectionResetError", "closed"]


def test_what_is_lost_comes_after_a_retransmission() -> None:
    def delay(loss: float) -> float:
        link = LinkOptions(loss=loss, retransmit_ns=200_000_000)
        with talking(count=1, options=Options(link=link)) as (world, talk):
            world.run_until(lambda: talk.received, within=30)
            return talk.received[0][0]

    assert delay(0.0) < 0.1
    assert delay(1.0) > 0.01 + 0.2 * 3, "the connect, its answer and the byte are each lost once"


def test_a_link_follows_its_new_options_at_once_and_its_latencies_vary() -> None:
    link = Link(LinkOptions(latency_min_ns=1_000, latency_mean_ns=1_000), Random(1))
    before = [link.latency_ns() for _ in range(200)]
    assert min(before) >= 1_000
    assert len(set(before)) > 150
    link.options = LinkOptions(latency_min_ns=2_000_000, latency_mean_ns=1_000)
    assert link.latency_ns() >= 2_000_000
