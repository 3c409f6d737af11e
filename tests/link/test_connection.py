"""One connection: versions, answers in order, and every way it can end."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.addresses import Address
from moldau.link.connection import Connection, ConnectionOptions, Identity
from moldau.link.foreign import IS_HTTP, IS_TLS, foreign_server
from moldau.protocol.connection import ClientConnection
from moldau.protocol.declare import Response
from moldau.protocol.messages.api_versions import ApiVersionsRequest
from moldau.protocol.messages.list_groups import ListGroupsRequest
from moldau.protocol.messages.metadata import MetadataRequest, MetadataResponse
from moldau.protocol.versions import Versions
from moldau.runtime import Runtime
from moldau.runtime.simulated import LinkOptions, Options
from tests.client.scripted import PORT
from tests.client.world import ClientWorld

B1 = Address("b1", PORT)
OPTIONS = ConnectionOptions(client_id="test", request_timeout_s=5.0, setup_timeout_s=3.0)
NO_TOPICS = MetadataRequest(topics=[])


async def opened(runtime: Runtime, address: Address = B1) -> Connection:
    return await Connection.open(runtime, address, OPTIONS)


async def failure(awaitable: Any) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        await awaitable
    return caught.value


def test_requests_are_answered_in_the_highest_common_version() -> None:
    async def main(runtime: Runtime) -> None:
        connection = await opened(runtime)
        answers = await asyncio.gather(
            *(connection.request(NO_TOPICS, MetadataResponse) for _ in range(50))
        )
        assert all(answer.cluster_id == "scripted" for answer in answers)
        connection.close()

    with ClientWorld() as world:
        world.cluster.served[3] = Versions(1, 7)
        world.run_client(main)
        assert {version for key, version in world.cluster.versions if key == 3} == {7}


def test_an_older_broker_is_asked_again_in_its_own_version_of_api_versions() -> None:
    async def main(runtime: Runtime) -> None:
        connection = await opened(runtime)
        assert connection.versions.by_key[3].last == 13

    with ClientWorld() as world:
        world.cluster.served[18] = Versions(0, 2)
        world.run_client(main)
        assert [version for key, version in world.cluster.versions if key == 18] == [4, 2]


def test_an_older_broker_is_asked_again_without_the_broker_that_is_meant() -> None:
    async def main(runtime: Runtime) -> None:
        connection = await Connection.open(runtime, B1, OPTIONS, identity=Identity("scripted", 1))
        assert connection.versions.by_key[3].last == 13

    with ClientWorld() as world:
        world.cluster.served[18] = Versions(0, 4)
        world.run_client(main)
        assert [version for key, version in world.cluster.versions if key == 18] == [5, 4]


def test_another_broker_than_the_one_that_is_meant_is_no_connection() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        return await failure(Connection.open(runtime, B1, OPTIONS, identity=Identity("another", 1)))

    with ClientWorld() as world:
        assert world.run_client(main).code is ErrorCode.REBOOTSTRAP_REQUIRED


def test_an_api_that_the_broker_lacks_is_told_with_its_address() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        connection = await opened(runtime)
        with pytest.raises(KafkaError) as caught:
            connection.ask(ListGroupsRequest(), lambda _: None)
        return caught.value

    with ClientWorld() as world:
        error = world.run_client(main)
    assert error.code is ErrorCode.UNSUPPORTED_VERSION
    assert error.context["broker"] == "b1:9092"
    assert error.context["request"] == "ListGroupsRequest"


def test_a_refused_connect_names_the_address() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        return await failure(opened(runtime, Address("b1", 1)))

    with ClientWorld() as world:
        error = world.run_client(main)
    assert (error.code, error.context["address"]) == (ErrorCode.NETWORK_EXCEPTION, "b1:1")


def test_what_is_no_kafka_is_told_at_once_and_not_waited_for() -> None:
    async def shout(runtime: Runtime) -> None:
        class Http(asyncio.Protocol):
            def connection_made(self, transport: Any) -> None:
                transport.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        await runtime.network.listen(Http, None, 80)
        await asyncio.Event().wait()

    async def main(runtime: Runtime) -> tuple[KafkaError, float]:
        start = runtime.clock.monotonic()
        error = await failure(opened(runtime, Address("web", 80)))
        return error, runtime.clock.monotonic() - start

    with ClientWorld() as world:
        world.add_node("web", shout)
        error, seconds = world.run_client(main)
    assert error.code == ErrorCode.NETWORK_EXCEPTION
    assert error.reason.startswith("an HTTP server answers at this port, not a broker")
    assert seconds < 1


@pytest.mark.parametrize(
    ("first", "server"),
    [
        (b"HTTP", IS_HTTP),
        (b"<!DO", IS_HTTP),
        (b"\x15\x03\x03\x00", IS_TLS),
        (b"\x16\x03\x01\x02", IS_TLS),
        (b"SSH-", None),
        (b"\x7f\xff\xff\xff", None),
    ],
)
def test_servers_that_are_no_brokers_are_known_by_their_first_bytes(
    first: bytes, server: str | None
) -> None:
    assert foreign_server(int.from_bytes(first, "big", signed=True)) == server
    assert foreign_server(None) is None


def test_a_broker_that_accepts_and_says_nothing_is_given_up_after_the_setup_timeout() -> None:
    async def main(runtime: Runtime) -> tuple[KafkaError, float]:
        start = runtime.clock.monotonic()
        error = await failure(opened(runtime))
        return error, runtime.clock.monotonic() - start

    with ClientWorld() as world:
        world.cluster.silence.add(ApiVersionsRequest)
        error, seconds = world.run_client(main)
    assert error.code is ErrorCode.REQUEST_TIMED_OUT
    assert 3.0 <= seconds < 3.1


MANY = Address("many", PORT)


async def behind_the_name(
    runtime: Runtime, hosts: list[str], address: Address = MANY
) -> tuple[Any, float]:
    """What connecting to a name with these hosts behind it leads to, and after how long. The first
    swallows all that is sent to it."""

    async def resolve(host: str, port: int) -> list[tuple[str, int]]:
        return [(each, port) for each in hosts]

    start = runtime.clock.monotonic()
    with patch.object(runtime.network, "resolve", resolve):
        try:
            found: Any = await opened(runtime, address)
        except KafkaError as error:
            found = error
    return found, runtime.clock.monotonic() - start


def test_an_address_that_swallows_everything_does_not_keep_the_next_from_being_tried() -> None:
    async def main(runtime: Runtime) -> None:
        world.network.block("client1", "b1")
        for _ in range(2):
            connection, seconds = await behind_the_name(runtime, ["b1", "b2"])
            assert 1.5 <= seconds < 1.6
            assert connection.address == MANY
            answer = await connection.request(NO_TOPICS, MetadataResponse)
            assert answer.cluster_id == "scripted"
            connection.close()

    with ClientWorld() as world:
        world.run_client(main)
        assert {node_id for node_id, _ in world.cluster.requests} == {2}


@pytest.mark.parametrize("turns", range(6))
@pytest.mark.parametrize("cancels", [1, 2])
def test_who_gives_up_while_several_addresses_are_tried_leaves_none_open(
    turns: int, cancels: int
) -> None:
    """However many turns of the loop after the second address was there first."""
    made: list[Connection] = []
    set_up = Connection._set_up

    async def main(runtime: Runtime) -> None:
        is_there = asyncio.Event()

        async def noted(connection: Connection, *arguments: Any) -> None:
            made.append(connection)
            await set_up(connection, *arguments)
            is_there.set()

        world.network.block("client1", "b1")
        with patch.object(Connection, "_set_up", noted):
            opening = asyncio.create_task(behind_the_name(runtime, ["b1", "b2"]))
            await is_there.wait()
            for _ in range(turns):
                await asyncio.sleep(0)
            for _ in range(cancels):
                opening.cancel()
                await asyncio.sleep(0)
            await asyncio.wait([opening])
        await asyncio.sleep(1)
        given = [] if opening.cancelled() else [opening.result()[0]]
        assert [each for each in made if not each.is_closed] == given
        for each in given:
            each.close()

    with ClientWorld() as world:
        world.run_client(main)
    assert len(made) == 2


def test_what_became_of_each_address_is_told() -> None:
    async def main(runtime: Runtime) -> tuple[KafkaError, float]:
        world.network.block("client1", "b1")
        return await behind_the_name(runtime, ["b1", "b2"], Address("many", 1))

    with ClientWorld() as world:
        error, seconds = world.run_client(main)
    assert (error.code, error.reason) == (ErrorCode.NETWORK_EXCEPTION, "cannot connect")
    assert error.context["address"] == "many:1"
    assert error.context["why"] == (
        "b1: the broker did not answer while the connection was set up; b2: ('10.0.0.2', 1) refused"
    )
    assert 3.0 <= seconds < 3.1


def test_an_address_that_is_slow_has_all_the_time_that_there_is() -> None:
    """The others are tried beside it; what comes too late is closed."""

    async def main(runtime: Runtime) -> None:
        world.cluster.delay_s = 2.0
        connection, seconds = await behind_the_name(runtime, ["b1", "b2", "b1"])
        assert 2.0 <= seconds < 2.1
        assert not connection.is_closed
        connection.close()

    with ClientWorld() as world:
        world.run_client(main)


def test_many_silent_addresses_take_no_longer_than_one() -> None:
    """Other brokers wait to be tried."""

    async def main(runtime: Runtime) -> tuple[KafkaError, float]:
        world.network.block("client1", "b1")
        return await behind_the_name(runtime, ["b1"] * 8)

    with ClientWorld() as world:
        error, seconds = world.run_client(main)
    assert error.retriable
    assert 3.0 <= seconds < 3.1


def test_a_broker_that_is_too_new_is_not_looked_for_at_another_address() -> None:
    async def main(runtime: Runtime) -> tuple[KafkaError, float]:
        return await behind_the_name(runtime, ["b1", "b2"])

    with ClientWorld() as world:
        world.cluster.served[18] = Versions(7, 9)
        error, _ = world.run_client(main)
        assert error.code is ErrorCode.UNSUPPORTED_VERSION
        assert {node_id for node_id, _ in world.cluster.requests} <= {1}
        assert [version for key, version in world.cluster.versions if key == 18] == [4]


def test_a_resolver_that_says_nothing_is_given_up_too() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        with patch.object(runtime.network, "resolve", lambda *_: asyncio.Event().wait()):
            return await failure(opened(runtime))

    with ClientWorld() as world:
        error = world.run_client(main)
    assert (error.code, error.reason) == (
        ErrorCode.REQUEST_TIMED_OUT,
        "the resolver does not say where the host is",
    )
    assert error.context == {"address": "b1:9092", "seconds": 3.0}


@pytest.mark.parametrize(
    "address", [Address("b..1", PORT), Address("b1", 70_000), Address("b1\0", PORT)]
)
def test_what_a_broker_names_and_cannot_be_an_address_counts_as_out_of_reach(
    address: Address,
) -> None:
    """A resolver raises what is no OSError, and so does a socket of such a port."""

    async def main(runtime: Runtime) -> KafkaError:
        return await failure(opened(runtime, address))

    with ClientWorld() as world:
        error = world.run_client(main)
    assert (error.code, error.reason) == (ErrorCode.NETWORK_EXCEPTION, "cannot connect")
    assert error.context == {"address": str(address), "why": address.fault}


def test_an_answer_that_cannot_be_decoded_fails_its_own_request_as_all_others() -> None:
    async def main(runtime: Runtime) -> list[KafkaError]:
        connection = await opened(runtime)
        world.cluster.cut_answers[MetadataRequest] = 1
        asked = [failure(connection.request(NO_TOPICS, MetadataResponse)) for _ in range(3)]
        return await asyncio.gather(*asked)

    with ClientWorld() as world:
        errors = world.run_client(main)
    assert {error.reason for error in errors} == {"the broker sent what is no answer"}
    assert all("MetadataResponse" in str(error.context["why"]) for error in errors)


@pytest.mark.parametrize("when", ["answered", "ended", "decoded", "written"])
def test_a_bug_ends_the_connection_and_everybody_hears_of_it(when: str) -> None:
    """And the log does: a request that nobody answers is waited for in vain, in silence."""
    told: list[Response | KafkaError | None] = []
    logged: list[str] = []

    def hear(answer: Response | KafkaError | None) -> None:
        told.append(answer)
        if len(told) == 1 and when != "decoded":
            raise ZeroDivisionError(when)

    async def main(runtime: Runtime) -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: logged.append(str(context["exception"]))
        )
        connection = await opened(runtime)
        if when == "written":
            connection.tell(NO_TOPICS, hear)
        else:
            connection.ask(NO_TOPICS, hear)
        connection.ask(NO_TOPICS, hear)
        connection.ask(NO_TOPICS, hear)
        if when == "ended":
            connection.close()
        if when == "decoded":
            with patch.object(ClientConnection, "_decode", side_effect=ZeroDivisionError(when)):
                await asyncio.sleep(1)
        await asyncio.sleep(1)
        assert connection.is_closed
        assert connection.in_flight == 0

    with ClientWorld() as world:
        world.run_client(main)
    assert logged == [when]
    assert len(told) == 3
    assert all(isinstance(answer, KafkaError) for answer in told[1:])


@pytest.mark.parametrize("how", ["reset", "crash", "close"])
def test_a_connection_that_ends_fails_all_its_requests_once(how: str) -> None:
    async def main(runtime: Runtime) -> list[ErrorCode]:
        connection = await opened(runtime)
        asked = [
            asyncio.ensure_future(failure(connection.request(NO_TOPICS, MetadataResponse)))
            for _ in range(3)
        ]
        await asyncio.sleep(1)
        if how == "close":
            connection.close()
        codes = [(await each).code for each in asked]
        assert connection.is_closed
        assert connection.in_flight == 0
        codes.append((await failure(connection.request(NO_TOPICS, MetadataResponse))).code)
        return codes

    with ClientWorld() as world:
        world.cluster.silence.add(MetadataRequest)
        if how == "reset":
            world.after(2, world.network.reset, "client1", "b1")
        elif how == "crash":
            world.after(2, world.nodes["b1"].crash)
        assert world.run_client(main) == [ErrorCode.NETWORK_EXCEPTION] * 4


def test_a_half_open_connection_ends_with_the_request_timeout() -> None:
    """A router forgot the connection: nobody tells, so the clock has to."""

    async def main(runtime: Runtime) -> tuple[list[ErrorCode], float]:
        connection = await opened(runtime)
        await asyncio.sleep(2)
        start = runtime.clock.monotonic()
        first = asyncio.ensure_future(failure(connection.request(NO_TOPICS, MetadataResponse)))
        await asyncio.sleep(1)
        second = await failure(connection.request(NO_TOPICS, MetadataResponse))
        assert connection.is_closed
        return [(await first).code, second.code], runtime.clock.monotonic() - start

    with ClientWorld() as world:
        world.after(1, world.network.sever, "client1", "b1")
        codes, seconds = world.run_client(main)
    assert codes == [ErrorCode.REQUEST_TIMED_OUT] * 2
    assert 5.0 <= seconds < 5.1


def test_a_time_that_is_shorter_than_that_of_a_request_ahead_is_kept() -> None:
    async def main(runtime: Runtime) -> tuple[list[ErrorCode], float]:
        connection = await opened(runtime)
        start = runtime.clock.monotonic()
        asked = [
            failure(connection.request(NO_TOPICS, MetadataResponse, timeout_s=seconds))
            for seconds in (60.0, 1.0)
        ]
        codes = [error.code for error in await asyncio.gather(*asked)]
        return codes, runtime.clock.monotonic() - start

    with ClientWorld() as world:
        world.cluster.silence.add(MetadataRequest)
        codes, seconds = world.run_client(main)
    assert codes == [ErrorCode.REQUEST_TIMED_OUT] * 2
    assert seconds == pytest.approx(1.0, abs=0.1)


def test_the_usual_time_does_not_end_what_a_request_ahead_may_take() -> None:
    """As a fetch that waits for records for longer than a request may take otherwise."""

    async def main(runtime: Runtime) -> float:
        connection = await opened(runtime)
        start = runtime.clock.monotonic()
        asked = [
            failure(connection.request(NO_TOPICS, MetadataResponse, timeout_s=seconds))
            for seconds in (20.0, None)
        ]
        await asyncio.gather(*asked)
        return runtime.clock.monotonic() - start

    with ClientWorld() as world:
        world.cluster.silence.add(MetadataRequest)
        assert world.run_client(main) == pytest.approx(20.0, abs=0.1)


def test_answers_may_come_in_single_bytes() -> None:
    async def main(runtime: Runtime) -> list[int]:
        connection = await opened(runtime)
        request = MetadataRequest(topics=None)
        answers = await asyncio.gather(
            *(connection.request(request, MetadataResponse) for _ in range(20))
        )
        return [len(answer.topics) for answer in answers]

    link = LinkOptions(split=1.0, piece_bytes_max=1)
    with ClientWorld(options=Options(link=link)) as world:
        for number in range(100):
            world.cluster.add_topic(f"topic-{number}", [1, 2])
        assert world.run_client(main) == [100] * 20


def test_a_caller_that_gives_up_leaves_the_connection_in_order() -> None:
    async def main(runtime: Runtime) -> str | None:
        connection = await opened(runtime)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.00001):
                await connection.request(NO_TOPICS, MetadataResponse)
        return (await connection.request(NO_TOPICS, MetadataResponse)).cluster_id

    with ClientWorld() as world:
        assert world.run_client(main) == "scripted"


class Narrow(asyncio.Transport):
    """Gives what is written to the network when it is told to, but for the first few writes, which
    that has at once."""

    def __init__(self, at_once: int = 0) -> None:
        super().__init__()
        self.at_once = at_once
        self.writes = self.unsent_bytes = 0
        self.is_over = False

    def write(self, data: Any) -> None:
        self.writes += 1
        if self.writes > self.at_once:
            self.unsent_bytes += len(data)

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return self.is_over

    def abort(self) -> None:
        self.is_over = True


@pytest.mark.parametrize("is_emptied", [False, True])
def test_of_what_gets_no_answer_it_is_known_what_was_written_when_the_connection_ends(
    is_emptied: bool,
) -> None:
    """Else what the broker has would be sent again, or what a transport has dropped be told as
    sent: it is empty then, before it says that the connection was lost."""

    async def main(runtime: Runtime) -> list[tuple[int, bool]]:
        told: list[tuple[int, bool]] = []
        connection, transport = Connection(runtime, B1, OPTIONS), Narrow()
        connection.connection_made(transport)

        def hear(number: int, error: KafkaError | None) -> None:
            told.append((number, error is None))

        for number in range(3):
            connection.tell(NO_TOPICS, partial(hear, number), version=7)
        assert (transport.writes, told) == (1, [])
        transport.unsent_bytes = 0
        connection.resume_writing()
        assert (transport.writes, told) == (2, [(0, True)])
        if is_emptied:
            transport.is_over, transport.unsent_bytes = True, 0
            await asyncio.sleep(1)
        connection.connection_lost(None)
        return told

    with ClientWorld() as world:
        assert world.run_client(main) == [(0, True), (1, False), (2, False)]


def test_what_is_written_whole_stays_so_when_a_request_behind_it_is_not() -> None:
    """Both are written in one turn of the loop, before anybody looks."""

    async def main(runtime: Runtime) -> list[bool]:
        is_told: list[bool] = []
        connection, transport = Connection(runtime, B1, OPTIONS), Narrow(at_once=1)
        connection.connection_made(transport)
        connection.tell(NO_TOPICS, lambda error: is_told.append(error is None), version=7)
        connection.ask(NO_TOPICS, lambda _: None, version=7)
        assert transport.unsent_bytes > 0
        await asyncio.sleep(0)
        connection.connection_lost(None)
        return is_told

    with ClientWorld() as world:
        assert world.run_client(main) == [True]
