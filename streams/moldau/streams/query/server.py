"""The server of the query API, on the worker's own event loop and runtime.

It is protected by the same settings as every HTTP server here (`moldau.link.http_protection`).
A request that another worker has to answer goes there with the login of its client, over TLS if
this worker serves it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Final, Protocol

from moldau.errors import MoldauError
from moldau.link.http_protection import NEEDS_LOGIN, HttpProtection
from moldau.runtime import Runtime
from moldau.runtime.interface import Listener
from moldau.runtime.tls import following
from moldau.streams.query.http import Answer, ClientTalk, NotHttp, Request, ServerTalk, refusal
from moldau.streams.query.questions import StoreUnavailable
from moldau.streams.query.watch import PROBES

_IDLE_S: Final = 60.0
_FORWARD_S: Final = 10.0
_READ_BYTES: Final = 64 * 1024


class CannotListen(MoldauError):
    """A server of the worker cannot listen on its address."""


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
        self._listener: Listener | None = None
        self._api: Answers | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def listen(self, host: str, port: int) -> int:
        """Listen and return the port (0: a free one). Raise CannotListen if that fails."""
        context = self._protection.context
        tls = None if context is None else following(context)
        try:
            listener = await self._runtime.network.serve_streams(self._talk, host, port, tls=tls)
        except OSError as error:
            raise CannotListen(
                f"cannot listen: choose another {self._option}, or end what listens there",
                address=f"{host}:{port}",
                error=str(error.strerror or error),
            ) from None
        self._listener = listener
        return listener.port

    def serve(self, api: Answers) -> None:
        """Answer requests by `api` from now on."""
        self._api = api

    async def aclose(self) -> None:
        """Free the port and close all connections."""
        if self._listener is not None:
            self._listener.close()
        for writer in list(self._writers):
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = ServerTalk()
        self._writers.add(writer)
        try:
            while not talk.is_over:
                request = talk.next_request()
                if request is None:
                    async with asyncio.timeout(_IDLE_S):
                        talk.receive(await reader.read(_READ_BYTES))
                    continue
                writer.write(talk.answer(await self._answer(request)))
                await writer.drain()
        except (NotHttp, OSError, TimeoutError):
            return  # the client sent something wrong, or has gone
        finally:
            self._writers.discard(writer)
            writer.close()

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
        host, _, port = server.rpartition(":")
        talk = ClientTalk(server)
        try:
            async with asyncio.timeout(_FORWARD_S):
                reader, writer = await self._runtime.network.open_streams(
                    host.strip("[]"),
                    int(port),
                    tls=None if self._peers is None else self._peers(),
                )
                try:
                    writer.write(talk.ask(request.target, request.authorization))
                    answer = None
                    while answer is None:
                        answer = talk.receive(await reader.read(_READ_BYTES))
                    return answer
                finally:
                    writer.close()
        except (OSError, TimeoutError, NotHttp, ValueError) as error:
            reason = str(error) or "no answer in time"
            raise StoreUnavailable(
                f"the worker at {server} does not answer: {reason}: ask again"
            ) from None
