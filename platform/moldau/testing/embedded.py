"""A broker on the event loop of who starts it.

Invariants: its files are in a temporary directory that goes with it, unless the caller names one;
after `stop`, and after a `start` or `restart` that failed, no task, thread, port or lock of it is
left; `restart` is a clean stop and a start with the same files on the same port.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, Protocol, Self, cast

from moldau.plugins import installed_plugins

if TYPE_CHECKING:
    from moldau.runtime import Runtime
    from moldau.runtime.real import RealRuntime

GROUP: Final = "moldau.embedded_brokers"
NAME: Final = "broker"
LOCAL: Final = "127.0.0.1"


class RunningBroker(Protocol):
    """What an entry point of the group gives when it is called and awaited."""

    @property
    def bootstrap(self) -> tuple[str, int]:
        """Where clients begin: host and port."""
        ...

    async def aclose(self) -> None:
        """A clean stop."""
        ...


class StartBroker(Protocol):
    """What the entry point is: starts a broker that takes clients when it returns."""

    def __call__(
        self,
        runtime: Runtime,
        directory: str,
        settings: Mapping[str, str],
        host: str,
        port: int,
    ) -> Awaitable[RunningBroker]: ...


def installed_broker() -> StartBroker:
    """The broker that is installed; PluginError when there is none."""
    return cast(StartBroker, installed_plugins().load(GROUP, NAME))


class EmbeddedBroker:
    """`async with EmbeddedBroker() as broker`, or `await start()` and `await stop()`."""

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        directory: str | None = None,
        runtime: Runtime | None = None,
        port: int = 0,
    ) -> None:
        """`settings` are a broker's, by Kafka's names. `directory` is kept when the broker stops.
        `runtime` is one that the caller owns, such as a simulated node's. Port 0: a free one."""
        self._settings = {name: _text(value) for name, value in (settings or {}).items()}
        self._directory = directory
        self._is_temporary = directory is None
        self._given_runtime = runtime
        self._own_runtime: RealRuntime | None = None
        self._port = port
        self._running: RunningBroker | None = None

    @property
    def bootstrap_servers(self) -> str:
        """`host:port`, for a client."""
        host, port = self._broker().bootstrap
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def host(self) -> str:
        """Where it listens."""
        return self._broker().bootstrap[0]

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._broker().bootstrap[1]

    @property
    def directory(self) -> str:
        """Its files."""
        assert self._directory is not None, "not started"
        return self._directory

    @property
    def is_running(self) -> bool:
        return self._running is not None

    def _broker(self) -> RunningBroker:
        assert self._running is not None, "not running"
        return self._running

    async def start(self) -> Self:
        """Takes clients when this returns."""
        assert self._running is None, "running already"
        runtime = self._given_runtime or self._make_runtime()
        if self._directory is None:
            self._directory = runtime.files.temporary_dir("moldau-broker-")
        async with AsyncExitStack() as on_failure:
            on_failure.push_async_callback(self._clear_away, runtime)
            await self._run(runtime)
            on_failure.pop_all()
        return self

    async def _run(self, runtime: Runtime) -> None:
        start = installed_broker()
        host = LOCAL if self._given_runtime is None else self._given_runtime.node
        running = await start(runtime, self.directory, self._settings, host, self._port)
        self._running = running
        self._port = running.bootstrap[1]  # the next start comes back to it

    def _make_runtime(self) -> RealRuntime:
        from moldau.runtime.real import RealRuntime

        self._own_runtime = RealRuntime("embedded-broker")
        return self._own_runtime

    async def stop(self) -> None:
        """A clean stop; temporary files go. Not running: does nothing."""
        running, self._running = self._running, None
        if running is None:
            return
        runtime = self._given_runtime or self._own_runtime
        assert runtime is not None
        try:
            await running.aclose()
        finally:
            await self._clear_away(runtime)

    async def restart(self) -> None:
        """A clean stop, and a start with the same files on the same port. When that fails it is
        stopped, and temporary files are gone."""
        running, self._running = self._broker(), None
        runtime = self._given_runtime or self._own_runtime
        assert runtime is not None
        async with AsyncExitStack() as on_failure:
            on_failure.push_async_callback(self._clear_away, runtime)
            await running.aclose()
            await self._run(runtime)
            on_failure.pop_all()

    async def _clear_away(self, runtime: Runtime) -> None:
        own, self._own_runtime = self._own_runtime, None
        if own is not None:
            await own.aclose()
        if self._is_temporary and self._directory is not None:
            runtime.files.remove_tree(self._directory)
            self._directory = None

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


def _text(value: object) -> str:
    """As a file would say it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
