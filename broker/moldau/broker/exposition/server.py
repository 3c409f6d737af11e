"""Serves the metrics and the health of this process at the address of `moldau.metrics.listener`."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from moldau.broker.exposition.application import Observable, make_application
from moldau.broker.exposition.recent import Recent
from moldau.broker.server.standalone import parse_listen
from moldau.runtime.http_door import NO_BODY
from moldau.runtime.http_server import HttpServer

if TYPE_CHECKING:
    from collections.abc import Collection

    from moldau.link.http.protection import HttpProtection
    from moldau.runtime import Runtime

_ADVICE: Final = "choose another --metrics"


def _is_probe(method: str, path: str) -> bool:
    """Whether it is a question of a supervisor, which has no login and learns no names."""
    return path in ("/healthz", "/readyz")


class MetricsServer:
    """An HTTP server from before a node's start until after its end."""

    def __init__(self, runtime: Runtime) -> None:
        self._server = HttpServer(runtime, "the metrics", _ADVICE)
        self._runtime = runtime
        self._node: Observable | None = None
        self._turn = partial(asyncio.sleep, 0)
        self.recent = Recent(runtime.clock, self._turn)
        self._sampling: asyncio.Task[None] | None = None

    async def start(
        self, address: str, protection: HttpProtection, names: Collection[str] = ()
    ) -> tuple[str, int]:
        """Serve, and return host and port. `names` are those by which clients reach the node. Raise
        ConfigError or CannotListen."""
        host, port = parse_listen(address)
        bound = self._server.bind(host, port)
        clock = self._runtime.clock
        application = make_application(clock, self._turn, lambda: self._node, self.recent)
        rules = protection.rules(NO_BODY, names)
        guarded = protection.guard(application, _is_probe)
        await self._server.start(guarded, rules, protection.context)
        return bound

    def watch(self, node: Observable) -> None:
        """Begin to tell about a node: it is started."""
        self._node = node
        self._sampling = self._runtime.spawn(self._sample(node), name="sample the metrics")

    async def _sample(self, node: Observable) -> None:
        while True:
            await asyncio.sleep(self.recent.seconds_to_next())
            await self.recent.sample(node.observed())

    async def aclose(self) -> None:
        """Finish the current requests, and free the port."""
        if self._sampling is not None:
            self._sampling.cancel()
            await asyncio.wait([self._sampling])
        await self._server.aclose()
