"""The logins of one connection: the first one, and those that renew it on the live connection.

Invariants: nothing else is sent on the connection until a login is done. A login that fails ends
the connection, and its error names the mechanism and the broker, and never what was sent. While one
is renewed nothing else is sent either, because a broker takes only SASL then: requests of that time
are put aside, and sent in their order when the login is done (KIP-368).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.login.sasl import Derivation, LoginRefused, Work
from moldau.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from moldau.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from moldau.link.addresses import Address
    from moldau.link.security import Security
    from moldau.protocol.declare import Request, Response
    from moldau.runtime import Runtime

Ask: TypeAlias = "Callable[[Request, int], Awaitable[Response]]"
"""Sends a request in a version, at most that."""
_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 2
# As Java: spread over the last part of the lifetime, so that not all clients come at once.
_PART: Final = 0.85
_JITTER: Final = 0.1


class DelayedRequest(NamedTuple):
    """A request that waits until the connection has logged in again."""

    request: Request
    on_answer: Callable[[Any], None]
    version: int | None
    deadline: float


class Renewal:
    """The logins of one connection."""

    def __init__(
        self,
        runtime: Runtime,
        security: Security,
        address: Address,
        ask: Ask,
        on_renewed: Callable[[KafkaError | None], None],
    ) -> None:
        """`on_renewed` is called when a login was renewed, or could not be."""
        self.aside: list[DelayedRequest] | None = None
        """The requests that wait for a login; None while none is renewed."""
        self._runtime = runtime
        self._security = security
        self._address = address
        self._ask = ask
        self._on_renewed = on_renewed
        self._timer: asyncio.TimerHandle | None = None

    async def log_in(self) -> None:
        """Log in. Raise LoginRefused, or KafkaError if the connection ends."""
        try:
            lifetime_ms = await log_in(self._runtime, self._security, self._ask, self._address.host)
        except KafkaError as error:
            error.context = {**error.context, "broker": str(self._address)}
            raise
        if lifetime_ms > 0:
            part = _PART + self._runtime.random.random() * _JITTER
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(lifetime_ms * part / 1000, self._begin_again)

    def stop(self) -> list[DelayedRequest]:
        """Renew no more: the connection has ended. Return the requests that wait."""
        if self._timer is not None:
            self._timer.cancel()
        return self.take_aside()

    def take_aside(self) -> list[DelayedRequest]:
        """Return the requests that wait, and put no more aside."""
        aside, self.aside = self.aside or [], None
        return aside

    def _begin_again(self) -> None:
        self._runtime.spawn(self._renew(), name=f"login at {self._address}")

    async def _renew(self) -> None:
        failure: KafkaError | None = KafkaError(
            ErrorCode.NETWORK_EXCEPTION, "the login could not be renewed"
        )
        credentials = self._security.credentials
        assert credentials is not None
        try:
            await credentials.prepare()  # the connection goes on meanwhile
            self.aside = []
            await self.log_in()
            failure = None
        except KafkaError as error:
            failure = without_frames(error)
        finally:
            self._on_renewed(failure)


async def log_in(runtime: Runtime, security: Security, ask: Ask, host: str) -> int:
    """Log in at the broker on `host`. Return how many milliseconds the login is valid; 0 if it has
    no end.

    Raise LoginRefused if the broker refuses it, or cannot prove itself."""
    credentials = security.credentials
    assert credentials is not None
    facts: dict[str, Any] = {"mechanism": credentials.mechanism}
    handshake = await ask(SaslHandshakeRequest(mechanism=credentials.mechanism), _HANDSHAKE_VERSION)
    assert isinstance(handshake, SaslHandshakeResponse)
    if handshake.error_code:
        code = ErrorCode(handshake.error_code)
        if code is ErrorCode.ILLEGAL_SASL_STATE:
            raise LoginRefused(
                code,
                "this listener takes no logins: set security.protocol to PLAINTEXT or SSL",
                **facts,
            )
        raise LoginRefused(code, offered=list(handshake.mechanisms), **facts)
    exchange = await credentials.exchange(runtime, host)
    lifetime_ms = 0
    step = next(exchange)
    while True:
        if isinstance(step, Derivation):
            reply = await security.derive(runtime, step)
        elif isinstance(step, Work):
            reply = await security.work(runtime, step)
        else:
            answer = await ask(SaslAuthenticateRequest(auth_bytes=step), _AUTHENTICATE_VERSION)
            assert isinstance(answer, SaslAuthenticateResponse)
            if answer.error_code:
                raise LoginRefused(answer.error_code, answer.error_message or "", **facts)
            reply = bytes(answer.auth_bytes)
            lifetime_ms = answer.session_lifetime_ms
        try:
            step = exchange.send(reply)
        except StopIteration:
            return lifetime_ms
        except LoginRefused as error:
            error.context = {**error.context, **facts}
            raise
