"""Publish the status of a running pipeline over HTTP, for the console: `run --status HOST:PORT`.

GET /status answers with the parts, their state, lag, rate and last error, and what they read and
write. Requests are answered on a thread of their own, so `run` is not held up by them.

Invariant: cluster and worker are asked when a request comes and at most once in LOOK_S.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from moldau.cli.addresses import host_and_port
from moldau.cli.command import UsageError
from moldau.link.http.protection import HttpProtection, load_protection, open_to_all
from moldau.pipeline.pipeline import App, Connector, Job, Pipeline
from moldau.pipeline.status import Snapshot, StatusRow, status_rows
from moldau.pipeline.status_reader import StatusReader

if TYPE_CHECKING:
    from moldau.runtime import Runtime

LOOK_S: Final = 1.0
PATH: Final = "/status"
_JSON: Final = (b"content-type", b"application/json")


class StatusAddress(NamedTuple):
    """Where the status is served; `config` is a file that protects it."""

    host: str
    port: int
    config: str | None = None


def published(pipeline: Pipeline, rows: Sequence[StatusRow]) -> dict[str, Any]:
    """Return the status of a pipeline as plain data."""
    known: list[Connector | App | Job] = [*pipeline.connectors, *pipeline.apps, *pipeline.jobs]
    parts = {each.name: each for each in known}
    return {
        "pipeline": pipeline.name,
        "parts": [{**each.to_json(), **_facts(parts.get(each.part))} for each in rows],
        "topics": [
            {
                "name": each.name,
                "partitions": each.partitions or 1,
                "is_external": each.is_external,
            }
            for each in pipeline.topics
        ],
    }


def _facts(part: Connector | App | Job | None) -> dict[str, Any]:
    """Return what the file says of a part; nothing of the broker and the worker."""
    if part is None:
        return {}
    is_source = isinstance(part, Connector) and part.is_source
    return {
        "detail": part.short_class if isinstance(part, Connector) else part.place,
        "group": None if is_source else part.group,
        "reads": list(part.reads),
        "writes": list(part.writes),
    }


class Reads(Protocol):
    """Reads snapshots of a pipeline, as a `StatusReader` does."""

    def read(self) -> Snapshot: ...


class StatusService:
    """An ASGI application with the status of one pipeline."""

    def __init__(self, pipeline: Pipeline, reader: Reads, runtime: Runtime) -> None:
        self._pipeline = pipeline
        self._reader = reader
        self._runtime = runtime
        self._looking = asyncio.Lock()
        self._before: Snapshot | None = None
        self._now: Snapshot | None = None

    async def __call__(self, scope: Mapping[str, Any], receive: object, send: Any) -> None:
        """Answer a request."""
        status, found = 200, {}
        if scope["method"] != "GET" or scope["path"] != PATH:
            status, found = 404, {"message": f"there is only GET {PATH}"}
        else:
            found = published(self._pipeline, await self._rows())
        body = json.dumps(found).encode()
        headers = [_JSON, (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _rows(self) -> list[StatusRow]:
        """Return the present state of the parts. Rates are those between the last two looks."""
        async with self._looking:
            now = self._now
            if now is None or self._runtime.clock.monotonic() - now.at_s >= LOOK_S:
                self._before = now
                self._now = now = await self._runtime.run_blocking(self._reader.read)
            return status_rows(self._pipeline, now, self._before or now)


class StatusServer:
    """The server of the status of one `run`, on a thread of its own."""

    def __init__(self, pipeline: Pipeline, reader: StatusReader) -> None:
        """`close` closes the reader."""
        self._pipeline = pipeline
        self._reader = reader
        self._left = ExitStack()

    def start(self, address: StatusAddress) -> str:
        """Return the address of the server, which answers. Raise CannotListen, or ConfigError for a
        file that cannot protect it."""
        from moldau.runtime.http_door import NO_BODY
        from moldau.runtime.http_server import HttpServer
        from moldau.runtime.threaded import ThreadedRuntime

        self._left.callback(self._reader.close)
        threaded = self._left.enter_context(ThreadedRuntime("status"))

        async def start(runtime: Runtime) -> str:
            by = HttpProtection()
            if address.config is not None:
                by = load_protection(address.config, runtime.clock)
            server = HttpServer(runtime, "the status", "choose another --status")
            host, port = server.bind(address.host, address.port)
            self._left.callback(threaded.run, lambda _: server.aclose())
            application = by.guard(StatusService(self._pipeline, self._reader, runtime))
            await server.start(application, by.rules(NO_BODY), by.context)
            is_open = open_to_all(by, address.host)
            note = " (open to other machines: --http-config protects it)" if is_open else ""
            return f"{by.scheme}://{f'[{host}]' if ':' in host else host}:{port}{note}"

        return threaded.run(start)

    def close(self) -> None:
        """Free the port, and close the clients; without a start there is nothing to do."""
        self._left.close()


def status_address(text: str | None, config: str | None) -> StatusAddress | None:
    """Return the address of HOST:PORT; None without one. Raise UsageError."""
    if text is None:
        if config is not None:
            raise UsageError("--http-config is for --status: add --status HOST:PORT")
        return None
    return StatusAddress(*host_and_port(text, "--status"), config)
