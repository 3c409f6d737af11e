"""The login of a connection by SASL, above its bytes. A pure core.

    login = Login(methods)
    login.on_handshake("SCRAM-SHA-256")     # an error, or OK
    login.on_message(data)                  # the answer; LoginFailed

Invariants: a login uses one mechanism. A login that renews another keeps its mechanism and its user
(KIP-368). After LoginFailed nothing more is accepted. A login that is over keeps neither its
exchange nor the login that it renewed, so a connection may renew as often as it wants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import Final, TypeAlias

from moldau.broker.security.mechanism import LoginFailed, Mechanism
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode
from moldau.protocol.framing import MAX_FRAME_BYTES_BEFORE_LOGIN

NO_END: Final = 0
Step: TypeAlias = Callable[[], bytes]
"""Takes a message of the client, and returns the answer or raises LoginFailed."""
Away: TypeAlias = Callable[[Step, Callable[[Step], object]], object]
"""Does a step beside everything else. Its second argument is called with the result, as a function
that returns the answer or raises LoginFailed."""


@dataclass(frozen=True, slots=True)
class Method:
    """One mechanism of a listener."""

    begin: Callable[[], Mechanism]
    """Begins a login."""
    renew_ms_max: int = 0
    """`connections.max.reauth.ms`: a login must be renewed after this time. 0: never."""
    away: Away | None = None
    """How its steps are done if they read files; None if they do not."""


@dataclass(frozen=True, slots=True)
class LoginTerms:
    """How clients of a listener log in."""

    methods: Mapping[str, Method]
    """The mechanisms by name, in the order in which they are offered."""
    failure_delay_ms: int = 100
    """`connection.failed.authentication.delay.ms`: how late a refusal is told."""
    receive_bytes_max: int = MAX_FRAME_BYTES_BEFORE_LOGIN
    """`sasl.server.max.receive.size`: the longest request before the login."""
    seconds_max: float = 30.0
    """How long a login may take."""


class LoginState(Enum):
    """Where a login stands."""

    WAITING = "waits for a mechanism"
    EXCHANGING = "exchanges messages"
    DONE = "done"
    FAILED = "failed"


class Login:
    """One login."""

    def __init__(self, terms: LoginTerms, before: Login | None = None) -> None:
        """`before` is the login that this one renews."""
        self.state = LoginState.WAITING
        self.mechanism = ""
        self.user = ""
        """The user; before the login is done, the one that the client claims to be."""
        self.is_by_token = False
        """Whether a delegation token stands for the user."""
        self.lifetime_ms = NO_END
        """How long a login that is done is valid; 0 if it has no end."""
        self._terms = terms
        self._before = before
        self._exchange: Mechanism | None = None

    @property
    def offered(self) -> list[str]:
        """The names of the mechanisms."""
        return list(self._terms.methods)

    def on_handshake(self, mechanism: str) -> ErrorCode:
        """The client chooses a mechanism."""
        if self.state is not LoginState.WAITING:
            self.state = LoginState.FAILED
            return ErrorCode.ILLEGAL_SASL_STATE
        method = self._terms.methods.get(mechanism)
        if method is None:
            self.state = LoginState.FAILED
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self.mechanism = mechanism
        self._exchange = method.begin()
        self.state = LoginState.EXCHANGING
        return ErrorCode.NONE

    @property
    def away(self) -> Away | None:
        """How the next step is done if it reads files."""
        if self.state is not LoginState.EXCHANGING:
            return None
        return self._terms.methods[self.mechanism].away

    def on_message(self, data: bytes) -> bytes:
        """Take a message of the mechanism, and return the answer. Raise LoginFailed."""
        return self.on_answer(self.step(data))

    def step(self, data: bytes) -> Step:
        """Return the step for a message, which may be done in a thread. `on_answer` takes its
        result; nothing else is called before. Raise LoginFailed."""
        if self.state is not LoginState.EXCHANGING:
            self.state = LoginState.FAILED
            raise LoginFailed("a message of a mechanism that is not chosen")
        assert self._exchange is not None
        return partial(self._exchange.step, data)

    def on_answer(self, result: Step) -> bytes:
        """Take the result of a step, and return the answer. Raise LoginFailed."""
        exchange = self._exchange
        assert exchange is not None
        try:
            answer = result()
            self.user = exchange.user
            if exchange.is_done:
                self._check_same(exchange)
        except LoginFailed:
            self.user = exchange.user
            self._end(LoginState.FAILED)
            raise
        if exchange.is_done:
            self.is_by_token = exchange.is_by_token
            limits = (self._terms.methods[self.mechanism].renew_ms_max, exchange.lifetime_ms)
            self.lifetime_ms = min((each for each in limits if each), default=NO_END)
            self._end(LoginState.DONE)
        return answer

    def _end(self, state: LoginState) -> None:
        self.state = state
        self._exchange = self._before = None

    def _check_same(self, exchange: Mechanism) -> None:
        before = self._before
        if before is None:
            return
        if before.user != exchange.user:
            raise LoginFailed("a login is renewed by another user")
        if before.mechanism != self.mechanism:
            raise LoginFailed("a login is renewed by another mechanism")
