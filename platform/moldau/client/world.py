"""The runtime of a client: the one it was given, or a real one of its own while it lives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from moldau.runtime import Runtime


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
        """Ends the runtime that was made here."""
        from moldau.runtime.real import RealRuntime

        own, self._own = self._own, None
        if isinstance(own, RealRuntime):
            await own.aclose()
