"""The logins of one connection: the first one, and those that renew it on the live connection.

Invariant: while a login is renewed nothing else is sent, because a broker takes only SASL then.
Requests of that time are put aside, and sent in their order when the login is done (KIP-368).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.login import log_in

if TYPE_CHECKING:
    from moldau.link.addresses import Address
    from moldau.link.login import Ask
    from moldau.link.security import Security
    from moldau.protocol.declare import Request
    from moldau.runtime import Runtime

# As Java: spread over the last part of the lifetime, so that not all clients come at once.
_PART: Final = 0.85
_JITTER: Final = 0.1


class Aside(NamedTuple):
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
        self.aside: list[Aside] | None = None
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

    def stop(self) -> list[Aside]:
        """Renew no more: the connection has ended. Return the requests that wait."""
        if self._timer is not None:
            self._timer.cancel()
        return self.take_aside()

    def take_aside(self) -> list[Aside]:
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
            failure = error
        finally:
            self._on_renewed(failure)
