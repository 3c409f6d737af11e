"""The server of the query API, on the worker's own event loop and runtime.

It is protected by the same settings as every HTTP server here (`moldau.link.http.protection`).
A request that another worker has to answer goes there with the login of its client, over TLS if
this worker serves it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Collection, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol

from moldau.link.http.protection import NEEDS_LOGIN, HttpProtection
from moldau.runtime import Runtime
from moldau.runtime.http_client import HttpClient, HttpTimeouts, NoAnswer
from moldau.runtime.http_door import NO_BODY
from moldau.streams.query.http import (
    FORWARDED,
    JSON,
    Answer,
    Request,
    refusal,
    request_of,
    send_answer,
)
from moldau.streams.query.questions import StoreUnavailable
from moldau.streams.query.watch import PROBES

if TYPE_CHECKING:
    from moldau.runtime.http_server import HttpServer

_FORWARD_S: Final = 10.0


class Answers(Protocol):
    """What answers requests: the API of the stores, or the pages for metrics and health."""

    async def answer(self, request: Request) -> Answer: ...


class QueryServer:
    """The HTTP server of one worker. It listens after `listen`, and answers after `serve`."""

    def __init__(
        self,
        runtime: Runtime,
        protection: HttpProtection | None = None,
        peers: Callable[[], ssl.SSLContext] | None = None,
        option: str = "--listen",
    ) -> None:
        """`peers` returns the TLS context of requests to other workers. `option` is what chooses
        the address."""
        self._option = option
        self._runtime = runtime
        self._protection = protection or HttpProtection()
        self._peers = peers
        self._server: HttpServer | None = None
        self._api: Answers | None = None

    async def listen(self, host: str, port: int, names: Collection[str] = ()) -> int:
        """Listen and return the port (0: a free one). `names` are those by which other workers and
        clients reach this one. Raise CannotListen if that fails."""
        from moldau.runtime.http_server import HttpServer  # most workers have no server

        by = self._protection
        self._server = HttpServer(self._runtime, "the worker", f"choose another {self._option}")
        _, bound = self._server.bind(host, port)
        await self._server.start(self._respond, by.rules(NO_BODY, names), by.context)
        return bound

    def serve(self, api: Answers) -> None:
        """Answer requests by `api` from now on."""
        self._api = api

    async def aclose(self) -> None:
        """Finish the current requests, then free the port."""
        if self._server is not None:
            await self._server.aclose()

    async def _respond(self, scope: Mapping[str, Any], receive: object, send: Any) -> None:
        await send_answer(await self._answer(request_of(scope)), send)

    async def _answer(self, request: Request) -> Answer:
        by = self._protection
        is_probe = request.path in PROBES
        if by.asks_login and not is_probe and not by.admits(request.authorization):
            return refusal(401, NEEDS_LOGIN)
        if self._api is None:
            return refusal(503, "the worker starts: ask again", is_retryable=True)
        return await self._api.answer(request)

    async def forward(self, server: str, request: Request) -> Answer:
        """Let another worker answer. Raise StoreUnavailable if it does not."""
        tls = None if self._peers is None else self._peers()
        client = HttpClient(self._runtime, HttpTimeouts(_FORWARD_S, _FORWARD_S), tls)
        headers = {FORWARDED: "1"}
        if request.authorization:
            headers["Authorization"] = request.authorization
        url = f"{'http' if tls is None else 'https'}://{server}{request.target}"
        try:
            async with asyncio.timeout(_FORWARD_S):
                found = await client.request(request.method, url, headers=headers)
        except (NoAnswer, TimeoutError) as error:
            reason = str(error) or "no answer in time"
            raise StoreUnavailable(
                f"the worker at {server} does not answer: {reason}: ask again"
            ) from None
        content_type = found.headers.get("content-type", JSON)
        return Answer(
            found.status,
            found.body,
            content_type,
            found.status == HTTPStatus.SERVICE_UNAVAILABLE,
        )
