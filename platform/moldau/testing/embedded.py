"""A broker on the event loop of the caller that starts it.

Invariants: its files are in a temporary directory that goes with it, unless the caller names one;
after `stop`, and after a `start` or `restart` that failed, no task, thread, port or lock of it is
left; `restart` is a clean stop and a start with the same files on the same port. From `start` to
`stop` it belongs to one event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, Protocol, Self, cast

from moldau.config import BadSettings, Problem
from moldau.errors import MoldauError
from moldau.plugins import installed_plugins

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from moldau.runtime import Runtime
    from moldau.runtime.real import RealRuntime

GROUP: Final = "moldau.embedded_brokers"
NAME: Final = "broker"
LOCAL: Final = "127.0.0.1"


class EmbeddedBrokerMisused(MoldauError):
    """A call at a time or from a place where it cannot be; the text says what to do instead."""


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
        """`settings` are a broker's, by Kafka's names; lists are joined with commas, None is
        refused. `directory` is kept when the broker stops. `runtime` is one that the caller owns,
        such as a simulated node's. Port 0: a free one."""
        self._settings = setting_texts(settings or {})
        self._directory = directory
        self._is_temporary = directory is None
        self._given_runtime = runtime
        self._own_runtime: RealRuntime | None = None
        self._port = port
        self._loop: AbstractEventLoop | None = None
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
        if self._directory is None:
            raise not_running("an `async with` block, or await start()")
        return self._directory

    @property
    def is_running(self) -> bool:
        return self._running is not None

    def _broker(self) -> RunningBroker:
        if self._running is None:
            raise not_running("an `async with` block, or await start()")
        return self._running

    async def start(self) -> Self:
        """Takes clients when this returns."""
        if self._loop is not None:
            raise running_already()
        self._loop = _this_loop()
        runtime = self._given_runtime or self._make_runtime()
        async with AsyncExitStack() as on_failure:
            on_failure.push_async_callback(self._clear_away, runtime)
            if self._directory is None:
                self._directory = runtime.files.temporary_dir("moldau-broker-")
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
        if self._running is None:
            return
        self._check_loop()
        running, self._running = self._running, None
        runtime = self._given_runtime or self._own_runtime
        assert runtime is not None
        try:
            await running.aclose()
        finally:
            await self._clear_away(runtime)

    async def restart(self) -> None:
        """A clean stop, and a start with the same files on the same port. When that fails it is
        stopped, and temporary files are gone."""
        running = self._broker()
        self._check_loop()
        self._running = None
        runtime = self._given_runtime or self._own_runtime
        assert runtime is not None
        async with AsyncExitStack() as on_failure:
            on_failure.push_async_callback(self._clear_away, runtime)
            await running.aclose()
            await self._run(runtime)
            on_failure.pop_all()

    async def _clear_away(self, runtime: Runtime) -> None:
        own, self._own_runtime = self._own_runtime, None
        try:
            if own is not None:
                await own.aclose()
            if self._is_temporary and self._directory is not None:
                runtime.files.remove_tree(self._directory)
                self._directory = None
        finally:
            self._loop = None

    def _check_loop(self) -> None:
        if self._loop is not _this_loop():
            raise EmbeddedBrokerMisused(
                "the broker was started on another event loop: stop it there, before that one ends "
                "(a fixture and the tests that use it need the same loop), or use "
                "SyncEmbeddedBroker, which has a loop of its own"
            )

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


def not_running(helps: str) -> EmbeddedBrokerMisused:
    """`helps`: in what it is to be used."""
    return EmbeddedBrokerMisused(f"the broker is not running: use it in {helps}")


def running_already() -> EmbeddedBrokerMisused:
    """What a second start hears."""
    return EmbeddedBrokerMisused(
        "the broker was started already: stop it first, or use restart(), or start another one"
    )


def setting_texts(settings: Mapping[str, object]) -> dict[str, str]:
    """Values as a file would say them: a list with commas between its items, true and false in
    small letters. BadSettings for None: a setting that is left out has its default."""
    nothing = [name for name, value in settings.items() if value is None]
    if nothing:
        reason = "is None, which is no value: leave it out to have its default"
        raise BadSettings(Problem(name, reason) for name in nothing)
    return {name: _text(value) for name, value in settings.items()}


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _this_loop() -> AbstractEventLoop:
    """Imported here: the plugin of pytest costs nothing until a test asks for a broker."""
    from asyncio import get_running_loop

    return get_running_loop()
