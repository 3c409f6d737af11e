"""Services that run inside a broker's process: the contract of the entry points of
`moldau.broker_services`.

    [project.entry-points."moldau.broker_services"]
    registry = "moldau.registry.hosted:prepare"

A broker starts the service NAME if its setting `moldau.NAME.listener` is given. The entry point is
a function that checks the service's settings before the broker starts, and returns another one that
serves once the broker does.

Invariants: a service reaches its broker over the wire, as in a process of its own; it is tried
again when it fails, and the broker goes on; it ends before the broker stops. It has a loop and a
thread of its own, so no computation of it holds up the broker's loop: the two share only the
interpreter, in short turns.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import field, replace
from typing import TYPE_CHECKING, Final, Protocol

from moldau.deferred import dataclass
from moldau.runtime.process import short_turns
from moldau.runtime.threaded import ThreadedRuntime

if TYPE_CHECKING:
    from moldau.logging import Logger
    from moldau.metrics import Registry
    from moldau.runtime import Runtime

GROUP: Final = "moldau.broker_services"


@dataclass(frozen=True, slots=True)
class HostBroker:
    """What a service is told about the broker that it runs in."""

    login: Mapping[str, str] = field(repr=False)
    """Settings of a client that logs in at this broker as the other brokers do."""
    addresses: Mapping[str, str]
    """HOST:PORT of this broker by security protocol."""
    replicas: int
    """How many replicas the cluster's internal topics have."""


@dataclass(frozen=True, slots=True)
class RunningService:
    """A service that is up."""

    address: str
    metrics: Registry
    """Written on the broker's page of metrics."""
    wait: Callable[[], Awaitable[None]]
    """Waits until the service cannot go on, and raises the reason."""


Serve = Callable[[HostBroker], AbstractAsyncContextManager[RunningService]]


class PrepareService(Protocol):
    """The type of the entry point."""

    def __call__(self, runtime: Runtime, settings: Mapping[str, str], log: Logger) -> Serve:
        """Check the settings, by their names after `moldau.NAME.`. Raise ConfigError if they can
        never be in force; warn of what is risky."""
        ...


@asynccontextmanager
async def in_own_thread(
    runtime: Runtime,
    name: str,
    serve: Callable[[Runtime], AbstractAsyncContextManager[RunningService]],
) -> AsyncIterator[RunningService]:
    """Serve on a loop in a thread called after `name`. `runtime` is that of the broker. However the
    block ends, the service is closed, and its tasks, loop and thread are gone."""
    apart = ThreadedRuntime(name)
    serving = AsyncExitStack()

    async def begin(beside: Runtime) -> RunningService:
        return await serving.enter_async_context(serve(beside))

    try:
        apart.start()
        with short_turns():
            try:
                up = await apart.run_beside(begin)
                yield replace(up, wait=lambda: apart.run_beside(lambda _: _waited(up)))
            finally:
                await apart.run_beside(lambda _: serving.aclose())
    finally:
        await runtime.run_blocking(apart.close)


async def _waited(service: RunningService) -> None:
    await service.wait()
