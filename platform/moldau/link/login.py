"""The login of one connection at a broker: which requests it takes, and in which order.

Invariant: nothing else is sent on the connection until it is done. A login that fails ends the
connection, and its error names the mechanism and the broker, and never what was sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from moldau.errors.codes import ErrorCode
from moldau.link.sasl import Derivation, LoginRefused, Work
from moldau.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from moldau.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from moldau.link.security import Security
    from moldau.protocol.declare import Request, Response
    from moldau.runtime import Runtime

Ask: TypeAlias = "Callable[[Request, int], Awaitable[Response]]"
"""Sends a request in a version, at most that."""

_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 2


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
