"""The runtime of a client: the one it was given, or a real one of its own while it lives; and what
a client has only from its `start` on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NoReturn

from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime import Runtime


class ClientNotStarted(MoldauError):
    """A client was used before it was started."""


class ClientClosed(KafkaError):
    """A client was used after it was closed. Not to be tried again, though its code would allow
    it."""

    @property
    def retriable(self) -> bool:
        return False


def closed(kind: str) -> ClientClosed:
    """What a client that is closed answers."""
    return ClientClosed(ErrorCode.NETWORK_EXCEPTION, f"the {kind} is closed")


def comes_with_start(kind: str) -> Any:
    """Of an attribute that `start` sets: whoever asks for it before hears ClientNotStarted. Costs
    nothing afterwards, for the client's own attribute hides it; so no method has to check."""
    return _NotThereYet(kind)


class _NotThereYet:
    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __get__(self, client: object, owner: type[object]) -> NoReturn:
        raise not_started(self._kind, is_blocking=False)


def not_started(kind: str, *, is_blocking: bool) -> ClientNotStarted:
    """What helps, in the words of the form that the client has."""
    helps = "a `with` block, or call start()"
    if not is_blocking:
        helps = "an `async with` block, or await start()"
    return ClientNotStarted(f"the {kind} is not started: use it in {helps}")


@asynccontextmanager
async def closing_unless_ready(close: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Closes again what could not be started, whatever the reason."""
    is_ready = False
    try:
        yield
        is_ready = True
    finally:
        if not is_ready:
            await close()


class World:
    """Makes a runtime if none was given, and closes only what it made."""

    def __init__(self, runtime: Runtime | None) -> None:
        self._given = runtime
        self._own: Runtime | None = None

    def enter(self) -> Runtime:
        """The runtime to use; belongs to the event loop that runs now."""
        if self._given is not None:
            return self._given
        from moldau.runtime.real import RealRuntime

        self._own = RealRuntime("client")
        return self._own

    async def aclose(self) -> None:
        """Ends the runtime that was made here. If it is cancelled, may be called again."""
        from moldau.runtime.real import RealRuntime

        own = self._own
        if isinstance(own, RealRuntime):
            await own.aclose()
            self._own = None
