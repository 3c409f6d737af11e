"""Logins by SASL on the connections of one listener: a service in front of another.

Before the login only SASL and ApiVersions are served, in requests of a limited size and time: the
login has half a minute, and a message that has begun, which may be no message at all, ten seconds.
Then the connection gets the service behind, so a request after the login costs nothing more. Only
where logins have an end does this service stay in between (KIP-368).

Invariants: a connection without a login never reaches the service behind, but for ApiVersions. A
refusal is told after a delay, and the connection closes with it. A log line about a refused login
has the mechanism, the claimed user and the address, and nothing else that the client sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, cast

from moldau.broker.decision.context import Principal
from moldau.broker.network.reason import Reason
from moldau.broker.security.login import Login, LoginState, LoginTerms, Step
from moldau.broker.security.mechanism import LoginFailed
from moldau.errors.codes import ErrorCode
from moldau.protocol.connection import Arrival, ServerConnection
from moldau.protocol.headers import API_VERSIONS
from moldau.protocol.messages.api_versions import ApiVersionsResponse
from moldau.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from moldau.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from moldau.broker.network.request import Request, Service, Throttle
    from moldau.broker.network.shell import Connection
    from moldau.protocol.declare import Response
    from moldau.protocol.versions import Versions

HANDSHAKE: Final = 17
AUTHENTICATE: Final = 36
_BEFORE_LOGIN: Final = (HANDSHAKE, API_VERSIONS, AUTHENTICATE)
_SIZE: Final = Struct(">i")
_USER_SHOWN_MAX: Final = 100
_LOOK_SECONDS: Final = 5.0
"""How often a login is looked at: a message that is not whole at two looks ends it."""
_USER: Final = "User"


class _Session:
    """The login of one connection."""

    __slots__ = ("expires_at", "is_authenticated", "login", "message_count", "protocol")

    def __init__(self, login: Login) -> None:
        self.login = login
        self.message_count = 0
        self.is_authenticated = False
        self.expires_at: float | None = None
        self.protocol: ServerConnection | None = None
        """The protocol to go back to after messages without headers; None if they have them."""


class LoginService:
    """The service of a listener with logins. Satisfies `Service`."""

    def __init__(self, behind: Service, terms: LoginTerms) -> None:
        served = behind.served
        self.served: Mapping[int, Versions] = {key: served[key] for key in _BEFORE_LOGIN}
        self.throttle: Throttle | None = None
        self._behind = behind
        self._terms = terms

    def opened(self, connection: Connection) -> None:
        """Wait for the login."""
        connection.login = _Session(Login(self._terms))
        self._look_later(connection, self._terms.seconds_max, None)
        self._behind.opened(connection)

    def closed(self, connection: Connection) -> None:
        """Tell the service behind."""
        self._behind.closed(connection)

    def serve(self, request: Request) -> None:
        """Serve a request of a client that is not logged in, or whose login has an end."""
        connection = request.connection
        session = cast(_Session, connection.login)
        session.message_count += 1
        if request.key == HANDSHAKE:
            self._shake_hands(request, session)
        elif request.key == AUTHENTICATE:
            self._authenticate(request, session)
        elif session.is_authenticated and self._is_expired(connection, session):
            connection.acceptor.reactor.warn(
                "closes connection: its login has expired", **connection.facts()
            )
            connection.close(Reason.LOGIN_EXPIRED)
        elif not session.is_authenticated and session.login.state is LoginState.EXCHANGING:
            # As in Kafka: after the handshake only messages of the mechanism may follow.
            code = ErrorCode.ILLEGAL_SASL_STATE
            self._refuse(
                request,
                ApiVersionsResponse(error_code=code, api_keys=[]),
                "another request than a message of its mechanism follows the handshake",
            )
        else:
            self._behind.serve(request)

    @staticmethod
    def _is_expired(connection: Connection, session: _Session) -> bool:
        expires_at = session.expires_at
        return expires_at is not None and connection.acceptor.reactor.precise_now() > expires_at

    def _look_later(self, connection: Connection, left_s: float, begun: int | None) -> None:
        """`begun`: the number of the message that was not whole at the last look."""
        pause_s = min(left_s, _LOOK_SECONDS)
        connection.acceptor.reactor.call_later(
            pause_s, lambda: self._look(connection, left_s - pause_s, begun)
        )

    def _look(self, connection: Connection, left_s: float, begun_before: int | None) -> None:
        """Close a connection that has not logged in in time, or sent the end of its message."""
        session = cast(_Session, connection.login)
        if connection.is_lost or session.is_authenticated:
            return
        begun = None if connection.frames.is_between_frames else session.message_count
        is_slow = begun is not None and begun == begun_before
        if left_s > 0 and not is_slow:
            self._look_later(connection, left_s, begun)
            return
        why = "a message of its login is not whole in time" if is_slow else "it does not log in"
        connection.acceptor.reactor.warn_of_refusal(
            f"closes connection: {why}", connection.address, **connection.facts()
        )
        connection.abort(Reason.LOGIN_FAILED)

    def _shake_hands(self, request: Request, session: _Session) -> None:
        message = cast(SaslHandshakeRequest, request.decode())
        if session.is_authenticated and session.login.state is not LoginState.EXCHANGING:
            session.login = Login(self._terms, before=session.login)
        login = session.login
        code = login.on_handshake(message.mechanism)
        response = SaslHandshakeResponse(error_code=code, mechanisms=login.offered)
        if code:
            name = message.mechanism[:_USER_SHOWN_MAX]
            self._refuse(request, response, f"the mechanism {name} is not offered")
            return
        request.answer(response)
        if request.version == 0:
            connection = request.connection
            session.protocol = connection.protocol
            connection.protocol = _WithoutHeaders(connection.protocol)

    def _authenticate(self, request: Request, session: _Session) -> None:
        login = session.login
        if session.protocol is not None:
            data = bytes(request.body)
        else:
            data = bytes(cast(SaslAuthenticateRequest, request.decode()).auth_bytes)
        away = login.away
        if away is None:
            self._take(request, session, lambda: login.on_message(data))
            return
        request.hold_order()
        away(login.step(data), lambda result: self._on_result(request, session, result))

    def _on_result(self, request: Request, session: _Session, result: Step) -> None:
        """Take the result of a step that was done elsewhere, and serve further requests."""
        if not request.connection.is_ending:
            self._take(request, session, lambda: session.login.on_answer(result))
        request.release_order()

    def _take(self, request: Request, session: _Session, answer_of: Step) -> None:
        """Answer a message of the mechanism."""
        login = session.login
        try:
            answer = answer_of()
        except Exception as error:  # also a bug in a mechanism must not end in the event loop
            is_told = isinstance(error, LoginFailed)
            why = str(error) if is_told else f"the mechanism failed: {type(error).__name__}"
            words = "Authentication failed: Invalid user credentials"
            if login.mechanism:
                words += f" with SASL mechanism {login.mechanism}"
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=words, auth_bytes=b""
            )
            self._refuse(request, response, why)
            return
        response = SaslAuthenticateResponse(
            error_code=0,
            error_message=None,
            auth_bytes=answer,
            session_lifetime_ms=login.lifetime_ms,
        )
        request.answer(response)
        if login.state is LoginState.DONE:
            self._let_in(request.connection, session)

    def _let_in(self, connection: Connection, session: _Session) -> None:
        """Give the connection its principal, and the service behind."""
        login = session.login
        if session.protocol is not None:
            connection.protocol, session.protocol = session.protocol, None
        session.is_authenticated = True
        reactor = connection.acceptor.reactor
        if login.lifetime_ms:
            session.expires_at = reactor.precise_now() + login.lifetime_ms / 1000
        else:
            session.expires_at = None
            connection.service = self._behind
        connection.principal = Principal(_USER, login.user, login.is_by_token)
        connection.protocol.served = self._behind.served
        connection.throttle = self._behind.throttle
        connection.frames.max_bytes = connection.acceptor.options.request_bytes_max

    def _refuse(self, request: Request, response: Response, why: str) -> None:
        """Tell a refusal, later, and close."""
        connection = request.connection
        session = cast(_Session, connection.login)
        has_headers = session.protocol is None
        reactor = connection.acceptor.reactor
        reactor.warn_of_refusal(
            "login failed",
            connection.address,
            mechanism=session.login.mechanism,
            user=session.login.user[:_USER_SHOWN_MAX],
            why=why,
            **connection.facts(),
        )
        connection.stop_serving()

        def tell() -> None:
            if connection.is_lost:
                return
            if has_headers:
                request.answer(response)
            connection.close(Reason.LOGIN_FAILED)

        reactor.call_later(self._terms.failure_delay_ms / 1000, tell)


class _WithoutHeaders(ServerConnection):
    """The messages of a mechanism as they are, which follow a handshake in version 0."""

    __slots__ = ()

    def __init__(self, with_headers: ServerConnection) -> None:
        super().__init__(with_headers.served, with_headers._arrival_class)

    def receive(self, frame: Any) -> Arrival:
        """Return the message as a request."""
        arrival = object.__new__(self._arrival_class)
        arrival.key, arrival.version, arrival.correlation_id = AUTHENTICATE, 0, 0
        arrival.client_id, arrival.body = None, frame
        arrival.problem = arrival.frame = None
        self.unanswered.append(arrival)
        return arrival

    def answer(self, arrival: Arrival, response: Response) -> list[Any]:
        """Return the answer of the mechanism with its size."""
        assert isinstance(response, SaslAuthenticateResponse)
        data = bytes(response.auth_bytes)
        return self._release(arrival, [_SIZE.pack(len(data)), data])
