"""The tokens of one client from a token endpoint: asked for beside its work, and kept while fresh.

    tokens = EndpointTokens(endpoint, runtime, bootstrap)
    token = await tokens()

Invariants: one request is under way at a time, and all connections of the client share its token. A
token that is still valid stays in use if a new one cannot be had.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from moldau.errors import ConfigError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.login.sasl import LoginRefused, Token
from moldau.link.login.token_endpoint import IssuedToken, issued_token, shown_url, token_form
from moldau.runtime.http_client import HttpAnswer, HttpClient, HttpTimeouts, NoAnswer, UntrustedHost

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moldau.link.login.token_endpoint import TokenEndpoint, TokenForm
    from moldau.runtime import Runtime

LOG: Final = logging.getLogger("moldau.client")
_ANSWER_BYTES_MAX: Final = 1 << 20
_ID_BITS: Final = 128


class EndpointTokens:
    """The present token of one client."""

    def __init__(
        self,
        endpoint: TokenEndpoint,
        runtime: Runtime,
        bootstrap: str,
        send: Callable[..., Awaitable[HttpAnswer]] | None = None,
    ) -> None:
        """`bootstrap` are the addresses of the brokers. `send` is `HttpClient.request`."""
        self._endpoint = endpoint
        self._runtime = runtime
        self._bootstrap = bootstrap
        self._lock = asyncio.Lock()
        self._send = send
        self._token: Token | None = None
        self._fresh_until = 0.0
        self._ends_at = 0.0

    async def __call__(self) -> Token:
        """Return a token, a new one if most of the life of the present one is over. Raise
        LoginRefused, or KafkaError that can be retried."""
        async with self._lock:
            now = self._runtime.clock.monotonic()
            if self._token is None or now >= self._fresh_until:
                try:
                    await self._renew()
                except KafkaError as error:
                    if self._token is None or self._runtime.clock.monotonic() >= self._ends_at:
                        raise
                    LOG.warning("the present token stays in use, as there is no new one: %s", error)
            assert self._token is not None
            return self._token

    async def _renew(self) -> None:
        issued = await self._ask()
        now = self._runtime.clock.monotonic()
        lifetime_s = issued.lifetime_s or 0.0
        self._token = Token(issued.value, self._endpoint.extensions)
        self._ends_at = now + lifetime_s
        self._fresh_until = now + lifetime_s * self._endpoint.timing.fresh_part

    async def _ask(self) -> IssuedToken:
        """Ask until the provider answers, or the time for it is over."""
        clock, backoff = self._runtime.clock, self._endpoint.timing.backoff
        until = clock.monotonic() + backoff.longest_ms / 1000
        failures = 0
        while True:
            try:
                return await self._ask_once()
            except KafkaError as error:
                failures += 1
                wait_s = backoff.wait_s(failures, self._runtime.random)
                if not error.retriable or clock.monotonic() + wait_s >= until:
                    raise
            await asyncio.sleep(wait_s)

    async def _ask_once(self) -> IssuedToken:
        url = self._endpoint.url
        unique_id = f"{self._runtime.random.getrandbits(_ID_BITS):032x}"
        try:
            form = await self._runtime.run_blocking(self._form, unique_id)
            assert self._send is not None
            answer = await self._send("POST", url, form.body, form.headers)
        except UntrustedHost as error:
            raise LoginRefused(
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                f"the token endpoint {shown_url(url)} is not trusted: {error}; give "
                "ssl.truststore.location in sasl.jaas.config",
            ) from error
        except NoAnswer as error:
            raise KafkaError(
                ErrorCode.NETWORK_EXCEPTION,
                f"the token endpoint {shown_url(url)} cannot be asked: {error}",
            ) from error
        except ConfigError as error:
            raise LoginRefused(ErrorCode.SASL_AUTHENTICATION_FAILED, str(error)) from error
        return issued_token(answer.status, answer.body, url)

    def _form(self, unique_id: str) -> TokenForm:
        """Return the request. It blocks: it reads the files of the endpoint."""
        endpoint, assertion = self._endpoint, None
        if endpoint.assertion is not None:
            assertion = endpoint.assertion.text(self._runtime.clock.wall_ms(), unique_id)
        if self._send is None:
            from moldau.link.tls import client_context

            tls = None if endpoint.tls is None else client_context(endpoint.tls)
            waits = HttpTimeouts(endpoint.timing.connect_s, endpoint.timing.read_s)
            client = HttpClient(self._runtime, waits, tls, bytes_max=_ANSWER_BYTES_MAX)
            self._send = client.request
        return token_form(endpoint, endpoint.scope_for(self._bootstrap), assertion)
