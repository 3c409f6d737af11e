"""A broker on the event loop of its caller.

Invariants: its files are in a temporary directory that is removed with it, unless the caller names
a directory; after `stop`, and after a failed `start` or `restart`, no task, thread, port or lock of
it is left; `restart` is a clean stop and a start with the same files on the same port. From `start`
to `stop` a broker belongs to one event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, Protocol, Self, cast

from moldau.config import BadSettings, Problem
from moldau.errors import MoldauError
from moldau.plugins import installed_plugins

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from moldau.link.metadata import Topic
    from moldau.runtime import Runtime
    from moldau.runtime.real import RealRuntime

GROUP: Final = "moldau.embedded_brokers"
NAME: Final = "broker"
LOCAL: Final = "127.0.0.1"


class EmbeddedBrokerMisused(MoldauError):
    """A call that is not allowed now or on this event loop; the text says what to do instead."""


class RunningBroker(Protocol):
    """A started broker: the result of an awaited call of the entry point."""

    @property
    def bootstrap(self) -> tuple[str, int]:
        """The host and port for the bootstrap of clients."""
        ...

    def topics(self) -> Iterator[list[Topic]] | None:
        """Return all topics as the broker knows them, in slices and in the order of their names;
        None if there are access rules: then a client asks for what it may see."""
        ...

    async def aclose(self) -> None:
        """Stop the broker cleanly."""
        ...


class StartBroker(Protocol):
    """The type of the entry point. It starts a broker that accepts clients when it returns."""

    def __call__(
        self,
        runtime: Runtime,
        directory: str,
        settings: Mapping[str, str],
        host: str,
        port: int,
    ) -> Awaitable[RunningBroker]: ...


def installed_broker() -> StartBroker:
    """Return the entry point of the installed broker. Raise PluginError if none is installed."""
    return cast(StartBroker, installed_plugins().load(GROUP, NAME))


class EmbeddedBroker:
    """A broker on the running event loop. Use `async with EmbeddedBroker() as broker`, or
    `await start()` and `await stop()`."""

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        directory: str | None = None,
        runtime: Runtime | None = None,
        port: int = 0,
    ) -> None:
        """`settings` are a broker's settings by Kafka's names: lists are joined with commas, and
        None raises BadSettings. A `directory` is kept when the broker stops. The caller owns
        `runtime`, for example the runtime of a simulated node. Port 0 chooses a free port."""
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
        """The bootstrap address for a client, as `host:port`."""
        host, port = self._broker().bootstrap
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def host(self) -> str:
        """The host that the broker listens on."""
        return self._broker().bootstrap[0]

    @property
    def port(self) -> int:
        """The port that the broker listens on."""
        return self._broker().bootstrap[1]

    @property
    def directory(self) -> str:
        """The directory with the broker's files."""
        if self._directory is None:
            raise not_running("an `async with` block, or await start()")
        return self._directory

    @property
    def is_running(self) -> bool:
        return self._running is not None

    def topics(self) -> Iterator[list[Topic]] | None:
        """Return all topics without a request, as `RunningBroker.topics` does."""
        return self._broker().topics()

    def _broker(self) -> RunningBroker:
        if self._running is None:
            raise not_running("an `async with` block, or await start()")
        return self._running

    async def start(self) -> Self:
        """Start the broker; it accepts clients when this returns."""
        if self._loop is not None:
            raise running_already()
        loop = _this_loop()
        runtime = self._given_runtime or self._make_runtime()
        self._loop = loop
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
        self._port = running.bootstrap[1]  # the next start uses the same port

    def _make_runtime(self) -> RealRuntime:
        from moldau.runtime.real import RealRuntime

        self._own_runtime = RealRuntime("embedded-broker")
        return self._own_runtime

    async def stop(self) -> None:
        """Stop the broker cleanly and remove temporary files. Do nothing if it does not run."""
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
        """Stop cleanly, then start with the same files on the same port. If that fails, the broker
        is stopped and temporary files are removed."""
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
    """Return the error of a broker that is not running; `helps` says how to use it."""
    return EmbeddedBrokerMisused(f"the broker is not running: use it in {helps}")


def running_already() -> EmbeddedBrokerMisused:
    """Return the error of a second start."""
    return EmbeddedBrokerMisused(
        "the broker was started already: stop it first, or use restart(), or start another one"
    )


def setting_texts(settings: Mapping[str, object]) -> dict[str, str]:
    """Return the values as a file of settings has them: lists joined with commas, booleans in lower
    case. Raise BadSettings for None: a setting that is left out has its default."""
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
    """Return the running event loop. asyncio is imported here, so that the pytest plugin costs
    nothing until a test uses a broker."""
    from asyncio import get_running_loop

    return get_running_loop()
