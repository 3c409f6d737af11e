"""Connections that must log in: what is served before, how it is refused, and what ends it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from struct import pack

import pytest

from moldau.broker.network import ListenerOptions
from moldau.broker.security.login import Away, LoginTerms, Method, Step
from moldau.broker.security.plain import PlainServer
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from moldau.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from moldau.protocol.versions import Versions
from moldau.runtime import Runtime
from tests.broker.network.arena import Arena, Client, ScriptedService, ask, echo, serving
from tests.broker.network.virtual_pause import after
from tests.runtime.arena import ARENAS, HOST, REAL_ARENAS, play, until

ALICE, BOB = b"\0alice\0canary", b"\0bob\0canary"
FAILED = ErrorCode.SASL_AUTHENTICATION_FAILED

Scenario = Callable[[Arena, ScriptedService], Awaitable[None]]


def run(
    arena: str,
    scenario: Scenario,
    renew_ms_max: int = 0,
    delay_ms: int = 100,
    away: Away | None = None,
    make: type[PlainServer] = PlainServer,
) -> list[str]:
    """Play against a listener with PLAIN, and return the log."""
    users = {"alice": "canary", "bob": "canary"}
    terms = LoginTerms(
        {"PLAIN": Method(lambda: make(users), renew_ms_max, away)},
        failure_delay_ms=delay_ms,
        receive_bytes_max=1000,
    )
    lines: list[str] = []

    async def main(runtime: Runtime) -> None:
        service = ScriptedService(serve)
        service.served = {**service.served, 17: Versions(0, 1), 36: Versions(0, 2)}
        options = ListenerOptions("OUT", HOST, 0, login=terms)
        async with serving(runtime, service, None, options) as at:
            try:
                await scenario(at, service)
            finally:
                lines.extend(at.lines)

    play(arena, main)
    assert not [each for each in lines if "canary" in each]
    return lines


def serve(request: object) -> None:
    if request.key == 18:  # type: ignore[attr-defined]
        request.answer(ApiVersionsResponse(error_code=0, api_keys=[]))  # type: ignore[attr-defined]
    else:
        echo(request)  # type: ignore[arg-type]


async def shake(client: Client, mechanism: str = "PLAIN", version: int = 1) -> int:
    client.send(SaslHandshakeRequest(mechanism=mechanism), version)
    answer = await client.receive()
    assert isinstance(answer, SaslHandshakeResponse)
    assert list(answer.mechanisms) == ["PLAIN"]
    return answer.error_code


async def prove(client: Client, data: bytes = ALICE, version: int = 2) -> SaslAuthenticateResponse:
    client.send(SaslAuthenticateRequest(auth_bytes=data), version)
    answer = await client.receive()
    assert isinstance(answer, SaslAuthenticateResponse)
    return answer


async def log_in(client: Client, data: bytes = ALICE) -> SaslAuthenticateResponse:
    assert await shake(client) == 0
    return await prove(client, data)


@pytest.mark.parametrize("arena", ARENAS)
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_login_gives_the_principal_and_the_service(arena: str, version: int) -> None:
    async def scenario(at: Arena, service: ScriptedService) -> None:
        client = await at.connect()
        client.send(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)
        await client.receive()
        assert await shake(client) == 0
        assert (await prove(client, version=version)).error_code == 0
        client.send(ask("hello"))
        assert await client.text() == "hello"
        assert str(service.requests[-1].context.principal) == "User:alice"

    run(arena, scenario)


@pytest.mark.parametrize("arena", ARENAS)
@pytest.mark.parametrize("version", [0, 3, 4])
def test_versions_are_not_asked_for_in_the_middle_of_a_login(arena: str, version: int) -> None:
    """As Kafka 4.3.1, which closes the connection behind the answer."""

    async def scenario(at: Arena, service: ScriptedService) -> None:
        client = await at.connect()
        assert await shake(client) == 0
        asked = ApiVersionsRequest(client_software_name="x", client_software_version="1")
        client.send(asked, version)
        answer = await client.receive()
        assert isinstance(answer, ApiVersionsResponse)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await client.is_closed()

    run(arena, scenario)


def test_everything_may_come_in_one_packet() -> None:
    async def scenario(at: Arena, service: ScriptedService) -> None:
        client = await at.connect()
        client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        client.send(SaslAuthenticateRequest(auth_bytes=ALICE), 2)
        client.send(ask("hello"))
        await client.receive()
        await client.receive()
        assert await client.text() == "hello"

    run("simulated", scenario)


class Elsewhere:
    """Where steps of logins are done that read files: when the test says so."""

    def __init__(self) -> None:
        self.steps: list[Callable[[], object]] = []

    def __call__(self, step: Step, then: Callable[[Step], object]) -> None:
        self.steps.append(partial(then, step))


@pytest.mark.parametrize("arena", REAL_ARENAS)
def test_what_follows_a_step_that_is_done_elsewhere_waits_for_it(arena: str) -> None:
    elsewhere = Elsewhere()

    async def scenario(at: Arena, service: ScriptedService) -> None:
        clients = [await at.connect() for _ in range(3)]
        for client, data in zip(clients, (ALICE, BOB + b"x", ALICE), strict=True):
            assert await shake(client) == 0
            client.send(SaslAuthenticateRequest(auth_bytes=data), 2)
        first, refused, lost = clients
        first.send(ask("hello"))
        refused.send(ask("hello"))
        await until(lambda: len(elsewhere.steps) == 3)
        lost.writer.transport.abort()
        assert not service.requests
        for finish in elsewhere.steps:
            finish()
        for client, code in ((first, 0), (refused, FAILED)):
            answer = await client.receive()
            assert isinstance(answer, SaslAuthenticateResponse)
            assert answer.error_code == code
        assert await first.text() == "hello"
        await until(lambda: at.server.connections == 1)
        assert len(service.requests) == 1

    run(arena, scenario, away=elsewhere)


@pytest.mark.parametrize("arena", ARENAS)
def test_a_handshake_of_version_0_is_followed_by_messages_without_headers(arena: str) -> None:
    async def scenario(at: Arena, service: ScriptedService) -> None:
        client = await at.connect()
        assert await shake(client, version=0) == 0
        client.writer.write(pack(">i", len(ALICE)) + ALICE)
        assert await client.reader.readexactly(4) == bytes(4)
        client.send(ask("hello"))
        assert await client.text() == "hello"
        refused = await at.connect()
        await shake(refused, version=0)
        refused.writer.write(pack(">i", 4) + b"\0a\0b")
        assert await refused.is_closed()

    run(arena, scenario)


@pytest.mark.parametrize("arena", ARENAS)
def test_no_other_request_is_served_before(arena: str) -> None:
    async def scenario(at: Arena, service: ScriptedService) -> None:
        for begin in (False, True):
            client = await at.connect()
            if begin:
                await shake(client)
            client.send(ask("hello"))
            assert await client.is_closed()
        assert not service.requests

    lines = run(arena, scenario)
    assert len([each for each in lines if "a request before the login" in each]) == 2


def test_a_long_request_is_not_read_before_and_is_after() -> None:
    async def scenario(at: Arena, service: ScriptedService) -> None:
        client = await at.connect()
        client.send(SaslAuthenticateRequest(auth_bytes=bytes(2000)), 2)
        assert await client.is_closed()
        client = await at.connect()
        await log_in(client)
        client.send(ask("x" * 2000))
        assert await client.text() == "x" * 2000

    run("simulated", scenario)


@pytest.mark.parametrize("data", [b"\0alice\0wrong", b"\0nobody\0canary", b"", b"\xff"])
def test_a_refusal_is_told_late_and_closes(data: bytes) -> None:
    async def scenario(at: Arena, service: ScriptedService) -> None:
        client = await at.connect()
        before = at.runtime.clock.monotonic()
        answer = await log_in(client, data)
        assert at.runtime.clock.monotonic() - before >= 5
        assert answer.error_code == FAILED
        assert answer.error_message == (
            "Authentication failed: Invalid user credentials with SASL mechanism PLAIN"
        )
        assert await client.is_closed()

    lines = run("simulated", scenario, delay_ms=5000)
    (told,) = [each for each in lines if "login failed" in each]
    assert "mechanism=PLAIN" in told
    assert "listener=OUT" in told


def test_nothing_behind_a_refusal_is_served() -> None:
    async def scenario(at: Arena, service: ScriptedService) -> None:
        client = await at.connect()
        client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        client.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2)
        client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        client.send(SaslAuthenticateRequest(auth_bytes=ALICE), 2)
        client.send(ask("hello"))
        await client.receive()
        answer = await client.receive()
        assert isinstance(answer, SaslAuthenticateResponse)
        assert answer.error_code == FAILED
        assert await client.is_closed()
        assert not service.requests

    run("simulated", scenario)


def test_a_mechanism_that_is_not_offered_is_refused() -> None:
    async def scenario(at: Arena, service: ScriptedService) -> None:
        client = await at.connect()
        assert await shake(client, "GSSAPI") == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert await client.is_closed()

    run("simulated", scenario)


def test_a_client_that_does_not_log_in_is_not_kept() -> None:
    async def scenario(at: Arena, service: ScriptedService) -> None:
        idle, busy = await at.connect(), await at.connect()
        await log_in(busy)
        before = at.runtime.clock.monotonic()
        assert await idle.is_closed()
        assert 25 < at.runtime.clock.monotonic() - before < 35
        busy.send(ask("hello"))
        assert await busy.text() == "hello"

    lines = run("simulated", scenario)
    assert [each for each in lines if "it does not log in" in each]


@pytest.mark.parametrize("version", [0, 1])
def test_bytes_that_are_no_token_end_the_connection(version: int) -> None:
    """Whatever comes behind a handshake, whole or not, the connection closes within ten seconds."""
    whole = {
        "a text": b"hello, this is no token",
        "a token without its size": b"\0alice\0wrong",
        "a size that is too large": pack(">i", 1001),
        "a negative size": pack(">i", -1),
        "no bytes": pack(">i", 0),
        "half a size": b"\0\0",
        "half a message": pack(">i", 100) + b"half",
        "a message without an end": pack(">i", 900) + b"x" * 899,
    }

    async def scenario(at: Arena, service: ScriptedService) -> None:
        for name, data in whole.items():
            client = await at.connect()
            assert await shake(client, version=version) == 0
            before = at.runtime.clock.monotonic()
            client.writer.write(data)
            assert await client.is_closed(), name
            assert at.runtime.clock.monotonic() - before <= 10, name

    lines = run("simulated", scenario)
    assert [each for each in lines if "is not whole in time" in each]


def test_a_login_may_pause_between_messages() -> None:
    """A client may have to ask for a ticket first."""

    async def scenario(at: Arena, service: ScriptedService) -> None:
        client = await at.connect()
        assert await shake(client) == 0
        await after(20)
        assert (await prove(client)).error_code == 0

    run("simulated", scenario)


def test_a_login_that_is_not_renewed_ends_with_the_next_request() -> None:
    async def scenario(at: Arena, service: ScriptedService) -> None:
        client = await at.connect()
        assert (await log_in(client)).session_lifetime_ms == 5000
        await after(4)
        client.send(ask("in time"))
        assert await client.text() == "in time"
        await after(2)
        client.send(ask("too late"))
        assert await client.is_closed()

    lines = run("simulated", scenario, renew_ms_max=5000)
    assert [each for each in lines if "its login has expired" in each]


def test_a_login_is_renewed_by_the_same_user_alone() -> None:
    async def scenario(at: Arena, service: ScriptedService) -> None:
        client = await at.connect()
        await log_in(client)
        for _ in range(3):
            await after(4)
            assert (await log_in(client)).session_lifetime_ms == 5000
            client.send(ask("hello"))
            assert await client.text() == "hello"
        assert (await log_in(client, BOB)).error_code == FAILED
        assert await client.is_closed()

    lines = run("simulated", scenario, renew_ms_max=5000)
    assert [each for each in lines if "a login is renewed by another user" in each]


class Broken(PlainServer):
    """A mechanism with a bug."""

    def step(self, message: bytes) -> bytes:
        raise RuntimeError(message)


@pytest.mark.parametrize("arena", ARENAS)
def test_a_bug_in_a_mechanism_is_a_refused_login_without_a_traceback(arena: str) -> None:
    async def scenario(at: Arena, service: ScriptedService) -> None:
        client = await at.connect()
        assert (await log_in(client)).error_code == FAILED
        assert await client.is_closed()

    lines = run(arena, scenario, make=Broken)
    assert [each for each in lines if "the mechanism failed: RuntimeError" in each]
    assert not [each for each in lines if "Traceback" in each]
